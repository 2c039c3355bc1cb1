"""Recognise updates that an agent sends under the id of a wrong session.

Some agents send each update of a running turn under the id of another open session too. The copy
stands right before or right after its original. It has the same bytes but for the session id, and
its session has no turn. A session that sends anything else without a turn, such as an agent
that works in the background, is trusted until the next prompt: none of its updates is held or
dropped.

| event            | the session's state | result                                               |
|------------------|---------------------|------------------------------------------------------|
| update in a turn | any                 | it is an original; held copies of it are dropped     |
| update, no turn  | trusted             | accepted                                             |
| update, no turn  | new, copy           | dropped                                              |
| update, no turn  | new, no copy        | held: its original may be the next line              |
| any other line   | held                | trusted; the held update is accepted before the line |
| deadline         | held                | trusted; the held update is accepted                 |
| prompt           | trusted             | new                                                  |
"""

from msgspec import Struct

from rekindle.jsonvalue import encode
from rekindle.proxy.live_session import LiveSession

HOLD_US = 100_000
"""The longest time for which an update is held. A copy follows its original at once."""


class HeldUpdate(Struct, frozen=True):
    """An update that may be the copy of the next line."""

    live: LiveSession
    kind: str
    line: bytes


class LeakGuard:
    """Compares the updates of sessions without a turn with those of the sessions with one."""

    def __init__(self) -> None:
        self.held: list[HeldUpdate] = []
        """At most one update of each session."""
        self.deadline_us: int | None = None
        """The time at which the held updates are accepted."""
        self._original = b""
        self._original_id = ""
        self._trusted: set[str] = set()

    def note_original(self, agent_id: str, lines: bytes) -> None:
        """Note updates of a session with a turn, as the agent sent them."""
        self._original_id, self._original = agent_id, lines

    def drop_copies(self) -> bool:
        """Drop the held updates that are copies of the last original; return whether any was."""
        kept = [it for it in self.held if not self.is_copy(it.live, it.line)]
        has_dropped = len(kept) < len(self.held)
        self.held = kept
        return has_dropped

    def is_copy(self, live: LiveSession, line: bytes) -> bool:
        """Return whether an update is a copy of the last original."""
        if live.agent_id == self._original_id:
            return False
        original = self._original.rpartition(b"\n")[2]
        return _without_id(line, live.agent_id) == _without_id(original, self._original_id)

    def is_trusted(self, live: LiveSession) -> bool:
        """Return whether a session sends updates of its own without a turn."""
        return live.id in self._trusted

    def hold(self, live: LiveSession, kind: str, line: bytes, at_us: int) -> None:
        """Hold an update until the next line."""
        self.held.append(HeldUpdate(live, kind, line))
        self.deadline_us = at_us + HOLD_US

    def take_held(self) -> list[HeldUpdate]:
        """Return and remove the held updates, and trust their sessions."""
        held, self.held, self.deadline_us = self.held, [], None
        self._trusted |= {it.live.id for it in held}
        return held

    def prompted(self) -> None:
        """Trust no session any more: a prompt begins a turn whose updates may leak."""
        self._trusted.clear()


def _without_id(line: bytes, agent_id: str) -> bytes:
    return line.replace(encode(agent_id), b'""')
