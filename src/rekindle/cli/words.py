"""Turning values into words that are safe and short enough for a terminal."""

import json
import re
import sys
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path, PurePath

from rekindle.model import AgentIdentity, Session

_SHORTEST_ID = 8
_SPARE = 3
_WORD_BEFORE_ID = re.compile(r"[A-Za-z]+[-_]")

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
del _CONTROL[ord("\n")]
del _CONTROL[ord("\t")]
_DECEIVING = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "�")

_AGES = ((60, "s"), (60, "min"), (24, "h"), (7, "d"), (52, "w"))


def printable(text: str) -> str:
    """Show control characters instead of obeying them: what an agent says is only text."""
    return text.replace("\r\n", "\n").translate(_CONTROL | _DECEIVING)


def one_line(text: str) -> str:
    """Put a text on one line."""
    return printable(" ".join(text.split()))


def print_json(value: object) -> None:
    """Print JSON for people and programs; escaped where the terminal cannot show it."""
    is_plain = sys.stdout.encoding.lower().replace("-", "") != "utf8"
    print(json.dumps(value, ensure_ascii=is_plain, indent=2))


def age(at_us: int) -> str:
    """Say how long ago something was."""
    amount = max(0.0, time.time() - at_us / 1e6)
    for size, unit in _AGES:
        if amount < size:
            return f"{int(amount)} {unit}"
        amount /= size
    return f"{int(amount)} y"


def iso(at_us: int) -> str:
    """Write a time as RFC 3339, in UTC."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="milliseconds")


def clock(at_us: int) -> str:
    """Write a time as people here do."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def agent_name(agent: AgentIdentity) -> str:
    """Name an agent by what it says of itself, else by its command."""
    return one_line(agent.name or agent.program or "unknown")


def folder(session: Session) -> str:
    """Name a session's folder, with the home folder as ~."""
    if session.cwd is None:
        return "?"
    path, home = PurePath(session.cwd), Path.home()
    return one_line(f"~/{path.relative_to(home)}" if home in path.parents else str(path))


def title(session: Session) -> str:
    """Return the session's title, or words in its place."""
    return one_line(session.title) if session.title else "(no title)"


def short_ids(ids: list[str]) -> dict[str, str]:
    """Shorten ids to prefixes that tell them apart, with a little to spare.

    A word that an agent puts before all its ids tells nothing apart, and does not count.
    """
    ordered = sorted(ids)
    shared = [_shared(one, other) for one, other in pairwise(ordered)]
    needed = [max(pair) for pair in zip([0, *shared], [*shared, 0], strict=True)]
    return {
        id_: one_line(id_[: max(_word_before(id_) + _SHORTEST_ID, length + _SPARE)])
        for id_, length in zip(ordered, needed, strict=False)
    }


def _word_before(id_: str) -> int:
    word = _WORD_BEFORE_ID.match(id_)
    return word.end() if word else 0


def _shared(one: str, other: str) -> int:
    for length, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return length
    return min(len(one), len(other))
