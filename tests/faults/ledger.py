"""What the clients have received and sent, session by session: one side of every check.

Everything that agents and clients say carries a serial: `<a1234567-0.3>` is the third thing that an
agent process said in its first session, `<p1234567.2>` the second prompt of one connection.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field

Serial = tuple[str, int]

_SAID = re.compile(rb"<(a[0-9a-f]{7}-[0-9]+)\.(\d+)>")
_ASKED = re.compile(rb"<(p[0-9a-f]{7})\.(\d+)>")


def said_in(line: bytes) -> list[Serial]:
    """Return the serials of agents in a line."""
    return [(who.decode(), int(number)) for who, number in _SAID.findall(line)]


def asked_in(line: bytes) -> list[Serial]:
    """Return the serials of prompts in a line."""
    return [(who.decode(), int(number)) for who, number in _ASKED.findall(line)]


@dataclass
class Conversation:
    """One session, as its clients know it."""

    pieces: dict[str, list[Serial]] = field(default_factory=lambda: defaultdict(list))
    """What came live, by connection, in the order of connections."""
    asked: list[Serial] = field(default_factory=list)
    """The prompts that were sent."""
    answered: set[Serial] = field(default_factory=set)
    """The prompts whose turns have ended before the client's eyes."""
    ended: int = 0
    """How many of these have ended well."""
    is_excused: bool = False
    """Whether the store was taken from under it: then only what came later can be there."""

    @property
    def received(self) -> int:
        return sum(map(len, self.pieces.values()))


class Ledger(dict[str, Conversation]):
    """All sessions, by their ids."""

    def __missing__(self, session_id: str) -> Conversation:
        return self.setdefault(session_id, Conversation())
