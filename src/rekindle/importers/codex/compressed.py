"""Files that Codex has compressed, read as if it had not, without holding more than a part."""

import sys
from collections.abc import Callable
from io import SEEK_CUR, SEEK_SET, BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdDecompressor, ZstdError

ENDING = ".zst"
_BYTES_A_READ = 128 * 1024
_BYTES_BUFFERED = 1024 * 1024
# What is given out at once is lost if what comes after it is damaged.
_BYTES_GIVEN_OUT = 64 * 1024


def opened(
    path: Path, torn: Callable[[], object] = lambda: None, buffered: int = _BYTES_BUFFERED
) -> IO[bytes]:
    """Open a file, compressed or not. One that is torn ends there, and `torn` is called."""
    if path.suffix != ENDING:
        return path.open("rb", buffering=buffered)
    return BufferedReader(_Inside(path.open("rb", buffering=0), torn), buffered)


class _Inside(RawIOBase):
    """What is inside of a compressed file."""

    def __init__(self, file: RawIOBase, torn: Callable[[], object]) -> None:
        super().__init__()
        self._file = file
        self._torn = torn
        self._is_torn = False
        self._frame = ZstdDecompressor()
        self._place = 0

    def readable(self) -> bool:
        """Tell that it is for reading."""
        return True

    def seekable(self) -> bool:
        """Tell that one can go back to its beginning."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Put some more into a buffer; nothing at the end, or where it cannot be read."""
        view = memoryview(buffer).cast("B")
        try:
            data = b"" if self._is_torn else self._some(min(len(view), _BYTES_GIVEN_OUT))
        except ZstdError:
            data = b""
        # The end of a file is that of a part of it.
        if not data and not self._is_torn and not self._frame.eof:
            self._is_torn = True
            self._torn()
        view[: len(data)] = data
        self._place += len(data)
        return len(data)

    def _some(self, most: int) -> bytes:
        while True:
            rest = b""
            if self._frame.eof:
                # Another one may follow.
                rest = self._frame.unused_data or self._file.read(_BYTES_A_READ)
                self._frame = ZstdDecompressor() if rest else self._frame
            elif self._frame.needs_input:
                rest = self._file.read(_BYTES_A_READ)
            if not rest and (self._frame.eof or self._frame.needs_input):
                return b""
            if data := self._frame.decompress(rest or b"", max_length=most):
                return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to the beginning, or tell where it is; more is not wanted."""
        if offset != 0 or whence not in {SEEK_SET, SEEK_CUR}:
            raise OSError("a compressed file has no other places")
        if whence == SEEK_SET:
            self._file.seek(0)
            self._frame, self._place = ZstdDecompressor(), 0
        return self._place

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
