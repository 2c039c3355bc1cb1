"""A session in use, and a turn of it: what scenes tell is remembered and sent."""

import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator

from rekindle.example_agent.conversation import Conversation
from rekindle.example_agent.dialect import (
    Dialect,
    call_update,
    chunk,
    number_chunk,
    text_block,
    user_message,
)
from rekindle.example_agent.fairness import FairLock
from rekindle.example_agent.options import Options
from rekindle.example_agent.rpc import (
    REQUEST_CANCELLED,
    Connection,
    Json,
    Reply,
    Request,
    RpcError,
)

_WORDS_A_PIECE = 3


class CancelledError(Exception):
    """The turn was cancelled: it has nothing more to say."""


class Session:
    """A conversation that the client has open."""

    def __init__(
        self,
        connection: Connection,
        conversation: Conversation,
        dialect: Dialect,
        options: Options,
    ) -> None:
        self.connection = connection
        self.conversation = conversation
        self.dialect = dialect
        self.options = options
        self.turn: Turn | None = None  # the newest; it may be over
        self._state = "idle"
        self._telling = FairLock()  # what is remembered and what was sent are the same
        self._waiting: deque[tuple[Request, list[Json]]] = deque()
        self._turning = threading.Lock()

    # Telling the client.

    def tell(self, update: Json) -> None:
        """Remember an update, and send it."""
        with self._telling:
            self.conversation.add(update)
            self._send(self.dialect.live(update))

    def tell_number(self, message_id: str, number: int) -> None:
        """Remember how far a count has come, and send its newest number."""
        with self._telling:
            self.conversation.add_count(message_id, number)
            self._send(self.dialect.live(number_chunk(message_id, number)))

    def tell_again(self) -> None:
        """Send the whole conversation again."""
        with self._telling:
            self._send(self.dialect.again(self.conversation.replay(is_running=self.is_busy)))

    def enter(self, state: str, **details: object) -> None:
        """Be in another state from now on, and say so."""
        with self._telling:
            self._state = state
            self._send(self.dialect.live(_state_update(state, **details)))

    def tell_state(self) -> None:
        """Say in which state the session is."""
        with self._telling:
            self._send(self.dialect.live(_state_update(self._state)))

    def _send(self, updates: Iterable[Json]) -> None:
        for update in updates:
            params = {"sessionId": self.conversation.session_id, "update": update}
            self.connection.notify("session/update", params)

    # Taking turns.

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self.turn is not None and self.turn.is_running

    def begin(self, request: Request, blocks: list[Json]) -> "Turn | None":
        """Return the turn of a prompt; None if another is running, and the prompt has to wait."""
        with self._turning:
            if self.is_busy:
                self._waiting.append((request, blocks))
                return None
            self.turn = Turn(self, blocks)
            return self.turn

    def go_on(self, ended: "Turn") -> "tuple[Request, Turn] | None":
        """Return the turn of the prompt that has waited longest, if there is one."""
        with self._turning:
            if not self._waiting:
                ended.is_running = False
                return None
            request, blocks = self._waiting.popleft()
            self.turn = Turn(self, blocks)
            return request, self.turn

    def cancel(self) -> None:
        """Make the running turn end soon, if there is one, and turn away the prompts that wait."""
        with self._turning:
            if self.turn:
                self.turn.cancel()
            waiting = list(self._waiting)
            self._waiting.clear()
        for request, _ in waiting:
            request.answer(RpcError(REQUEST_CANCELLED, "cancelled before its turn came"))

    def settle(self, timeout: float | None = None) -> None:
        """Wait until the newest turn is over."""
        if self.turn:
            self.turn.is_over.wait(timeout)


class Turn:
    """One prompt being answered."""

    def __init__(self, session: Session, blocks: list[Json]) -> None:
        self.session = session
        self.conversation = session.conversation
        self.blocks = blocks
        self.words = words(blocks)
        self.earlier = self.conversation.prompts()
        self.message_id = self.conversation.new_id("message")
        self.conversation.add_prompt(self.message_id, blocks)
        self.has_spoken = False
        self.is_running = True
        self.is_over = threading.Event()  # and the client has been told
        self._cancelled = threading.Event()
        self._permission: Reply | None = None

    # For whoever runs the turn.

    @property
    def prompt(self) -> Json:
        """The prompt, as an update."""
        return user_message(self.message_id, self.blocks)

    def cancel(self) -> None:
        """Make the turn end soon, from any thread."""
        self._cancelled.set()
        if permission := self._permission:
            permission.settle(None)

    def cancel_open_calls(self) -> None:
        """Tell that the tool calls still open are cancelled."""
        for call_id in self.conversation.open_calls():
            self.session.tell(call_update(call_id, status="cancelled"))

    # For scenes. Each of these raises CancelledError once the turn is cancelled.

    def go_on(self) -> None:
        """Do nothing, unless the turn is cancelled."""
        if self._cancelled.is_set():
            raise CancelledError

    def pause(self) -> None:
        """Wait for the delay between two pieces."""
        if delay := self.session.options.delay:
            self._cancelled.wait(delay)
        self.go_on()

    def wait_for_cancel(self) -> None:
        """Wait until the turn is cancelled."""
        self._cancelled.wait()
        raise CancelledError

    def tell(self, update: Json) -> None:
        """Remember an update, and send it."""
        self.pause()
        self.session.tell(update)

    def say(self, text: str) -> None:
        """Stream a message."""
        self.has_spoken = True
        self._stream("agent_message_chunk", text)

    def think(self, text: str) -> None:
        """Stream a thought."""
        self._stream("agent_thought_chunk", text)

    def count(self, last: int) -> None:
        """Stream the numbers from 1 to `last` as one message, in constant memory."""
        self.has_spoken = True
        message_id = self.conversation.new_id("message")
        for number in range(1, last + 1):
            self.pause()
            self.session.tell_number(message_id, number)

    def ask_permission(self, call: Json, options: list[Json]) -> str | None:
        """Ask the user, and return the id of the option chosen, if one was."""
        self.pause()
        self.session.enter("requires_action")
        result = self._ask(self.session.dialect.question(call, options))
        self.session.enter("running")
        match result:
            case {"outcome": {"outcome": "selected", "optionId": str(option_id)}}:
                return option_id
            case _:
                return None

    def _ask(self, question: Json) -> object:
        params = {"sessionId": self.conversation.session_id, **question}
        reply = self.session.connection.ask("session/request_permission", params)
        self._permission = reply
        try:
            self.go_on()  # `cancel` may have come before there was a reply to give up
            result = reply.wait()
            self.go_on()
        except CancelledError:
            self._withdraw(reply)
            raise
        return result

    def _withdraw(self, reply: Reply) -> None:
        connection = self.session.connection
        if connection.give_up(reply) and self.session.dialect.withdraws_questions:
            connection.notify("$/cancel_request", {"requestId": reply.request_id})

    def _stream(self, kind: str, text: str) -> None:
        message_id = self.conversation.new_id("message")
        for piece in pieces(text):
            self.tell(chunk(kind, message_id, text_block(piece)))


def _state_update(state: str, **details: object) -> Json:
    return {"sessionUpdate": "state_update", "state": state, **details}


def pieces(text: str) -> Iterator[str]:
    """Yield `text` a few words at a time; joined, the pieces are the text again."""
    parts: list[str] = re.findall(r"\S+\s*|\s+", text)
    for start in range(0, len(parts), _WORDS_A_PIECE):
        yield "".join(parts[start : start + _WORDS_A_PIECE])


def words(blocks: list[Json]) -> str:
    """Return the user's own words: the last text block. What stands before it is context."""
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return texts[-1] if texts else ""
