"""The time and memory of commands, as whole processes."""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from time import perf_counter

from client import WrongResult
from process_info import held_mb

_REKINDLE = str(Path(sys.executable).with_name("rekindle"))
# An installed command is compiled only once.
_INSTALLED_ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
_POLL_INTERVAL = 0.01
_ROUNDS = 21
_PAGE = 50


@dataclass(frozen=True)
class CommandRun:
    """The cost of a command."""

    seconds: float
    peak_mb: float


def run(store: Path, name: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> CommandRun:
    """Run a command to its end. Raises WrongResult if its exit code is not in `codes`."""
    command = (_REKINDLE, name, "--store", str(store), *arguments)
    peak = 0.0
    with TemporaryFile() as output:
        begin = perf_counter()
        process = subprocess.Popen(
            command, env=_INSTALLED_ENVIRONMENT, stdout=output, stderr=output
        )
        while process.poll() is None:
            # The usage of an ended child would include the time before `exec`.
            with suppress(FileNotFoundError, KeyError, subprocess.CalledProcessError):
                peak = max(peak, *held_mb(process.pid).values())
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_INTERVAL)
        taken = perf_counter() - begin
        if process.returncode not in codes:
            output.seek(0)
            raise WrongResult(f"rekindle {name} ended with {process.returncode}: {output.read()!r}")
    return CommandRun(taken, peak)


def list_ms(store: Path, how: str, rounds: int = _ROUNDS) -> float:
    """Return the median time of `rekindle list` for a page, on a "terminal" or to a "pipe"."""
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
    with subprocess.Popen(command, stdout=writing, env=_INSTALLED_ENVIRONMENT) as process:
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
        # Linux raises this once the other end of the terminal is closed.
        return b""
