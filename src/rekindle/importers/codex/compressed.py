"""Read files that Codex has compressed, in bounded memory."""

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

COMPRESSED_SUFFIX = ".zst"
_BYTES_PER_READ = 128 * 1024
_BUFFER_BYTES = 1024 * 1024
# Bytes of one chunk are lost if the data within the chunk is damaged.
_CHUNK_BYTES = 64 * 1024


def open_file(
    path: Path, on_damage: Callable[[], object] = lambda: None, buffer_bytes: int = _BUFFER_BYTES
) -> IO[bytes]:
    """Open a file, compressed or not.

    A damaged or incomplete file ends at the damage, and `on_damage` is called.
    """
    if path.suffix != COMPRESSED_SUFFIX:
        return path.open("rb", buffering=buffer_bytes)
    return BufferedReader(_ZstdFile(path.open("rb", buffering=0), on_damage), buffer_bytes)


class _ZstdFile(RawIOBase):
    """The decompressed content of a file."""

    def __init__(self, file: RawIOBase, on_damage: Callable[[], object]) -> None:
        super().__init__()
        self._file = file
        self._on_damage = on_damage
        self._is_damaged = False
        self._frame = ZstdDecompressor()
        self._offset = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True, although only the start can be reached."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer as far as possible; return 0 at the end or at the damage."""
        view = memoryview(buffer).cast("B")
        try:
            data = b"" if self._is_damaged else self._decompress(min(len(view), _CHUNK_BYTES))
        except ZstdError:
            data = b""
        # A complete file ends with a complete frame.
        if not data and not self._is_damaged and not self._frame.eof:
            self._is_damaged = True
            self._on_damage()
        view[: len(data)] = data
        self._offset += len(data)
        return len(data)

    def _decompress(self, max_length: int) -> bytes:
        while True:
            compressed = b""
            if self._frame.eof:
                # Another frame may follow.
                compressed = self._frame.unused_data or self._file.read(_BYTES_PER_READ)
                self._frame = ZstdDecompressor() if compressed else self._frame
            elif self._frame.needs_input:
                compressed = self._file.read(_BYTES_PER_READ)
            if not compressed and (self._frame.eof or self._frame.needs_input):
                return b""
            if data := self._frame.decompress(compressed or b"", max_length=max_length):
                return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to the start, or return the current offset. Nothing else is supported."""
        if offset != 0 or whence not in {SEEK_SET, SEEK_CUR}:
            raise OSError("a compressed file has no other places")
        if whence == SEEK_SET:
            self._file.seek(0)
            self._frame, self._offset = ZstdDecompressor(), 0
        return self._offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
