"""What happens in a turn, as values; and how an update becomes one."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp.terminal_output import decode_bytes
from rekindle.client.models import Other, Plan, ToolCall, as_plan, as_tool_call
from rekindle.client.permissions import Question
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.transcript import model
from rekindle.transcript.model import Role
from rekindle.transcript.reducer import Transcript

Json = dict[str, Any]

# Short pieces are joined while nobody takes them, so that a slow reader has little to catch up.
_LONGEST_JOINED = 1024


class Said(Struct, frozen=True, kw_only=True):
    """The agent says more of a message. If `anew`, what was said of it before is taken back."""

    text: str
    message_id: str | None = None
    anew: bool = False
    blocks: tuple[Json, ...] = ()
    """What it shows besides text: images, resources."""
    meta: Json = {}


class Thought(Struct, frozen=True, kw_only=True):
    """The agent thinks aloud; as `Said`."""

    text: str
    message_id: str | None = None
    anew: bool = False
    blocks: tuple[Json, ...] = ()
    meta: Json = {}


class Called(Struct, frozen=True):
    """A tool call has begun, or changed."""

    call: ToolCall


class Planned(Struct, frozen=True):
    """The agent has a plan, or has changed it."""

    plan: Plan


class Printed(Struct, frozen=True):
    """A terminal that a tool call shows has put out more, or tells how it ended.

    All that is known of it is in `session.transcript.terminals[terminal_id]`.
    """

    terminal_id: str
    output: bytes


class Asked(Struct, frozen=True):
    """The agent asks for permission. If it `is_yours`, nobody answers it unless you do."""

    question: Question
    is_yours: bool = False


class Changed(Struct, frozen=True):
    """The session's `title`, `mode`, `options`, `commands` or `usage` changed; see there."""

    what: str


Event = Said | Thought | Called | Planned | Printed | Asked | Changed | Other

_SPEECH = {
    "agent_message": (Said, Role.AGENT),
    "agent_message_chunk": (Said, Role.AGENT),
    "agent_thought": (Thought, Role.THOUGHT),
    "agent_thought_chunk": (Thought, Role.THOUGHT),
}
_STATES = {
    "session_info_update": "title",
    "current_mode_update": "mode",
    "config_option_update": "options",
    "available_commands_update": "commands",
    "usage_update": "usage",
}
_CALLS = frozenset({"tool_call", "tool_call_update", "tool_call_content_chunk"})
_TERMINALS = frozenset({"terminal_update", "terminal_output_chunk"})


def joined(first: Event, second: Event) -> Event | None:
    """Return two events as one, if they are short pieces of one message."""
    match first, second:
        case (Said(), Said()) | (Thought(), Thought()):
            is_more = first.message_id == second.message_id and not second.anew
            is_plain = not (first.blocks or second.blocks) and first.meta == second.meta
            if is_more and is_plain and len(first.text) + len(second.text) <= _LONGEST_JOINED:
                return type(first)(
                    text=first.text + second.text,
                    message_id=first.message_id,
                    anew=first.anew,
                    meta=first.meta,
                )
        case _:
            pass
    return None


class Seam:
    """Puts characters together that were cut in two: some agents cut their streams anywhere."""

    def __init__(self) -> None:
        self._half = ""
        self._of: object = None

    def mend(self, event: Event) -> Event | None:
        """Return the event with whole characters; None if only half of one is left of it."""
        if not isinstance(event, Said | Thought):
            return event
        of = (type(event), event.message_id)
        words = self._half + event.text if of == self._of else event.text
        self._half, self._of = "", of
        if words.isascii():
            return event
        if "\ud800" <= words[-1] <= "\udbff":
            self._half, words = words[-1], words[:-1]
        words = words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        is_empty = not (words or event.anew or event.blocks or event.meta)
        return None if is_empty else replace(event, text=words)


class Watch:
    """Tells what an update changes in a transcript. Ask it before and after it is folded."""

    def __init__(self, transcript: Transcript, update: Json) -> None:
        self._transcript = transcript
        self._update = update
        self._kind = as_str(update.get("sessionUpdate")) or ""
        self._message_id = as_str(update.get("messageId"))
        self._before = self._said_before()

    def _said_before(self) -> str:
        """Return what a message said that is about to be told whole."""
        is_whole = self._kind in _SPEECH and not self._kind.endswith("_chunk")
        if not is_whole or "content" not in self._update:
            return ""
        message = self._transcript.message(_SPEECH[self._kind][1], self._message_id)
        return message.text if message is not None else ""

    def event(self, seq: int) -> Event | None:
        """Return what happened, once the update is folded as that entry; None if nothing did."""
        kind, update = self._kind, self._update
        if kind in _SPEECH:
            return self._speech()
        if kind in _TERMINALS:
            data = update.get("data") or as_object(update.get("output")).get("data")
            return Printed(as_str(update.get("terminalId")) or "", decode_bytes(data))
        if kind in _STATES and (kind != "session_info_update" or "title" in update):
            return Changed(_STATES[kind])
        if kind in _CALLS or kind in {"plan", "plan_update"}:
            return latest_change(self._transcript, seq) or Other(update)
        return Other(update) if kind != "state_update" else None

    def _speech(self) -> Event | None:
        make, _ = _SPEECH[self._kind]
        told = self._update.get("content")
        if "content" not in self._update:
            return None
        blocks = [as_object(it) for it in as_array(told) or [told]]
        # As it is: half a character is still to be put together with the other half.
        words = "".join(it for it in (block.get("text") for block in blocks) if isinstance(it, str))
        others = tuple(block for block in blocks if block and block.get("type") != "text")
        is_more = words.startswith(self._before)
        return make(
            text=words[len(self._before) :] if is_more else words,
            message_id=self._message_id,
            anew=not is_more,
            blocks=others,
            meta=as_object(self._update.get("_meta")),
        )


def latest_change(transcript: Transcript, seq: int) -> Called | Planned | None:
    """Return the tool call or plan that the entry which was folded last has changed."""
    match transcript.latest:
        case model.ToolCallItem(last_seq=changed) as call if changed == seq:
            return Called(as_tool_call(call))
        case model.PlanItem(last_seq=changed) as plan if changed == seq:
            return Planned(as_plan(plan))
        case _:
            return None
