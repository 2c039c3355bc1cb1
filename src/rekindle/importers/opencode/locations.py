"""Where OpenCode keeps its sessions: in a database, and in trees of files before that."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rekindle.importers.base import FoundSession
from rekindle.importers.database import is_database
from rekindle.importers.opencode.database import find_in_database
from rekindle.importers.opencode.file_tree import (
    found_session_file,
    is_session_file,
    project_files,
    storage_files,
)
from rekindle.importers.scan import list_files, scan_each

_DATABASE_NAME = re.compile(r"opencode(-.*)?\.db")


def folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return the data folder, which is the same on all systems, and a database elsewhere."""
    configured = environ.get("XDG_DATA_HOME")
    data = (Path(configured) if configured else home / ".local" / "share") / "opencode"
    name = environ.get("OPENCODE_DB")
    if not name or name == ":memory:":
        return [data]
    database = data / name
    is_in_data = database.parent == data and _DATABASE_NAME.fullmatch(database.name)
    return [data] if is_in_data else [data, database]


def find(path: Path, cwd: str | None) -> Iterator[FoundSession]:
    """Yield the sessions in a file or below a folder."""
    if path.is_file():
        if is_session_file(path):
            yield found_session_file(path)
        elif is_database(path):
            yield from _in_database(path, cwd, set())
        return
    known: set[str] = set()
    for database in _databases(path):
        yield from _in_database(database, cwd, known)
    storage = path if path.name == "storage" else path / "storage"
    for files in (storage_files(storage), project_files(path / "project")):
        # A migrated session is still in its old place.
        new = {file.stem: file for file in files if file.stem not in known}
        known |= new.keys()
        yield from scan_each(new.values(), _in_file)


def _in_file(path: Path) -> Iterator[FoundSession]:
    if path.suffix == ".json":
        yield found_session_file(path)
    else:
        # A folder that cannot be read: this raises the reason.
        list_files(path, "")


def _databases(folder: Path) -> list[Path]:
    """Return the databases in a folder: there is one for each release channel."""
    databases = [folder / "opencode.db", *sorted(folder.glob("opencode-*.db"))]
    return [database for database in databases if database.is_file()]


def _in_database(path: Path, cwd: str | None, known: set[str]) -> Iterator[FoundSession]:
    def find_sessions(path: Path) -> Iterator[FoundSession]:
        for found, session in find_in_database(path):
            known.add(session.id)
            if cwd is None or session.directory in {None, cwd}:
                yield found

    try:
        yield from find_sessions(path)
    except OSError:
        # OpenCode may just have begun to write to it, so try a second time.
        yield from scan_each([path], find_sessions)
