"""A client for any ACP agent, bare or behind Rekindle, in version 1 or 2 of the protocol.

    async with connect(["opencode", "acp"]) as agent:
        session = await agent.new(".")
        async for event in session.prompt("Hello"):
            ...

`docs/how-to/client.md` describes it, and `examples/` has short programs.
"""

from rekindle.client.agent import Agent
from rekindle.client.connect import connect
from rekindle.client.events import (
    Event,
    MessageChunk,
    PermissionRequested,
    PlanUpdated,
    SessionChanged,
    SubagentEvent,
    SubagentUpdated,
    TerminalOutput,
    ThoughtChunk,
    ToolCallUpdated,
    TurnEnded,
)
from rekindle.client.handshake import Capability
from rekindle.client.models import (
    AuthMethod,
    Choice,
    ConfigOption,
    Item,
    Message,
    OnPermission,
    OtherUpdate,
    PermissionRequest,
    Plan,
    PlanEntry,
    SessionInfo,
    SessionMessage,
    SlashCommand,
    Subagent,
    ToolCall,
)
from rekindle.client.session import ClientSession, Prompt
from rekindle.client.turn import Turn
from rekindle.errors import (
    AgentGone,
    AgentNotStarted,
    AgentRefused,
    AuthRequired,
    BadAnswer,
    ClientError,
    NotOffered,
    RekindleError,
    SessionBusy,
    SessionClosed,
    UsageError,
)
from rekindle.model import AgentIdentity
from rekindle.transcript.model import Role

__all__ = [
    "Agent",
    "AgentGone",
    "AgentIdentity",
    "AgentNotStarted",
    "AgentRefused",
    "AuthMethod",
    "AuthRequired",
    "BadAnswer",
    "Capability",
    "Choice",
    "ClientError",
    "ClientSession",
    "ConfigOption",
    "Event",
    "Item",
    "Message",
    "MessageChunk",
    "NotOffered",
    "OnPermission",
    "OtherUpdate",
    "PermissionRequest",
    "PermissionRequested",
    "Plan",
    "PlanEntry",
    "PlanUpdated",
    "Prompt",
    "RekindleError",
    "Role",
    "SessionBusy",
    "SessionChanged",
    "SessionClosed",
    "SessionInfo",
    "SessionMessage",
    "SlashCommand",
    "Subagent",
    "SubagentEvent",
    "SubagentUpdated",
    "TerminalOutput",
    "ThoughtChunk",
    "ToolCall",
    "ToolCallUpdated",
    "Turn",
    "TurnEnded",
    "UsageError",
    "connect",
]
