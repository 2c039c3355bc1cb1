"""Find processes that agents have left behind.

Some agents start a helper in a session of its own, such as a daemon, and leave it running when
they exit. Rekindle ends an agent by its process group, which such a helper is not part of. The
agent's environment has a mark, which its descendants inherit, so that a helper can be recognised
by it. Linux only: other systems do not show the environment of a process in a portable way.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rekindle.process.group import MARK, send_signal

_PROC = Path("/proc")


class AgentHelper(NamedTuple):
    """A process that an agent has left behind."""

    pid: int
    program: str


def helpers_left_behind(proc: Path = _PROC) -> Iterator[AgentHelper]:
    """Yield the helpers of agents whose Rekindle has ended. `proc` is the mounted `/proc`."""
    for folder in sorted(proc.glob("[0-9]*"), key=lambda it: int(it.name)):
        # Processes may end meanwhile, and those of other users cannot be read.
        with suppress(OSError, ValueError):
            helper = _read_helper(folder, proc)
            if helper is not None:
                yield helper


def is_agent_group_gone(group: int, proc: Path = _PROC) -> bool:
    """Return whether no process of an agent's group is left. `proc` is the mounted `/proc`.

    The kernel may have given the id to another program since. Where the environments of processes
    can be read, only those with the mark count. Zombies have none.
    """
    if not send_signal(group, 0):
        return True
    if not (proc / "self" / "environ").exists():
        return False
    return not any(_is_member(folder, group) for folder in proc.glob("[0-9]*"))


def _is_member(folder: Path, group: int) -> bool:
    """Return whether a process belongs to the group of an agent."""
    # It may end meanwhile, and those of other users cannot be read.
    with suppress(OSError, ValueError):
        return _ids_of(folder)[0] == group and _mark_of(folder) is not None
    return False


def _mark_of(folder: Path) -> bytes | None:
    """Return the mark in the environment of a process."""
    environ = (folder / "environ").read_bytes()
    start = f"{MARK}=".encode()
    return next((it for it in environ.split(b"\0") if it.startswith(start)), None)


def _read_helper(folder: Path, proc: Path) -> AgentHelper | None:
    mark = _mark_of(folder)
    if mark is None:
        return None
    starter, _, session = mark.partition(b"=")[2].partition(b".")
    if int(session) == _ids_of(folder)[1] or (proc / str(int(starter))).exists():
        # It is a part of the agent, or its agent still runs.
        return None
    program = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return AgentHelper(int(folder.name), program)


def _ids_of(folder: Path) -> tuple[int, int]:
    """Return the ids of the group and of the session of a process."""
    # The name of the program is in parentheses, and may contain any characters.
    rest = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    _, _, group, session, *_ = rest.split()
    return int(group), int(session)
