"""Check the place of a store: its file, its permissions, and the disk."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path, PurePath

from rekindle.store.address import default_address
from rekindle.store.maintenance import Diagnosis, Severity
from rekindle.store.sqlite.connection import was_emptied
from rekindle.store.sqlite.files import (
    DATABASE_SUFFIXES,
    index_path,
    live_folder,
    lock_path,
    pending_files,
    quarantined,
    report_path,
)
from rekindle.store.sqlite.inspect import is_database, is_unfinished

RECOVER_REMEDY = (
    "`rekindle doctor --fix` moves the damaged store aside, and recovers what can be read into a"
    " new one"
)

_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
_OTHERS = 0o077
_USE_ANOTHER = "name another store with --store or REKINDLE_STORE"
_LOW_SPACE = 100_000_000
# A single long tool result may need as much.
_NO_SPACE = 1_000_000
_NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afpfs", "afs", "ceph", "cifs", "davfs", "glusterfs", "lustre", "nfs", "nfs4"}
    | {"prl_fs", "smb3", "smbfs", "vboxsf", "webdav"}
    | {"fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse"}
)


def check_store(
    path: Path, *, is_ours: bool, is_requested: bool, recover: Callable[[], object]
) -> Iterator[Diagnosis]:
    """Check whether the file exists and is a store. `recover` repairs a damaged one."""
    facts = {"path": str(path)}
    if is_ours:
        yield Diagnosis(check="store", text=str(path), facts=facts)
    elif path.is_file() and is_unfinished(path) and not was_emptied(path):
        yield Diagnosis(check="store", text=f"nothing is recorded yet: {path}", facts=facts)
    elif path.is_file():
        yield _other_file(path, recover)
    elif path.exists():
        yield _problem("store", f"{path} is not a file", _USE_ANOTHER)
    elif is_requested:
        yield _problem("store", f"there is no store at {path}", "name the right one with --store")
    else:
        yield Diagnosis(check="store", text=f"nothing is recorded yet: {path}", facts=facts)


def check_permissions(path: Path) -> Iterator[Diagnosis]:
    """Check whether the store and its files are private to the user."""
    found = [diagnosis for file in store_files(path) for diagnosis in _check_mode(file)]
    yield from found
    if not found:
        yield Diagnosis(check="permissions", text="private to you")


def check_writable(path: Path) -> Iterator[Diagnosis]:
    """Check whether the store can be written."""
    folder = _first_existing(path.parent)
    if path.exists() and not os.access(path, os.R_OK):
        yield _problem("access", f"{path} cannot be read", "check its owner and its permissions")
    elif path.exists() and not os.access(path, os.W_OK):
        yield _problem(
            "access", f"{path} is read-only; nothing can be recorded", "make it writable"
        )
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield _problem(
            "access",
            f"the folder {folder} is read-only; nothing can be recorded",
            f"make it writable, or {_USE_ANOTHER}",
        )
    elif lock_path(path).is_dir():
        yield _problem(
            "access",
            f"{lock_path(path)} is a folder, but should be a file; nothing can be recorded",
            "remove it, or move it elsewhere",
        )
    else:
        yield Diagnosis(check="access", text="can be read and written")


def check_disk(path: Path) -> Iterator[Diagnosis]:
    """Check whether the disk is local and has space."""
    folder = _first_existing(path.parent)
    kind = file_system_of(folder.resolve(), mounts())
    if kind in _NETWORK_FILE_SYSTEMS:
        yield _problem(
            "disk",
            f"{folder} is on a network file system ({kind}), where SQLite's log does not work",
            "name a store on a local disk with --store or REKINDLE_STORE",
        )
    free = shutil.disk_usage(folder).free
    severity = Severity.OK
    if free < _LOW_SPACE:
        severity = Severity.PROBLEM if free < _NO_SPACE else Severity.WARNING
    yield Diagnosis(
        check="disk",
        severity=severity,
        text=f"{size(free)} free{f' on {kind}' if kind else ''}",
        remedy=""
        if severity is Severity.OK
        else "free some space; entries that cannot be written are lost when the session ends",
        facts={"free": free, "fileSystem": kind},
    )


def store_files(path: Path) -> list[Path]:
    """Return the store, and the files and folders that Rekindle has created for it.

    Other files with similar names are not included.
    """
    default_folder = Path(default_address().location).parent
    folder = [path.parent] if path.parent == default_folder else []
    databases = [
        Path(f"{file}{suffix}") for file in (path, index_path(path)) for suffix in DATABASE_SUFFIXES
    ]
    files = [file for file in (*databases, lock_path(path)) if file.is_file()]
    live = [live_folder(path)] if live_folder(path).is_dir() else []
    return [
        *folder, *files, *live, *token_files(path), *pending_files(path), *_quarantine_files(path)
    ]  # fmt: skip


def _quarantine_files(path: Path) -> list[Path]:
    """Return the damaged stores in quarantine, and their reports."""
    stores = quarantined(path)
    files = [Path(f"{store}{suffix}") for store in stores for suffix in DATABASE_SUFFIXES]
    return [file for file in (*files, *map(report_path, stores)) if file.exists()]


def token_files(path: Path) -> list[Path]:
    """Return the files that live processes lock while they use a store."""
    folder = live_folder(path)
    return sorted(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []


def file_system_of(folder: PurePath, table: Iterable[tuple[str, str]]) -> str | None:
    """Return the type of the file system of a folder. `table` has mount points and types."""
    around = {str(it) for it in (folder, *folder.parents)}
    kinds = [(len(place), at, kind) for at, (place, kind) in enumerate(table) if place in around]
    # A later mount on the same place hides the earlier one.
    return max(kinds)[2] if kinds else None


def mounts() -> list[tuple[str, str]]:
    """Return the mount points with the types of their file systems."""
    try:
        return mounts_of_linux(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    except OSError:
        pass
    try:
        done = subprocess.run(
            ["/sbin/mount"], capture_output=True, text=True, check=True, timeout=5
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return mounts_of_macos(done.stdout)


def mounts_of_linux(text: str) -> list[tuple[str, str]]:
    """Parse /proc/self/mountinfo."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        if after and len(words) > 4:  # noqa: PLR2004 - the fifth is the mount point
            place = words[4].replace("\\040", " ").replace("\\134", "\\")
            found.append((place, after.split(" ")[0]))
    return found


def mounts_of_macos(text: str) -> list[tuple[str, str]]:
    """Parse the output of `mount`: `//me@host/share on /Volumes/share (smbfs, nodev)`."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        before, _, options = line.rpartition(" (")
        place = before.partition(" on ")[2]
        if place:
            found.append((place, options.split(",")[0].rstrip(")")))
    return found


def size(amount: float) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:  # noqa: PLR2004 - decimal units
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def _other_file(path: Path, recover: Callable[[], object]) -> Diagnosis:
    if was_emptied(path):
        return _damage(path, "is empty, and was not before", recover)
    if not path.stat().st_size:
        return _problem("store", f"{path} is empty", f"remove it, or {_USE_ANOTHER}")
    if is_database(path):
        return _problem("store", f"{path} is a database, but not a Rekindle store", _USE_ANOTHER)
    if lock_path(path).exists():
        return _damage(path, "is damaged at its beginning", recover)
    return _problem(
        "store", f"{path} is not a Rekindle store, or its beginning is damaged", _USE_ANOTHER
    )


def _damage(path: Path, how: str, recover: Callable[[], object]) -> Diagnosis:
    return Diagnosis(
        check="store",
        severity=Severity.PROBLEM,
        text=f"{path} {how}",
        remedy=RECOVER_REMEDY,
        repair=recover,
        is_damage=True,
    )


def _check_mode(file: Path) -> Iterator[Diagnosis]:
    try:
        found = file.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    right = _PRIVATE_FOLDER if stat.S_ISDIR(found.st_mode) else _PRIVATE_FILE
    if found.st_uid != os.geteuid():
        yield Diagnosis(
            check="permissions",
            severity=Severity.WARNING,
            text=f"{file} belongs to another user ({found.st_uid})",
            remedy="use a separate store for each user",
        )
    elif mode & _OTHERS or mode & right != right:
        who = "other users can access it" if mode & _OTHERS else "you cannot access it"
        yield Diagnosis(
            check="permissions",
            severity=Severity.PROBLEM,
            text=f"{file} has mode {mode:04o}; {who}",
            remedy=f"chmod {right:o} {file}, or `rekindle doctor --fix`",
            repair=partial(file.chmod, right),
        )


def _first_existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _problem(check: str, text: str, remedy: str) -> Diagnosis:
    return Diagnosis(check=check, severity=Severity.PROBLEM, text=text, remedy=remedy)
