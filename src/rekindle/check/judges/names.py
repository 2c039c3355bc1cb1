"""The names that the protocol has: methods, kinds of updates, and the fields of its types.

Those that are not stable yet are here, too: an agent may be ahead of the rest.
"""

from rekindle.wire import methods

_MESSAGE = "content messageId"
_CALL = "content kind locations name rawInput rawOutput status title toolCallId"
_BOTH_UPDATES = {
    "agent_message_chunk": _MESSAGE,
    "agent_thought_chunk": _MESSAGE,
    "available_commands_update": "availableCommands",
    "compaction_summary_chunk": "compactionId content",
    "compaction_update": "compactionId error status summary",
    "config_option_update": "configOptions",
    "notice": "description severity title",
    "plan_removed": "planId",
    "plan_update": "plan",
    "session_info_update": "title updatedAt",
    "session_message": (
        f"{_MESSAGE} recipientMessageId recipientSessionId senderMessageId senderSessionId"
    ),
    "session_message_chunk": _MESSAGE,
    "subagent_update": "additionalDirectories capabilities cwd description sessionId state title",
    "tool_call_update": f"{_CALL} capabilities",
    "usage_update": "cost size used",
    "user_message_chunk": _MESSAGE,
}
_UPDATES = {
    1: _BOTH_UPDATES
    | {"current_mode_update": "currentModeId", "plan": "entries", "tool_call": _CALL},
    2: _BOTH_UPDATES
    | {
        "agent_message": _MESSAGE,
        "agent_thought": _MESSAGE,
        "state_update": "background error state stopReason usage",
        "terminal_output_chunk": "data terminalId",
        "terminal_update": "capabilities command cwd exitStatus output size terminalId",
        "tool_call_content_chunk": "content toolCallId",
        "user_message": _MESSAGE,
    },
}
UPDATES = {
    version: {kind: frozenset(names.split()) for kind, names in kinds.items()}
    for version, kinds in _UPDATES.items()
}
"""The fields of each kind of update."""

_BOTH_RESULTS = {
    methods.CLOSE: "",
    methods.DELETE: "",
    methods.LIST: "nextCursor sessions",
    methods.SET_CONFIG_OPTION: "configOptions",
}
# Drafts had `models`, and many agents still have.
_SETTINGS = "configOptions models modes"
_RESULTS = {
    1: _BOTH_RESULTS
    | {
        methods.INITIALIZE: "agentCapabilities agentInfo authMethods protocolVersion",
        methods.FORK: f"{_SETTINGS} sessionId",
        methods.LOAD: _SETTINGS,
        methods.NEW: f"{_SETTINGS} sessionId",
        methods.PROMPT: "stopReason usage",
        methods.RESUME: _SETTINGS,
    },
    2: _BOTH_RESULTS
    | {
        methods.INITIALIZE: "authMethods capabilities info protocolVersion",
        methods.FORK: "availableCommands configOptions sessionId",
        methods.NEW: "availableCommands configOptions sessionId",
        methods.PROMPT: "messageId",
        methods.RESUME: "availableCommands configOptions",
    },
}
RESULTS = {
    version: {method: frozenset(names.split()) for method, names in results.items()}
    for version, results in _RESULTS.items()
}
"""The fields of the result of each method."""

LISTED = frozenset(["additionalDirectories", "archived", "cwd", "sessionId", "title", "updatedAt"])
"""The fields of a session in a list."""

CAPABILITIES = {
    1: frozenset({"auth", "loadSession", "mcpCapabilities", "promptCapabilities", "providers"})
    | {"sessionCapabilities"},
    2: frozenset({"auth", "providers", "session"}),
}
_OF_SESSIONS = frozenset({"additionalDirectories", "archive", "delete", "fork", "status"}) | {
    "systemPrompt",
    "title",
}
SESSION_CAPABILITIES = {
    1: _OF_SESSIONS | {"close", "list", "resume"},
    2: _OF_SESSIONS | {"mcp", "prompt"},
}

STOP_REASONS = frozenset(["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"])
_CALL_STATUSES = frozenset(["pending", "in_progress", "completed", "failed"])
CALL_STATUSES = {1: _CALL_STATUSES, 2: _CALL_STATUSES | {"cancelled", "paused"}}
STATES = frozenset(["running", "idle", "requires_action", "unknown"])
PLAN_STATUSES = frozenset(["pending", "in_progress", "completed", "cancelled"])

CONVERSATION = frozenset(
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"}
    | {"user_message", "agent_message", "agent_thought"}
    | {"tool_call", "tool_call_update", "tool_call_content_chunk"}
    | {"terminal_update", "terminal_output_chunk", "plan", "plan_update", "plan_removed"}
)
"""The kinds of updates that a conversation is made of; all others tell how things are now."""

_OF_ALL_CLIENTS = frozenset({methods.UPDATE, methods.REQUEST_PERMISSION, methods.CANCEL_REQUEST})
_OF_SOME_CLIENTS = ("fs/", "terminal/", "elicitation/", "mcp/")


def is_custom(name: str) -> bool:
    """Tell whether a method or a kind is one of an extension."""
    return name.startswith("_")


def is_known_to_clients(method: str) -> bool:
    """Tell whether a method is one that the protocol has for clients."""
    known = _OF_ALL_CLIENTS | {"auth/status_update"}
    return method in known or method.startswith((*_OF_SOME_CLIENTS, "$/"))


def needs_a_capability(method: str) -> bool:
    """Tell whether a client has a method only if it says so."""
    return method.startswith(_OF_SOME_CLIENTS)
