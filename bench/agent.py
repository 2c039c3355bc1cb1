"""A fake agent that does as the prompt says, and spends as little as it can on each line.

`stream chunks 1000 0`, `stream results 50 0`: write so many updates; with 1, flush each.
`ask permission 100 1`, `ask file 100 1`: from core 1, ask the client so often, one at a time,
and tell how long the answers took.
"""

import json
import os
import sys
from functools import partial
from time import perf_counter_ns

import lines
from cores import staying_on

# What a runtime's buffered output does: a write for every few kB, not for every line.
_out = open(1, "wb", buffering=8192, closefd=False)  # noqa: SIM115 - it is never closed
_in = sys.stdin.buffer


def _answer(request: dict) -> dict:
    params = request["params"]
    match request["method"]:
        case "initialize":
            return {"protocolVersion": 1, "agentInfo": {"name": "bench", "version": "1"}}
        case "session/new":
            return {"sessionId": f"bench-{os.getpid():010}"}
        case "session/prompt":
            verb, what, *numbers = params["prompt"][0]["text"].split()
            act = {"stream": _stream, "ask": _ask}[verb]
            meta = act(what, params["sessionId"], *map(int, numbers))
            return {"stopReason": "end_turn", "_meta": meta}
        case method:
            raise ValueError(f"unexpected: {method}")


def _stream(what: str, session_id: str, count: int, is_flushed: int) -> dict:
    period = lines.stream(what, session_id)
    write = partial(os.write, 1) if is_flushed else _out.write
    for _ in range(count // len(period)):
        for line in period:
            write(line)
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
    _out.write(lines.encode(id=_request["id"], result=_answer(_request)))
    _out.flush()
