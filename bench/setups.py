"""The connections between the fake client and the fake agent: processes connected by pipes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO

from client import Client, WrongResult

_AGENT = (sys.executable, "-S", str(Path(__file__).with_name("agent.py")))
_PACED = (sys.executable, "-S", str(Path(__file__).with_name("paced_agent.py")))
_REKINDLE = str(Path(sys.executable).with_name("rekindle"))
_TIMEOUT = 120.0
_EXIT_TIMEOUT = 10.0

Process = subprocess.Popen[bytes]

SETUPS: dict[str, Callable[[Path], list[tuple[str, ...]]]] = {
    "direct": lambda _: [_AGENT],
    "cat": lambda _: [("cat",), _AGENT, ("cat",)],
    "rekindle": lambda store: [(_REKINDLE, "run", "--store", str(store), "--", *_AGENT)],
    "version 2": lambda store: [(_REKINDLE, "run", "--store", str(store), "--", *_AGENT, "2")],
    "paced": lambda store: [(_REKINDLE, "run", "--store", str(store), "--", *_PACED)],
}
"""The commands of each set-up, connected by pipes from left to right.

"version 2" is Rekindle with an agent of version 2. "paced" is Rekindle with an agent that streams
in many sessions at once.
"""


@dataclass(frozen=True)
class Connection:
    """A client, and the first process of its set-up."""

    client: Client
    pid: int
    to_agent: int


@contextmanager
def connected(setup: str, store: Path, timeout: float = _TIMEOUT) -> Iterator[Connection]:
    """Start a set-up. Raises WrongResult if it does not exit with 0 and an empty stderr."""
    with TemporaryFile() as stderr:
        processes = _start(SETUPS[setup](store), stderr.fileno())
        # A reader that waits for a process that hangs then gets the end of its output.
        watchdog = Timer(timeout, _kill, (processes,))
        watchdog.start()
        try:
            to_agent, from_agent = processes[0].stdin, processes[-1].stdout
            client = Client(to_agent.fileno(), from_agent.fileno())
            yield Connection(client, processes[0].pid, to_agent.fileno())
            to_agent.close()
            codes = [process.wait(_EXIT_TIMEOUT) for process in processes]
        except (WrongResult, OSError) as error:
            raise WrongResult(f"{setup}: {error} {_text_of(stderr)}") from error
        finally:
            watchdog.cancel()
            _kill(processes)
            to_agent.close()
            from_agent.close()
        if any(codes) or _text_of(stderr):
            raise WrongResult(f"{setup} ended with {codes} {_text_of(stderr)}")


def _start(commands: list[tuple[str, ...]], stderr: int) -> list[Process]:
    processes: list[Process] = []
    for command in commands:
        source = processes[-1].stdout if processes else subprocess.PIPE
        process = subprocess.Popen(
            command, bufsize=0, stdin=source, stdout=subprocess.PIPE, stderr=stderr
        )
        if processes:
            # As a second reader, this process would hide from the writer that the first has exited.
            source.close()
        processes.append(process)
    return processes


def _text_of(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    return stderr.read().decode(errors="replace")


def _kill(processes: list[Process]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
