"""Write the messages between a client and an agent to a file.

usage: message_tap.py FILE COMMAND ARGS...

Each line of the file is a JSON array: the side that sent the message, and the message.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

trace = os.open(Path(sys.argv[1]), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert agent.stdin
assert agent.stdout


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def forward_agent() -> None:
    assert agent.stdout
    for line in agent.stdout:
        write_all(trace, b'["agent",' + line.strip() + b"]\n")
        write_all(1, line)


forwarding = threading.Thread(target=forward_agent)
forwarding.start()
for received in sys.stdin.buffer:
    write_all(trace, b'["client",' + received.strip() + b"]\n")
    agent.stdin.write(received)
    agent.stdin.flush()
agent.stdin.close()
agent.wait()
forwarding.join()
