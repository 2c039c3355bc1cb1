"""Where Claude Code keeps things: sessions by project, sub-agents and long outputs beside them.

The name of a project's folder is made of its path, but not the other way round: many paths make
the same name. So a folder is found by its name, and what it belongs to is told by the records.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from rekindle.importers.base import Found
from rekindle.importers.scan import beginning, each, files_in, folders_in, found_in
from rekindle.importers.validate import sound_name

_LONGEST_NAME = 200
_LARGEST_OUTPUT = 16 * 1024 * 1024
_OTHER = re.compile("[^A-Za-z0-9]")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SIGNS = (b'"sessionId"', b'"parentUuid"', b'"leafUuid"', b'"isSidechain"')
# Codex wraps each of its records in a payload, and Gemini CLI begins with the project.
_OTHERS = (b'"payload"', b'"projectHash"')
_DEEPEST = 4


def folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return where its sessions are."""
    told = environ.get("CLAUDE_CONFIG_DIR")
    config = environ.get("XDG_CONFIG_HOME")
    usual = [home / ".claude", (Path(config) if config else home / ".config") / "claude"]
    return [it / "projects" for it in ([Path(told).expanduser()] if told else usual)]


def folder_name(cwd: str) -> str:
    """Return the name of a project's folder."""
    # One sign for each unit of UTF-16, as JavaScript counts.
    units = cwd.encode("utf-16-le", "surrogatepass")
    name = _OTHER.sub("-", "".join(map(chr, memoryview(units).cast("H"))))
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}-{_hash(units)}"


def _hash(units: bytes) -> str:
    value = 0
    for unit in memoryview(units).cast("H"):
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits or "0"


def find(path: Path, cwd: str | None) -> Iterator[Found]:
    """Yield the sessions of a file or below a folder."""
    if path.is_file():
        if path.suffix == ".jsonl":
            yield from _of_file(path, is_sure=False)
        return
    projects = path / "projects" if (path / "projects").is_dir() else path
    is_home = projects.name == "projects"
    if cwd is not None and is_home:
        yield from each([projects / folder_name(cwd)], partial(_of_folder, is_sure=True))
        return
    yield from _of_folder(projects, is_sure=False)
    for folder in folders_in(projects):
        # What lies elsewhere may be anything.
        is_sure = is_home or folder.name.startswith("-")
        yield from each([folder], partial(_of_folder, is_sure=is_sure))


def _of_folder(folder: Path, *, is_sure: bool) -> Iterator[Found]:
    yield from each(files_in(folder, ".jsonl"), partial(_of_file, is_sure=is_sure))


def _of_file(path: Path, *, is_sure: bool) -> Iterator[Found]:
    if path.is_file() and (is_sure or _is_its(path)):
        yield found_in([path], is_child=is_agents(path))
        yield from each([path.with_suffix("") / "subagents"], _of_agents)


def _of_agents(folder: Path, depth: int = 1) -> Iterator[Found]:
    """Yield the sub-agents of a session; those that work on one thing have a folder."""
    files = filter(is_agents, files_in(folder, ".jsonl"))
    yield from each(files, partial(_of_file, is_sure=True))
    if depth < _DEEPEST:
        yield from each(folders_in(folder), partial(_of_agents, depth=depth + 1))


def _is_its(path: Path) -> bool:
    """Tell whether a file is one of its own, by how it begins."""
    begin = beginning(path)
    first = begin.partition(b"\n")[0]
    return any(it in begin for it in _SIGNS) and not any(it in first for it in _OTHERS)


def is_agents(path: Path) -> bool:
    """Tell whether a file is that of a sub-agent, by its name."""
    return path.stem.startswith("agent-")


def session_id_of(path: Path, told: str | None) -> str:
    """Return the id of a session: the file's name, unless somebody has given it another."""
    is_its_own = _UUID.fullmatch(path.stem.lower()) or told is None
    return path.stem if is_its_own else sound_name(told or "")


def parent_of_agent(path: Path, told: str | None) -> str | None:
    """Return the session that a sub-agent belongs to: by its place, else by what it says."""
    owner = _owner(path)
    if owner is not None:
        return owner.name
    return sound_name(told) if told is not None else None


def child_id(session_id: str, agent_id: str) -> str:
    """Return the id of a sub-agent's session: agents' own ids are the same in several."""
    return f"{session_id}.agent-{sound_name(agent_id).removeprefix('agent-')}"


def agent_id_of(path: Path) -> str:
    """Return what a sub-agent is called; where several work on one thing, with its name."""
    owner = _owner(path)
    between = path.parent.relative_to(owner / "subagents").parts if owner is not None else ()
    return ".".join([*between[1:], path.stem.removeprefix("agent-")])


def _owner(path: Path) -> Path | None:
    """Return the folder beside the session that a sub-agent's file lies in."""
    for folder in list(path.parents)[:_DEEPEST]:
        if folder.name == "subagents":
            return folder.parent
    return None


def read_output(session: Path, named: str) -> str | None:
    """Read an output that is in a file of its own, if it lies in the session's own folder.

    Only the last part of its name counts: whatever a record says, no other file is read.
    """
    owner = _owner(session) or session.with_suffix("")
    name = re.split(r"[/\\]", named)[-1]
    path = owner / "tool-results" / name
    try:
        if name in {"", ".", ".."} or path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(_LARGEST_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return None
