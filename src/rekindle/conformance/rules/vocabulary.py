"""The names of the protocol: update kinds, methods, and the values of its types.

The suite keeps its own copy, so that an error in the proxy's tables does not hide an agent's error.
Names that are not stable yet are included: an agent may be ahead of the specification.
"""

from rekindle.acp import methods

STOP_REASONS = frozenset(["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"])
_CALL_STATUSES = frozenset(["pending", "in_progress", "completed", "failed"])
CALL_STATUSES = {1: _CALL_STATUSES, 2: _CALL_STATUSES | {"cancelled", "paused"}}
STATES = frozenset(["running", "idle", "requires_action", "unknown"])
_PLAN_STATUSES = frozenset(["pending", "in_progress", "completed"])
PLAN_STATUSES = {1: _PLAN_STATUSES, 2: _PLAN_STATUSES | {"cancelled"}}
PLAN_PRIORITIES = frozenset(["high", "medium", "low"])

STATE_UPDATE = "state_update"
SESSION_INFO_UPDATE = "session_info_update"
NOTICE = "notice"
SUBAGENT_UPDATE = "subagent_update"
SESSION_MESSAGES = frozenset(["session_message", "session_message_chunk"])
HISTORY_TRUNCATED = "history_truncated"
"""An update of a proposal, which agents announce as an extension: see the scenario `rewind`."""
SESSION_STATUSES = frozenset(["open", "saved"])
AUTH_TYPES = frozenset(["agent", "terminal"])
USER_MESSAGES = frozenset(["user_message", "user_message_chunk"])
AGENT_MESSAGES = frozenset(
    ["agent_message", "agent_message_chunk", "agent_thought", "agent_thought_chunk"]
)
MESSAGES = USER_MESSAGES | AGENT_MESSAGES
TOOL_CALLS = frozenset(["tool_call", "tool_call_update"])
CALLS = TOOL_CALLS | {"tool_call_content_chunk"}
TERMINALS = frozenset(["terminal_update", "terminal_output_chunk"])
PLANS = frozenset(["plan", "plan_update"])
CONVERSATION = MESSAGES | CALLS | TERMINALS | PLANS | {"plan_removed"}
"""The update kinds that belong to a conversation. All others describe the present state."""

_FOR_ALL_CLIENTS = frozenset(
    [methods.UPDATE, methods.REQUEST_PERMISSION, methods.CANCEL_REQUEST, "auth/status_update"]
)
_FOR_SOME_CLIENTS = ("fs/", "terminal/", "elicitation/", "mcp/")
UPDATES_FOR_SOME_CLIENTS = SESSION_MESSAGES | {
    NOTICE,
    "compaction_update",
    "compaction_summary_chunk",
    SUBAGENT_UPDATE,
}
"""Updates that version 1 allows only to clients with the capability for them."""


def is_custom(name: object) -> bool:
    """Return whether a method, a kind or a value belongs to an extension."""
    return isinstance(name, str) and name.startswith("_")


def is_known_to_clients(method: str) -> bool:
    """Return whether the protocol has a method for clients."""
    return method in _FOR_ALL_CLIENTS or method.startswith((*_FOR_SOME_CLIENTS, "$/"))


def needs_a_capability(method: str) -> bool:
    """Return whether a client must advertise a method before an agent may call it."""
    return method.startswith(_FOR_SOME_CLIENTS)
