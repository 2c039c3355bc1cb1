"""What fuzzers begin with: the conversations of the golden transcripts, as they are now."""

from functools import cache
from pathlib import Path

from rekindle.model import Side

TRANSCRIPTS = Path(__file__).parents[1] / "core" / "transcripts"
_SIDES = {"c": Side.CLIENT, "a": Side.AGENT}


@cache
def scripts() -> list[str]:
    """Return the transcripts."""
    return [path.read_text(encoding="utf-8") for path in sorted(TRANSCRIPTS.glob("*.txt"))]


@cache
def lines(side: Side) -> list[bytes]:
    """Return every line that a side says in them."""
    marks = {f"{mark}{how} " for mark, it in _SIDES.items() if it is side for how in ">+"}
    said = [line for script in scripts() for line in script.splitlines()]
    return sorted({line[3:].encode() for line in said if line[:3] in marks})
