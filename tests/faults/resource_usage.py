"""The resources of a Rekindle process: descriptors, threads, memory."""

from pathlib import Path
from typing import NamedTuple

from .processes import until
from .violation import Violation

_TIMEOUT = 5.0
_IN_USE = 8
"""The descriptors and threads that open sessions and their store may need."""
_IN_USE_BY_CONNECTION = 3
"""The descriptors and threads of a connection between two processes."""
_IN_USE_KIB = 48 * 1024


class ResourceUsage(NamedTuple):
    """Counts of descriptors and threads; memory in KiB."""

    descriptors: int
    threads: int
    memory: int

    @classmethod
    def by(cls, pid: int) -> "ResourceUsage":
        process = Path(f"/proc/{pid}")
        descriptors = len(list((process / "fd").iterdir()))
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return cls(descriptors, int(status["Threads"]), int(status["VmRSS"].split()[0]))

    def is_within(self, most: "ResourceUsage") -> bool:
        return all(one <= other for one, other in zip(self, most, strict=True))


def check_resource_usage(pid: int, before: ResourceUsage, connections: int = 0) -> None:
    """Descriptors, threads and memory of a running Rekindle process do not grow."""
    in_use = _IN_USE + connections * _IN_USE_BY_CONNECTION
    most = ResourceUsage(
        before.descriptors + in_use, before.threads + in_use, before.memory + _IN_USE_KIB
    )
    try:
        if not until(lambda: ResourceUsage.by(pid).is_within(most), _TIMEOUT):
            raise Violation(
                "something is not given back", f"{before}, and now {ResourceUsage.by(pid)}"
            )
    except FileNotFoundError:
        # The process has exited.
        return
