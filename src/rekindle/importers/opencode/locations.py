"""Where OpenCode keeps its sessions: in a database, and before that in trees of files."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rekindle.importers.base import Found
from rekindle.importers.database import is_database
from rekindle.importers.opencode.database import sessions_in
from rekindle.importers.opencode.file_tree import (
    files_in_projects,
    files_in_storage,
    found_file,
    is_session_file,
)
from rekindle.importers.scan import each, files_in

_IN_DATA = re.compile(r"opencode(-.*)?\.db")


def folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return where its sessions are, which is the same on all systems."""
    told = environ.get("XDG_DATA_HOME")
    data = (Path(told) if told else home / ".local" / "share") / "opencode"
    named = environ.get("OPENCODE_DB")
    if not named or named == ":memory:":
        return [data]
    database = data / named
    is_found_there = database.parent == data and _IN_DATA.fullmatch(database.name)
    return [data] if is_found_there else [data, database]


def find(path: Path, cwd: str | None) -> Iterator[Found]:
    """Yield the sessions of a file or below a folder."""
    if path.is_file():
        if is_session_file(path):
            yield found_file(path)
        elif is_database(path):
            yield from _in_database(path, cwd, set())
        return
    known: set[str] = set()
    for database in _databases(path):
        yield from _in_database(database, cwd, known)
    storage = path if path.name == "storage" else path / "storage"
    for files in (files_in_storage(storage), files_in_projects(path / "project")):
        # What was taken over from one into the other is still in both.
        here = {it.stem: it for it in files if it.stem not in known}
        known |= here.keys()
        yield from each(here.values(), _of_file)


def _of_file(path: Path) -> Iterator[Found]:
    if path.suffix == ".json":
        yield found_file(path)
    else:
        # It is a folder that could not be looked into: that is why.
        files_in(path, "")


def _databases(folder: Path) -> list[Path]:
    """Return its databases: there is one for each channel by which it is published."""
    found = [folder / "opencode.db", *sorted(folder.glob("opencode-*.db"))]
    return [it for it in found if it.is_file()]


def _in_database(path: Path, cwd: str | None, known: set[str]) -> Iterator[Found]:
    def sessions(path: Path) -> Iterator[Found]:
        for found, session in sessions_in(path):
            known.add(session.id)
            if cwd is None or session.directory in {None, cwd}:
                yield found

    try:
        yield from sessions(path)
    except OSError:
        # Perhaps somebody has just begun to write to it.
        yield from each([path], sessions)
