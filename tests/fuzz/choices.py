"""A random source that reads its choices from bytes, so that a fuzzer can change each choice."""

from random import Random


class Choices(Random):
    """Chooses by the bytes of its input. When they are used up, it always chooses the first."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether all bytes were used."""
        return self._at >= len(self._data)

    def getrandbits(self, k: int) -> int:
        """Return a number of `k` bits."""
        size = (k + 7) // 8
        taken = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken.ljust(size, b"\0"), "big") >> (size * 8 - k)

    def random(self) -> float:
        """Return a number from 0 to 1."""
        return self.getrandbits(16) / 0x10000
