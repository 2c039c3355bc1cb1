"""An agent that tells which signal it gets, and ends with that number."""

import os
import signal
import sys


def end(number: int, _: object) -> None:
    """End with the signal's number."""
    os.write(1, b"got %d\n" % number)
    os._exit(number)


for expected in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(expected, end)
os.write(1, b"ready\n")
while True:
    sys.stdin.read(1)
    signal.pause()
