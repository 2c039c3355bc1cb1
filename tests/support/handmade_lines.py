"""Build lines, answers and turns by hand, for tests of the conformance rules."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from rekindle.conformance import digest
from rekindle.conformance.digest import Item
from rekindle.conformance.report import Fault
from rekindle.conformance.rules.replays import Opening
from rekindle.conformance.rules.turns import Turn
from rekindle.conformance.trace import Answer, Json, Line, received, sent

S = "ses_1"


def ask(request_id: object, method: str, **params: object) -> Line:
    return sent({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def came(at: float = 0.0, /, **message: object) -> Line:
    return received(json.dumps({"jsonrpc": "2.0", **message}).encode(), at)


def ok(request_id: object, **result: object) -> Line:
    return came(id=request_id, result=result)


def no(request_id: object, code: int = -32603) -> Line:
    return came(id=request_id, error={"code": code, "message": "no"})


def update(kind: str, session_id: str = S, **fields: object) -> Line:
    body = {"sessionUpdate": kind, **fields}
    return came(method="session/update", params={"sessionId": session_id, "update": body})


def chunk(role: str, text: str, session_id: str = S, **fields: object) -> Line:
    content = {"type": "text", "text": text}
    return update(f"{role}_message_chunk", session_id, content=content, **fields)


def state(name: object, **fields: object) -> Line:
    return update("state_update", state=name, **fields)


def question(**params: object) -> Line:
    option = {"optionId": "o", "name": "Yes", "kind": "allow_once"}
    usual: Json = {"sessionId": S, "toolCall": {"toolCallId": "t"}, "options": [option]}
    return came(id="q", method="session/request_permission", params={**usual, **params})


def answered(request: Line, line: Line | None) -> Answer:
    return Answer(request, line)


def new(**result: object) -> Answer:
    return answered(ask(1, "session/new"), ok(1, **result))


def greeted(**result: object) -> Answer:
    return answered(ask(1, "initialize"), ok(1, **result))


def listed(*entries: Json, **more: object) -> Answer:
    return answered(ask(1, "session/list"), ok(1, sessions=list(entries), **more))


def opened(*before: Line, after: Iterable[Line] = ()) -> Opening:
    answer = answered(ask(1, "session/load", sessionId=S), ok(1))
    return Opening(S, answer, before, tuple(after))


def had(*lines: Line, answer: Line | None = None, end: Line | None = None) -> Turn:
    request = ask(1, "session/prompt", sessionId=S)
    answer = answer or ok(1, stopReason="end_turn")
    return Turn(S, answered(request, answer), (request, *lines, answer), end or answer)


HEARD = [Item(digest.USER, "Hello"), Item(digest.AGENT, "Good day")]
TOLD = (chunk("user", "Hello"), chunk("agent", "Good "), chunk("agent", "day"))
PLAN: Json = {"content": "Think", "priority": "high", "status": "pending"}
INFO: Json = {"name": "a", "version": "1"}
CALL: Json = {"toolCallId": "t", "title": "Read"}
ENTRY: Json = {"sessionId": S, "cwd": "/p", "updatedAt": "2026-01-02T03:04:05Z"}
OPTION: Json = {"id": "m", "name": "Mode", "type": "select", "currentValue": "a", "options": []}

Judge = Callable[[Any], Iterable[Fault]]


def v1(judge: Callable[[Any, int], Iterable[Fault]]) -> Judge:
    return lambda value: judge(value, 1)


def v2(judge: Callable[[Any, int], Iterable[Fault]]) -> Judge:
    return lambda value: judge(value, 2)


def heard(judge: Callable[[Opening, list[Item]], Iterable[Fault]]) -> Judge:
    return lambda opening: judge(opening, HEARD)


Case = tuple[str, Judge, object, object]
"""A requirement, its rule, an example that passes, and an example that fails."""


def see(judge: Judge, good: object, bad: object) -> None:
    """Check that a rule accepts the good example and reports the bad one."""
    assert [fault.words for fault in judge(good)] == []
    faults = list(judge(bad))
    assert faults
    assert all(fault.words and fault.lines for fault in faults)
