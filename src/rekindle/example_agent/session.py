"""Open sessions and their turns. Updates are remembered and sent."""

import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress

from rekindle.example_agent.conversation import Conversation, ConversationFolder
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import read_cwd, read_session_id, read_system_prompt
from rekindle.example_agent.rpc import (
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
    Connection,
    Json,
    Reply,
    Request,
    RpcError,
)
from rekindle.example_agent.updates import (
    UpdateFormat,
    call_update,
    chunk,
    number_chunk,
    text_block,
    user_message,
)

_WORDS_PER_CHUNK = 3
# The time that turns may take to end after the client has disconnected.
_GRACE_SECONDS = 1.0


class CancelledError(Exception):
    """The turn was cancelled."""


class Session:
    """A session that the client has opened."""

    def __init__(
        self,
        connection: Connection,
        conversation: Conversation,
        update_format: UpdateFormat,
        options: Options,
    ) -> None:
        self.connection = connection
        self.conversation = conversation
        self.update_format = update_format
        self.options = options
        self.turn: Turn | None = None  # the latest; it may have ended
        self.takes_subagents = False
        self._state = "idle"
        self._sending = FairLock()  # keeps the memory and the sent updates in the same order
        self._waiting: deque[tuple[Request, list[Json]]] = deque()
        self._turn_lock = threading.Lock()

    # -- sending --

    def send_update(self, update: Json) -> None:
        """Add an update to the conversation, and send it."""
        with self._sending:
            self.conversation.add(update)
            self._send(self.update_format.live(update))

    def send_number(self, message_id: str, number: int) -> None:
        """Add the next number of a count, and send it."""
        with self._sending:
            self.conversation.add_count(message_id, number)
            self._send(self.update_format.live(number_chunk(message_id, number)))

    def replay(self) -> None:
        """Send the whole conversation again."""
        with self._sending:
            self._send(self.update_format.replay(self.conversation.replay(is_running=self.is_busy)))

    def set_state(self, state: str, **details: object) -> None:
        """Change the state, and send it."""
        with self._sending:
            self._state = state
            self._send(self.update_format.live(_state_update(state, **details)))

    def send_state(self) -> None:
        """Send the current state."""
        with self._sending:
            self._send(self.update_format.live(_state_update(self._state)))

    def _send(self, updates: Iterable[Json]) -> None:
        for update in updates:
            params = {"sessionId": self.conversation.session_id, "update": update}
            self.connection.notify("session/update", params)

    # -- turns --

    @property
    def state(self) -> str:
        """The state, as version 2 names it."""
        return self._state

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self.turn is not None and self.turn.is_running

    def start_turn(self, request: Request, blocks: list[Json]) -> "Turn | None":
        """Start the turn of a prompt; return None if it has to wait for another turn."""
        with self._turn_lock:
            if self.is_busy:
                self._waiting.append((request, blocks))
                return None
            self.turn = Turn(self, blocks)
            return self.turn

    def next_turn(self, ended: "Turn") -> "tuple[Request, Turn] | None":
        """Start the turn of the prompt that has waited longest, if any."""
        with self._turn_lock:
            if not self._waiting:
                ended.is_running = False
                return None
            request, blocks = self._waiting.popleft()
            self.turn = Turn(self, blocks)
            return request, self.turn

    def cancel(self) -> None:
        """Cancel the running turn, if any, and refuse the waiting prompts."""
        with self._turn_lock:
            if self.turn:
                self.turn.cancel()
            waiting = list(self._waiting)
            self._waiting.clear()
        for request, _ in waiting:
            request.respond(RpcError(REQUEST_CANCELLED, "cancelled before its turn came"))

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the latest turn."""
        if self.turn:
            self.turn.has_ended.wait(timeout)


class Turn:
    """The work on one prompt."""

    def __init__(self, session: Session, blocks: list[Json]) -> None:
        self.session = session
        self.conversation = session.conversation
        self.blocks = blocks
        self.prompt_text = prompt_text(blocks)
        self.earlier_prompts = self.conversation.prompts()
        self.message_id = self.conversation.new_id("message")
        self.conversation.add_prompt(self.message_id, blocks)
        self.has_answered = False
        self.is_running = True
        self.has_ended = threading.Event()  # set after the client has been informed
        self._cancelled = threading.Event()
        self._permission: Reply | None = None

    # -- for the handlers --

    @property
    def prompt(self) -> Json:
        """The prompt as an update."""
        return user_message(self.message_id, self.blocks)

    def cancel(self) -> None:
        """Cancel the turn. Any thread may call it."""
        self._cancelled.set()
        if permission := self._permission:
            permission.resolve(None)

    def cancel_open_calls(self) -> None:
        """Send updates that cancel the open tool calls."""
        for call_id in self.conversation.open_calls():
            self.session.send_update(call_update(call_id, status="cancelled"))

    # -- for the actions: each raises CancelledError if the turn is cancelled --

    def check_cancelled(self) -> None:
        """Raise CancelledError if the turn is cancelled."""
        if self._cancelled.is_set():
            raise CancelledError

    def pause(self) -> None:
        """Wait for the delay between two chunks."""
        if delay := self.session.options.delay:
            self._cancelled.wait(delay)
        self.check_cancelled()

    def wait_for_cancel(self) -> None:
        """Wait until the turn is cancelled."""
        self._cancelled.wait()
        raise CancelledError

    def send_update(self, update: Json) -> None:
        """Add an update to the conversation, and send it."""
        self.pause()
        self.session.send_update(update)

    def send_message(self, text: str) -> None:
        """Stream a message."""
        self.has_answered = True
        self._stream("agent_message_chunk", text)

    def think(self, text: str) -> None:
        """Stream a thought."""
        self._stream("agent_thought_chunk", text)

    def count(self, last: int) -> None:
        """Stream the numbers from 1 to `last` as one message, in constant memory."""
        self.has_answered = True
        message_id = self.conversation.new_id("message")
        for number in range(1, last + 1):
            self.pause()
            self.session.send_number(message_id, number)

    def ask_permission(
        self, call: Json, options: list[Json], *, session_id: str | None = None
    ) -> str | None:
        """Request a permission; return the id of the chosen option, if any.

        `session_id` is that of a sub-agent which requests it.
        """
        self.pause()
        self.session.set_state("requires_action")
        asking = {"sessionId": session_id or self.conversation.session_id}
        request = self.session.update_format.permission_request(call, options)
        result = self._ask({**asking, **request})
        self.session.set_state("running")
        match result:
            case {"outcome": {"outcome": "selected", "optionId": str(option_id)}}:
                return option_id
            case _:
                return None

    def _ask(self, params: Json) -> object:
        reply = self.session.connection.send_request("session/request_permission", params)
        self._permission = reply
        try:
            self.check_cancelled()  # `cancel` may have come before `_permission` was set
            result = reply.wait()
            self.check_cancelled()
        except CancelledError:
            self._withdraw(reply)
            raise
        return result

    def _withdraw(self, reply: Reply) -> None:
        connection = self.session.connection
        if connection.abandon(reply) and self.session.update_format.withdraws_requests:
            connection.notify("$/cancel_request", {"requestId": reply.request_id})

    def _stream(self, kind: str, text: str) -> None:
        message_id = self.conversation.new_id("message")
        for piece in split_text(text):
            self.send_update(chunk(kind, message_id, text_block(piece)))


def _state_update(state: str, **details: object) -> Json:
    return {"sessionUpdate": "state_update", "state": state, **details}


def split_text(text: str) -> Iterator[str]:
    """Yield `text` in chunks of a few words. Joined, they are the text."""
    parts: list[str] = re.findall(r"\S+\s*|\s+", text)
    for start in range(0, len(parts), _WORDS_PER_CHUNK):
        yield "".join(parts[start : start + _WORDS_PER_CHUNK])


def prompt_text(blocks: list[Json]) -> str:
    """Return the text of the user: the last text block. The blocks before it are context."""
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return texts[-1] if texts else ""


class FairLock:
    """A lock that serves waiting threads first.

    With a plain lock, a thread that counts to ten million would starve the others.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()  # held by the thread that is next
        self._held = threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._held.acquire()

    def __exit__(self, *_: object) -> None:
        self._held.release()


class SessionRegistry:
    """All sessions, open and closed. Both protocol versions share them."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._folder = ConversationFolder(options.memory)
        self._open: dict[str, Session] = {}
        self._closed: dict[str, Conversation] = {}
        self.takes_subagents = False
        """Whether the client knows sub-agents."""

    # -- opening --

    def create(self, params: Json, update_format: UpdateFormat) -> Session:
        """Create a session."""
        prompt = read_system_prompt(params, self._options)
        conversation = Conversation(_new_session_id(), read_cwd(params))
        conversation.system_prompt = prompt
        return self._add(conversation, update_format)

    def fork(self, params: Json, update_format: UpdateFormat) -> Session:
        """Create a copy of a session."""
        cwd = read_cwd(params)
        prompt = read_system_prompt(params, self._options)
        copy = self.get_known(params).fork(_new_session_id(), cwd)
        copy.system_prompt = prompt or copy.system_prompt
        return self._add(copy, update_format)

    def reopen(self, params: Json, update_format: UpdateFormat) -> Session:
        """Open a session again, in the folder that the client sends."""
        cwd = read_cwd(params)
        prompt = read_system_prompt(params, self._options)
        conversation = self.get_known(params)
        conversation.cwd = cwd
        conversation.system_prompt = prompt or conversation.system_prompt
        return self._open.get(conversation.session_id) or self._open_session(
            conversation, update_format
        )

    def _add(self, conversation: Conversation, update_format: UpdateFormat) -> Session:
        self.save(conversation)
        return self._open_session(conversation, update_format)

    def _open_session(self, conversation: Conversation, update_format: UpdateFormat) -> Session:
        self._closed.pop(conversation.session_id, None)
        session = Session(self._connection, conversation, update_format, self._options)
        session.takes_subagents = self.takes_subagents
        self._open[conversation.session_id] = session
        return session

    # -- finding --

    def get_open(self, params: Json) -> Session:
        """Return a session that the client has open."""
        session_id = read_session_id(params)
        if session := self._open.get(session_id):
            return session
        raise _unknown(session_id)

    def find_open(self, session_id: str) -> Session | None:
        """Return a session if the client has it open."""
        return self._open.get(session_id)

    def check_known(self, params: Json) -> None:
        """Check that a session exists, open or not."""
        self.get_known(params)

    def get_known(self, params: Json) -> Conversation:
        """Return the conversation of a session, open or not."""
        session_id = read_session_id(params)
        if session := self._open.get(session_id):
            return session.conversation
        if conversation := self._closed.get(session_id) or self._folder.find(session_id):
            return conversation
        raise _unknown(session_id)

    def newest_first(self, cwd: str | None) -> list[Conversation]:
        """Return all conversations, or those of one folder."""
        found = {conversation.session_id: conversation for conversation in self._folder}
        found.update(self._closed)
        found.update((key, session.conversation) for key, session in self._open.items())
        matching = [
            conversation for conversation in found.values() if cwd in (None, conversation.cwd)
        ]
        return sorted(matching, key=lambda conversation: conversation.updated_at, reverse=True)

    # -- saving and closing --

    def save(self, conversation: Conversation) -> None:
        """Save a conversation."""
        self._folder.save(conversation)

    def cancel(self, session_id: str) -> None:
        """Cancel the running turn of a session, if any."""
        if session := self._open.get(session_id):
            session.cancel()

    def close(self, session_id: str) -> None:
        """Cancel the turn of a session and close it. It need not be open."""
        self._close(session_id)

    def close_retained(self, session_id: str) -> None:
        """Close a session, and keep it for reopening. It need not be open."""
        session = self._close(session_id)
        if session and self._options.memory is None:
            self._closed[session_id] = session.conversation

    def _close(self, session_id: str) -> Session | None:
        if session := self._open.pop(session_id, None):
            session.cancel()
            session.wait()
        return session

    def delete(self, session_id: str) -> None:
        """Close a session, and delete its conversation."""
        self.close(session_id)
        self._closed.pop(session_id, None)
        self._folder.delete(session_id)

    def stop(self) -> None:
        """Cancel all turns, and wait a short time for their end."""
        for session in self._open.values():
            with suppress(OSError):  # the client may have disconnected
                session.cancel()
        deadline = time.monotonic() + _GRACE_SECONDS
        for session in self._open.values():
            session.wait(max(0.0, deadline - time.monotonic()))


def _new_session_id() -> str:
    return f"example-{os.urandom(16).hex()}"


def _unknown(session_id: str) -> RpcError:
    return RpcError(RESOURCE_NOT_FOUND, f"no session {session_id!r}", {"sessionId": session_id})
