"""Split a byte stream into lines. Knows nothing of their content."""


class LineBuffer:
    r"""Split a byte stream into lines, at `\n` only, in O(n) for any chunk sizes.

    U+2028, U+0085 and `\r` occur inside messages, so they do not end a line.
    """

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self.pending = 0
        """The length of the incomplete line."""

    def feed(self, data: bytes) -> bytes | None:
        """Add the next bytes of the stream; return the lines that they complete, if any.

        The lines are joined by newlines, because most of them are handled together.
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
        """Return the bytes after the last newline, and forget them."""
        rest = b"".join(self._tail)
        self._tail.clear()
        self.pending = 0
        return rest
