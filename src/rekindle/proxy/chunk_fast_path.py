"""Recognising more of the same without reading it.

An agent's answer comes as thousands of lines that differ only in their text. All that
decides a line's way stands at its beginning, so a line that begins with the very bytes of
one that was read goes the same way. Whole reads are compared at once, at the speed of a
search; a line that begins in any other way is read as usual.
"""

import re

from rekindle.jsonvalue import encode

_BEGINNING = re.compile(
    rb'\{[^{}]*"method":"session/update"[^{}]*"params":\{[^{}]*"sessionId":"([^"\\]*)"[^{}]*'
    rb'"update":\{"sessionUpdate":"([^"\\]*)"'
)
# What says the same name over and over would else be looked through as often.
_LONGEST_BEGINNING = 2000

_ID = b'"messageId":'
_GIVEN_ID = _ID + b'"'


class ChunkFastPath:
    """The beginning that lines of one streak share, as each side has it.

    `said` is the agent's, `kept` goes into the record, `seen` to the client; they differ where
    the agent calls the session otherwise, or speaks another version.
    """

    def __init__(
        self, said: bytes, kept: bytes, seen: bytes | None, *, must_have_ids: bool
    ) -> None:
        self._first = said
        self._next = b"\n" + said
        self._kept = kept
        self._seen = seen
        # A line with an id of its own would get a second one.
        self._must_lack_ids = seen is not None and _ID in seen
        self._must_have_ids = must_have_ids

    @classmethod
    def after(  # noqa: PLR0913 - what decides
        cls,
        line: bytes,
        session_id: str,
        kind: str,
        as_said: bytes,
        message_id: str | None = None,
        *,
        must_have_ids: bool = False,
        is_hidden: bool = False,
    ) -> "ChunkFastPath | None":
        """Return the streak that an update begins; None if its beginning does not tell all.

        The agent may call the session otherwise than the client does: `as_said` is its line.
        With `message_id`, the client is told each line under this id, which it does not have;
        with `must_have_ids`, all lines must have one; if `is_hidden`, it is told none of them.
        The method, the session and the kind must stand in this order, with nothing nested
        between them. An agent that writes otherwise is only slower.
        """
        beginning = _BEGINNING.match(line, 0, _LONGEST_BEGINNING)
        if beginning is None or beginning.groups() != (session_id.encode(), kind.encode()):
            return None
        kept = beginning[0]
        seen = kept if message_id is None else kept + b"," + _ID + encode(message_id)
        seen = None if is_hidden else seen
        if as_said is line:
            return cls(kept, kept, seen, must_have_ids=must_have_ids)
        said = _BEGINNING.match(as_said, 0, _LONGEST_BEGINNING)
        return None if said is None else cls(said[0], kept, seen, must_have_ids=must_have_ids)

    def covers(self, lines: bytes) -> int:
        """Return how many lines, joined by newlines, these are; 0 if not all are of the streak."""
        if not lines.startswith(self._first):
            return 0
        if self._must_lack_ids and _ID in lines:
            return 0
        count = lines.count(b"\n") + 1
        if self._must_have_ids and lines.count(_GIVEN_ID) != count:
            return 0
        return count if count == lines.count(self._next) + 1 else 0

    def as_kept(self, lines: bytes) -> bytes:
        """Return lines of the streak as they are recorded."""
        return self._begun_with(self._kept, lines)

    def as_seen(self, lines: bytes) -> bytes:
        """Return lines of the streak as the client sees them."""
        return b"" if self._seen is None else self._begun_with(self._seen, lines)

    def _begun_with(self, beginning: bytes, lines: bytes) -> bytes:
        if beginning == self._first:
            return lines
        return (b"\n" + lines).replace(self._next, b"\n" + beginning)[1:]
