"""Sessions as older versions of OpenCode have them: a file each, and one for each message and part.

There are two trees. In the first, each project had one of its own, below `project`; the later one
is below `storage`. The files of both are alike.
"""

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

from msgspec import Struct

from rekindle.importers.base import Found
from rekindle.importers.lenient_reader import Reader
from rekindle.importers.line_reader import LONGEST
from rekindle.importers.opencode.database import NEWEST
from rekindle.importers.opencode.records import Session, Stored, read_session

_BYTES_A_MESSAGE = 8192


class _Project(Struct):
    """What is said of a project."""

    worktree: str | None = None


class _Todo(Struct, gc=False):
    """Something to be done."""

    content: str = ""
    status: str = ""
    priority: str = ""


class _Todos(Struct):
    """All that is to be done."""

    todos: list[_Todo] = []


_read_project = Reader(_Project)
_read_todos = Reader(_Todos)


def files_in_storage(storage: Path) -> Iterator[Path]:
    """Yield the files of sessions in the later tree."""
    for project in _sorted(storage / "session", is_folder=True):
        # What is called so has its place in the older one.
        if project.name not in {"info", "message", "part"}:
            yield from _session_files(project)


def files_in_projects(projects: Path) -> Iterator[Path]:
    """Yield the files of sessions in the first tree."""
    for project in _sorted(projects, is_folder=True):
        yield from _session_files(project / "storage" / "session" / "info")


def _session_files(folder: Path) -> Iterator[Path]:
    """Yield the files of sessions in a folder; the folder, if it cannot be looked into."""
    try:
        files = _sorted(folder)
    except OSError:
        yield folder
        return
    for path in files:
        if path.suffix == ".json" and path.name.startswith("ses"):
            yield path


def is_session_file(path: Path) -> bool:
    """Tell whether a file is that of a session, by its name and its place."""
    is_named_so = path.name.startswith("ses") and path.suffix == ".json"
    return is_named_so and path.parent.parent.name == "session" and path.is_file()


def found_file(path: Path) -> Found:
    """Return a session, as far as that is known from the outside."""
    places = _Places(path)
    messages = _sorted(places.messages)
    newest = messages[-NEWEST:]
    parts = [part for it in newest for part in _sorted(places.parts(it.stem))]
    todos = [it for it in (places.todos,) if it is not None and it.is_file()]
    stats = [it.stat() for it in (path, *newest, *parts, *todos)]
    times = [(it.st_size, it.st_mtime_ns) for it in stats]
    return Found(
        path=path,
        stamp=hashlib.sha256(repr((len(messages), times)).encode()).hexdigest()[:32],
        size=max(1, len(messages)) * _BYTES_A_MESSAGE,
        updated_us=max(it.st_mtime_ns for it in stats) // 1000,
        is_child=_is_child(path, *times[0]),
    )


@lru_cache(maxsize=1 << 14)
def _is_child(path: Path, _: int, __: int) -> bool:
    session = read_session(_data(path) or b"")
    return session is not None and session.parent_id is not None


class _Places:
    """Where the files of a session are."""

    def __init__(self, path: Path) -> None:
        self._id = path.stem
        self._is_first = path.parent.name == "info"
        self._base = path.parents[1] if self._is_first else path.parents[2]
        self.messages = self._base / "message" / self._id
        self.project = self._base / "project" / f"{path.parent.name}.json"
        self.todos = None if self._is_first else self._base / "todo" / f"{self._id}.json"

    def parts(self, message_id: str) -> Path:
        if self._is_first:
            return self._base / "part" / self._id / message_id
        return self._base / "part" / message_id


class Tree:
    """One session in files. Raises OSError."""

    is_damaged = False

    def __init__(self, path: Path) -> None:
        self._places = _Places(path)
        self.session = read_session(_data(path) or b"") or Session()
        # Files were moved without changing what they say.
        self.session.id = path.stem
        if self.session.directory is None:
            project = _read_project(_data(self._places.project) or b"")
            worktree = project.worktree if project is not None else None
            self.session.directory = worktree if worktree != "/" else None

    def messages(self) -> Iterator[Stored]:
        """Yield its messages, in order: their names are made of the time."""
        for path in _sorted(self._places.messages):
            if path.suffix == ".json":
                yield Stored(path.stem, "", _data(path), partial(self._parts, path.stem))

    def _parts(self, message_id: str) -> Iterator[tuple[str, bytes | None]]:
        for path in _sorted(self._places.parts(message_id)):
            if path.suffix == ".json":
                yield path.stem, _data(path)

    def todos(self) -> list[tuple[str, str, str]]:
        """Return what is to be done: what, how far it is, and how urgent."""
        data = _data(self._places.todos) if self._places.todos is not None else None
        found = _read_todos(b'{"todos":%b}' % data) if data else None
        return [(it.content, it.status, it.priority) for it in found.todos] if found else []


def _data(path: Path) -> bytes | None:
    """Return what is in a file; None if it is not there, or too large."""
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    return data if len(data) <= LONGEST else None


def _sorted(folder: Path, *, is_folder: bool = False) -> list[Path]:
    """Return what is in a folder, which may not be there, by name."""
    try:
        with os.scandir(folder) as entries:
            names = [it.name for it in entries if it.is_dir(follow_symlinks=False) == is_folder]
    except (FileNotFoundError, NotADirectoryError):
        return []
    # Names that are no text are not its own.
    return [folder / name for name in sorted(names) if max(name) < "\udc80" or max(name) > "\udcff"]
