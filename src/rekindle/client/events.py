"""The events of a turn, and how an update becomes one."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp.terminal_output import decode_bytes
from rekindle.acp.update_kinds import SESSION_INFO_UPDATE, STATE_UPDATE, Category, kind_of
from rekindle.client.models import (
    OtherUpdate,
    PermissionRequest,
    Plan,
    Subagent,
    ToolCall,
    as_plan,
    as_subagent,
    as_tool_call,
)
from rekindle.jsonvalue import Json, as_array, as_object, as_str
from rekindle.transcript import model
from rekindle.transcript.model import Role
from rekindle.transcript.reducer import Transcript

# Unread chunks are joined up to this length, so that a slow reader has few events to catch up on.
_MAX_JOINED_TEXT = 1024


class MessageChunk(Struct, frozen=True, kw_only=True):
    """More text of a message of the agent.

    If `replaces` is set, the text replaces everything that the message contained before.
    """

    text: str
    message_id: str | None = None
    replaces: bool = False
    blocks: tuple[Json, ...] = ()
    """Content other than text: images, resources."""
    meta: Json = {}


class ThoughtChunk(Struct, frozen=True, kw_only=True):
    """More text of a thought of the agent. The fields are those of `MessageChunk`."""

    text: str
    message_id: str | None = None
    replaces: bool = False
    blocks: tuple[Json, ...] = ()
    meta: Json = {}


class UserMessageChunk(Struct, frozen=True, kw_only=True):
    """More text of a message of the user: a prompt of another client, or one of the agent's own.

    The fields are those of `MessageChunk`.
    """

    text: str
    message_id: str | None = None
    replaces: bool = False
    blocks: tuple[Json, ...] = ()
    meta: Json = {}


class ToolCallUpdated(Struct, frozen=True):
    """A tool call is new, or has changed."""

    tool_call: ToolCall


class PlanUpdated(Struct, frozen=True):
    """A plan is new, or has changed."""

    plan: Plan


class TerminalOutput(Struct, frozen=True):
    """New output of a terminal that a tool call shows, or its exit.

    `session.transcript.terminals[terminal_id]` has everything that is known of the terminal.
    """

    terminal_id: str
    output: bytes


class PermissionRequested(Struct, frozen=True):
    """The agent requests a permission.

    If `needs_answer` is set, the reader of the turn must answer the request. Otherwise the
    `on_permission` function of `connect` does.
    """

    request: PermissionRequest
    needs_answer: bool = False


class SubagentUpdated(Struct, frozen=True):
    """A sub-agent is new, or its title, state or capabilities have changed."""

    subagent: Subagent


class SubagentEvent(Struct, frozen=True):
    """An event of a sub-agent. Its permission requests are events of the turn itself."""

    session_id: str
    """The sub-agent's session id."""
    event: "Event"


SessionField = Literal["title", "mode", "options", "commands", "usage", "state"]


class SessionChanged(Struct, frozen=True):
    """A property of the session has changed. `field` is its name."""

    field: SessionField


class TurnStarted(Struct, frozen=True):
    """A turn of another client has started. Only `ClientSession.follow` yields this event."""


class TurnEnded(Struct, frozen=True, kw_only=True):
    """The turn has ended. This is the last event of every turn.

    After a failure, `error` is set, and `stop_reason` is None unless the agent sent one with the
    error. The iteration raises the error after this event.
    """

    stop_reason: str | None
    usage: Json | None = None
    """The tokens that the turn used, as the agent reported them."""
    error: BaseException | None = None


Event = (
    MessageChunk
    | ThoughtChunk
    | UserMessageChunk
    | ToolCallUpdated
    | PlanUpdated
    | TerminalOutput
    | PermissionRequested
    | SubagentUpdated
    | SubagentEvent
    | SessionChanged
    | OtherUpdate
    | TurnStarted
    | TurnEnded
)

_CHUNKS = {
    Category.USER_MESSAGE: (UserMessageChunk, Role.USER),
    Category.AGENT_MESSAGE: (MessageChunk, Role.AGENT),
    Category.THOUGHT: (ThoughtChunk, Role.THOUGHT),
}
SESSION_FIELDS: dict[str, SessionField] = {
    SESSION_INFO_UPDATE: "title",
    "current_mode_update": "mode",
    "config_option_update": "options",
    "available_commands_update": "commands",
    "usage_update": "usage",
}
"""The properties of `ClientSession` by the kind of state that changes them.

The event of any other kind of state is an `OtherUpdate`.
"""


def join_chunks(first: Event, second: Event) -> Event | None:
    """Return two short chunks of the same message as one event, or None if they do not join."""
    match first, second:
        case (
            (MessageChunk(), MessageChunk())
            | (ThoughtChunk(), ThoughtChunk())
            | (UserMessageChunk(), UserMessageChunk())
        ):
            is_same = first.message_id == second.message_id and not second.replaces
            is_text = not (first.blocks or second.blocks) and first.meta == second.meta
            if is_same and is_text and len(first.text) + len(second.text) <= _MAX_JOINED_TEXT:
                return type(first)(
                    text=first.text + second.text,
                    message_id=first.message_id,
                    replaces=first.replaces,
                    meta=first.meta,
                )
        case _:
            pass
    return None


class SurrogateJoiner:
    """Joins surrogate pairs that an agent has split between two chunks."""

    def __init__(self) -> None:
        self._pending = ""
        self._message: object = None

    def join(self, event: Event) -> Event | None:
        """Return the event with whole characters, or None if only half a character is left."""
        if not isinstance(event, MessageChunk | ThoughtChunk | UserMessageChunk):
            return event
        message = (type(event), event.message_id)
        text = self._pending + event.text if message == self._message else event.text
        self._pending, self._message = "", message
        if text.isascii():
            return event
        if "\ud800" <= text[-1] <= "\udbff":
            self._pending, text = text[-1], text[:-1]
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        is_empty = not (text or event.replaces or event.blocks or event.meta)
        return None if is_empty else replace(event, text=text)


class EventBuilder:
    """Builds the event of one update.

    Create it before the update is added to the transcript, and call `build` afterwards.
    """

    def __init__(self, transcript: Transcript, update: Json) -> None:
        self._transcript = transcript
        self._update = update
        self._kind = kind_of(update.get("sessionUpdate"))
        self._message_id = as_str(update.get("messageId"))
        self._previous_text = self._read_previous_text()

    def _read_previous_text(self) -> str:
        """Return the text of a message that the update is about to replace as a whole."""
        is_whole = self._kind.category in _CHUNKS and not self._kind.is_chunk
        if not is_whole or "content" not in self._update:
            return ""
        _, role = _CHUNKS[self._kind.category]
        message = self._transcript.message(role, self._message_id)
        return message.text if message is not None else ""

    def build(self, seq: int) -> Event | None:
        """Return the event of the update, which is the entry `seq`. None if it changes nothing."""
        update = self._update
        match self._kind.category:
            case Category.AGENT_MESSAGE | Category.THOUGHT | Category.USER_MESSAGE:
                return self._build_chunk()
            case Category.TERMINAL:
                data = update.get("data") or as_object(update.get("output")).get("data")
                return TerminalOutput(as_str(update.get("terminalId")) or "", decode_bytes(data))
            case Category.TOOL_CALL | Category.PLAN:
                return latest_change(self._transcript, seq) or OtherUpdate(update)
            case Category.STATE:
                return self._build_state()
            case Category.SUBAGENT:
                return self._build_subagent()
            case _:
                return OtherUpdate(update)

    def _build_state(self) -> Event | None:
        name = self._kind.name
        if name == STATE_UPDATE:
            return None
        if name in SESSION_FIELDS and (name != SESSION_INFO_UPDATE or "title" in self._update):
            return SessionChanged(SESSION_FIELDS[name])
        return OtherUpdate(self._update)

    def _build_subagent(self) -> Event:
        item = self._transcript.subagent(as_str(self._update.get("sessionId")) or "")
        return OtherUpdate(self._update) if item is None else SubagentUpdated(as_subagent(item))

    def _build_chunk(self) -> Event | None:
        event_type, _ = _CHUNKS[self._kind.category]
        content = self._update.get("content")
        if "content" not in self._update:
            return None
        blocks = [as_object(it) for it in as_array(content) or [content]]
        # `as_str` would replace half a surrogate pair, which `SurrogateJoiner` still needs.
        texts = (block.get("text") for block in blocks)
        text = "".join(it for it in texts if isinstance(it, str))
        others = tuple(block for block in blocks if block and block.get("type") != "text")
        is_extended = text.startswith(self._previous_text)
        if is_extended and self._previous_text == text and not others:
            return None
        return event_type(
            text=text[len(self._previous_text) :] if is_extended else text,
            message_id=self._message_id,
            replaces=not is_extended,
            blocks=others,
            meta=as_object(self._update.get("_meta")),
        )


def latest_change(transcript: Transcript, seq: int) -> ToolCallUpdated | PlanUpdated | None:
    """Return the event of the tool call or plan that the last entry, `seq`, has changed."""
    match transcript.latest:
        case model.ToolCallItem(last_seq=changed) as call if changed == seq:
            return ToolCallUpdated(as_tool_call(call))
        case model.PlanItem(last_seq=changed) as plan if changed == seq:
            return PlanUpdated(as_plan(plan))
        case _:
            return None
