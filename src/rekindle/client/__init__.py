"""A client for any ACP agent, bare or behind Rekindle, in version 1 or 2 of the protocol.

    async with connect(["opencode", "acp"]) as agent:
        session = await agent.new(".")
        async for event in session.prompt("Hello"):
            ...

`docs/client.md` tells more, and `examples/` has programs of a few lines.
"""

from rekindle.client.agent import Agent
from rekindle.client.connection import connect
from rekindle.client.events import (
    Asked,
    Called,
    Changed,
    Event,
    Planned,
    Printed,
    Said,
    Thought,
)
from rekindle.client.handshake import Offer
from rekindle.client.models import (
    AuthMethod,
    Choice,
    Command,
    Item,
    Message,
    Option,
    Other,
    Plan,
    PlanEntry,
    SessionInfo,
    ToolCall,
)
from rekindle.client.permissions import OnPermission, Question
from rekindle.client.session import Prompt, Session
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
    "Asked",
    "AuthMethod",
    "AuthRequired",
    "BadAnswer",
    "Called",
    "Changed",
    "Choice",
    "ClientError",
    "Command",
    "Event",
    "Item",
    "Message",
    "NotOffered",
    "Offer",
    "OnPermission",
    "Option",
    "Other",
    "Plan",
    "PlanEntry",
    "Planned",
    "Printed",
    "Prompt",
    "Question",
    "RekindleError",
    "Role",
    "Said",
    "Session",
    "SessionBusy",
    "SessionClosed",
    "SessionInfo",
    "Thought",
    "ToolCall",
    "Turn",
    "UsageError",
    "connect",
]
