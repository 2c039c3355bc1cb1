"""What a command of ours costs as a person has it: the time of the whole process, and its memory."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from client import WrongResult

_REKINDLE = str(Path(sys.executable).with_name("rekindle"))
# An installed command is compiled once, and not at every start.
_AS_INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
_MB = 1_000_000
# Where it is told in bytes, and not in kibibytes.
_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    seconds: float
    peak_mb: float
    shown: int
    """How many bytes it has written."""


def run(store: Path, name: str, *arguments: str) -> Ran:
    """Run a command to its end, and read all that it says."""
    command = (_REKINDLE, name, "--store", str(store), *arguments)
    begin = perf_counter()
    # A pipe, because a program does other things where it is told to write into nothing.
    with subprocess.Popen(command, env=_AS_INSTALLED, stdout=subprocess.PIPE) as process:
        shown = sum(map(len, iter(lambda: process.stdout.read(65536), b"")))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise WrongResult(f"rekindle {name} ended with {process.returncode}")
    return Ran(perf_counter() - begin, usage.ru_maxrss * _UNIT / _MB, shown)
