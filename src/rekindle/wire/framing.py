"""Cutting a byte stream into lines. Knows nothing of what a line says."""


class LineBuffer:
    r"""Cut a byte stream into lines, at `\n` only. O(n) however the stream is chunked.

    U+2028, U+0085 and `\r` occur inside messages, so they are no line ends. What is
    fed and comes back is the same bytes, less the `\n`s.
    """

    def __init__(self) -> None:
        self._tail: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; return the lines they complete."""
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            self._tail.append(data)
            return []
        if self._tail:
            self._tail.append(head)
            head = b"".join(self._tail)
            self._tail.clear()
        if tail:
            self._tail.append(tail)
        return head.split(b"\n")

    def rest(self) -> bytes:
        """Return what the stream ended with after its last newline."""
        rest = b"".join(self._tail)
        self._tail.clear()
        return rest
