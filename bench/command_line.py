"""What a person waits for `rekindle list`, from the start of the process to its end."""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from client import WrongResult

_REKINDLE = str(Path(sys.executable).with_name("rekindle"))
# An installed command is compiled once, and not at every start.
_AS_INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
_ROUNDS = 21
_PAGE = 50


def list_ms(store: Path, how: str, rounds: int = _ROUNDS) -> float:
    """Return the median time of the first page, on a "terminal" or through a "pipe"."""
    times: list[float] = []
    for _ in range(rounds):
        begin = perf_counter()
        shown = _listed(store, on_terminal=how == "terminal")
        times.append((perf_counter() - begin) * 1000)
        if shown.count(b"ses_") != _PAGE:
            raise WrongResult(f"rekindle list showed {shown[:200]!r}")
    return median(times)


def _listed(store: Path, *, on_terminal: bool) -> bytes:
    reading, writing = os.openpty() if on_terminal else os.pipe()
    command = [_REKINDLE, "list", "--limit", str(_PAGE), "--store", str(store)]
    with subprocess.Popen(command, stdout=writing, env=_AS_INSTALLED) as process:
        os.close(writing)
        shown = b"".join(iter(lambda: _read(reading), b""))
    os.close(reading)
    if process.returncode:
        raise WrongResult(f"rekindle list ended with {process.returncode}")
    return shown


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:
        # So Linux says that nobody has the terminal any more.
        return b""
