"""Ask the person at the terminal."""

import os
import select
import signal
import sys
from typing import TextIO


def confirm(question: str) -> bool:
    """Ask a question on stderr; return whether the answer is yes. The end of input is no."""
    answer = ask(f"{question} [y/N] ", sys.stderr)
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in {"y", "yes"}


def ask(question: str, stream: TextIO) -> str:
    """Write a question to `stream`; return the line typed, empty at the end of input.

    stdin must be a terminal. Ctrl-C raises KeyboardInterrupt, even if it is pressed the moment
    the question appears.
    """
    print(question, end="", file=stream, flush=True)
    _wait_for_line()
    return sys.stdin.readline()


def _wait_for_line() -> None:
    """Wait until stdin can be read.

    Python runs a signal handler between two bytecodes. A signal that arrives after the last
    bytecode and before read() blocks is therefore handled only when read() returns. The
    interpreter also writes every signal to the wakeup descriptor, which ends this wait.
    """
    arrived, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    former = signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    try:
        while True:
            ready, _, _ = select.select([sys.stdin, arrived], [], [])
            if sys.stdin in ready:
                return
            os.read(arrived, 1)
    finally:
        signal.set_wakeup_fd(former)
        os.close(arrived)
        os.close(wakeup)
