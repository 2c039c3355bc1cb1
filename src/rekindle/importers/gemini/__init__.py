"""Gemini CLI: files of JSON lines, in which later lines change what earlier ones have said."""

from collections.abc import Iterator
from pathlib import Path

from rekindle.importers.base import Found, Notes, Talk, Tool
from rekindle.importers.gemini.locations import find, folders, session_id_of, siblings
from rekindle.importers.gemini.session import NAME, SessionFiles


def read(found: Found, notes: Notes) -> Iterator[Talk]:
    """Yield the session of some files, and what it has gone back from."""
    # The names have only the beginnings of ids.
    by_id: dict[str, list[Path]] = {}
    for path in siblings(found.path):
        by_id.setdefault(session_id_of(path), []).append(path)
    for session_id, paths in by_id.items():
        files = SessionFiles(session_id, paths, notes)
        session = files.session()
        if session is not None:
            yield session
            yield from files.branches(session)


TOOL = Tool(
    name=NAME,
    agent_names=("gemini-cli", "@google/gemini-cli"),
    title="Gemini CLI",
    folders=folders,
    find=find,
    read=read,
)
