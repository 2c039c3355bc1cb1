"""What is known of one connection: what the user asked for, the agent, the sessions, the time."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from rekindle.acp.capabilities import Capabilities
from rekindle.model import AgentIdentity
from rekindle.proxy.live_session import LiveSessions
from rekindle.proxy.open_requests import OpenRequests
from rekindle.proxy.step import AgentExit
from rekindle.transcript.handover import BUDGET


class EngineSettings(Struct, frozen=True, kw_only=True):
    """What the user has asked for."""

    command: tuple[str, ...] = ()
    version: str = ""
    is_strict: bool = False
    may_hand_over: bool = True
    handover_budget: int = BUDGET
    may_take_over: bool = False
    token: str = ""
    """What tells the ids of our requests from all others."""


class AgentState(Struct, kw_only=True):
    """The agent at the other end."""

    identity: AgentIdentity
    own: Capabilities = Capabilities()
    is_running: bool = True
    is_initialized: bool = False
    """Whether it was ready once."""
    is_ready: bool = True
    """Whether it is now: one that was started again has to be initialized first."""
    is_initializing: bool = False
    """Whether it was asked to and has not answered: what it can do is not known yet."""
    is_dying: bool = False
    """Whether nothing can be heard of it any more, and it has not ended yet."""
    is_starting: bool = False
    """Whether it is being started again."""
    generation: int = 0
    """How many of them have died."""
    greetings: list[dict[str, Any]] = []
    """What it is asked to initialize with; first what it took last."""
    deaths: int = 0
    """How often it has died since a turn last ended."""
    ended: AgentExit | None = None
    """How it last did."""


class ConnectionState(Struct, kw_only=True):
    """One client and one agent."""

    settings: EngineSettings
    agent: AgentState
    client_protocol: int = 1
    """The version that the client speaks."""
    client_takes_booleans: bool = False
    """Whether a version 1 client can show options that are switched on and off."""
    client_wants_seq: bool = False
    """Whether a version 2 client wants to know, after each turn, from where to ask for more."""
    sessions: LiveSessions = field(default_factory=LiveSessions)
    requests: OpenRequests = field(default_factory=OpenRequests)
    openings: int = 0
    """How many sessions the agent is making now: it may speak of one before it has named it."""
    at_us: int = 0

    @property
    def is_translating(self) -> bool:
        """Whether the two sides speak different versions."""
        return self.client_protocol != self.agent.own.protocol

    @property
    def has_version_2(self) -> bool:
        """Whether one of the sides speaks version 2."""
        return self.client_protocol > 1 or self.agent.own.protocol > 1

    @contextmanager
    def naming(self) -> Generator[None]:
        """Hold back what the agent says of a session, until it is known which one that is."""
        self.openings += 1
        try:
            yield
        finally:
            self.openings -= 1
