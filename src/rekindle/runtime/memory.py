"""The memory that this process uses."""

import resource
import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the resident memory; the largest so far where the system does not show the present."""
    with suppress(OSError, ValueError, IndexError):
        return int(_STATUS.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
