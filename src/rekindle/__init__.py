"""Rekindle is a durable session layer for coding agents that speak ACP.

The public names, by purpose:

- `open_store`, `locate`, `StoreAddress`, `Store`, `Page`: open a store and list its sessions.
- `Session`, `Entry` and the other values that a store returns.
- `fold`, `Transcript`, `TranscriptTurn` and its items: read a recorded conversation.
- `connect`, `Agent`, `ClientSession`: run an agent. `rekindle.client` has the rest of that API.
- `RekindleError` and its subclasses. `rekindle.errors` has all of them.

They are loaded on first use, so that `rekindle run` starts an agent before it imports anything
heavy. `docs/client.md` has an example.
"""

TYPE_CHECKING = False  # type checkers know the name; importing `typing` would slow every start

if TYPE_CHECKING:
    from rekindle import errors
    from rekindle.acp.terminal_output import Terminal
    from rekindle.client import Agent, ClientSession, connect
    from rekindle.composition import open_store
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
        LeaseHolder,
        LeaseResult,
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
    from rekindle.store.address import StoreAddress, locate
    from rekindle.store.base import ImportedSession, Store
    from rekindle.transcript.model import (
        GapItem,
        HandoverItem,
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
    "ImportedSession",
    "Kind",
    "LeaseHolder",
    "LeaseResult",
    "Origin",
    "OtherItem",
    "Overview",
    "Page",
    "PlanItem",
    "RecordedPrefix",
    "RekindleError",
    "ReminderItem",
    "Role",
    "SearchText",
    "Session",
    "SessionNotFound",
    "SessionStatus",
    "SessionTotals",
    "Side",
    "Store",
    "StoreAddress",
    "StoreError",
    "Terminal",
    "TitleSource",
    "ToolCallItem",
    "Transcript",
    "TranscriptItem",
    "TranscriptMessage",
    "TranscriptTurn",
    "UsageError",
    "connect",
    "errors",
    "fold",
    "locate",
    "open_store",
]

_MODULES = {
    "rekindle.acp.terminal_output": {"Terminal"},
    "rekindle.client": {"Agent", "ClientSession", "connect"},
    "rekindle.composition": {"open_store"},
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
        "LeaseHolder",
        "LeaseResult",
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
    "rekindle.store.address": {"StoreAddress", "locate"},
    "rekindle.store.base": {"ImportedSession", "Store"},
    "rekindle.transcript.model": {
        "GapItem",
        "HandoverItem",
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
}
"""The module that defines each public name."""


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - not needed at every start

    if name == "errors":
        return import_module("rekindle.errors")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'rekindle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
