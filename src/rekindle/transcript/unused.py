"""Judge whether the entries of a session without a turn hold anything worth keeping."""

from collections.abc import Sequence

from rekindle.acp import methods
from rekindle.jsonvalue import decode_object
from rekindle.model import Entry, Forgotten, Kind
from rekindle.transcript.model import Role, TranscriptItem, TranscriptMessage
from rekindle.transcript.reducer import fold


def forgotten_if_empty(session_id: str, entries: Sequence[Entry], now_us: int) -> Forgotten | None:
    """Return the change that removes a session without a turn; None if it holds content.

    The agent's copy is hidden if the session was opened once, by `session/new`. Otherwise the agent
    may have a history of it. The time is that of the last entry: a later use is not Rekindle's.
    """
    if holds_content(entries):
        return None
    return Forgotten(
        session_id=session_id,
        at_us=entries[-1].at_us if entries else now_us,
        hides_agents=was_opened_once(entries),
    )


def holds_content(entries: Sequence[Entry]) -> bool:
    """Return whether entries hold more than settings and words of the agent alone.

    Some agents greet the user or show a warning in each new session. A message of the user, a tool
    call, a plan, a gap or anything unknown is content, also if a rewind has removed it.
    """
    transcript = fold(entries)
    turns = [*transcript.turns, *transcript.truncations.removed]
    return any(_is_content(item) for turn in turns for item in turn.items)


def was_opened_once(entries: Sequence[Entry]) -> bool:
    """Return whether a session was created, and never opened again."""
    setups = [entry.line for entry in entries if entry.kind is Kind.SETUP]
    return [(decode_object(line) or {}).get("method") for line in setups] == [methods.NEW]


def _is_content(item: TranscriptItem) -> bool:
    return not isinstance(item, TranscriptMessage) or item.role is Role.USER
