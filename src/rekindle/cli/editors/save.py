"""Replace a user's file atomically, with a backup of its content and with the same mode."""

import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from rekindle.errors import FileUnclear

_PRIVATE = 0o600


def read(path: Path) -> str:
    """Return a file's text, empty if it does not exist. Raises FileUnclear."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise FileUnclear(f"{path} cannot be read: {_reason(error)}") from error


def save(path: Path, text: str, before: str) -> Path | None:
    """Write a file whose text is `before`; return the path of the backup, if the file existed.

    If the path is a link, its target is written. Raises FileUnclear.
    """
    try:
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = _mode_of(target)
        backup = None if mode is None else _back_up(target, before, mode)
        _replace(target, text, before, _PRIVATE if mode is None else mode)
    except OSError as error:
        raise FileUnclear(f"{path} cannot be written: {_reason(error)}") from error
    return backup


def _mode_of(target: Path) -> int | None:
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise FileUnclear(f"{target} is not a file")
    if status.st_uid != os.geteuid():
        raise FileUnclear(f"{target} belongs to another user")
    mode = stat.S_IMODE(status.st_mode)
    if not mode & stat.S_IWUSR:
        # Replacing it would work in a writable folder, but the user has protected the file.
        raise FileUnclear(f"{target} is read-only")
    return mode


def _back_up(target: Path, before: str, mode: int) -> Path:
    name = f"{target.name}.backup-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while True:
        backup = target.with_name(name if number == 1 else f"{name}-{number}")
        try:
            fd = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileExistsError:
            number += 1
            continue
        _fill(fd, before, mode)
        return backup


def _replace(target: Path, text: str, before: str, mode: int) -> None:
    fd, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        _fill(fd, text, mode)
        _check_unchanged(target, before)
        os.replace(name, target)  # noqa: PTH105 - both are names
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108
        raise


def _check_unchanged(target: Path, before: str) -> None:
    if read(target) != before:
        raise FileUnclear(f"{target} was changed by another program; try again")


def _fill(fd: int, text: str, mode: int) -> None:
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, mode)
        file.write(text.encode())
        file.flush()
        os.fsync(fd)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not in UTF-8"
    return getattr(error, "strerror", None) or str(error)
