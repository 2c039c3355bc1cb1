"""A fake agent that follows its prompt, and does as little work per line as possible.

`stream chunks 1000 0`, `stream results 50 0`: write that number of updates; with 1, flush each.
`ask permission 100 1`, `ask file 100 1`: on core 1, send that number of requests, one at a time,
and report the time of the answers. `rest now 5`: read and write nothing for 5 seconds.
The argument 2 selects version 2 of the protocol.
"""

import json
import os
import sys
import time
from functools import partial
from time import perf_counter_ns

import lines
from cores import staying_on

# Buffered output as in most runtimes: a write for every few kB, not for every line.
_out = open(1, "wb", buffering=8192, closefd=False)  # noqa: SIM115 - never closed
_in = sys.stdin.buffer


_IS_V2 = sys.argv[1:] == ["2"]
_INFO = {"name": "bench", "version": "1"}


def _initialize_result() -> dict:
    if _IS_V2:
        return {"protocolVersion": 2, "info": _INFO, "capabilities": {"session": {}}}
    return {"protocolVersion": 1, "agentInfo": _INFO}


def _answer(request: dict) -> dict:
    params = request["params"]
    match request["method"]:
        case "initialize":
            return _initialize_result()
        case "session/new":
            return {"sessionId": f"bench-{os.getpid():010}"}
        case "session/prompt":
            verb, what, *numbers = params["prompt"][0]["text"].split()
            act = {"stream": _stream, "ask": _ask, "rest": _rest}[verb]
            if _IS_V2:
                _send_state(request["id"], params["sessionId"], "running")
            meta = act(what, params["sessionId"], *map(int, numbers))
            return {"stopReason": "end_turn", "_meta": meta}
        case method:
            raise ValueError(f"unexpected: {method}")


def _send_state(request_id: object, session_id: str, state: str, **more: str) -> None:
    """Send the state of the session. When a turn begins, acknowledge its prompt first."""
    if state == "running":
        _out.write(lines.encode(id=request_id, result={"messageId": f"user-{request_id}"}))
    update = {"sessionUpdate": "state_update", "state": state, **more}
    params = {"sessionId": session_id, "update": update}
    _out.write(lines.encode(method="session/update", params=params))


def _stream(what: str, session_id: str, count: int, is_flushed: int) -> dict:
    period = lines.stream(what, session_id)
    write = partial(os.write, 1) if is_flushed else _out.write
    if what == "terminal":
        write(lines.terminal_call(session_id))
    for _ in range(count // len(period)):
        for line in period:
            write(line)
    return {}


def _rest(_: str, __: str, seconds: int) -> dict:
    time.sleep(seconds)
    return {}


def _ask(what: str, session_id: str, count: int, core: int) -> dict:
    taken_ns = []
    pairs = zip(lines.asks(what, session_id, count), lines.answers(what, count), strict=True)
    with staying_on(core):
        for ask, expected in pairs:
            begin = perf_counter_ns()
            _out.write(ask)
            _out.flush()
            answer = _in.readline()
            taken_ns.append(perf_counter_ns() - begin)
            if answer != expected:
                raise ValueError(f"unexpected: {answer!r}")
    taken_ns.sort()
    return {"p50Us": taken_ns[count // 2] / 1000, "p99Us": taken_ns[count * 99 // 100] / 1000}


for _line in _in:
    _request = json.loads(_line)
    _result = _answer(_request)
    if _IS_V2 and "stopReason" in _result:
        _send_state(_request["id"], _request["params"]["sessionId"], "idle", stopReason="end_turn")
    else:
        _out.write(lines.encode(id=_request["id"], result=_result))
    _out.flush()
