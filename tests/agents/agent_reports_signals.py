"""An agent that prints the signal it receives, and exits with its number."""

import os
import signal
import sys


def end(number: int, _: object) -> None:
    """Exit with the number of the signal."""
    os.write(1, b"got %d\n" % number)
    os._exit(number)


for expected in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(expected, end)
os.write(1, b"ready\n")
while True:
    sys.stdin.read(1)
    signal.pause()
