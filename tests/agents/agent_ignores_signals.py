"""An agent and its child, which ignore signals and the end of input."""

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
