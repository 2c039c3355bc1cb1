"""End the agent even if Rekindle is killed and cannot do it itself. POSIX only.

A shell reads from a pipe whose other end only Rekindle holds. A line dismisses the shell. If the
pipe ends without that line, Rekindle was killed: the shell then does to the agent's group what
Rekindle would have done. It waits for the grace time, terminates the group, and kills it.
"""

import subprocess
from contextlib import suppress
from threading import Lock

from rekindle.process.group import TERMINATE_TIMEOUT

# `sleep` accepts fractions of a second on most systems; elsewhere a pause is one second.
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
_PAUSES_PER_SECOND = 10
_DISMISS_TIMEOUT = 1.0


class OrphanGuard:
    """Guards the process group of one agent. Create it before the agent is started."""

    def __init__(self, grace: float) -> None:
        pauses = [str(int(it * _PAUSES_PER_SECOND)) for it in (grace, TERMINATE_TIMEOUT)]
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        # Without a shell there is no guard; everything else works.
        with suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603 - the script is ours
                ["/bin/sh", "-c", _SCRIPT, "rekindle-guard", *pauses],
                bufsize=0,
                stdin=subprocess.PIPE,
                # The guard must not hold open a pipe that others wait to see closed.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                process_group=0,
            )

    def watch(self, group: int) -> None:
        """Guard a process group."""
        _write(self._process, b"%d\n" % group)

    def dismiss(self) -> None:
        """Stop guarding: the agent has ended, or was never started.

        Any thread may call it, also while another one does.
        """
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            _write(process, b"0\n0\n")
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_DISMISS_TIMEOUT)


def _write(process: "subprocess.Popen[bytes] | None", line: bytes) -> None:
    if process is not None and process.stdin is not None:
        with suppress(OSError):
            process.stdin.write(line)
