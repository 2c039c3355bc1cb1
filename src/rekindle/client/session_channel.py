"""One session at the connection: what the agent tells of it, and the turn that is running.

`Session` is what callers have of it; what stands here is for the connection.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import REQUEST_CANCELLED
from rekindle.acp.prompt_echo import PromptEcho
from rekindle.client.events import Seam, Watch
from rekindle.client.handshake import Greeting, Offer
from rekindle.client.permission_queue import Asking
from rekindle.client.permissions import OnPermission
from rekindle.client.rpc import Answer, Rpc, error_of
from rekindle.client.session_record import Record
from rekindle.client.turn import Course, Turn
from rekindle.errors import AgentRefused, ClientError, NotOffered, SessionBusy, SessionClosed
from rekindle.jsonvalue import as_object, as_str, decode_object
from rekindle.model import Kind, Side

Json = dict[str, Any]


class Context(Struct, frozen=True):
    """What all sessions of an agent share."""

    rpc: Rpc
    agent: Greeting
    on_permission: OnPermission | None
    forget: Callable[["Talk"], None]

    def check(self, offer: Offer | str, what: str, remedy: str = "") -> None:
        """Check that the agent offers something. Raises NotOffered."""
        if offer not in self.agent.offered:
            raise NotOffered(self.agent.name, what, remedy)


class Talk:
    """What is said in a session that is open."""

    def __init__(self, session_id: str, context: Context) -> None:
        self.id = session_id
        self.context = context
        self.record = Record(context.agent.protocol)
        self.turn: Turn | None = None
        """The one that is running."""
        self.is_open = True
        self.is_being_replaced = False
        """Whether the session is just being opened anew, and others will have what is said."""
        self._course: Course | None = None
        self._asking = Asking(context.rpc, self.record, context.on_permission)
        self._echo = PromptEcho([])
        self._seam = Seam()
        self._has_begun = False
        self._is_accepted = False
        self._is_at_work = False
        """What the agent last told of its state, in version 2."""
        self._was_at_work = False
        """Whether it was so when it was prompted."""
        self._ending: Json | None = None

    # -- for whoever has the session ----------------------------------------------------

    def check_open(self) -> None:
        """Raise SessionClosed if it is not open here any more."""
        if not self.is_open:
            raise SessionClosed(self.id)

    def check_free(self) -> None:
        """Raise SessionClosed, or SessionBusy while something is done with it."""
        self.check_open()
        if self.turn is not None:
            raise SessionBusy(self.id)
        if self.is_being_replaced:
            raise SessionBusy(self.id, "is being opened anew: wait for that")

    def prompt(self, blocks: list[Json]) -> Turn:
        """Send a prompt."""
        params = {"sessionId": self.id, "prompt": blocks}
        line = self.context.rpc.ask(methods.PROMPT, params, self._take_answer)
        self.record.note(Side.CLIENT, Kind.PROMPT, line)
        self._echo = PromptEcho(blocks)
        self._has_begun = self._is_accepted = False
        self._was_at_work, self._ending = self._is_at_work, None
        self._course = Course(self.record.transcript.turns[-1])
        self.turn = Turn(self._course, self._cancel)
        return self.turn

    def _cancel(self) -> None:
        self.context.rpc.notify(methods.CANCEL, {"sessionId": self.id})
        self._asking.cancel()

    # -- for the connection -------------------------------------------------------------

    def begin(self, answer: Answer) -> None:
        """Take the answer that opens the session."""
        self.record.begin(answer.line, answer.result)

    def take_update(self, line: bytes) -> None:
        """Take an update."""
        update = as_object(as_object(as_object(decode_object(line)).get("params")).get("update"))
        kind = as_str(update.get("sessionUpdate")) or ""
        course = self._course
        if kind == methods.STATE_UPDATE:
            self._is_at_work = update.get("state") != "idle"
        if course is None:
            self.record.note(Side.AGENT, Kind.UPDATE, line)
            return
        course.tell_raw(update)
        if kind in methods.USER_MESSAGE_KINDS and self._echo.consume(update.get("content")):
            self.record.note(Side.AGENT, Kind.ECHO, line)
            return
        watch = Watch(self.record.transcript, update)
        event = watch.event(self.record.note(Side.AGENT, Kind.UPDATE, line))
        event = self._seam.mend(event) if event is not None else None
        if event is not None:
            course.tell(event)
        if kind == methods.STATE_UPDATE:
            self._take_state(update)

    def take_question(self, request_id: Raw, line: bytes) -> None:
        """Take a question for permission."""
        self._asking.take(request_id, line, self._course)

    def withdraw(self, request_id: Raw) -> None:
        """Let a question go, if it is one of this session's."""
        self._asking.withdraw(request_id)

    def leave(self, error: ClientError | None = None) -> None:
        """Take no more part in it: it was closed, deleted or opened anew, or the agent is gone."""
        if self.is_open:
            self.is_open = False
            self.context.forget(self)
            self._asking.cancel()
            self._end_turn(None if error else "cancelled", error)

    # -- the end of a turn --------------------------------------------------------------

    def _take_answer(self, answer: Answer) -> None:
        if answer.line:
            self.record.note(Side.AGENT, Kind.ANSWER, answer.line)
        refusal = answer.error
        if isinstance(refusal, AgentRefused) and refusal.code == REQUEST_CANCELLED:
            is_ours = self._course is not None and self._course.is_cancelled
            self._end_turn("cancelled" if is_ours else None, None if is_ours else refusal)
        elif refusal is not None:
            self._end_turn(None, refusal)
        elif self.context.agent.protocol == 1:
            self._end_turn(as_str(answer.result.get("stopReason")) or "end_turn", None)
        else:
            # From version 2 on this says that the prompt was taken. A state tells the end.
            self._is_accepted = True
            self._end_if_idle()

    def _take_state(self, state: Json) -> None:
        if state.get("state") != "idle":
            self._has_begun, self._ending = True, None
        elif self._has_begun or self._is_ours(state):
            self._ending = state
            self._end_if_idle()

    def _is_ours(self, state: Json) -> bool:
        """Tell whether a turn ended that was not seen to begin.

        Else it is the end of something before it, which has crossed with the prompt.
        """
        if self._was_at_work:
            # One that takes the prompt into what it is doing has nothing more to begin.
            return self._is_accepted
        return "stopReason" in state

    def _end_if_idle(self) -> None:
        if self._ending is None or not self._is_accepted:
            return
        reason = as_str(self._ending.get("stopReason")) or "end_turn"
        told = as_object(self._ending.get("error"))
        self._end_turn(reason, error_of(methods.PROMPT, told) if reason == "error" else None)

    def _end_turn(self, stop_reason: str | None, error: ClientError | None) -> None:
        course, self._course, self.turn = self._course, None, None
        if course is not None:
            course.end(stop_reason, error)
