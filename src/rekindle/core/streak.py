"""Recognising more of the same without reading it.

An agent's answer comes as thousands of lines that differ only in their text. All that
decides a line's way stands at its beginning, so a line that begins with the very bytes of
one that was read goes the same way. Whole reads are compared at once, at the speed of a
search; a line that begins in any other way is read as usual.
"""

import re

_BEGINNING = re.compile(
    rb'\{[^{}]*"method":"session/update"[^{}]*"params":\{[^{}]*"sessionId":"([^"\\]*)"[^{}]*'
    rb'"update":\{"sessionUpdate":"([^"\\]*)"'
)


class Streak:
    """The beginning that lines of one streak share."""

    def __init__(self, beginning: bytes, seen_as: bytes) -> None:
        self._first = beginning
        self._next = b"\n" + beginning
        self._seen_as = seen_as

    @classmethod
    def after(cls, line: bytes, session_id: str, kind: str, as_said: bytes) -> "Streak | None":
        """Return the streak that an update begins; None if its beginning does not tell all.

        The agent may call the session otherwise than the client does: `as_said` is its line.

        The method, the session and the kind must stand in this order, with nothing nested
        between them. An agent that writes otherwise is only slower.
        """
        beginning = _BEGINNING.match(line)
        if beginning is None or beginning.groups() != (session_id.encode(), kind.encode()):
            return None
        if as_said is line:
            return cls(beginning[0], beginning[0])
        said = _BEGINNING.match(as_said)
        return None if said is None else cls(said[0], beginning[0])

    def covers(self, lines: bytes) -> int:
        """Return how many lines, joined by newlines, these are; 0 if not all are of the streak."""
        if not lines.startswith(self._first):
            return 0
        newlines = lines.count(b"\n")
        return newlines + 1 if newlines == lines.count(self._next) else 0

    def as_seen(self, lines: bytes) -> bytes:
        """Return lines of the streak as the client sees them."""
        if self._seen_as == self._first:
            return lines
        return (b"\n" + lines).replace(self._next, b"\n" + self._seen_as)[1:]
