import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stdio_client import TIMEOUT

# The kernel delivers SIGINT to the second thread, so it interrupts no system call of the main
# thread. The main thread sees the same as if the signal had arrived just before that call.
ASKING = """
import signal, threading
from rekindle.cli.confirm import confirm
threading.Thread(target=signal.pause, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
try:
    confirm("sure?")
except KeyboardInterrupt:
    raise SystemExit(130)
"""


def wait_until_asleep(pid: int) -> None:
    """Wait until the main thread of a process is in a system call that blocks."""
    deadline = time.monotonic() + TIMEOUT
    stat = Path(f"/proc/{pid}/stat")
    while stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline
        os.sched_yield()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whether the process waits")
def test_ctrl_c_just_before_read_is_not_lost() -> None:
    own, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ASKING], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        shown = b""
        while b"[y/N]" not in shown:
            assert select.select([own], [], [], TIMEOUT)[0]
            shown += os.read(own, 1024)
        wait_until_asleep(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    finally:
        process.kill()
        process.wait()
        os.close(own)
