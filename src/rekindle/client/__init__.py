"""A client for any ACP agent, bare or behind Rekindle, in version 1 or 2 of the protocol.

    async with connect(["opencode", "acp"]) as agent:
        session = await agent.new(".")
        async for event in session.prompt("Hello"):
            ...

`docs/how-to/client.md` describes it, and `examples/` has short programs.
"""

from rekindle.client.agent import Agent, SessionRole
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
    TurnStarted,
    UserMessageChunk,
)
from rekindle.client.follow import TurnState
from rekindle.client.handshake import Capability
from rekindle.client.host import connect_to_host
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
    HostError,
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
    "HostError",
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
    "SessionRole",
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
    "TurnStarted",
    "TurnState",
    "UsageError",
    "UserMessageChunk",
    "connect",
    "connect_to_host",
]
