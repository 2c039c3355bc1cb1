"""What the two peers of a session can say: right, nearly right, and hostile."""

from random import Random
from typing import Any

from fuzz.hostile import PATHS, TEXTS, mangled, spoiled, value, written
from fuzz.seeds import lines
from rekindle.jsonvalue import decode
from rekindle.model import Side

Json = dict[str, Any]

SESSIONS = ["s1", "s2", "s3"]
_TEXT = {"type": "text", "text": "Hello"}
_BLOCKS = [
    _TEXT,
    {"type": "text", "text": "", "annotations": {}},
    {"type": "image", "mimeType": "image/png", "data": "AAAA"},
    {"type": "resource_link", "uri": "file:///a", "name": "a"},
    {"type": "resource", "resource": {"uri": "file:///a", "text": "a"}},
]
_PARTS = [
    {"type": "content", "content": _TEXT},
    {"type": "diff", "path": "/a", "oldText": "a\nb\n", "newText": "a\nc\n"},
    {"type": "diff", "changes": [{"operation": "add", "path": "/a"}], "patch": {"text": "+x"}},
    {"type": "terminal", "terminalId": "t1"},
]
_OPTION = {
    "id": "m", "configId": "m", "name": "M", "category": "mode", "type": "select",
    "currentValue": "ask", "options": [{"value": "ask", "name": "A"}, {"value": "code"}],
}  # fmt: skip
_COMMAND = {"name": "c", "type": "command", "description": "C", "input": {"hint": "h"}}
_ENTRY = {"content": "x", "priority": "low", "status": "pending"}
_PERMISSION = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
_MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "A"}, {"id": "code"}]}
_CALL = {"toolCallId": "1", "title": "T", "kind": "read", "status": "pending"}

FIELDS: dict[str, list[Any]] = {
    "sessionId": SESSIONS,
    "content": [*_BLOCKS, *_PARTS, _PARTS, _BLOCKS, None],
    "prompt": [[_TEXT], _BLOCKS, [], [{"type": "text", "text": "/c x"}]],
    "messageId": ["m1", "m2", None],
    "toolCallId": ["1", "2"],
    "title": ["T", None],
    "kind": ["read", "edit", None],
    "status": ["pending", "in_progress", "completed", "failed"],
    "locations": [[{"path": "/a", "line": 1}]],
    "rawInput": [{"command": "ls"}, "x"],
    "rawOutput": [{"output": "x"}, "x"],
    "entries": [[_ENTRY], []],
    "plan": [{"type": "items", "planId": "p", "entries": [_ENTRY]}, {"type": "markdown"}],
    "configOptions": [[_OPTION], []],
    "modes": [_MODES],
    "currentModeId": ["ask", "code"],
    "modeId": ["ask", "code"],
    "modelId": ["a"],
    "configId": ["m"],
    "value": ["ask", "code", True],
    "availableCommands": [[_COMMAND], []],
    "terminalId": ["t1", "t2"],
    "output": [{"data": "eA=="}, "x"],
    "data": ["eA==", "AAAA", "x"],
    "exitStatus": [{"exitCode": 0}],
    "_meta": [
        {"a": 1}, {"terminal_output": {"terminal_id": "t1", "data": "x"}}, None,
        {"rekindle": {"seq": 1, "messageId": "m1", "replayed": True}},
    ],
    "state": ["running", "idle", "requires_action"],
    "stopReason": ["end_turn", "cancelled", "refusal"],
    "used": [1], "size": [2], "updatedAt": ["2025-01-01T00:00:00Z"],
    "cwd": ["/p", "/q"],
    "additionalDirectories": [["/d"]],
    "mcpServers": [[], [{"name": "db", "command": "/db", "args": [], "env": []}]],
    "cursor": ["x", None], "nextCursor": ["y", None],
    "replayFrom": [{"type": "start"}, {"type": "message", "messageId": "m1"}, {"type": "_seq"}],
    "sessions": [[{"sessionId": it, "cwd": "/p", "title": "T"} for it in SESSIONS], []],
    "options": [[_PERMISSION]],
    "toolCall": [_CALL],
    "subject": [{"type": "tool_call", "toolCall": _CALL}],
    "outcome": [{"outcome": "selected", "optionId": "y"}, {"outcome": "cancelled"}],
    "requestId": [1, 2, "rekindle-1"],
    "path": ["/a"], "text": ["x"],
}  # fmt: skip

UPDATES = [
    "agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "agent_message",
    "agent_thought", "user_message", "tool_call", "tool_call_update", "tool_call_content_chunk",
    "plan", "plan_update", "terminal_update", "terminal_output_chunk", "config_option_update",
    "current_mode_update", "available_commands_update", "session_info_update", "state_update",
    "usage_update", "notice", "compaction_update", "_own", "x",
]  # fmt: skip

CLIENT_METHODS = [
    "session/new", "session/load", "session/resume", "session/fork", "session/list",
    "session/close", "session/delete", "session/prompt", "session/prompt", "session/set_mode",
    "session/set_model", "session/set_config_option", "authenticate", "logout", "auth/login",
    "_x/y", "initialize", "session/cancel", "$/cancel_request", "terminal/cancel",
]  # fmt: skip
AGENT_METHODS = [
    "session/request_permission", "elicitation/create", "fs/read_text_file", "fs/write_text_file",
    "terminal/create", "terminal/output", "_x/y", "session/update", "$/cancel_request",
]  # fmt: skip
_NOTIFICATIONS = {"session/cancel", "$/cancel_request", "session/update"}
_ALWAYS = {"sessionId", "cwd", "mcpServers", "prompt", "toolCall", "options", "content"}


class Speaker:
    """Makes up what a peer says. `spite` is how much of it is not as it should be."""

    def __init__(self, choices: Random, spite: float) -> None:
        self.choices = choices
        self.spite = spite

    def is_spiteful(self) -> bool:
        """Choose whether the next thing is right."""
        return self.choices.random() < self.spite

    def field(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """Return something for a field."""
        if not self.is_spiteful():
            return _copied(self.choices.choice(FIELDS[name]))
        if name.endswith("Id") or name in {"cwd", "path"}:
            return self.choices.choice([*PATHS, value(self.choices)])
        if name in {"title", "text"}:
            return self.choices.choice([*TEXTS, value(self.choices)])
        if self.choices.random() < 0.5:
            return spoiled(self.choices, _copied(self.choices.choice(FIELDS[name])))
        return value(self.choices)

    def some(self, always: set[str], chance: float = 0.15) -> Json:
        """Return an object with some fields."""
        names = [it for it in FIELDS if it in always or self.choices.random() < chance]
        return {name: self.field(name) for name in names}

    def update(self) -> Json:
        """Return an update."""
        kind = self.choices.choice(UPDATES)
        always = {"messageId", "toolCallId", "terminalId", "content"}
        update = {"sessionUpdate": kind, **self.some(always, chance=0.3)}
        update.pop("sessionId", None)
        return spoiled(self.choices, update) if self.is_spiteful() else update  # type: ignore[return-value]

    def asks(self, side: Side, request_id: object) -> Json:
        """Return a request or a notification of a side."""
        of_side = CLIENT_METHODS if side is Side.CLIENT else AGENT_METHODS
        method = self.choices.choice(of_side)
        message: Json = {"jsonrpc": "2.0", "method": method, "params": self.some(_ALWAYS, 0.1)}
        if method == "session/update":
            message["params"]["update"] = self.update()
        if method == "initialize":
            message["params"]["protocolVersion"] = self.choices.choice([1, 2, 3])
        if method not in _NOTIFICATIONS:
            message["id"] = request_id
        return message

    def answers(self, request_id: object) -> Json:
        """Return an answer."""
        message: Json = {"jsonrpc": "2.0", "id": request_id}
        if self.choices.random() < 0.15:
            error = {"code": self.choices.choice([-32000, -32603, -32002]), "message": "no"}
            message["error"] = value(self.choices) if self.is_spiteful() else error
        if "error" not in message or self.is_spiteful():
            fields = self.some({"sessionId", "stopReason", "messageId", "outcome"})
            message["result"] = value(self.choices) if self.is_spiteful() else fields
        return message

    def says(self, message: Json) -> bytes:
        """Write a message; a spiteful peer may spoil it first, or the line afterwards."""
        spoil = self.is_spiteful() and self.is_spiteful()
        line = written(spoiled(self.choices, message) if spoil else message)
        return mangled(self.choices, line) if self.is_spiteful() and self.is_spiteful() else line

    def quotes(self, side: Side) -> bytes:
        """Return a line of some golden transcript, perhaps spoiled."""
        return self.says_again(self.choices.choice(lines(side)))

    def says_again(self, line: bytes) -> bytes:
        """Return a line as it is, or spoiled."""
        message = decode(line)
        is_spoiled = isinstance(message, dict) and self.is_spiteful()
        return self.says(spoiled(self.choices, message)) if is_spoiled else line


def _copied(thing: Any) -> Any:  # noqa: ANN401 - JSON
    match thing:
        case dict():
            return {name: _copied(part) for name, part in thing.items()}
        case list():
            return [_copied(part) for part in thing]
        case _:
            return thing
