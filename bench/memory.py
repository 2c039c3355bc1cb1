"""How much memory a process holds. From /proc, or from `ps` where there is none."""

import re
import subprocess
from pathlib import Path

_MB = 1_000_000


def resident_mb(pid: int) -> float:
    """Return what the process has in memory now."""
    kib = _status(pid, "VmRSS")
    if kib is None:
        kib = int(subprocess.check_output(("ps", "-o", "rss=", "-p", str(pid))))  # noqa: S607
    return kib * 1024 / _MB


def peak_mb(pid: int) -> float | None:
    """Return the most that it ever had, where the system tells."""
    kib = _status(pid, "VmHWM")
    return None if kib is None else kib * 1024 / _MB


def _status(pid: int, name: str) -> int | None:
    path = Path(f"/proc/{pid}/status")
    if not path.exists():
        return None
    found = re.search(rf"^{name}:\s+(\d+) kB", path.read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) if found else None
