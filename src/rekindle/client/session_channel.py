"""The connection's side of an open session: it receives lines, and runs turns."""

from collections.abc import AsyncIterator, Callable

from msgspec import Raw, Struct, field

from rekindle.acp import methods
from rekindle.acp.jsonrpc import REQUEST_CANCELLED
from rekindle.acp.prompt_echo import PromptEcho
from rekindle.acp.update_kinds import (
    HISTORY_TRUNCATED,
    STATE_UPDATE,
    Category,
    is_user_message,
    kind_of,
)
from rekindle.client.events import Event, EventBuilder, PermissionRequested
from rekindle.client.follow import EventSink, OtherTurns, reported_state, turn_in
from rekindle.client.handshake import Capability, Handshake
from rekindle.client.models import (
    OnPermission,
)
from rekindle.client.permissions import PermissionQueue
from rekindle.client.rpc import RpcConnection, RpcResponse, read_error
from rekindle.client.session_record import SessionRecord
from rekindle.client.subagents import SubagentFamily
from rekindle.client.turn import Turn, TurnStream
from rekindle.errors import (
    AgentRefused,
    ClientError,
    NotOffered,
    SessionBusy,
    SessionClosed,
)
from rekindle.jsonvalue import Json, as_object, as_str, decode_object, encode
from rekindle.model import Kind, Side
from rekindle.transcript.model import TranscriptTurn

_SESSION_CATEGORIES = frozenset({Category.STATE, Category.NOTICE})
"""The categories of updates that belong to no turn."""


class ConnectionContext(Struct, frozen=True):
    """The state that all sessions of a connection share."""

    rpc: RpcConnection
    handshake: Handshake
    on_permission: OnPermission | None
    remove: Callable[["SessionChannel"], None]
    """Removes a session from the dispatcher."""

    def require(self, capability: Capability | str, description: str, remedy: str = "") -> None:
        """Check that the agent has a capability. Raises NotOffered."""
        if capability not in self.handshake.offered:
            raise NotOffered(self.handshake.name, description, remedy)


class TurnEndDetector:
    """Finds the end of a turn in version 2.

    There the response to a prompt only says that the agent has accepted it, and a state of `idle`
    ends the turn. The state may also belong to earlier work, if it crossed with the prompt.
    """

    def __init__(self) -> None:
        self._is_working = False
        """Whether the last state that the agent sent was not `idle`."""
        self._was_working = False
        """The same at the time of the prompt."""
        self._has_started = False
        self._is_accepted = False
        self._idle_state: Json | None = None

    def prompt_sent(self) -> None:
        """Start again for a new prompt."""
        self._has_started = self._is_accepted = False
        self._was_working, self._idle_state = self._is_working, None

    def note_state(self, update: Json) -> None:
        """Note a state, in a turn or outside one."""
        self._is_working = update.get("state") != "idle"

    def receive_state(self, update: Json) -> Json | None:
        """Handle a state in a turn; return the state that ends the turn, if it has ended."""
        if update.get("state") != "idle":
            self._has_started, self._idle_state = True, None
        elif self._has_started or self._ends_turn(update):
            self._idle_state = update
        return self._end()

    def accept(self) -> Json | None:
        """Handle the response to the prompt; return the state that ends the turn, if any."""
        self._is_accepted = True
        return self._end()

    def _end(self) -> Json | None:
        return self._idle_state if self._is_accepted else None

    def _ends_turn(self, update: Json) -> bool:
        """Return whether `idle` ends this turn though no other state was seen in it.

        Otherwise it is the end of earlier work, and crossed with the prompt.
        """
        if self._was_working:
            # An agent may handle a prompt within its running work. It then sends no new start.
            return self._is_accepted
        return "stopReason" in update


class _OpenEdit(Struct, frozen=True):
    """An edited prompt that waits until the agent has removed the old history."""

    prompt: bytes
    """The request that it becomes in the transcript."""
    answer: bytes = b""
    """The agent's response, if it has come."""


class _SentPrompt(Struct):
    """The last prompt, by its echo and by the edit that it may be."""

    echo: PromptEcho = field(default_factory=lambda: PromptEcho([]))
    edit: _OpenEdit | None = None
    queued: bytes = b""
    """The request, as long as it waits for the turn of another client."""
    is_next: bool = False
    """Whether that turn has ended, so that the prompt may be the next one."""


class SessionChannel:
    """The connection's side of an open session: it receives lines and runs turns."""

    def __init__(self, session_id: str, context: ConnectionContext) -> None:
        self.id = session_id
        self.context = context
        self.others = OtherTurns()
        self.record = SessionRecord(context.handshake.protocol)
        self.turn: Turn | None = None
        """The running turn."""
        self.is_open = True
        self.is_being_replaced = False
        """Whether the session is being opened again, and a new channel receives its lines."""
        self._stream: TurnStream | None = None
        self._permissions = PermissionQueue(context.rpc, self.record, context.on_permission)
        self.subagents = SubagentFamily(context.rpc, context.on_permission, self._sink)
        self._sent = _SentPrompt()
        self._end_detector = TurnEndDetector()

    # -- for the session ----------------------------------------------------------------

    def check_open(self) -> None:
        """Raise SessionClosed if the session is not open any more."""
        if not self.is_open:
            raise SessionClosed(self.id)

    def check_idle(self) -> None:
        """Raise SessionClosed if it is not open, and SessionBusy if it is in use."""
        self.check_open()
        if self.turn is not None:
            raise SessionBusy(self.id)
        if self.is_being_replaced:
            raise SessionBusy(self.id, "is being opened again; wait until that is done")

    def prompt(self, blocks: list[Json]) -> Turn:
        """Send a prompt, and return its turn."""
        params = {"sessionId": self.id, "prompt": blocks}
        line = self.context.rpc.send_request(methods.PROMPT, params, self._receive_response)
        self._sent = _SentPrompt(PromptEcho(blocks), queued=line)
        # The turn begins in the transcript when that of another client has ended.
        self._stream = TurnStream(TranscriptTurn(number=0, at_us=0))
        self.turn = Turn(self._stream, self._cancel)
        if not self.others.is_busy:
            self._begin_queued(self._stream)
        return self.turn

    def _begin_queued(self, stream: TurnStream) -> None:
        line, self._sent.queued = self._sent.queued, b""
        self.record.add(Side.CLIENT, Kind.PROMPT, line)
        stream.transcript_turn = self.record.transcript.turns[-1]
        self._end_detector.prompt_sent()

    def edit_prompt(self, message_id: str, blocks: list[Json]) -> Turn:
        """Replace a message of the user by another prompt, and return its turn."""
        params = {"sessionId": self.id, "messageId": message_id, "content": blocks}
        line = self.context.rpc.send_request(methods.EDIT_PROMPT, params, self._receive_response)
        sent = as_object(decode_object(line))
        prompt = {"sessionId": self.id, "prompt": blocks}
        self._sent.edit = _OpenEdit(encode({**sent, "method": methods.PROMPT, "params": prompt}))
        self._sent.echo = PromptEcho(blocks)
        self._end_detector.prompt_sent()
        # The turn begins in the transcript when the agent has removed the old history.
        self._stream = TurnStream(TranscriptTurn(number=0, at_us=0))
        self.turn = Turn(self._stream, self._cancel)
        return self.turn

    def _begin_edited(self, edit: "_OpenEdit", stream: TurnStream) -> None:
        self._sent.edit = None
        self.record.add(Side.CLIENT, Kind.PROMPT, edit.prompt)
        stream.transcript_turn = self.record.transcript.turns[-1]
        if edit.answer:
            self.record.add(Side.AGENT, Kind.ANSWER, edit.answer)

    def _cancel(self) -> None:
        self.context.rpc.notify(methods.CANCEL, {"sessionId": self.id})
        self._permissions.cancel()
        self.subagents.cancel()

    # -- for the connection -------------------------------------------------------------

    def opened(self, response: RpcResponse) -> None:
        """Receive the response that opens the session."""
        self.record.add_opening(response.line, response.result)
        running = turn_in(response.result)
        if running is not None:
            self.others.note_state(running)

    def follow(self) -> AsyncIterator[Event]:
        """Return the events of the turns of other clients, and the requests that wait."""
        is_new = not self.others.is_followed
        events = self.others.follow()
        if is_new:
            for request in self._permissions.waiting:
                self.others.add_event(PermissionRequested(request, needs_answer=True))
        return events

    def receive_update(self, line: bytes) -> None:
        """Receive an update."""
        update = as_object(as_object(as_object(decode_object(line)).get("params")).get("update"))
        kind = as_str(update.get("sessionUpdate")) or ""
        state, stream = reported_state(update), self._stream
        if kind == STATE_UPDATE:
            self._end_detector.note_state(update)
        if stream is not None and self._sent.queued and self._begins_own_turn(update):
            self._begin_queued(stream)
        if stream is None or self._sent.queued:
            self._receive_of_others(line, update, state)
            return
        if state is not None:
            self.others.note_state(state, is_own=True)
        stream.add_update(update)
        if kind == HISTORY_TRUNCATED and self._sent.edit is not None:
            self.record.add(Side.AGENT, Kind.UPDATE, line)
            self._begin_edited(self._sent.edit, stream)
            return
        if is_user_message(kind) and self._sent.echo.consume(update.get("content")):
            self.record.add(Side.AGENT, Kind.ECHO, line)
            return
        event = self._add_update(line, update)
        if event is not None:
            stream.add_event(event)
        if kind == STATE_UPDATE:
            self._end_if(self._end_detector.receive_state(update))

    def receive_permission_request(self, request_id: Raw, line: bytes) -> None:
        """Receive a permission request."""
        if self._stream is not None and self._sent.queued and self._sent.is_next:
            self._begin_queued(self._stream)
        self._permissions.receive(request_id, line, self._sink())

    def _sink(self) -> EventSink | None:
        """Return the sink for the events of the running turn; None if no turn is running."""
        if self._stream is not None and not self._sent.queued:
            return self._stream
        return self.others if self.others.is_followed or self.others.is_busy else None

    def _begins_own_turn(self, update: Json) -> bool:
        """Return whether an update belongs to the prompt that waits for other turns.

        The agent or Rekindle may send the prompt itself; any other message of the user is the
        prompt of another client, which was the next one. Otherwise the response begins the turn in
        version 2, and in version 1 the first update that is not about the state of the session.
        """
        category = kind_of(update.get("sessionUpdate")).category
        if not self._sent.is_next or category in _SESSION_CATEGORIES:
            return False
        if category is Category.USER_MESSAGE:
            self._sent.is_next = self._sent.echo.matches(update.get("content"))
            return self._sent.is_next
        return self.context.handshake.protocol == 1

    def _receive_of_others(self, line: bytes, update: Json, state: Json | None) -> None:
        """Receive an update that belongs to no turn of this client."""
        event = self._add_update(line, update)
        if state is None:
            if event is not None:
                self.others.add_event(event)
        elif self.others.note_state(state):
            self._sent.is_next = True
            self.record.add_end(state)
        elif self.others.is_busy:
            self._sent.is_next = False

    def _add_update(self, line: bytes, update: Json) -> Event | None:
        """Add an update to the record; return its event."""
        builder = EventBuilder(self.record.transcript, update)
        event = builder.build(self.record.add(Side.AGENT, Kind.UPDATE, line))
        self.subagents.note(update, self.record)
        return event

    def withdraw(self, request_id: Raw) -> None:
        """Drop a permission request that the agent has withdrawn, if this session has it."""
        self._permissions.withdraw(request_id)
        self.subagents.withdraw(request_id)

    def close(self, error: ClientError | None = None) -> None:
        """End the channel: the session was closed, deleted or replaced, or the agent is gone."""
        if self.is_open:
            self.is_open = False
            self.context.remove(self)
            self._permissions.leave()
            self.subagents.leave()
            self._end_turn(None if error else "cancelled", error)
            self.others.end(error)

    # -- the end of a turn --------------------------------------------------------------

    def _receive_response(self, response: RpcResponse) -> None:
        error = response.error
        self._begin_if_accepted(error)
        if self._sent.edit is not None:
            # The agent has refused the edit, or it removes the old history after its response.
            self._sent.edit = (
                None if error is not None else _OpenEdit(self._sent.edit.prompt, response.line)
            )
        elif response.line and not self._sent.queued:
            self.record.add(Side.AGENT, Kind.ANSWER, response.line)
        if isinstance(error, AgentRefused) and error.code == REQUEST_CANCELLED:
            is_ours = self._stream is not None and self._stream.is_cancelled
            self._end_turn("cancelled" if is_ours else None, None if is_ours else error)
        elif error is not None:
            self._end_turn(None, error)
        elif self.context.handshake.protocol == 1:
            reason = as_str(response.result.get("stopReason")) or "end_turn"
            self._end_turn(reason, None, response.result.get("usage"))
        else:
            if self._stream is not None:
                self._stream.accepted.set()
            self._end_if(self._end_detector.accept())

    def _begin_if_accepted(self, error: ClientError | None) -> None:
        """Begin a turn whose prompt has waited, unless the prompt was removed from the queue."""
        if self._sent.queued and self._stream is not None:
            is_accepted = error is None and self.context.handshake.protocol > 1
            if is_accepted or self._sent.is_next:
                self._begin_queued(self._stream)

    def _end_if(self, idle_state: Json | None) -> None:
        if idle_state is None:
            return
        reason = as_str(idle_state.get("stopReason")) or "end_turn"
        error = as_object(idle_state.get("error"))
        raised = read_error(methods.PROMPT, error) if reason == "error" else None
        self._end_turn(reason, raised, idle_state.get("usage"))

    def _end_turn(
        self, stop_reason: str | None, error: ClientError | None, usage: object = None
    ) -> None:
        stream, self._stream, self.turn = self._stream, None, None
        self._sent.queued = b""
        if stream is not None:
            stream.end(stop_reason, error, as_object(usage) or None)
