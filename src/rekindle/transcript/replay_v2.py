"""Replay a transcript as the updates of a version 2 session.

Each message is sent whole, under its id; the rest of a long one follows in chunks. A terminal is
sent before the first tool call that shows it.
"""

from collections.abc import Iterator

from rekindle.transcript.model import ReplayContext, TranscriptTurn, Update
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_state import mark_replayed, replay_state


def replay_v2(
    turns: list[TranscriptTurn],
    transcript: Transcript,
    *,
    title: str | None = None,
    is_running: bool = False,
) -> Iterator[Update]:
    """Yield the updates of these turns and of the present state.

    With `is_running`, the last turn has not ended.
    """
    last = len(transcript.turns)
    shown: set[str] = set()
    for turn in turns:
        context = ReplayContext(
            terminals=transcript.terminals,
            turn=turn,
            is_over=not (is_running and turn.number == last),
            shown_terminals=shown,
        )
        for item in turn.items:
            yield from map(mark_replayed, item.replay_v2(context))
    yield from replay_state(transcript, 2, title=title)
