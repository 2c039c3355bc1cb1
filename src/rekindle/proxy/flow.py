"""Flows: generators that answer one request in several steps.

A flow yields an effect and is sent the result: of a query, which the driver answers at once; of a
call to the agent, which the agent answers in its own time; or of an action, which the engine does
immediately. A flow returns the response for the client, or raises Refusal. So a request that takes
several steps reads from top to bottom, and stays pure.
"""

from collections.abc import Generator, Iterable
from typing import Any

from msgspec import Struct

from rekindle.model import Change, LeaseHolder, Page
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.peers import ClientConnection, Peer


class ClientRequest(Struct, frozen=True):
    """A request of a client that a flow answers."""

    client: ClientConnection
    method: str
    session_id: str | None
    params: dict[str, Any]
    """Decoded only for methods whose flow needs them."""
    line: bytes


# -- calls to the agent -------------------------------------------------------------------


class CallAgent(Struct, frozen=True):
    """Send the agent a request of Rekindle's own. Result: an AgentReply.

    Without an answer within `timeout_us`, the reply is marked as timed out.
    """

    method: str
    params: dict[str, Any]
    timeout_us: int | None = None


class ForwardRequest(Struct, frozen=True):
    """Forward a request of the client to the agent. Result: an AgentReply."""

    method: str
    line: bytes


class ForwardToHost(Struct, frozen=True):
    """Forward a request of the client to the host of its session. Result: an AgentReply."""

    host: Peer
    method: str
    line: bytes


class CallHost(Struct, frozen=True):
    """Send a host a request of Rekindle's own. Result: an AgentReply."""

    host: Peer
    method: str
    params: dict[str, Any]
    timeout_us: int


NO_RESPONSE: dict[str, Any] = {"message": "the agent did not answer in time"}
"""The error of an agent that did not answer in time. It has no code."""


class AgentReply(Struct, frozen=True):
    """The agent's response: a result, or an error."""

    result: object = None
    error: dict[str, Any] | None = None
    """The error of the agent, or `NO_RESPONSE`. None if the agent succeeded."""
    line: bytes = b""
    """The response as it came, if it came."""


# -- queries: answered by the driver --------------------------------------------------------


class GetSession(Struct, frozen=True):
    """Read one session from the store. Result: a Session, or None."""

    session_id: str


class ListSessions(Struct, frozen=True):
    """Read a page of sessions from the store. Result: a list of Session."""

    page: Page


class LookupIds(Struct, frozen=True):
    """Find the ids that the store knows, as a session's own id or the agent's. Result: a set."""

    session_ids: tuple[str, ...]
    recorded_only: bool = False
    """Leave out sessions for which `Session.is_blank` is true."""


class GetForgottenIds(Struct, frozen=True):
    """Find the agent's ids of sessions that were forgotten. Result: a dict of their times."""

    session_ids: tuple[str, ...]


class LoadTranscript(Struct, frozen=True):
    """Fold the entries of a session. Result: a Transcript."""

    session_id: str
    is_shared: bool = False
    """Whether other events may be processed meanwhile. Then later entries may be missing, and the
    flow calls `settle` once it has added them."""
    until: int | None = None
    """The last entry that is read; None to read all."""


class ExtendSession(Struct, frozen=True):
    """Apply changes to a session at once if its last seq is `after`. Result: whether it worked."""

    session_id: str
    after: int
    changes: list[Change]


class WriteChanges(Struct, frozen=True):
    """Write changes to the store, synced. Result: None, and they are stored.

    `RecordChanges` lets changes wait if the store fails. This query fails then.
    """

    changes: list[Change]


class GetLeaseHolder(Struct, frozen=True):
    """Look up another process that holds the lease of a session. Result: a LeaseHolder, or None."""

    session_id: str


class CompareArchiveStates(Struct, frozen=True):
    """Find the sessions whose recorded archive state at the agent differs. Result: a list.

    `states` has the agent's own state by the agent's session id.
    """

    states: dict[str, bool]


class GetAgentTraits(Struct, frozen=True):
    """Look up the traits of an agent by its release. Result: a frozenset of AgentTrait."""

    release: str


class ReadEntries(Struct, frozen=True):
    """Read the entries of a session after a seq. Result: a list of Entry."""

    session_id: str
    after: int


class AcquireLease(Struct, frozen=True):
    """Acquire the lease of a session. Result: a LeaseResult."""

    session_id: str
    may_take_over: bool = False


class IsAgentGone(Struct, frozen=True):
    """Find out whether the agent of another process has ended. Result: a bool.

    Agents on other machines count as gone.
    """

    holder: LeaseHolder


class ReleaseLease(Struct, frozen=True):
    """Release the lease of a session. Result: None."""

    session_id: str


class EraseSession(Struct, frozen=True):
    """Remove a session and its entries from the store for good. Result: None."""

    session_id: str


class ConnectToHost(Struct, frozen=True):
    """Connect to the process that has a session. Result: None, or the reason why it failed.

    The connection has the number `peer` from then on.
    """

    peer: Peer
    holder: LeaseHolder


class DescribeHost(Struct, frozen=True):
    """Describe this process for other processes of the user. Result: a dict."""


class SameFolder(Struct, frozen=True):
    """Compare two paths as folders, whatever their spelling. Result: a bool."""

    one: str
    other: str


class StartAgent(Struct, frozen=True):
    """Start the agent's process again. Result: None, or the reason why it did not start."""


class SwitchAgent(Struct, frozen=True):
    """End the agent's process; the next one runs this command. Result: None, or why it cannot."""

    command: tuple[str, ...]


class QueryFailed(Struct, frozen=True):
    """The driver's answer to a query that failed. The flow receives it as a Refusal."""

    reason: str


# -- actions: done by the engine at once ----------------------------------------------------


class SendToClient(Struct, frozen=True):
    """Send lines to the client whose request the flow answers, or to another. Result: None."""

    lines: Iterable[bytes]
    client: Peer | None = None


class SendToSession(Struct, frozen=True):
    """Send a line, the same in both versions, to every client of a session. Result: None."""

    live: LiveSession
    line: bytes


class Broadcast(Struct, frozen=True):
    """Send an update to every client of a session, in its version. Result: None."""

    live: LiveSession
    update: dict[str, Any]
    """In the agent's version."""


class ForwardToAgent(Struct, frozen=True):
    """Record a line of the client and forward it to the agent. Result: None."""

    line: bytes
    preface: dict[str, Any] | None = None
    """A content block that goes before the user's own blocks of a prompt."""
    is_answered: bool = False
    """Whether the client has its response already. The agent's response then is for the engine."""


class RecordUndelivered(Struct, frozen=True):
    """Record a prompt that no agent received, and its error response. Result: None."""

    session_id: str
    line: bytes
    response: bytes


class CancelTurn(Struct, frozen=True):
    """Cancel the turn of a session, as the client would. Result: None."""

    session_id: str


class DetachClient(Struct, frozen=True):
    """Detach the client of the flow from a session that continues without it. Result: None."""

    live: LiveSession


class DisconnectFromHost(Struct, frozen=True):
    """Close the connection to a host. Result: None."""

    host: Peer


class CatchUp(Struct, frozen=True):
    """Process the lines of a host that were held while the client got earlier entries of a session.

    Result: None.
    """

    host: Peer
    session_id: str


class DropQueuedPrompts(Struct, frozen=True):
    """Answer the queued prompts of a session as cancelled. Result: None."""

    session_id: str


class FlushHeld(Struct, frozen=True):
    """Process the updates that were held while a session was restored. Result: None."""

    session_id: str


class AnswerOpenPrompts(Struct, frozen=True):
    """Answer the open prompts of a session as cancelled, for the agent. Result: None."""

    session_id: str


class RecordChanges(Struct, frozen=True):
    """Record changes, synced. Result: None."""

    changes: list[Change]


class ReportToUser(Struct, frozen=True):
    """Report something to the user, outside the protocol. Result: None."""

    text: str
    quote: str = ""
    """The part that comes from the conversation."""


class ReportHostDeath(Struct, frozen=True):
    """Note that the host of a session has ended in the middle of a turn. Result: None."""

    live: LiveSession
    reason: str


# -- waits ------------------------------------------------------------------------------------


class WaitForTurnEnd(Struct, frozen=True):
    """Wait until a session has no running turn, at most `timeout_us`. Result: None."""

    session_id: str
    timeout_us: int


class WaitForRestart(Struct, frozen=True):
    """Wait until no other flow is starting the agent. Result: None."""


class Pause(Struct, frozen=True):
    """Wait for some time. Result: None."""

    us: int


Query = (
    GetSession
    | ListSessions
    | LookupIds
    | GetForgottenIds
    | LoadTranscript
    | ReadEntries
    | GetAgentTraits
    | GetLeaseHolder
    | CompareArchiveStates
    | ExtendSession
    | WriteChanges
    | AcquireLease
    | IsAgentGone
    | ReleaseLease
    | EraseSession
    | ConnectToHost
    | DescribeHost
    | SameFolder
    | StartAgent
    | SwitchAgent
)
"""Answered by the driver, from the store or the machine."""

Action = (
    SendToClient
    | SendToSession
    | Broadcast
    | ForwardToAgent
    | RecordUndelivered
    | CancelTurn
    | DetachClient
    | DisconnectFromHost
    | CatchUp
    | DropQueuedPrompts
    | AnswerOpenPrompts
    | FlushHeld
    | RecordChanges
    | ReportToUser
    | ReportHostDeath
)
"""Done by the engine at once."""

FlowEffect = (
    CallAgent
    | ForwardRequest
    | CallHost
    | ForwardToHost
    | WaitForTurnEnd
    | WaitForRestart
    | Pause
    | Query
    | Action
)

Flow = Generator[FlowEffect, Any, dict[str, Any] | bytes | None]
"""Returns a result, or a whole response line, or None if the agent itself will answer."""

SubFlow = Generator[FlowEffect, Any, Any]
"""A part of a flow. It returns a value that the rest of the flow needs."""


class Refusal(Exception):
    """A request is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
