"""What a command costs as a person has it: the time of the whole process, and its memory."""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter

from client import WrongResult
from memory import held_mb

_REKINDLE = str(Path(sys.executable).with_name("rekindle"))
# An installed command is compiled once, and not at every start.
_AS_INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
_LOOK_AGAIN = 0.01


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    seconds: float
    peak_mb: float


def run(store: Path, name: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> Ran:
    """Run a command to its end; what it says goes into a file."""
    command = (_REKINDLE, name, "--store", str(store), *arguments)
    peak = 0.0
    with TemporaryFile() as said:
        begin = perf_counter()
        process = subprocess.Popen(command, env=_AS_INSTALLED, stdout=said, stderr=said)
        while process.poll() is None:
            # What the system tells of a child that has ended is also what it was before `exec`.
            with suppress(FileNotFoundError, KeyError, subprocess.CalledProcessError):
                peak = max(peak, *held_mb(process.pid).values())
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_AGAIN)
        taken = perf_counter() - begin
        if process.returncode not in codes:
            said.seek(0)
            raise WrongResult(f"rekindle {name} ended with {process.returncode}: {said.read()!r}")
    return Ran(taken, peak)
