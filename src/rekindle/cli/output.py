"""The destination of an export: stdout, or a file that is written completely or not at all."""

import os
import signal
import stat
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rekindle.cli.project import absolute_path
from rekindle.errors import RekindleError, UsageError

STDOUT = "-"
_TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def is_stdout(option: str | None) -> bool:
    """Return whether an output option means stdout."""
    return option in {None, STDOUT}


@contextmanager
def open_output(option: str | None, *, force: bool) -> Generator[IO[bytes]]:
    """Open the destination of an export.

    Raises RekindleError if the file cannot be created, or exists and `force` is not set.
    """
    if option is None or option == STDOUT:
        yield _stdout()
        return
    path = Path(option)
    if _is_special_file(path):
        with path.open("wb") as file:
            yield file
        return
    if path.is_dir():
        raise RekindleError(f"{path} is a folder; name a file in it")
    if path.exists() and not force:
        raise RekindleError(f"{path} exists already; use --force to overwrite it")
    if not Path(absolute_path(option)).parent.is_dir():
        raise RekindleError(f"there is no folder {path.parent}; create it first")
    with _atomic_write(path, force=force) as file:
        yield file


def _stdout() -> IO[bytes]:
    # main() replaces a closed stdout by the null device, which would lose the export.
    if sys.__stdout__ is None:
        raise UsageError("stdout is closed; name a file with -o")
    sys.stdout.flush()
    return sys.stdout.buffer


def _is_special_file(path: Path) -> bool:
    """Return whether a path is a pipe or a device, which cannot be replaced by a new file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _atomic_write(path: Path, *, force: bool) -> Generator[IO[bytes]]:
    """Write a temporary file beside `path`, and move it there at the end."""
    temporary: list[Path] = []
    # The signal handlers are set first, so that no signal leaves a temporary file behind.
    with _removed_at_exit(temporary):
        # mkstemp makes the file private. The user decides who else may read it.
        fd, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
        temporary.append(Path(name))
        with open(fd, "wb") as file:  # noqa: PTH123 - it is open already
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            Path(name).replace(path)
        else:
            _move_to_free_name(Path(name), path)


@contextmanager
def _removed_at_exit(paths: list[Path]) -> Generator[None]:
    """Remove files on leaving, also if a signal ends the process, which then ends by it."""

    def remove() -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def remove_and_end(number: int, _: object) -> None:
        remove()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    # A signal that is ignored (nohup) stays ignored.
    handled = [
        number for number in _TERMINATION_SIGNALS if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in handled:
        signal.signal(number, remove_and_end)
    try:
        yield
    finally:
        remove()
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _move_to_free_name(source: Path, path: Path) -> None:
    """Rename a file. Raises RekindleError if another process has created `path` meanwhile."""
    try:
        path.hardlink_to(source)
    except FileExistsError:
        raise RekindleError(f"{path} exists already; use --force to overwrite it") from None
    except OSError:
        # Some file systems have no links.
        source.replace(path)
