"""Run a program on a terminal, type into it, and record its output with the times."""

import fcntl
import json
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tools.terminal_svg import Recording

_TIMEOUT = 180.0
_READING_TIME = 0.6
"""The time before a step, in seconds, as a person would need it."""
_VERSION = 2
_DIGITS = 2
"""Digits of a time in a recording. More would change with every run, and show nothing."""


class RecordingFailed(Exception):
    """The program failed, or did not show what was waited for."""


Step = tuple[str, str]
"""A text to wait for in new output, and keys to type then."""


def record(  # noqa: PLR0913 - a terminal has a size and a folder
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    steps: Sequence[Step] = (),
    columns: int = 80,
    rows: int = 24,
    key_delay: float = 0.04,
) -> Recording:
    """Run a command on a terminal until it exits; return its output. Raises RecordingFailed."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(cwd)
            os.execvpe(command[0], list(command), dict(environ))  # noqa: S606 - the scenes are ours
        finally:
            os._exit(127)
    try:
        events = _play(terminal, list(steps), key_delay)
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        shown = "".join(text for _, text in events)
        raise RecordingFailed(f"{command[0]} failed: {shown[-2000:]}")
    return Recording(columns, rows, tuple(events))


def _play(terminal: int, steps: list[Step], key_delay: float) -> list[tuple[float, str]]:
    """Read until the program exits, and type the keys of each step when its text is shown."""
    events: list[tuple[float, str]] = []
    due: list[tuple[float, str]] = []
    begin = time.monotonic()
    rest, new = b"", ""
    while (now := time.monotonic() - begin) < _TIMEOUT:
        if not due and steps and steps[0][0] in new:
            keys = enumerate(_keys(steps.pop(0)[1]))
            due = [(now + _READING_TIME + place * key_delay, key) for place, key in keys]
            new = ""
        if due and due[0][0] <= now:
            os.write(terminal, due.pop(0)[1].encode())
        ready, _, _ = select.select([terminal], [], [], key_delay if due else 1.0)
        if not ready:
            continue
        data = b""
        # Linux raises an error once the other end is closed.
        with suppress(OSError):
            data = os.read(terminal, 65536)
        if not data:
            break
        text, rest = _decode(rest + data)
        new += text
        events.append((time.monotonic() - begin, text))
    else:
        raise RecordingFailed(f"it does not end: {new!r}")
    if steps:
        raise RecordingFailed(f"it ended before {steps[0][0]!r} was shown: {new!r}")
    return events


def _keys(text: str) -> list[str]:
    """Return single keys; an escape sequence is one key."""
    head, escape, tail = text.partition("\x1b")
    return [*head, *([escape + tail] if escape else [])]


def _decode(data: bytes) -> tuple[str, bytes]:
    """Return the text in `data`, and the first bytes of a character that is not whole."""
    for cut in range(min(4, len(data) + 1)):
        head = data[: len(data) - cut]
        with suppress(UnicodeDecodeError):
            return head.decode(), data[len(data) - cut :]
    return data.decode(errors="replace"), b""


def write_recording(recording: Recording, path: Path) -> None:
    """Write a recording in the format asciicast 2, which terminal players read."""
    header = {"version": _VERSION, "width": recording.columns, "height": recording.rows}
    lines = [json.dumps(header)]
    lines += [json.dumps([round(at, _DIGITS), "o", text]) for at, text in recording.events]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_recording(path: Path) -> Recording:
    """Read a recording that `write_recording` has written."""
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    size = json.loads(header)
    events = tuple((at, text) for at, _, text in map(json.loads, lines))
    return Recording(size["width"], size["height"], events)
