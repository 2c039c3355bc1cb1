"""What a request needs before it can be answered, as a generator that asks for it.

A flow yields a question and is sent the answer: of the store, which the runner gives at once,
or of the agent, which comes when it comes. It returns what the client is answered, or raises
Refusal. So what takes several steps reads from top to bottom, and stays pure.
"""

from collections.abc import Generator, Iterable
from typing import Any

from msgspec import Struct

from rekindle.model import Change, Page


class CallAgent(Struct, frozen=True):
    """Ask the agent. Answered with a Reply; without one in `patience_us`, with a silent one."""

    method: str
    params: dict[str, Any]
    timeout_us: int | None = None


class ForwardRequest(Struct, frozen=True):
    """Hand a request of the client's on to the agent. Answered with a Reply."""

    method: str
    line: bytes


class AgentReply(Struct, frozen=True):
    """What the agent answered; neither result nor error when it kept silent."""

    result: object = None
    error: dict[str, Any] | None = None
    is_silent: bool = False
    line: bytes = b""
    """The answer as it came, if it did."""

    @property
    def is_success(self) -> bool:
        """Whether the agent did what it was asked."""
        return self.error is None and not self.is_silent


class GetSession(Struct, frozen=True):
    """Ask the store for a session. Answered with a Session, or None."""

    session_id: str


class ListSessions(Struct, frozen=True):
    """Ask the store for a page of sessions. Answered with a list."""

    page: Page


class LookupIds(Struct, frozen=True):
    """Ask which of these ids the store knows, as a session's own or the agent's: a set."""

    session_ids: tuple[str, ...]


class LoadTranscript(Struct, frozen=True):
    """Ask the store for what was said in a session. Answered with a Transcript."""

    session_id: str


class AcquireLease(Struct, frozen=True):
    """Ask to drive a session. Answered with Claimed."""

    session_id: str
    may_take_over: bool = False


class ReleaseLease(Struct, frozen=True):
    """Drive a session no longer. Answered with None."""

    session_id: str


class EraseSession(Struct, frozen=True):
    """Remove a session's record for good. Answered with None."""

    session_id: str


class SameFolder(Struct, frozen=True):
    """Ask whether two paths are one folder, however they are spelled. Answered with a bool."""

    one: str
    other: str


class StartAgent(Struct, frozen=True):
    """Start the agent anew. Answered with None, or the words that say why it did not start."""


class SendToClient(Struct, frozen=True):
    """Send lines to the client. Answered with None."""

    lines: Iterable[bytes]


class ForwardToAgent(Struct, frozen=True):
    """Let a line of the client's go its usual way. Answered with None.

    A prompt may get a preface: a block for the agent, before the user's own.
    """

    line: bytes
    preface: dict[str, Any] | None = None
    is_ours: bool = False
    """Whether we have answered it, and the agent's answer is for us."""


class RecordUndelivered(Struct, frozen=True):
    """Keep a prompt that no agent lived to be given, and its answer. Answered with None."""

    session_id: str
    line: bytes
    answer: bytes


class CancelTurn(Struct, frozen=True):
    """Cancel the turn of a session, as the client would. Answered with None."""

    session_id: str


class DropQueuedPrompts(Struct, frozen=True):
    """Refuse the prompts that waited for a turn's end. Answered with None."""

    session_id: str


class FlushHeld(Struct, frozen=True):
    """Tell what was held back of a session while it was restored. Answered with None."""

    session_id: str


class AnswerOpenPrompts(Struct, frozen=True):
    """Answer the open prompts of a session in the agent's place. Answered with None."""

    session_id: str


class RecordChanges(Struct, frozen=True):
    """Record changes. Answered with None."""

    changes: list[Change]


class WaitForTurnEnd(Struct, frozen=True):
    """Wait until a session has no turn running. Answered with None, in `patience_us` at most."""

    session_id: str
    timeout_us: int


class Pause(Struct, frozen=True):
    """Wait. Answered with None."""

    us: int


Query = (
    GetSession
    | ListSessions
    | LookupIds
    | LoadTranscript
    | AcquireLease
    | ReleaseLease
    | EraseSession
    | SameFolder
    | StartAgent
)
"""What the runner answers."""

Action = (
    SendToClient
    | ForwardToAgent
    | RecordUndelivered
    | CancelTurn
    | DropQueuedPrompts
    | AnswerOpenPrompts
    | FlushHeld
    | RecordChanges
)
"""What is done at once."""

FlowEffect = CallAgent | ForwardRequest | WaitForTurnEnd | Pause | Query | Action

Flow = Generator[FlowEffect, Any, dict[str, Any] | bytes | None]
"""Returns the result, or the whole answer as one line; None when the agent will answer."""

SubFlow = Generator[FlowEffect, Any, Any]
"""A part of a flow, which returns what the rest of it needs."""


class Refusal(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class QueryFailed(Struct, frozen=True):
    """The runner's answer when it could not find one out."""

    reason: str
