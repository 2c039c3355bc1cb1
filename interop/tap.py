"""Forward the stdin and stdout of a program, and write each line to a file with its direction.

`python tap.py FILE COMMAND…`: `>` marks lines to the program, `<` lines from it. It runs as a
script, so it must not import other modules of this package.
"""

import os
import signal
import subprocess
import sys
from threading import Lock, Thread
from typing import IO


class _Log:
    """The file, which both directions write to."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: PTH123, SIM115 - open until the exit
        self._lock = Lock()

    def write(self, mark: bytes, line: bytes) -> None:
        with self._lock:
            self._file.write(mark + line.rstrip(b"\n") + b"\n")


def _forward(source: IO[bytes], target: IO[bytes], log: _Log, mark: bytes) -> None:
    """Forward lines until the source ends or the target is closed."""
    try:
        for line in iter(source.readline, b""):
            log.write(mark, line)
            target.write(line)
            target.flush()
    except (BrokenPipeError, ValueError):
        return


def _feed(child: subprocess.Popen[bytes], log: _Log) -> None:
    """Forward stdin to the program, and close its stdin at the end."""
    if child.stdin is not None:
        _forward(sys.stdin.buffer, child.stdin, log, b"> ")
        child.stdin.close()


def main() -> None:
    """Run the program until it ends, and exit with its exit code."""
    path, *command = sys.argv[1:]
    log = _Log(path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        Thread(target=_feed, args=(child, log), daemon=True).start()
        if child.stdout is not None:
            _forward(child.stdout, sys.stdout.buffer, log, b"< ")
        code = child.wait()
        # The other thread may wait for stdin forever.
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
