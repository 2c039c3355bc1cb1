"""Where the store lies: is it there, whose is it, can it be written, and does the disk bear it."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePath

from rekindle.cli.doctor import SAVE, Finding, Level
from rekindle.cli.doctor.quarantine import save_what_can_be_read
from rekindle.store.address import index_path, pending_files, usual_path
from rekindle.store.sqlite.connection import lock_path, report_path, set_aside, was_emptied
from rekindle.store.sqlite.inspect import is_begun, is_database

_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
_OTHERS = 0o077
_OF_DATABASE = ("", "-wal", "-shm", "-journal")
_ANOTHER = "name another store with --store or REKINDLE_STORE"
_LITTLE_SPACE = 100_000_000
# One long answer of a tool may have as much.
_NO_SPACE = 1_000_000
_NETWORK = frozenset(
    {"9p", "afpfs", "afs", "ceph", "cifs", "davfs", "glusterfs", "lustre", "nfs", "nfs4"}
    | {"prl_fs", "smb3", "smbfs", "vboxsf", "webdav"}
    | {"fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse"}
)


def check_store(path: Path, *, is_ours: bool, is_asked_for: bool) -> Iterator[Finding]:
    """Look whether the store is there, and is one."""
    facts = {"path": str(path)}
    if is_ours:
        yield Finding(check="store", what=str(path), facts=facts)
    elif path.is_file() and is_begun(path) and not was_emptied(path):
        yield Finding(check="store", what=f"nothing is recorded yet: {path}", facts=facts)
    elif path.is_file():
        yield _other_file(path)
    elif path.exists():
        yield _problem("store", f"{path} is no file", _ANOTHER)
    elif is_asked_for:
        yield _problem("store", f"there is no store at {path}", "name the right one with --store")
    else:
        yield Finding(check="store", what=f"nothing is recorded yet: {path}", facts=facts)


def check_permissions(path: Path) -> Iterator[Finding]:
    """Look whether the store and all that belongs to it is the user's, and only theirs."""
    found = [finding for file in belongings(path) for finding in _check_mode(file)]
    yield from found
    if not found:
        yield Finding(check="permissions", what="private to you")


def check_writable(path: Path) -> Iterator[Finding]:
    """Look whether anything can be recorded."""
    folder = _first_that_exists(path.parent)
    if path.exists() and not os.access(path, os.R_OK):
        yield _problem("access", f"{path} cannot be read", "see who owns it, and its permissions")
    elif path.exists() and not os.access(path, os.W_OK):
        yield _problem(
            "access", f"{path} is read-only: nothing can be recorded", "make it writable"
        )
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield _problem(
            "access",
            f"the folder {folder} is read-only: nothing can be recorded",
            f"make it writable, or {_ANOTHER}",
        )
    elif lock_path(path).is_dir():
        yield _problem(
            "access",
            f"{lock_path(path)} is a folder, where a file should be: nothing can be recorded",
            "remove it, or move it elsewhere",
        )
    else:
        yield Finding(check="access", what="can be read and written")


def check_disk(path: Path) -> Iterator[Finding]:
    """Look whether the disk is a local one, and has space."""
    folder = _first_that_exists(path.parent)
    kind = file_system_of(folder.resolve(), mounts())
    if kind in _NETWORK:
        yield _problem(
            "disk",
            f"{folder} is on a network file system ({kind}), where SQLite's log does not work",
            "name a store on a local disk with --store or REKINDLE_STORE",
        )
    free = shutil.disk_usage(folder).free
    level = Level.OK
    if free < _LITTLE_SPACE:
        level = Level.PROBLEM if free < _NO_SPACE else Level.WARNING
    yield Finding(
        check="disk",
        level=level,
        what=f"{size(free)} free{f' on {kind}' if kind else ''}",
        remedy=""
        if level is Level.OK
        else "make space: what cannot be written anywhere is lost when the conversation ends",
        facts={"free": free, "fileSystem": kind},
    )


def belongings(path: Path) -> list[Path]:
    """Return the store, and the files and folders that Rekindle has made for it.

    Others may be called almost like it, and are left alone.
    """
    usual = [path.parent] if path.parent == usual_path().parent else []
    databases = [Path(f"{it}{end}") for it in (path, index_path(path)) for end in _OF_DATABASE]
    files = [it for it in (*databases, lock_path(path)) if it.is_file()]
    live = [it for it in (live_folder(path),) if it.is_dir()]
    return [*usual, *files, *live, *tokens(path), *pending_files(path), *_asides(path)]


def _asides(path: Path) -> list[Path]:
    """Return the damaged stores that were set aside, and what tells of them."""
    asides = set_aside(path)
    files = [Path(f"{aside}{end}") for aside in asides for end in _OF_DATABASE]
    return [it for it in (*files, *map(report_path, asides)) if it.exists()]


def tokens(path: Path) -> list[Path]:
    """Return the files by which processes that use a store show that they are alive."""
    folder = live_folder(path)
    return sorted(it for it in folder.iterdir() if it.is_file()) if folder.is_dir() else []


def live_folder(path: Path) -> Path:
    """Return the folder of a store's tokens."""
    return path.with_name(f"{path.name}.live")


def file_system_of(folder: PurePath, table: Iterable[tuple[str, str]]) -> str | None:
    """Return the kind of file system that a folder is on, from what is mounted where."""
    around = {str(it) for it in (folder, *folder.parents)}
    kinds = [(len(place), at, kind) for at, (place, kind) in enumerate(table) if place in around]
    # Of two on one place, the later one hides the other.
    return max(kinds)[2] if kinds else None


def mounts() -> list[tuple[str, str]]:
    """Return what kind of file system is mounted where."""
    try:
        return mounts_of_linux(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    except OSError:
        pass
    try:
        told = subprocess.run(
            ["/sbin/mount"], capture_output=True, text=True, check=True, timeout=5
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return mounts_of_macos(told.stdout)


def mounts_of_linux(text: str) -> list[tuple[str, str]]:
    """Read /proc/self/mountinfo."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        if after and len(words) > 4:  # noqa: PLR2004 - the place is the fifth
            place = words[4].replace("\\040", " ").replace("\\134", "\\")
            found.append((place, after.split(" ")[0]))
    return found


def mounts_of_macos(text: str) -> list[tuple[str, str]]:
    """Read what `mount` prints: `//me@host/share on /Volumes/share (smbfs, nodev)`."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        before, _, options = line.rpartition(" (")
        place = before.partition(" on ")[2]
        if place:
            found.append((place, options.split(",")[0].rstrip(")")))
    return found


def size(amount: float) -> str:
    """Say a number of bytes in words."""
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:  # noqa: PLR2004 - as units go
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def _other_file(path: Path) -> Finding:
    if was_emptied(path):
        return _damage(path, "is empty, and was not")
    if not path.stat().st_size:
        return _problem("store", f"{path} is empty", f"remove it, or {_ANOTHER}")
    if is_database(path):
        return _problem("store", f"{path} is a database, but no store of Rekindle's", _ANOTHER)
    if lock_path(path).exists():
        return _damage(path, "is damaged at its beginning")
    return _problem(
        "store", f"{path} is no store of Rekindle's, or its beginning is damaged", _ANOTHER
    )


def _damage(path: Path, how: str) -> Finding:
    return Finding(
        check="store",
        level=Level.PROBLEM,
        what=f"{path} {how}",
        remedy=SAVE,
        mend=partial(save_what_can_be_read, path),
        is_damage=True,
    )


def _check_mode(file: Path) -> Iterator[Finding]:
    try:
        found = file.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    right = _PRIVATE_FOLDER if stat.S_ISDIR(found.st_mode) else _PRIVATE_FILE
    if found.st_uid != os.geteuid():
        yield Finding(
            check="permissions",
            level=Level.WARNING,
            what=f"{file} belongs to another user ({found.st_uid})",
            remedy="let each user have a store of their own",
        )
    elif mode & _OTHERS or mode & right != right:
        who = "others can use it" if mode & _OTHERS else "you cannot use it"
        yield Finding(
            check="permissions",
            level=Level.PROBLEM,
            what=f"{file} has mode {mode:04o}: {who}",
            remedy=f"chmod {right:o} {file}",
            mend=partial(file.chmod, right),
        )


def _first_that_exists(folder: Path) -> Path:
    return next(it for it in (folder, *folder.parents) if it.exists())


def _problem(check: str, what: str, remedy: str) -> Finding:
    return Finding(check=check, level=Level.PROBLEM, what=what, remedy=remedy)
