"""A session in use, and a turn of it: what scenes tell is remembered and sent."""

import re
import threading
from collections.abc import Iterator

from rekindle.example_agent.conversation import Conversation, chunk, number_chunk, text_block
from rekindle.example_agent.options import Options
from rekindle.example_agent.rpc import Connection, Json, Reply

_WORDS_A_PIECE = 3


class CancelledError(Exception):
    """The turn was cancelled: it has nothing more to say."""


class Session:
    """A conversation that the client has open."""

    def __init__(
        self, connection: Connection, conversation: Conversation, options: Options
    ) -> None:
        self.connection = connection
        self.conversation = conversation
        self.options = options
        self.turn: Turn | None = None  # the newest; it may be over

    def send(self, update: Json) -> None:
        """Send one update to the client."""
        if not self.options.message_ids:
            update = {key: value for key, value in update.items() if key != "messageId"}
        params = {"sessionId": self.conversation.session_id, "update": update}
        self.connection.notify("session/update", params)

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self.turn is not None and self.turn.is_running

    def cancel(self) -> None:
        """Make the running turn end soon, if there is one."""
        if self.turn:
            self.turn.cancel()

    def settle(self, timeout: float | None = None) -> None:
        """Wait until the newest turn has been answered."""
        if self.turn:
            self.turn.answered.wait(timeout)


class Turn:
    """One prompt being answered."""

    def __init__(self, session: Session, blocks: list[Json]) -> None:
        self.session = session
        self.conversation = session.conversation
        self.blocks = blocks
        self.words = words(blocks)
        self.earlier = self.conversation.prompts()
        self.has_spoken = False
        self.is_running = True
        self.answered = threading.Event()
        self._cancelled = threading.Event()
        self._permission: Reply | None = None

    # For whoever runs the turn.

    def begin(self) -> None:
        """Remember the prompt, and echo it if that is asked for."""
        message_id = self.conversation.new_id("message")
        self.conversation.add_prompt(message_id, self.blocks)
        if self.session.options.echo:
            for block in self.blocks:
                self.session.send(chunk("user_message_chunk", message_id, block))

    def cancel(self) -> None:
        """Make the turn end soon, from any thread."""
        self._cancelled.set()
        if permission := self._permission:
            permission.settle(None)

    def fail_open_calls(self) -> None:
        """Tell that the tool calls still open have failed."""
        for call_id in self.conversation.open_calls():
            self._tell_now(call_update(call_id, status="failed"))

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
        self._tell_now(update)

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
            self.conversation.add_count(message_id, number)
            self.session.send(number_chunk(message_id, number))

    def ask_permission(self, call: Json, options: list[Json]) -> str | None:
        """Ask the user, and return the id of the option chosen, if one was."""
        params = {
            "sessionId": self.conversation.session_id,
            "toolCall": {key: value for key, value in call.items() if key != "sessionUpdate"},
            "options": options,
        }
        self.pause()
        self._permission = self.session.connection.ask("session/request_permission", params)
        self.go_on()  # `cancel` may have come before there was a reply to give up
        result = self._permission.wait()
        self.go_on()
        match result:
            case {"outcome": {"outcome": "selected", "optionId": str(option_id)}}:
                return option_id
            case _:
                return None

    def _stream(self, kind: str, text: str) -> None:
        message_id = self.conversation.new_id("message")
        for piece in pieces(text):
            self.tell(chunk(kind, message_id, text_block(piece)))

    def _tell_now(self, update: Json) -> None:
        self.conversation.add(update)
        self.session.send(update)


def call_update(call_id: str, **changes: object) -> Json:
    """Return the update that changes a tool call."""
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **changes}


def pieces(text: str) -> Iterator[str]:
    """Yield `text` a few words at a time; joined, the pieces are the text again."""
    parts: list[str] = re.findall(r"\S+\s*|\s+", text)
    for start in range(0, len(parts), _WORDS_A_PIECE):
        yield "".join(parts[start : start + _WORDS_A_PIECE])


def words(blocks: list[Json]) -> str:
    """Return the user's own words: the last text block. What stands before it is context."""
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return texts[-1] if texts else ""
