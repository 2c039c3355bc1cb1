"""Where Claude Code keeps its files: sessions by project, with sub-agents and outputs beside them.

The name of a project's folder is computed from its path, and several paths have the same name. So
the path of a project is read from the records, and the name is only used to find the folder.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from rekindle.importers.base import FoundSession
from rekindle.importers.scan import found_session, list_files, list_folders, read_head, scan_each
from rekindle.importers.validate import valid_id

_MAX_NAME_LENGTH = 200
_MAX_OUTPUT_BYTES = 16 * 1024 * 1024
_REPLACED = re.compile("[^A-Za-z0-9]")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWN_FIELDS = (b'"sessionId"', b'"parentUuid"', b'"leafUuid"', b'"isSidechain"')
# Codex wraps its records in a payload, and Gemini CLI's files begin with the project.
_FOREIGN_FIELDS = (b'"payload"', b'"projectHash"')
_MAX_DEPTH = 4


def folders(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return the folders that contain the projects."""
    configured = environ.get("CLAUDE_CONFIG_DIR")
    config = environ.get("XDG_CONFIG_HOME")
    default = [home / ".claude", (Path(config) if config else home / ".config") / "claude"]
    roots = [Path(configured).expanduser()] if configured else default
    return [root / "projects" for root in roots]


def folder_name(cwd: str) -> str:
    """Return the name of a project's folder."""
    # JavaScript replaces each UTF-16 code unit, not each character.
    units = cwd.encode("utf-16-le", "surrogatepass")
    name = _REPLACED.sub("-", "".join(map(chr, memoryview(units).cast("H"))))
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}-{_hash(units)}"


def _hash(units: bytes) -> str:
    """Return the hash that Claude Code appends to long names, in base 36."""
    value = 0
    for unit in memoryview(units).cast("H"):
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits or "0"


def find(path: Path, cwd: str | None) -> Iterator[FoundSession]:
    """Yield the sessions in a file or below a folder."""
    if path.is_file():
        if path.suffix == ".jsonl":
            yield from _in_file(path, is_trusted=False)
        return
    projects = path / "projects" if (path / "projects").is_dir() else path
    is_home = projects.name == "projects"
    if cwd is not None and is_home:
        yield from scan_each([projects / folder_name(cwd)], partial(_in_folder, is_trusted=True))
        return
    yield from _in_folder(projects, is_trusted=False)
    for folder in list_folders(projects):
        # Elsewhere, a folder may contain files of any other program.
        is_trusted = is_home or folder.name.startswith("-")
        yield from scan_each([folder], partial(_in_folder, is_trusted=is_trusted))


def _in_folder(folder: Path, *, is_trusted: bool) -> Iterator[FoundSession]:
    yield from scan_each(list_files(folder, ".jsonl"), partial(_in_file, is_trusted=is_trusted))


def _in_file(path: Path, *, is_trusted: bool) -> Iterator[FoundSession]:
    """Yield the session in a file, and its sub-agents. An untrusted file is inspected first."""
    if path.is_file() and (is_trusted or _is_claude_file(path)):
        yield found_session([path], is_child=is_agent_file(path))
        yield from scan_each([path.with_suffix("") / "subagents"], _in_agents_folder)


def _in_agents_folder(folder: Path, depth: int = 1) -> Iterator[FoundSession]:
    """Yield the sub-agents of a session. A group that works together has its own folder."""
    files = filter(is_agent_file, list_files(folder, ".jsonl"))
    yield from scan_each(files, partial(_in_file, is_trusted=True))
    if depth < _MAX_DEPTH:
        yield from scan_each(list_folders(folder), partial(_in_agents_folder, depth=depth + 1))


def _is_claude_file(path: Path) -> bool:
    """Return whether the first bytes of a file look like Claude Code's records."""
    head = read_head(path)
    first_line = head.partition(b"\n")[0]
    is_own = any(field in head for field in _OWN_FIELDS)
    return is_own and not any(field in first_line for field in _FOREIGN_FIELDS)


def is_agent_file(path: Path) -> bool:
    """Return whether a file belongs to a sub-agent, by its name."""
    return path.stem.startswith("agent-")


def session_id_of(path: Path, recorded: str | None) -> str:
    """Return the id of a session: the name of its file, unless the file has been renamed."""
    is_original = _UUID.fullmatch(path.stem.lower()) or recorded is None
    return path.stem if is_original else valid_id(recorded or "")


def parent_of_agent(path: Path, recorded: str | None) -> str | None:
    """Return the session that a sub-agent belongs to, by its folder or by its records."""
    owner = _session_folder(path)
    if owner is not None:
        return owner.name
    return valid_id(recorded) if recorded is not None else None


def child_id(session_id: str, agent_id: str) -> str:
    """Return the id of a sub-agent's session. The agents' own ids are not unique."""
    return f"{session_id}.agent-{valid_id(agent_id).removeprefix('agent-')}"


def agent_id_of(path: Path) -> str:
    """Return the id of a sub-agent, prefixed with its group if several work together."""
    owner = _session_folder(path)
    between = path.parent.relative_to(owner / "subagents").parts if owner is not None else ()
    return ".".join([*between[1:], path.stem.removeprefix("agent-")])


def _session_folder(path: Path) -> Path | None:
    """Return the session's folder that contains a sub-agent's file."""
    for folder in list(path.parents)[:_MAX_DEPTH]:
        if folder.name == "subagents":
            return folder.parent
    return None


def read_output(session: Path, given: str) -> str | None:
    """Return an output that is in a file of its own in the session's folder; None if it is gone.

    Only the last part of the given path is used, so a record cannot make this read another file.
    """
    owner = _session_folder(session) or session.with_suffix("")
    name = re.split(r"[/\\]", given)[-1]
    path = owner / "tool-results" / name
    try:
        if name in {"", ".", ".."} or path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(_MAX_OUTPUT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
