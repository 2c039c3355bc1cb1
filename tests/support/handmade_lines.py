"""Handmade lines, exchanges and turns, as input for the rules."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from rekindle.conformance import digest
from rekindle.conformance.digest import DigestItem
from rekindle.conformance.report import Fault
from rekindle.conformance.rules.replays import OpeningTrace
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.trace import Exchange, TraceLine, received, sent
from rekindle.jsonvalue import Json

S = "ses_1"


def ask(request_id: object, method: str, **params: object) -> TraceLine:
    return sent({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def came(at: float = 0.0, /, **message: object) -> TraceLine:
    return received(json.dumps({"jsonrpc": "2.0", **message}).encode(), at)


def ok(request_id: object, **result: object) -> TraceLine:
    return came(id=request_id, result=result)


def no(request_id: object, code: int = -32603) -> TraceLine:
    return came(id=request_id, error={"code": code, "message": "no"})


def update(kind: str, session_id: str = S, **fields: object) -> TraceLine:
    content = {"sessionUpdate": kind, **fields}
    return came(method="session/update", params={"sessionId": session_id, "update": content})


def chunk(role: str, text: str, session_id: str = S, **fields: object) -> TraceLine:
    content = {"type": "text", "text": text}
    return update(f"{role}_message_chunk", session_id, content=content, **fields)


def state(name: object, **fields: object) -> TraceLine:
    return update("state_update", state=name, **fields)


def question(**params: object) -> TraceLine:
    option = {"optionId": "o", "name": "Yes", "kind": "allow_once"}
    usual: Json = {"sessionId": S, "toolCall": {"toolCallId": "t"}, "options": [option]}
    return came(id="q", method="session/request_permission", params={**usual, **params})


def answered(request: TraceLine, line: TraceLine | None) -> Exchange:
    return Exchange(request, line)


def new(**result: object) -> Exchange:
    return answered(ask(1, "session/new"), ok(1, **result))


def greeted(**result: object) -> Exchange:
    return answered(ask(1, "initialize"), ok(1, **result))


def listed(*entries: Json, **more: object) -> Exchange:
    return answered(ask(1, "session/list"), ok(1, sessions=list(entries), **more))


def opened(*before: TraceLine, after: Iterable[TraceLine] = ()) -> OpeningTrace:
    answer = answered(ask(1, "session/load", sessionId=S), ok(1))
    return OpeningTrace(S, answer, before, tuple(after))


def turn_of(
    *lines: TraceLine, answer: TraceLine | None = None, end: TraceLine | None = None
) -> TurnTrace:
    request = ask(1, "session/prompt", sessionId=S)
    answer = answer or ok(1, stopReason="end_turn")
    return TurnTrace(S, answered(request, answer), (request, *lines, answer), end or answer)


EXPECTED = [DigestItem(digest.USER, "Hello"), DigestItem(digest.AGENT, "Good day")]
REPLAY = (chunk("user", "Hello"), chunk("agent", "Good "), chunk("agent", "day"))
PLAN: Json = {"content": "Think", "priority": "high", "status": "pending"}
INFO: Json = {"name": "a", "version": "1"}
CALL: Json = {"toolCallId": "t", "title": "Read"}
ENTRY: Json = {"sessionId": S, "cwd": "/p", "updatedAt": "2026-01-02T03:04:05Z"}
OPTION: Json = {"id": "m", "name": "Mode", "type": "select", "currentValue": "a", "options": []}

Rule = Callable[[Any], Iterable[Fault]]


def v1(rule: Callable[[Any, int], Iterable[Fault]]) -> Rule:
    return lambda value: rule(value, 1)


def v2(rule: Callable[[Any, int], Iterable[Fault]]) -> Rule:
    return lambda value: rule(value, 2)


def expecting(rule: Callable[[OpeningTrace, list[DigestItem]], Iterable[Fault]]) -> Rule:
    return lambda opening: rule(opening, EXPECTED)


Case = tuple[str, Rule, object, object]
"""A name, the rule, input without a fault, and input with one."""


def assert_rule(rule: Rule, good: object, bad: object) -> None:
    """Check that a rule accepts the good input and finds a fault in the bad one."""
    assert [fault.message for fault in rule(good)] == []
    faults = list(rule(bad))
    assert faults
    assert all(fault.message and fault.lines for fault in faults)
