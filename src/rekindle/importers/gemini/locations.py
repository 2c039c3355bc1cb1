"""Where Gemini CLI keeps its files: a folder per project, with its name or a hash of its path.

A file in the folder, or a list beside all folders, has the path of the project. If both are gone,
known paths are compared with the recorded hash. When a project with a hashed folder gets a named
one, the tool copies all files to it, and never uses the old folder again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path, PurePosixPath

from msgspec import Struct

from rekindle.importers.base import FoundSession
from rekindle.importers.lenient_reader import LenientReader
from rekindle.importers.scan import found_session, list_files, list_folders, read_head, scan_each

_SESSION_NAME = re.compile(r"session-.+-([^-]+)\.jsonl?")
_CHATS = "chats"
_PROJECT_FILE = ".project_root"
_PROJECT_LIST = "projects.json"
_HASH = re.compile("[0-9a-f]{64}")
_MAX_FILE_BYTES = 4 * 1024 * 1024
_OWN_FIELD = b'"projectHash"'
_SESSION_ID = re.compile(rb'"sessionId"\s*:\s*"([^"\\]+)"')
_PATH = re.compile(rb'["\s](/[^"\\\s][^"\\\r\n]{0,1000})')
_MAX_CANDIDATES = 1000
_MAX_PATH_LENGTH = 4096
_MAX_DEPTH = 64


def folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return the folder that contains the projects."""
    return [Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp"]


def find(path: Path, cwd: str | None) -> Iterator[FoundSession]:
    """Yield the sessions in a file or below a folder."""
    if path.is_file():
        is_in_place = path.parent.name == _CHATS and _SESSION_NAME.fullmatch(path.name)
        if is_in_place or _is_gemini_file(path):
            if _is_child(path):
                yield found_session([path], is_child=True)
            else:
                yield found_session(session_files(path))
        return
    root = path / "tmp" if (path / "tmp").is_dir() else path
    is_one_project = root.name == _CHATS or (root / _CHATS).is_dir()
    projects = [] if is_one_project else list_folders(root)
    find_in_project = partial(_in_project, cwd=cwd, successors=_successors(projects))
    yield from scan_each([root, *projects], find_in_project)


def _in_project(
    folder: Path, cwd: str | None, successors: dict[str, Path]
) -> Iterator[FoundSession]:
    chats = folder if folder.name == _CHATS else folder / _CHATS
    if not chats.is_dir():
        # The folder may belong to another program.
        yield from _in_folder(folder, is_trusted=False)
    elif cwd is None or project_path(chats.parent) in {None, cwd}:
        yield from _in_folder(chats, successors.get(folder.name), is_trusted=True)


def _successors(projects: list[Path]) -> dict[str, Path]:
    """Return the new chat folders of projects that also have an old, hashed folder."""
    if not any(_HASH.fullmatch(project.name) for project in projects):
        return {}
    named = [project for project in projects if not _HASH.fullmatch(project.name)]
    paths = [(project, project_path(project)) for project in named]
    return {_hashed(path): project / _CHATS for project, path in paths if path is not None}


def _in_folder(
    folder: Path, successor: Path | None = None, *, is_trusted: bool
) -> Iterator[FoundSession]:
    """Yield the sessions in a folder, without the ones that its successor has too."""

    def is_current(path: Path) -> bool:
        copy = successor / path.relative_to(folder) if successor is not None else None
        return path.is_file() and (copy is None or not copy.is_file())

    def find_children(below: Path) -> Iterator[FoundSession]:
        files = [path for path in list_files(below, ".jsonl") if is_current(path)]
        yield from scan_each(files, lambda path: iter([found_session([path], is_child=True)]))

    paths = [path for path in list_files(folder, "") if _SESSION_NAME.fullmatch(path.name)]
    files = [path for path in paths if is_current(path) and (is_trusted or _is_gemini_file(path))]
    groups = groupby(sorted(files, key=_id_and_name), key=lambda path: _id_and_name(path)[0])
    sessions = [list(group) for _, group in groups]
    by_first = {session[0]: session for session in sessions}
    yield from scan_each(by_first, lambda first: iter([found_session(by_first[first])]))
    if is_trusted:
        yield from scan_each(list_folders(folder), find_children)


def _id_and_name(path: Path) -> tuple[str, str]:
    """Return the start of the session's id, and the name of the file, which starts with a time."""
    found = _SESSION_NAME.fullmatch(path.name)
    return found[1] if found else "", path.name


def session_files(path: Path) -> list[Path]:
    """Return the files that may be of the same session, the oldest first."""
    found = _SESSION_NAME.fullmatch(path.name)
    if found is None or _is_child(path):
        return [path]
    others = (other for other in path.parent.iterdir() if _id_and_name(other)[0] == found[1])
    return sorted(other for other in others if other.is_file())


def _is_gemini_file(path: Path) -> bool:
    """Return whether the first bytes of a file look like Gemini CLI's records."""
    if path.suffix not in {".json", ".jsonl"}:
        return False
    head = read_head(path)
    return _OWN_FIELD in head and _SESSION_ID.search(head) is not None


def _is_child(path: Path) -> bool:
    """Return whether a file belongs to a sub-agent, by its folder."""
    return path.parent.parent.name == _CHATS


def project_of(path: Path) -> Path | None:
    """Return the project folder that a file is in; None if the file is elsewhere."""
    chats = path.parent.parent if _is_child(path) else path.parent
    return chats.parent if chats.name == _CHATS else None


def session_id_of(path: Path) -> str:
    """Return the id of the session in a file."""
    found = _SESSION_ID.search(read_head(path))
    return found[1].decode("utf-8", "replace") if found else path.stem


def parent_of(path: Path) -> str | None:
    """Return the session that a sub-agent belongs to; None if it is no sub-agent's file."""
    return path.parent.name if _is_child(path) else None


def child_id(session_id: str, agent_id: str) -> str:
    """Return the id of a sub-agent's session."""
    return f"{session_id}.{agent_id}"


# -- projects ---------------------------------------------------------------------------------


class _ProjectList(Struct, frozen=True):
    """The folder name of each project, by its path."""

    projects: dict[str, str] = {}


_read_project_list = LenientReader(_ProjectList)


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES)
    except OSError:
        return b""


def _listed_projects(project: Path) -> dict[str, str]:
    listed = _read_project_list(_read_file(project.parent.parent / _PROJECT_LIST))
    return listed.projects if listed is not None else {}


def _recorded_path(project: Path) -> str:
    return _read_file(project / _PROJECT_FILE).decode("utf-8", "replace").strip()


def project_path(project: Path) -> str | None:
    """Return the path of the project that a folder belongs to, if any file has it."""
    recorded = _recorded_path(project)
    if recorded:
        return recorded
    listed = _listed_projects(project)
    named = next((path for path, name in listed.items() if name == project.name), None)
    is_hash = _HASH.fullmatch(project.name) is not None
    return named or (path_with_hash(project.name, listed) if is_hash else None)


def known_paths(project: Path) -> Iterator[str]:
    """Yield the paths of all projects that Gemini CLI knows."""
    yield from _listed_projects(project)
    for other in list_folders(project.parent):
        if recorded := _recorded_path(other):
            yield recorded


def _hashed(path: str) -> str:
    return sha256(path.encode("utf-8", "replace")).hexdigest()


def path_with_hash(hashed: str, candidates: Iterable[str]) -> str | None:
    """Return the path that has this hash, if it is a candidate or a parent of one."""
    tried: set[str] = set()
    for candidate in islice(candidates, _MAX_CANDIDATES):
        if len(candidate) > _MAX_PATH_LENGTH:
            continue
        parents = map(str, islice(PurePosixPath(candidate).parents, _MAX_DEPTH))
        for path in [candidate, *parents]:
            if path not in tried and _hashed(path) == hashed:
                return path
            tried.add(path)
    return None


def mentioned_paths(path: Path) -> Iterator[str]:
    """Yield the paths that occur in the first bytes of a session's file."""
    for found in _PATH.finditer(read_head(path)):
        yield found[1].decode("utf-8", "replace").rstrip(" /,.")
