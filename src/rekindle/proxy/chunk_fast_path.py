"""Recognise further chunks of a message without parsing them.

An agent's answer comes as thousands of lines that differ only in their text. Everything that
decides how a line is treated is in its first bytes, so a line that begins with the same bytes as a
parsed one is treated in the same way. Whole reads are compared at once, at the speed of a byte
search. A line that begins in any other way is parsed as usual.
"""

import re

from rekindle.jsonvalue import encode

_HEAD = re.compile(
    rb'\{[^{}]*"method":"session/update"[^{}]*"params":\{[^{}]*"sessionId":"([^"\\]*)"[^{}]*'
    rb'"update":\{"sessionUpdate":"([^"\\]*)"'
)
# A line that repeats the same name could otherwise make the search quadratic.
_MAX_HEAD_BYTES = 2000

_ID = b'"messageId":'
_STRING_ID = _ID + b'"'


class ChunkFastPath:
    """The first bytes that further chunks share: as sent by the agent, recorded, and forwarded.

    They differ where the agent has another id for the session, or another protocol version.
    """

    def __init__(
        self, sent: bytes, recorded: bytes, forwarded: bytes | None, *, must_have_ids: bool
    ) -> None:
        self._head = sent
        self._next_head = b"\n" + sent
        self._recorded = recorded
        self._forwarded = forwarded
        # The fast path adds a message id. A line that has one already must be parsed.
        self._must_lack_ids = forwarded is not None and _ID in forwarded
        self._must_have_ids = must_have_ids

    @classmethod
    def after(  # noqa: PLR0913 - each argument decides
        cls,
        line: bytes,
        session_id: str,
        kind: str,
        as_sent: bytes,
        message_id: str | None = None,
        *,
        must_have_ids: bool = False,
        is_hidden: bool = False,
    ) -> "ChunkFastPath | None":
        """Return the fast path for further chunks of an update, if any.

        `line` is the update as it is recorded, `as_sent` as the agent sent it. With `message_id`,
        the client receives each line with this id added. With `must_have_ids`, a line without an
        id is not accepted. With `is_hidden`, the client receives none of the lines.

        The line must have the method, the session id and the kind in this order, with nothing
        nested between them. An agent that writes its lines differently is only slower.
        """
        head = _HEAD.match(line, 0, _MAX_HEAD_BYTES)
        if head is None or head.groups() != (session_id.encode(), kind.encode()):
            return None
        recorded = head[0]
        forwarded: bytes | None = recorded
        if is_hidden:
            forwarded = None
        elif message_id is not None:
            forwarded = recorded + b"," + _ID + encode(message_id)
        if as_sent is line:
            return cls(recorded, recorded, forwarded, must_have_ids=must_have_ids)
        sent = _HEAD.match(as_sent, 0, _MAX_HEAD_BYTES)
        if sent is None:
            return None
        return cls(sent[0], recorded, forwarded, must_have_ids=must_have_ids)

    def count(self, lines: bytes) -> int:
        """Return the number of lines, joined by newlines; 0 unless all are further chunks."""
        if not lines.startswith(self._head):
            return 0
        if self._must_lack_ids and _ID in lines:
            return 0
        count = lines.count(b"\n") + 1
        if self._must_have_ids and lines.count(_STRING_ID) != count:
            return 0
        return count if count == lines.count(self._next_head) + 1 else 0

    def as_recorded(self, lines: bytes) -> bytes:
        """Return chunks as they are recorded."""
        return self._with_head(self._recorded, lines)

    def as_translated(self, lines: bytes) -> bytes:
        """Return chunks as clients of the other version receive them; b"" if they receive none."""
        return b"" if self._forwarded is None else self._with_head(self._forwarded, lines)

    def _with_head(self, head: bytes, lines: bytes) -> bytes:
        if head == self._head:
            return lines
        return (b"\n" + lines).replace(self._next_head, b"\n" + head)[1:]
