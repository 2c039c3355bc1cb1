"""Find helper processes that agents have left behind.

Some agents start a helper in a session of its own, such as a daemon, and leave it running when
they exit. Rekindle ends an agent by its process group, which such a helper is not part of. The
agent's environment has a mark, which its descendants inherit, so that a helper can be recognised
by it. Linux only: other systems do not show the environment of a process in a portable way.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rekindle.process.group import MARK

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


def _read_helper(folder: Path, proc: Path) -> AgentHelper | None:
    environ = (folder / "environ").read_bytes()
    mark = next((it for it in environ.split(b"\0") if it.startswith(f"{MARK}=".encode())), None)
    if mark is None:
        return None
    starter, _, session = mark.partition(b"=")[2].partition(b".")
    if int(session) == _session_of(folder) or (proc / str(int(starter))).exists():
        # It is a part of the agent, or its agent still runs.
        return None
    program = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return AgentHelper(int(folder.name), program)


def _session_of(folder: Path) -> int:
    # The name of the program is in parentheses, and may contain any characters.
    rest = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    return int(rest.split()[3])
