"""A step: everything that the engine asks its driver to do after one event.

Knows the values of a step, not how a driver carries them out.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from rekindle.acp.jsonrpc import INTERNAL_ERROR
from rekindle.model import Change
from rekindle.proxy.flow import Query
from rekindle.proxy.peers import Peer


class UserReport(Struct, frozen=True):
    """A message for the user, outside the protocol. `quote` comes from the conversation."""

    text: str
    quote: str = ""


class TurnEventKind(StrEnum):
    """The kinds of events that the user can be informed of."""

    WAITING = "waiting"
    """The agent has asked the user, and waits for the answer."""
    END = "end"
    """A turn has ended."""
    DEATH = "death"
    """The agent, or the host of the session, has ended in the middle of a turn."""


class TurnEvent(Struct, frozen=True, kw_only=True):
    """An event in a turn of a session that a client can open. Sub-agents have none of their own."""

    session_id: str
    kind: TurnEventKind
    reason: str
    """A stop reason or `error`, the kind of question, or how the process ended."""
    clients: int = 0
    """The number of clients that have the session open. Observers do not count."""
    question: str = ""
    """The text of the question, which comes from the conversation."""


class PendingQuery(Struct, frozen=True):
    """A query, and the number of the flow that waits for its answer."""

    flow: int
    query: Query


class Step(Struct):
    """The effects of one event, in the order in which the driver carries them out.

    The order makes "recorded before forwarded" part of the type: a driver that carries out the
    fields from top to bottom cannot send a message before it has recorded it.
    """

    changes: list[Change] = []
    """The changes to commit."""
    sync: bool = False
    """Whether the commit must reach the disk, because a turn begins or ends here."""
    to_agent: list[bytes] = []
    """Lines for the agent."""
    to_clients: dict[Peer, list[bytes]] = {}
    """Lines for each client connection."""
    positions: dict[Peer, tuple[str, ...]] = {}
    """By client, the sessions to whose changes the lines belong, if the client wants to know."""
    to_hosts: dict[Peer, list[bytes]] = {}
    """Lines for hosts of sessions that clients of this engine use."""
    left_hosts: list[Peer] = []
    """Connections to hosts that are not needed any more. Close them after the lines are sent."""
    reports: list[UserReport] = []
    queries: list[PendingQuery] = []
    """Queries to answer at once, in order. Each answer leads to another step."""
    events: list[TurnEvent] = []
    """The events in turns, if the driver wants to know them."""
    wake_us: int | None = None
    """The time at which the engine wants a tick, if no other event comes before."""


class AgentExit(Struct, frozen=True):
    """How the agent's process ended, and the last lines of its stderr."""

    exit_code: int | None
    signal: str | None
    stderr_tail: tuple[str, ...]

    def __str__(self) -> str:
        how = f"was killed by {self.signal}" if self.signal else f"exited with {self.exit_code}"
        return f"the agent {how}"

    def error(self, method: str) -> dict[str, Any]:
        """Return the JSON-RPC error for a request that the agent left unanswered."""
        return {
            "code": INTERNAL_ERROR,
            "message": f"{self} before it answered {method}",
            "data": self.details,
        }

    @property
    def details(self) -> dict[str, Any]:
        """The error data for programs."""
        return {
            "agentEnded": True,
            "exitCode": self.exit_code,
            "signal": self.signal,
            "stderr": list(self.stderr_tail),
        }
