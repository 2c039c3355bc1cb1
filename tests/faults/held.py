"""What a Rekindle has in hand: descriptors, threads, memory."""

from pathlib import Path
from typing import NamedTuple

from .processes import until
from .violation import Violation

_MOMENT = 5.0
_IN_USE = 8
"""So many descriptors and threads may come with sessions, and their store."""
_IN_USE_KIB = 48 * 1024


class Held(NamedTuple):
    """How much of each; memory in KiB."""

    descriptors: int
    threads: int
    memory: int

    @classmethod
    def by(cls, pid: int) -> "Held":
        process = Path(f"/proc/{pid}")
        descriptors = len(list((process / "fd").iterdir()))
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return cls(descriptors, int(status["Threads"]), int(status["VmRSS"].split()[0]))

    def is_within(self, most: "Held") -> bool:
        return all(one <= other for one, other in zip(self, most, strict=True))


def check_held(pid: int, before: Held) -> None:
    """Descriptors, threads and memory of a Rekindle that lives on are about what they were."""
    most = Held(before.descriptors + _IN_USE, before.threads + _IN_USE, before.memory + _IN_USE_KIB)
    try:
        if not until(lambda: Held.by(pid).is_within(most), _MOMENT):
            raise Violation("something is not given back", f"{before}, and now {Held.by(pid)}")
    except FileNotFoundError:
        # It has ended meanwhile.
        return
