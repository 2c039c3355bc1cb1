"""The three ways from the fake client to the fake agent, as processes joined by pipes."""

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
_PATIENCE = 120.0
_PATIENCE_FOR_END = 10.0

Process = subprocess.Popen[bytes]

SETUPS: dict[str, Callable[[Path], list[tuple[str, ...]]]] = {
    "direct": lambda _: [_AGENT],
    "cat": lambda _: [("cat",), _AGENT, ("cat",)],
    "rekindle": lambda store: [(_REKINDLE, "run", "--store", str(store), "--", *_AGENT)],
    "version 2": lambda store: [(_REKINDLE, "run", "--store", str(store), "--", *_AGENT, "2")],
    "paced": lambda store: [(_REKINDLE, "run", "--store", str(store), "--", *_PACED)],
}
"""The commands of each, to be joined by pipes from left to right; rekindle's needs a store.

That of version 2 is rekindle before an agent of version 2, and paced before one that streams in
many sessions at once.
"""


@dataclass(frozen=True)
class Connection:
    """A client, and the first process behind it."""

    client: Client
    pid: int
    to_agent: int


@contextmanager
def connected(setup: str, store: Path, patience: float = _PATIENCE) -> Iterator[Connection]:
    """Start what stands behind the client, and see that it ends well and without complaint."""
    with TemporaryFile() as stderr:
        processes = _start(SETUPS[setup](store), stderr.fileno())
        # Whoever waits for a process that hangs gets the end of its output, and says so.
        watchdog = Timer(patience, _kill, (processes,))
        watchdog.start()
        try:
            to_agent, from_agent = processes[0].stdin, processes[-1].stdout
            client = Client(to_agent.fileno(), from_agent.fileno())
            yield Connection(client, processes[0].pid, to_agent.fileno())
            to_agent.close()
            codes = [process.wait(_PATIENCE_FOR_END) for process in processes]
        except (WrongResult, OSError) as error:
            raise WrongResult(f"{setup}: {error} {_said(stderr)}") from error
        finally:
            watchdog.cancel()
            _kill(processes)
            to_agent.close()
            from_agent.close()
        if any(codes) or _said(stderr):
            raise WrongResult(f"{setup} ended with {codes} {_said(stderr)}")


def _start(commands: list[tuple[str, ...]], stderr: int) -> list[Process]:
    processes: list[Process] = []
    for command in commands:
        source = processes[-1].stdout if processes else subprocess.PIPE
        process = subprocess.Popen(
            command, bufsize=0, stdin=source, stdout=subprocess.PIPE, stderr=stderr
        )
        if processes:
            # Ours was a second reader, so its writer would never learn that the first had gone.
            source.close()
        processes.append(process)
    return processes


def _said(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    return stderr.read().decode(errors="replace")


def _kill(processes: list[Process]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
