"""The names that the protocol has: methods, kinds of updates, and the values of its types.

Those that are not stable yet are here, too: an agent may be ahead of the rest.
"""

from rekindle.acp import methods

STOP_REASONS = frozenset(["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"])
_CALL_STATUSES = frozenset(["pending", "in_progress", "completed", "failed"])
CALL_STATUSES = {1: _CALL_STATUSES, 2: _CALL_STATUSES | {"cancelled", "paused"}}
STATES = frozenset(["running", "idle", "requires_action", "unknown"])
_PLAN_STATUSES = frozenset(["pending", "in_progress", "completed"])
PLAN_STATUSES = {1: _PLAN_STATUSES, 2: _PLAN_STATUSES | {"cancelled"}}
PLAN_PRIORITIES = frozenset(["high", "medium", "low"])

USER_MESSAGES = methods.USER_MESSAGE_KINDS
AGENT_MESSAGES = methods.AGENT_MESSAGE_KINDS | {"agent_thought", "agent_thought_chunk"}
MESSAGES = USER_MESSAGES | AGENT_MESSAGES
CALLS = methods.TOOL_CALL_KINDS | {"tool_call_content_chunk"}
TERMINALS = frozenset({"terminal_update", methods.TERMINAL_OUTPUT_CHUNK})
PLANS = frozenset({"plan", "plan_update"})
CONVERSATION = MESSAGES | CALLS | TERMINALS | PLANS | {"plan_removed"}
"""The kinds of updates that a conversation is made of; all others tell how things are now."""

_OF_ALL_CLIENTS = frozenset({methods.UPDATE, methods.REQUEST_PERMISSION, methods.CANCEL_REQUEST})
_OF_SOME_CLIENTS = ("fs/", "terminal/", "elicitation/", "mcp/")
UPDATES_OF_SOME_CLIENTS = frozenset(
    {methods.NOTICE, "compaction_update", "compaction_summary_chunk"}
)
"""Updates that version 1 has only for clients that have said to know them."""


def is_custom(name: object) -> bool:
    """Tell whether a method, a kind or a value is one of an extension."""
    return isinstance(name, str) and name.startswith("_")


def is_known_to_clients(method: str) -> bool:
    """Tell whether a method is one that the protocol has for clients."""
    known = _OF_ALL_CLIENTS | {"auth/status_update"}
    return method in known or method.startswith((*_OF_SOME_CLIENTS, "$/"))


def needs_a_capability(method: str) -> bool:
    """Tell whether a client has a method only if it says so."""
    return method.startswith(_OF_SOME_CLIENTS)
