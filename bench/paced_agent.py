"""A fake agent that streams in many sessions at once, at a given pace, with every chunk flushed.

The prompt `pace 1000 100` gets 1,000 chunks, 100 per second. A chunk has its number and its time,
from a clock that all processes share.
"""

import json
import os
import sys
import threading
import time

import lines

_writing = threading.Lock()


def _write(line: bytes) -> None:
    with _writing:
        # A line that is shorter than PIPE_BUF is written atomically.
        os.write(1, line)


def _stream(request: dict) -> None:
    session_id = request["params"]["sessionId"]
    _, count, rate = request["params"]["prompt"][-1]["text"].split()
    begin = time.monotonic()
    for number in range(int(count)):
        wait = begin + number / int(rate) - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        _write(lines.paced(session_id, number, time.monotonic_ns()))
    _write(lines.encode(id=request["id"], result={"stopReason": "end_turn"}))


_sessions = 0
for _line in sys.stdin.buffer:
    _request = json.loads(_line)
    match _request["method"]:
        case "initialize":
            _result = {"protocolVersion": 1, "agentInfo": {"name": "paced", "version": "1"}}
        case "session/new":
            _sessions += 1
            _result = {"sessionId": f"paced-{os.getpid()}-{_sessions}"}
        case "session/prompt":
            threading.Thread(target=_stream, args=(_request,), daemon=True).start()
            continue
        case _method:
            raise ValueError(f"unexpected: {_method}")
    _write(lines.encode(id=_request["id"], result=_result))
