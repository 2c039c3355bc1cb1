"""A session as JSON, for programs. docs/export.md tells what each name means."""

import json
import re
from collections.abc import Iterable, Iterator

from rekindle.core.items import Turn
from rekindle.core.transcript import Transcript
from rekindle.export.describing import describe, describe_turn
from rekindle.export.nesting import flattened
from rekindle.model import Session

# JSON may hold them as they are, but a terminal would obey them, and halves of characters
# cannot be written at all.
_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def as_json(session: Session, transcript: Transcript, turns: Iterable[Turn]) -> Iterator[str]:
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


def written(value: object, indent: int) -> str:
    """Return JSON for people and programs, as it stands in a larger one."""
    words = json.dumps(flattened(value), ensure_ascii=False, indent=2)
    if indent:
        words = words.replace("\n", "\n" + " " * indent)
    return escaped(words)


def escaped(words: str) -> str:
    """Return JSON that says the same without a character that does more than be shown."""
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", words)
