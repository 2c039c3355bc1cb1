"""The messages that clients have received and sent in each session, for comparison with the store.

Each message carries a serial: `<a1234567-0.3>` is the third message of an agent process in its
first session, `<p1234567.2>` is the second prompt of a connection.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field

Serial = tuple[str, int]

_SAID = re.compile(rb"<(a[0-9a-f]{7}-[0-9]+)\.(\d+)>")
_ASKED = re.compile(rb"<(p[0-9a-f]{7})\.(\d+)>")


def agent_serials(line: bytes) -> list[Serial]:
    """Return the serials of agents in a line."""
    return [(who.decode(), int(number)) for who, number in _SAID.findall(line)]


def prompt_serials(line: bytes) -> list[Serial]:
    """Return the serials of prompts in a line."""
    return [(who.decode(), int(number)) for who, number in _ASKED.findall(line)]


@dataclass
class Conversation:
    """The messages of one session, from the view of its clients."""

    pieces: dict[str, list[Serial]] = field(default_factory=lambda: defaultdict(list))
    """The live updates of each connection, in the order of connections."""
    asked: list[Serial] = field(default_factory=list)
    """The prompts that were sent."""
    answered: set[Serial] = field(default_factory=set)
    """The prompts whose turns the client has seen end."""
    ended: int = 0
    """The number of turns that ended without an error."""
    may_have_gaps: bool = False
    """Whether the store was damaged or removed, so that entries may be missing."""
    is_shared: bool = False
    """Whether several clients have it open at once, so that connections overlap."""

    @property
    def received(self) -> int:
        return sum(map(len, self.pieces.values()))


class Ledger(dict[str, Conversation]):
    """All sessions, by their ids."""

    def __missing__(self, session_id: str) -> Conversation:
        return self.setdefault(session_id, Conversation())
