"""Export a session as JSON. docs/export.md documents the fields."""

from collections.abc import Iterable, Iterator
from typing import Any

from rekindle.export.description import describe
from rekindle.export.json_depth import write_json
from rekindle.export.views import view_of
from rekindle.model import Session
from rekindle.text.times import iso
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript


def as_json(
    session: Session, transcript: Transcript, turns: Iterable[TranscriptTurn]
) -> Iterator[str]:
    """Yield the parts of the document."""
    head = write_json({"format": "rekindle-session", "version": 1} | describe(session), 0)
    yield head.removesuffix("\n}")
    yield ',\n  "conversation": ['
    comma = ""
    for turn in turns:
        yield f"{comma}\n    {write_json(describe_turn(turn), 4)}"
        comma = ","
    yield "\n  ]" if comma else "]"
    terminals = {
        name: {**terminal.rest, "output": terminal.text}
        for name, terminal in transcript.terminals.items()
    }
    yield f',\n  "terminals": {write_json(terminals, 2)}\n}}\n'


def describe_turn(turn: TranscriptTurn) -> dict[str, Any]:
    """Return the fields of a turn."""
    return {
        "turn": turn.number,
        "at": iso(turn.at_us),
        "endedAt": iso(turn.ended_us) if turn.ended_us else None,
        "stopReason": turn.stop_reason,
        "error": turn.error,
        "items": [{**view_of(item).describe(item), "at": iso(item.at_us)} for item in turn.items],
    }
