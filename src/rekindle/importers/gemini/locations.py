"""Where Gemini CLI keeps things: a folder a project, named after it, or by a hash of its path.

Which project a folder belongs to is told by a file in it, or by a list beside all of them. Where
both are gone, a path that is known is the right one if its hash is the one that is on record. When
a project that has a folder by its hash gets one by its name, the tool copies all that is in there,
and never looks at the old one again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path, PurePosixPath

from msgspec import Struct

from rekindle.importers.base import Found
from rekindle.importers.lenient_reader import Reader
from rekindle.importers.scan import beginning, each, files_in, folders_in, found_in

_SESSION = re.compile(r"session-.+-([^-]+)\.jsonl?")
_CHATS = "chats"
_OWNER = ".project_root"
_PROJECTS = "projects.json"
_HASH = re.compile("[0-9a-f]{64}")
_LARGEST = 4 * 1024 * 1024
_SIGN = b'"projectHash"'
_ID = re.compile(rb'"sessionId"\s*:\s*"([^"\\]+)"')
_NAMED = re.compile(rb'["\s](/[^"\\\s][^"\\\r\n]{0,1000})')
_MOST_NAMED = 1000
_LONGEST_PATH = 4096
_DEEPEST = 64


def folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return where its sessions are."""
    return [Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp"]


def find(path: Path, cwd: str | None) -> Iterator[Found]:
    """Yield the sessions of a file or below a folder."""
    if path.is_file():
        is_in_place = path.parent.name == _CHATS and _SESSION.fullmatch(path.name)
        if is_in_place or _is_its(path):
            yield found_in([path], is_child=True) if _is_child(path) else found_in(siblings(path))
        return
    below = path / "tmp" if (path / "tmp").is_dir() else path
    is_one = below.name == _CHATS or (below / _CHATS).is_dir()
    projects = [] if is_one else folders_in(below)
    look = partial(_of_project, cwd=cwd, successors=_successors(projects))
    yield from each([below, *projects], look)


def _of_project(folder: Path, cwd: str | None, successors: dict[str, Path]) -> Iterator[Found]:
    chats = folder if folder.name == _CHATS else folder / _CHATS
    if not chats.is_dir():
        # What lies elsewhere may be anything.
        yield from _of_folder(folder, is_sure=False)
    elif cwd is None or owner_of(chats.parent) in {None, cwd}:
        yield from _of_folder(chats, successors.get(folder.name), is_sure=True)


def _successors(projects: list[Path]) -> dict[str, Path]:
    """Return where the chats of projects are now that have folders by their hashes, too."""
    if not any(_HASH.fullmatch(it.name) for it in projects):
        return {}
    named = [(it, owner_of(it)) for it in projects if not _HASH.fullmatch(it.name)]
    return {_hashed(owner): folder / _CHATS for folder, owner in named if owner is not None}


def _of_folder(folder: Path, successor: Path | None = None, *, is_sure: bool) -> Iterator[Found]:
    def is_left(path: Path) -> bool:
        copy = successor / path.relative_to(folder) if successor is not None else None
        return path.is_file() and (copy is None or not copy.is_file())

    def of_children(below: Path) -> Iterator[Found]:
        files = [it for it in files_in(below, ".jsonl") if is_left(it)]
        yield from each(files, lambda it: iter([found_in([it], is_child=True)]))

    paths = [it for it in files_in(folder, "") if _SESSION.fullmatch(it.name)]
    files = [it for it in paths if is_left(it) and (is_sure or _is_its(it))]
    groups = [
        list(it) for _, it in groupby(sorted(files, key=_by_id), key=lambda it: _by_id(it)[0])
    ]
    by_first = {it[0]: it for it in groups}
    yield from each(by_first, lambda first: iter([found_in(by_first[first])]))
    if is_sure:
        yield from each(folders_in(folder), of_children)


def _by_id(path: Path) -> tuple[str, str]:
    """Order files by how their sessions' ids begin, and then by time."""
    found = _SESSION.fullmatch(path.name)
    return found[1] if found else "", path.name


def siblings(path: Path) -> list[Path]:
    """Return the files that may be of the same session, the oldest first."""
    found = _SESSION.fullmatch(path.name)
    if found is None or _is_child(path):
        return [path]
    others = (it for it in path.parent.iterdir() if _by_id(it)[0] == found[1])
    return sorted(it for it in others if it.is_file())


def _is_its(path: Path) -> bool:
    """Tell whether a file is one of its own, by how it begins."""
    if path.suffix not in {".json", ".jsonl"}:
        return False
    begin = beginning(path)
    return _SIGN in begin and _ID.search(begin) is not None


def _is_child(path: Path) -> bool:
    """Tell whether a file is that of a sub-agent, by its place."""
    return path.parent.parent.name == _CHATS


def project_of(path: Path) -> Path | None:
    """Return the folder of the project that a file is in, if it lies as the tool has it."""
    chats = path.parent.parent if _is_child(path) else path.parent
    return chats.parent if chats.name == _CHATS else None


def session_id_of(path: Path) -> str:
    """Return the id of the session that a file is of."""
    found = _ID.search(beginning(path))
    return found[1].decode("utf-8", "replace") if found else path.stem


def parent_of(path: Path) -> str | None:
    """Return the session that a sub-agent belongs to; None if it is no sub-agent's file."""
    return path.parent.name if _is_child(path) else None


def child_id(session_id: str, agent_id: str) -> str:
    """Return the id of a sub-agent's session."""
    return f"{session_id}.{agent_id}"


# -- projects -------------------------------------------------------------------------------


class _Registry(Struct):
    """Which folder each project has."""

    projects: dict[str, str] = {}


_read_registry = Reader(_Registry)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""


def _registered(project: Path) -> dict[str, str]:
    found = _read_registry(_read(project.parent.parent / _PROJECTS))
    return found.projects if found is not None else {}


def owner_of(project: Path) -> str | None:
    """Return the path of the project that a folder is of, if that is said anywhere."""
    told = _read(project / _OWNER).decode("utf-8", "replace").strip()
    if told:
        return told
    known = _registered(project)
    named = next((path for path, name in known.items() if name == project.name), None)
    is_hash = _HASH.fullmatch(project.name) is not None
    return named or (inverted(project.name, known) if is_hash else None)


def known_folders(project: Path) -> Iterator[str]:
    """Yield the paths of all projects that the tool knows of."""
    yield from _registered(project)
    for other in folders_in(project.parent):
        if told := _read(other / _OWNER).decode("utf-8", "replace").strip():
            yield told


def _hashed(path: str) -> str:
    return sha256(path.encode("utf-8", "replace")).hexdigest()


def inverted(hashed: str, candidates: Iterable[str]) -> str | None:
    """Return the path that a hash was made of, if it is one of these, or above one of them."""
    tried: set[str] = set()
    for candidate in islice(candidates, _MOST_NAMED):
        if len(candidate) > _LONGEST_PATH:
            continue
        above = [candidate, *map(str, islice(PurePosixPath(candidate).parents, _DEEPEST))]
        for path in above:
            if path not in tried and _hashed(path) == hashed:
                return path
            tried.add(path)
    return None


def named_in(path: Path) -> Iterator[str]:
    """Yield paths that are named where a session's file begins."""
    for found in _NAMED.finditer(beginning(path)):
        yield found[1].decode("utf-8", "replace").rstrip(" /,.")
