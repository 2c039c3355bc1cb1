"""An agent, and a child of it, that end neither at the end of input nor when asked to."""

import os
import signal
import sys
import time

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = os.fork()
if child:
    sys.stdout.write(f"{os.getpid()} {child}\n")
    sys.stdout.flush()
while True:
    time.sleep(60)
