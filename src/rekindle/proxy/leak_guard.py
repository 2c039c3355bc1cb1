"""Recognise updates that an agent sends under the id of a wrong session.

Some agents send each update of a running turn under the id of another open session too. The copy
stands right before or right after its original. It has the same bytes but for the session id, and
its session has no turn. A session that sends anything else without a turn, such as an agent
that works in the background, is trusted until the next prompt: none of its updates is held or
dropped.

Two sessions may send the same short text by chance, such as "Done.". So a copy is certain only if
it is long, has an id, follows another copy of the same session, or follows a certain copy of any
session. The first copy that is not certain is held. If the next update of its session is a copy,
both are dropped; otherwise it is accepted.

| event            | the session's state | result                                               |
|------------------|---------------------|------------------------------------------------------|
| update in a turn | any                 | it is an original; held updates may be copies of it  |
| update, no turn  | trusted             | accepted                                             |
| update, no turn  | new, certain copy   | dropped, with a copy of its session that is held     |
| update, no turn  | new, other copy     | held: the next update of its session may be a copy   |
| update, no turn  | new, no copy        | held: its original may be the next line              |
| another update   | held, no copy       | trusted; the held updates are accepted before it     |
| any other line   | held                | the same; a copy is accepted without trust           |
| deadline         | held                | the same                                             |
| prompt           | trusted             | new                                                  |
"""

from collections.abc import Callable

from msgspec import Struct

from rekindle.jsonvalue import as_str, encode
from rekindle.proxy.journal import update_in
from rekindle.proxy.live_session import LiveSession

HOLD_US = 100_000
"""The longest time for which an update is held. A copy follows its original at once."""
_MIN_LENGTH = 165
"""The length of a line that two sessions do not send by chance. A chunk of no text has 150."""
_MIN_ID = 8
"""The length of an id that is not a mere number."""
_ID_FIELDS = ("toolCallId", "messageId")
_MIN_COPIES = 2
"""The number of consecutive copies that a session does not send by chance."""


class HeldUpdate(Struct):
    """An update that may be a copy."""

    live: LiveSession
    kind: str
    line: bytes
    until_us: int
    is_copy: bool = False
    """Whether its original was found. Otherwise the original may be the next line."""


class LeakGuard:
    """Compares the updates of sessions without a turn with those of the sessions with one."""

    def __init__(self) -> None:
        self.held: list[HeldUpdate] = []
        """At most two updates of each session: a copy, and one that may be a copy."""
        self._original = b""
        self._original_id = ""
        self._trusted: set[str] = set()
        self._copies: dict[str, int] = {}
        """For each session, the number of its consecutive copies."""
        self._is_leaking = False
        """Whether a copy was certain."""

    @property
    def deadline_us(self) -> int:
        """The time at which the first of the held updates is accepted. Some must be held."""
        return min(it.until_us for it in self.held)

    def note_original(self, agent_id: str, lines: bytes) -> None:
        """Note updates of a session with a turn, as the agent sent them."""
        self._original_id, self._original = agent_id, lines

    def is_copy(self, live: LiveSession, line: bytes) -> bool:
        """Return whether an update is a copy of the last original."""
        if live.agent_id == self._original_id:
            return False
        original = self._original.rpartition(b"\n")[2]
        return _without_id(line, live.agent_id) == _without_id(original, self._original_id)

    def note_copy(self, live: LiveSession, line: bytes) -> bool:
        """Note a copy; return whether it is certain. Then drop the held copies of its session."""
        self._copies[live.id] = self._copies.get(live.id, 0) + 1
        if self._copies[live.id] >= _MIN_COPIES or _is_distinct(line, live.agent_id):
            self._is_leaking = True
        if not self._is_leaking:
            return False
        self.held = [it for it in self.held if it.live is not live or not it.is_copy]
        return True

    def drop_copies(self) -> bool:
        """Drop the held updates that are certain copies of the last original.

        Return whether any was dropped.
        """
        before = len(self.held)
        for it in [it for it in self.held if not it.is_copy and self.is_copy(it.live, it.line)]:
            it.is_copy = True
            self.note_copy(it.live, it.line)
        return len(self.held) < before

    def is_trusted(self, live: LiveSession) -> bool:
        """Return whether a session sends updates of its own without a turn."""
        return live.id in self._trusted

    def hold(
        self, live: LiveSession, kind: str, line: bytes, at_us: int, *, is_copy: bool = False
    ) -> None:
        """Hold an update until it is known whether it is a copy."""
        self.held.append(HeldUpdate(live, kind, line, at_us + HOLD_US, is_copy))

    def take_all(self) -> list[HeldUpdate]:
        """Return and remove the held updates. Trust the session of each that is no copy."""
        return self._take(lambda _: True)

    def take_due(self, at_us: int) -> list[HeldUpdate]:
        """Do the same for the updates whose time has passed."""
        return self._take(lambda it: it.until_us <= at_us)

    def take_unlike(self) -> list[HeldUpdate]:
        """Do the same for the sessions with a held update that is no copy."""
        sessions = {it.live.id for it in self.held if not it.is_copy}
        return self._take(lambda it: it.live.id in sessions)

    def prompted(self) -> None:
        """Trust no session any more: a prompt begins a turn whose updates may leak."""
        self._trusted.clear()

    def _take(self, is_taken: Callable[[HeldUpdate], bool]) -> list[HeldUpdate]:
        taken = [it for it in self.held if is_taken(it)]
        self.held = [it for it in self.held if not is_taken(it)]
        for it in taken:
            if not it.is_copy:
                self._trusted.add(it.live.id)
                self._copies.pop(it.live.id, None)
        return taken


def _is_distinct(line: bytes, agent_id: str) -> bool:
    """Return whether two sessions do not send the same update by chance."""
    update = update_in(line)
    ids = (as_str(update.get(name)) or "" for name in _ID_FIELDS)
    return len(_without_id(line, agent_id)) >= _MIN_LENGTH or max(map(len, ids)) >= _MIN_ID


def _without_id(line: bytes, agent_id: str) -> bytes:
    return line.replace(encode(agent_id), b'""')
