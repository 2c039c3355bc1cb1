"""Generate messages of the two peers of a session: valid, almost valid, and hostile."""

from random import Random
from typing import Any

from fuzz.hostile import PATHS, TEXTS, corrupted, mutated, value, written
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


class MessageGenerator:
    """Generates messages of a peer. `error_rate` is the share of wrong values."""

    def __init__(self, choices: Random, error_rate: float) -> None:
        self.choices = choices
        self.error_rate = error_rate

    def goes_wrong(self) -> bool:
        """Choose whether the next value is wrong."""
        return self.choices.random() < self.error_rate

    def field(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """Return a value for a field."""
        if not self.goes_wrong():
            return _copied(self.choices.choice(FIELDS[name]))
        if name.endswith("Id") or name in {"cwd", "path"}:
            return self.choices.choice([*PATHS, value(self.choices)])
        if name in {"title", "text"}:
            return self.choices.choice([*TEXTS, value(self.choices)])
        if self.choices.random() < 0.5:
            return mutated(self.choices, _copied(self.choices.choice(FIELDS[name])))
        return value(self.choices)

    def some(self, always: set[str], chance: float = 0.15) -> Json:
        """Return an object with the fields `always`, and others by chance."""
        names = [it for it in FIELDS if it in always or self.choices.random() < chance]
        return {name: self.field(name) for name in names}

    def update(self) -> Json:
        """Return an update."""
        kind = self.choices.choice(UPDATES)
        always = {"messageId", "toolCallId", "terminalId", "content"}
        update = {"sessionUpdate": kind, **self.some(always, chance=0.3)}
        update.pop("sessionId", None)
        return mutated(self.choices, update) if self.goes_wrong() else update  # type: ignore[return-value]

    def request(self, side: Side, request_id: object) -> Json:
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

    def response(self, request_id: object) -> Json:
        """Return a response."""
        message: Json = {"jsonrpc": "2.0", "id": request_id}
        if self.choices.random() < 0.15:
            error = {"code": self.choices.choice([-32000, -32603, -32002]), "message": "no"}
            message["error"] = value(self.choices) if self.goes_wrong() else error
        if "error" not in message or self.goes_wrong():
            fields = self.some({"sessionId", "stopReason", "messageId", "outcome"})
            message["result"] = value(self.choices) if self.goes_wrong() else fields
        return message

    def encode(self, message: Json) -> bytes:
        """Write a message as a line. Sometimes the message is mutated, or the line corrupted."""
        is_mutated = self.goes_wrong() and self.goes_wrong()
        line = written(mutated(self.choices, message) if is_mutated else message)
        return corrupted(self.choices, line) if self.goes_wrong() and self.goes_wrong() else line

    def transcript_line(self, side: Side) -> bytes:
        """Return a line of a golden transcript, sometimes mutated."""
        return self.mutate_line(self.choices.choice(lines(side)))

    def mutate_line(self, line: bytes) -> bytes:
        """Return a line, sometimes mutated."""
        message = decode(line)
        is_mutated = isinstance(message, dict) and self.goes_wrong()
        return self.encode(mutated(self.choices, message)) if is_mutated else line


def _copied(thing: Any) -> Any:  # noqa: ANN401 - JSON
    match thing:
        case dict():
            return {name: _copied(part) for name, part in thing.items()}
        case list():
            return [_copied(part) for part in thing]
        case _:
            return thing
