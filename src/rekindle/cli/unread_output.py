"""Output whose reader may leave: a command that changes data finishes its work all the same."""

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    _Stream = io.TextIOWrapper[Any]

_NAMES = ((1, "stdout"), (2, "stderr"))


@contextmanager
def accepting_unread_output() -> Generator[None]:
    """Discard what is printed on stdout and stderr after its reader has left.

    Otherwise `rekindle import FILE | head -1` would end in the middle of the import.
    """
    former = {name: it for number, name in _NAMES if (it := _own_stream(number, name))}
    for name, stream in former.items():
        stream.flush()
        setattr(sys, name, _patient(stream))
    try:
        yield
    finally:
        patient = [getattr(sys, name) for name in former]
        for name, stream in former.items():
            setattr(sys, name, stream)
        for stream in patient:
            stream.flush()


def _own_stream(number: int, name: str) -> "_Stream | None":
    """Return a standard stream, unless it was replaced, or is a terminal."""
    stream: object = getattr(sys, name)
    # A test may have replaced it by a buffer, which has no number.
    with suppress(OSError):
        if isinstance(stream, io.TextIOWrapper) and stream.fileno() == number:
            # A question on a terminal needs the stream that Python itself flushes.
            return None if stream.isatty() else cast("_Stream", stream)
    return None


def _patient(stream: "_Stream") -> "_Stream":
    output = _PatientOutput(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
    )


class _PatientOutput(io.FileIO):
    """A file that becomes the null device when its reader has left, or when it is full."""

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer, which has no name before 3.12
        """Write the data, or discard it."""
        try:
            return super().write(data)
        except OSError as error:
            # The interpreter flushes the buffered rest at its exit, which must not fail again.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            if not isinstance(error, BrokenPipeError):
                raise
            return len(data)
