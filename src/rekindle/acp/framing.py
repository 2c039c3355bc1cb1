"""Cutting a byte stream into lines. Knows nothing of what a line says."""


class LineBuffer:
    r"""Cut a byte stream into lines, at `\n` only. O(n) however the stream is chunked.

    U+2028, U+0085 and `\r` occur inside messages, so they are no line ends.
    """

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self.pending = 0
        """How long the line is that has begun."""

    def feed(self, data: bytes) -> bytes | None:
        """Take the next bytes of the stream; return the lines they complete, if any.

        The lines are joined by newlines, because most of them are never looked at one by one.
        """
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            self._tail.append(data)
            self.pending += len(data)
            return None
        if self._tail:
            self._tail.append(head)
            head = b"".join(self._tail)
            self._tail.clear()
        if tail:
            self._tail.append(tail)
        self.pending = len(tail)
        return head

    def rest(self) -> bytes:
        """Return what the stream ended with after its last newline."""
        rest = b"".join(self._tail)
        self._tail.clear()
        self.pending = 0
        return rest
