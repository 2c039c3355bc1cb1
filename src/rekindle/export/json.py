"""Export a session as JSON. docs/reference/formats.md documents the fields."""

from collections.abc import Iterable, Iterator

from rekindle.export.description import describe
from rekindle.export.json_depth import write_json
from rekindle.export.views import describe_turn
from rekindle.model import Session
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
