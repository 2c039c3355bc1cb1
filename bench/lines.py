"""The lines that the fake agent writes and the fake client expects.

They are created before the clock starts, so that neither peer spends time on them.
"""

import base64
import json
from functools import cache
from typing import Any

PERIOD = {"chunks": 1000, "results": 50, "named": 1000, "terminal": 1000}
"""The number of lines after which a stream repeats. Counts of lines are multiples of it."""

TEXT_SIZE = {"chunks": 60, "results": 20_000, "named": 60, "terminal": 60}
"""The bytes of text in a line."""

_WORDS = "the quick brown fox jumps over the lazy dog and on it goes, "


def encode(**members: object) -> bytes:
    """Return a message as one line."""
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode() + b"\n"


@cache
def stream(what: str, session_id: str) -> list[bytes]:
    """Return one period of updates, all different and of the same length."""
    update = {"chunks": _chunk, "results": _result, "named": _named, "terminal": _output}[what]
    return [
        encode(method="session/update", params={"sessionId": session_id, "update": update(number)})
        for number in range(PERIOD[what])
    ]


def paced(session_id: str, number: int, at_ns: int) -> bytes:
    """Return a chunk with its number and its time."""
    content = {"type": "text", "text": f"{number:08} {at_ns:020} {_WORDS}"}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    return encode(method="session/update", params={"sessionId": session_id, "update": update})


def paced_ns(text: str) -> int:
    """Return the time in the text of a paced chunk."""
    return int(text[9:29])


def terminal_call(session_id: str) -> bytes:
    """Return the tool call that shows the terminal."""
    part = {"type": "terminal", "terminalId": "t"}
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run"}
    params = {"sessionId": session_id, "update": {**update, "content": [part]}}
    return encode(method="session/update", params=params)


def asks(what: str, session_id: str, count: int) -> list[bytes]:
    """Return requests of the agent, numbered from 0 on."""
    method, params = {
        "permission": ("session/request_permission", _PERMISSION),
        "file": ("fs/read_text_file", {"path": "/home/user/project/README.md"}),
    }[what]
    params = {"sessionId": session_id, **params}
    return [encode(id=number, method=method, params=params) for number in range(count)]


def answers(what: str, count: int) -> list[bytes]:
    """Return the client's answers to `asks`."""
    result = {
        "permission": {"outcome": {"outcome": "selected", "optionId": "once"}},
        "file": {"content": _text(0, 60)},
    }[what]
    return [encode(id=number, result=result) for number in range(count)]


def _chunk(number: int) -> dict[str, Any]:
    content = {"type": "text", "text": _text(number, TEXT_SIZE["chunks"])}
    return {"sessionUpdate": "agent_message_chunk", "content": content}


def _named(number: int) -> dict[str, Any]:
    """Return a chunk in the form of version 2."""
    chunk = _chunk(number)
    return {"sessionUpdate": chunk["sessionUpdate"], "messageId": "m", "content": chunk["content"]}


def _output(number: int) -> dict[str, Any]:
    """Return an update with terminal output."""
    text = _text(number, TEXT_SIZE["terminal"]).encode()
    data = base64.b64encode(text).decode()
    return {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data}


def _result(number: int) -> dict[str, Any]:
    content = {"type": "text", "text": _text(number, TEXT_SIZE["results"])}
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": f"call_{number:08}",
        "status": "completed",
        "content": [{"type": "content", "content": content}],
    }


def _text(number: int, size: int) -> str:
    repeated = _WORDS * (size // len(_WORDS) + 1)
    return f"{number:08} {repeated}"[:size]


_PERMISSION: dict[str, Any] = {
    "toolCall": {"toolCallId": "call_1", "title": "Run the tests", "kind": "execute"},
    "options": [
        {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "never", "name": "Reject", "kind": "reject_once"},
    ],
}
