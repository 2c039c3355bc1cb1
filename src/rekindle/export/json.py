"""A session as JSON, for programs. docs/export.md tells what each name means."""

from collections.abc import Iterable, Iterator

from rekindle.export.description import describe, describe_turn
from rekindle.export.json_depth import written
from rekindle.model import Session
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript


def as_json(
    session: Session, transcript: Transcript, turns: Iterable[TranscriptTurn]
) -> Iterator[str]:
    """Yield the document."""
    head = written({"format": "rekindle-session", "version": 1} | describe(session), 0)
    yield head.removesuffix("\n}")
    yield ',\n  "conversation": ['
    comma = ""
    for turn in turns:
        yield f"{comma}\n    {written(describe_turn(turn), 4)}"
        comma = ","
    yield "\n  ]" if comma else "]"
    terminals = {
        name: {**terminal.rest, "output": terminal.text}
        for name, terminal in transcript.terminals.items()
    }
    yield f',\n  "terminals": {written(terminals, 2)}\n}}\n'
