"""Seeing to the agent's end when Rekindle was killed, and has no last word. POSIX only.

A shell waits at a pipe that only Rekindle holds the other end of. A line means that all is well;
if the pipe ends without one, it does to the agent's group what Rekindle would have done: let it
end by itself, ask, force.
"""

import subprocess
from contextlib import suppress

# The pauses are a tenth of a second where `sleep` knows fractions, as most do.
_SCRIPT = """
trap '' HUP INT TERM
read -r group || exit
read -r word && exit
pause() { sleep 0.1 || sleep 1; }
wait_for_its_end() {
    while kill -s 0 -- "-$group" && test "$1" -gt 0; do pause; set -- $(($1 - 1)); done
}
wait_for_its_end "$1"
kill -s TERM -- "-$group" && wait_for_its_end "$2"
kill -s KILL -- "-$group"
"""
_PAUSES_A_SECOND = 10
_PATIENCE_FOR_TERMINATE = 2.0
_PATIENCE_FOR_DISMISSAL = 1.0


class Guard:
    """Guards the group of one agent. Made before the agent, so that it never is without."""

    def __init__(self, grace: float) -> None:
        pauses = [str(int(it * _PAUSES_A_SECOND)) for it in (grace, _PATIENCE_FOR_TERMINATE)]
        self._process: subprocess.Popen[bytes] | None = None
        # Where there is no shell, there is no guard, and all the rest works.
        with suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                ["/bin/sh", "-c", _SCRIPT, "rekindle-guard", *pauses],
                bufsize=0,
                stdin=subprocess.PIPE,
                # It must not keep open what others wait to see closed.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                process_group=0,
            )

    def watch(self, group: int) -> None:
        """Say whom to guard."""
        self._write(b"%d\n" % group)

    def dismiss(self) -> None:
        """Let it go: the agent has ended, or never began."""
        self._write(b"0\n0\n")
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_FOR_DISMISSAL)
            self._process = None

    def _write(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(line)
