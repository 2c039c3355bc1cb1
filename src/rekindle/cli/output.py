"""Where an export goes: to stdout, or to a file that is there whole or not at all."""

import os
import signal
import stat
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rekindle.cli.project import absolute
from rekindle.errors import RekindleError, UsageError

STDOUT = "-"
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def is_stdout(option: str | None) -> bool:
    """Tell whether no file was named."""
    return option in {None, STDOUT}


@contextmanager
def opened(option: str | None, *, force: bool) -> Generator[IO[bytes]]:
    """Open what an export is written to. Raises RekindleError if it would overwrite something."""
    if option is None or option == STDOUT:
        yield _stdout()
        return
    path = Path(option)
    if _is_a_pipe(path):
        with path.open("wb") as file:
            yield file
        return
    if path.is_dir():
        raise RekindleError(f"{path} is a folder: name a file in it")
    if path.exists() and not force:
        raise RekindleError(f"{path} is there already: --force overwrites it")
    if not Path(absolute(option)).parent.is_dir():
        raise RekindleError(f"there is no folder {path.parent}: make it first")
    with _whole_or_not_at_all(path, force=force) as file:
        yield file


def _stdout() -> IO[bytes]:
    # What stands in for a stream that the caller has closed would swallow it all.
    if sys.__stdout__ is None:
        raise UsageError("stdout is closed: name a file with -o")
    sys.stdout.flush()
    return sys.stdout.buffer


def _is_a_pipe(path: Path) -> bool:
    """Tell whether a path leads to a pipe or a device, where nothing can be replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _whole_or_not_at_all(path: Path, *, force: bool) -> Generator[IO[bytes]]:
    # Before there is anything that could be left behind.
    made: list[Path] = []
    with _tidied_up_if_ended(made):
        # Made private: what was said is nobody else's business until its owner says so.
        fd, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
        made.append(Path(name))
        with open(fd, "wb") as file:  # noqa: PTH123 - it is open already
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            Path(name).replace(path)
        else:
            _put_in_place(Path(name), path)


@contextmanager
def _tidied_up_if_ended(made: list[Path]) -> Generator[None]:
    """Remove files in the end, also when a signal asks for it: then it ends us as it would have."""

    def tidy_up() -> None:
        for path in made:
            path.unlink(missing_ok=True)

    def end(number: int, _: object) -> None:
        tidy_up()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    # Whoever started us with a signal ignored (nohup) wants it so.
    heeded = [it for it in _ENDING if signal.getsignal(it) is signal.SIG_DFL]
    for number in heeded:
        signal.signal(number, end)
    try:
        yield
    finally:
        tidy_up()
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)


def _put_in_place(made: Path, path: Path) -> None:
    """Give a file its name, unless another has got it meanwhile."""
    try:
        path.hardlink_to(made)
    except FileExistsError:
        raise RekindleError(f"{path} is there already: --force overwrites it") from None
    except OSError:
        # Not every file system has links.
        made.replace(path)
