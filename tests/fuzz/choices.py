"""Randomness that is read from bytes: what a fuzzer changes in them changes what is chosen."""

from random import Random


class Choices(Random):
    """Chooses by the bytes that it was given; when they are used up, always the first."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether all bytes were used."""
        return self._at >= len(self._data)

    def getrandbits(self, k: int) -> int:
        """Return a number of so many bits."""
        size = (k + 7) // 8
        taken = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken.ljust(size, b"\0"), "big") >> (size * 8 - k)

    def random(self) -> float:
        """Return a number from 0 to 1."""
        return self.getrandbits(16) / 0x10000
