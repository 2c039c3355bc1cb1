"""Sessions of older versions of OpenCode: a file for each session, message and part.

There are two trees. In the first one each project has its own tree below `project`. The later one
is below `storage`. The files are the same in both.
"""

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rekindle.importers.base import FoundSession
from rekindle.importers.lenient_reader import LenientReader
from rekindle.importers.line_reader import MAX_LINE_BYTES
from rekindle.importers.opencode.database import BYTES_PER_MESSAGE, STAMPED_MESSAGES
from rekindle.importers.opencode.records import OpenCodeSession, StoredMessage, read_session
from rekindle.importers.opencode.tool_calls import OpenCodeTodo


class _Project(Struct, frozen=True):
    """The metadata of a project."""

    worktree: str | None = None


class _TodoFile(Struct, frozen=True):
    """A to-do list."""

    todos: list[OpenCodeTodo] = []


_read_project = LenientReader(_Project)
_read_todos = LenientReader(_TodoFile)


def storage_files(storage: Path) -> Iterator[Path]:
    """Yield the session files in the later tree."""
    for project in _sorted_paths(storage / "session", folders=True):
        # These folders belong to the first tree.
        if project.name not in {"info", "message", "part"}:
            yield from _session_files(project)


def project_files(projects: Path) -> Iterator[Path]:
    """Yield the session files in the first tree."""
    for project in _sorted_paths(projects, folders=True):
        yield from _session_files(project / "storage" / "session" / "info")


def _session_files(folder: Path) -> Iterator[Path]:
    """Yield the session files in a folder; the folder itself, if it cannot be read."""
    try:
        files = _sorted_paths(folder)
    except OSError:
        yield folder
        return
    for path in files:
        if path.suffix == ".json" and path.name.startswith("ses"):
            yield path


def is_session_file(path: Path) -> bool:
    """Return whether a file is a session, by its name and its folder."""
    has_name = path.name.startswith("ses") and path.suffix == ".json"
    return has_name and path.parent.parent.name == "session" and path.is_file()


def found_session_file(path: Path) -> FoundSession:
    """Return the session of a file, without reading its messages."""
    paths = _SessionPaths(path)
    messages = _sorted_paths(paths.messages)
    latest = messages[-STAMPED_MESSAGES:]
    parts = [part for message in latest for part in _sorted_paths(paths.parts(message.stem))]
    todos = [todo for todo in (paths.todos,) if todo is not None and todo.is_file()]
    stats = [file.stat() for file in (path, *latest, *parts, *todos)]
    states = [(stat.st_size, stat.st_mtime_ns) for stat in stats]
    return FoundSession(
        path=path,
        stamp=hashlib.sha256(repr((len(messages), states)).encode()).hexdigest()[:32],
        size=max(1, len(messages)) * BYTES_PER_MESSAGE,
        updated_us=max(stat.st_mtime_ns for stat in stats) // 1000,
        is_child=_is_child(path, *states[0]),
    )


@lru_cache(maxsize=1 << 14)
def _is_child(path: Path, _: int, __: int) -> bool:
    session = read_session(_read_file(path) or b"")
    return session is not None and session.parent_id is not None


class _SessionPaths:
    """The paths of a session's files."""

    def __init__(self, path: Path) -> None:
        self._id = path.stem
        self._is_first_tree = path.parent.name == "info"
        self._root = path.parents[1] if self._is_first_tree else path.parents[2]
        self.messages = self._root / "message" / self._id
        self.project = self._root / "project" / f"{path.parent.name}.json"
        self.todos = None if self._is_first_tree else self._root / "todo" / f"{self._id}.json"

    def parts(self, message_id: str) -> Path:
        if self._is_first_tree:
            return self._root / "part" / self._id / message_id
        return self._root / "part" / message_id


class FileTreeSession:
    """One session in a tree of files. Raises OSError."""

    is_damaged = False

    def __init__(self, path: Path) -> None:
        self._paths = _SessionPaths(path)
        session = read_session(_read_file(path) or b"") or OpenCodeSession()
        directory = session.directory
        if directory is None:
            project = _read_project(_read_file(self._paths.project) or b"")
            worktree = project.worktree if project is not None else None
            directory = worktree if worktree != "/" else None
        # A file may have been renamed without a change of its content.
        self.session = replace(session, id=path.stem, directory=directory)

    def messages(self) -> Iterator[StoredMessage]:
        """Yield its messages in order. Their names start with the time."""
        for path in _sorted_paths(self._paths.messages):
            if path.suffix == ".json":
                parts = partial(self._parts, path.stem)
                yield StoredMessage(path.stem, "", _read_file(path), parts)

    def _parts(self, message_id: str) -> Iterator[tuple[str, bytes | None]]:
        for path in _sorted_paths(self._paths.parts(message_id)):
            if path.suffix == ".json":
                yield path.stem, _read_file(path)

    def todos(self) -> list[tuple[str, str, str]]:
        """Return the to-do list: the content, status and priority of each item."""
        data = _read_file(self._paths.todos) if self._paths.todos is not None else None
        file = _read_todos(b'{"todos":%b}' % data) if data else None
        todos = file.todos if file is not None else []
        return [(todo.content, todo.status, todo.priority) for todo in todos]


def _read_file(path: Path) -> bytes | None:
    """Return the content of a file; None if it does not exist or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LINE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    return data if len(data) <= MAX_LINE_BYTES else None


def _sorted_paths(folder: Path, *, folders: bool = False) -> list[Path]:
    """Return the files or the subfolders of a folder by name; none if it does not exist."""
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.name for entry in entries if entry.is_dir(follow_symlinks=False) == folders
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    # OpenCode writes no names that are not valid UTF-8.
    return [folder / name for name in sorted(names) if max(name) < "\udc80" or max(name) > "\udcff"]
