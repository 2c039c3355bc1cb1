"""Files that Codex has compressed, read as if it had not, without holding more than a part."""

import sys
from io import RawIOBase
from pathlib import Path
from typing import IO, cast

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdDecompressor, ZstdError

ENDING = ".zst"
_BYTES_A_READ = 128 * 1024


def opened(path: Path) -> IO[bytes]:
    """Open a file, compressed or not. What is torn ends where it is torn."""
    file = path.open("rb", buffering=0)
    return cast("IO[bytes]", _Inside(file) if path.suffix == ENDING else file)


class _Inside(RawIOBase):
    """What is inside of a compressed file."""

    def __init__(self, file: RawIOBase) -> None:
        super().__init__()
        self._file = file
        self._frame = ZstdDecompressor()

    def read(self, size: int = -1, /) -> bytes:
        """Return some more; nothing at its end, or where it cannot be read."""
        if size == 0:
            return b""
        most = size if size > 0 else _BYTES_A_READ
        try:
            while True:
                if self._frame.eof:
                    # Another one may follow.
                    rest = self._frame.unused_data or self._file.read(_BYTES_A_READ)
                    if not rest:
                        return b""
                    self._frame = ZstdDecompressor()
                else:
                    rest = self._file.read(_BYTES_A_READ) if self._frame.needs_input else b""
                    if self._frame.needs_input and not rest:
                        return b""
                if data := self._frame.decompress(rest or b"", max_length=most):
                    return data
        except ZstdError:
            return b""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to the beginning, which is all that is wanted."""
        if (offset, whence) != (0, 0):
            raise OSError("a compressed file has no other places")
        self._frame = ZstdDecompressor()
        return self._file.seek(0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
