"""The memory of a process, from /proc or from `ps`."""

import re
import subprocess
from pathlib import Path

_MB = 1_000_000


def held_mb(pid: int) -> dict[str, float]:
    """Return the `resident` memory in MB, and the `peak` where /proc has it."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        kib = subprocess.check_output(("ps", "-o", "rss=", "-p", str(pid)))  # noqa: S607
        return {"resident": int(kib) * 1024 / _MB}
    kibs = dict(re.findall(r"(\w+):\s+(\d+) kB", status.read_text(encoding="ascii")))
    return {
        "resident": int(kibs["VmRSS"]) * 1024 / _MB,
        "peak": int(kibs["VmHWM"]) * 1024 / _MB,
    }
