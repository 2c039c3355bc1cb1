"""Export a session as the updates that a loading client receives, one per line."""

from collections.abc import Iterable, Iterator

from rekindle.acp.jsonrpc import update_line
from rekindle.export.json_depth import flatten
from rekindle.model import Session
from rekindle.text.sanitize import escaped
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_subagents import with_subagents
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2


def as_acp(
    session: Session, transcript: Transcript, turns: Iterable[TranscriptTurn], protocol: int
) -> Iterator[str]:
    """Yield the lines in a version of the protocol."""
    updates = (
        replay_v1(transcript, title=session.title)
        if protocol == 1
        else replay_v2(list(turns), transcript, title=session.title)
    )
    # The turns may be an iterator, so the sub-agents are looked up in the transcript.
    for session_id, update in with_subagents(session.id, updates, transcript.turns, protocol):
        try:
            line = update_line(session_id, update)
        except RecursionError:
            line = update_line(session_id, flatten(update))
        yield f"{escaped(line.decode('utf-8', 'replace'))}\n"
