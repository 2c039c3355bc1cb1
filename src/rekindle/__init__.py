"""Rekindle is a durable session layer for coding agents that speak ACP.

The public names, by purpose:

- `open_store`, `locate`, `StoreAddress`, `ReadableStore`, `Page`: open a store, list its sessions.
- `Session`, `Entry` and the other values that a store returns.
- `fold`, `Transcript`, `TranscriptTurn` and its items: read a recorded conversation.
- `connect`, `Agent`, `ClientSession`: run an agent. `rekindle.client` has the rest of that API.
- `attach`: use a session that another process has, together with its other clients.
- `RekindleError` and its subclasses. `rekindle.errors` has all of them.

They are loaded on first use, so that `rekindle run` starts an agent before it imports anything
heavy. `docs/how-to/client.md` has an example.
"""

TYPE_CHECKING = False  # type checkers know the name; importing `typing` would slow every start

if TYPE_CHECKING:
    from rekindle import errors
    from rekindle.acp.terminal_output import Terminal
    from rekindle.client import Agent, ClientSession, connect
    from rekindle.errors import (
        ClientError,
        RekindleError,
        SessionNotFound,
        StoreError,
        UsageError,
    )
    from rekindle.model import (
        AgentIdentity,
        DocumentKind,
        Entry,
        Kind,
        Origin,
        Overview,
        Page,
        RecordedPrefix,
        Session,
        SessionStatus,
        SessionTotals,
        Side,
        TitleSource,
    )
    from rekindle.public import open_store
    from rekindle.sharing import attach
    from rekindle.store.address import StoreAddress, locate
    from rekindle.store.base import ReadableStore
    from rekindle.transcript.model import (
        GapItem,
        HandoverItem,
        HandoverReason,
        OtherItem,
        PlanItem,
        ReminderItem,
        Role,
        SearchText,
        ToolCallItem,
        TranscriptItem,
        TranscriptMessage,
        TranscriptTurn,
    )
    from rekindle.transcript.reducer import Transcript, fold
    from rekindle.transcript.subagents import SessionMessageItem, SubagentItem

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentIdentity",
    "ClientError",
    "ClientSession",
    "DocumentKind",
    "Entry",
    "GapItem",
    "HandoverItem",
    "HandoverReason",
    "Kind",
    "Origin",
    "OtherItem",
    "Overview",
    "Page",
    "PlanItem",
    "ReadableStore",
    "RecordedPrefix",
    "RekindleError",
    "ReminderItem",
    "Role",
    "SearchText",
    "Session",
    "SessionMessageItem",
    "SessionNotFound",
    "SessionStatus",
    "SessionTotals",
    "Side",
    "StoreAddress",
    "StoreError",
    "SubagentItem",
    "Terminal",
    "TitleSource",
    "ToolCallItem",
    "Transcript",
    "TranscriptItem",
    "TranscriptMessage",
    "TranscriptTurn",
    "UsageError",
    "attach",
    "connect",
    "errors",
    "fold",
    "locate",
    "open_store",
]

_MODULES = {
    "rekindle.acp.terminal_output": {"Terminal"},
    "rekindle.client": {"Agent", "ClientSession", "connect"},
    "rekindle.errors": {
        "ClientError",
        "RekindleError",
        "SessionNotFound",
        "StoreError",
        "UsageError",
    },
    "rekindle.model": {
        "AgentIdentity",
        "DocumentKind",
        "Entry",
        "Kind",
        "Origin",
        "Overview",
        "Page",
        "RecordedPrefix",
        "Session",
        "SessionStatus",
        "SessionTotals",
        "Side",
        "TitleSource",
    },
    "rekindle.public": {"open_store"},
    "rekindle.sharing": {"attach"},
    "rekindle.store.address": {"StoreAddress", "locate"},
    "rekindle.store.base": {"ReadableStore"},
    "rekindle.transcript.model": {
        "GapItem",
        "HandoverItem",
        "HandoverReason",
        "OtherItem",
        "PlanItem",
        "ReminderItem",
        "Role",
        "SearchText",
        "ToolCallItem",
        "TranscriptItem",
        "TranscriptMessage",
        "TranscriptTurn",
    },
    "rekindle.transcript.reducer": {"Transcript", "fold"},
    "rekindle.transcript.subagents": {"SessionMessageItem", "SubagentItem"},
}
"""The module that defines each public name."""


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - not needed at every start

    if name == "errors":
        return import_module("rekindle.errors")  # which also sets it
    for module, names in _MODULES.items():
        if name in names:
            # Set it, so that this function is not called for it again.
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module 'rekindle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
