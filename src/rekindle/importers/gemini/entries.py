"""Convert the messages of a conversation to entries, one after the other.

The entries of a message depend only on earlier messages. So after a file has grown, its entries
begin with the same entries as before. If a message is written again, only its new content is
converted. A call is converted once, when it is done, because later versions may have its output
truncated. A turn ends where the next one begins. The last turn ends provisionally at the end of the
file, if the agent's last message was complete; otherwise it counts as interrupted.
"""

from collections.abc import Callable
from hashlib import blake2b

from msgspec import Raw, Struct
from msgspec.structs import replace

from rekindle.importers.base import ImportNotes
from rekindle.importers.entry_builder import (
    COMPACTED_TEXT,
    MAX_OPEN_CALLS,
    EntryBuilder,
    InferredTurnEnd,
    TimestampParser,
    child_session_meta,
)
from rekindle.importers.gemini.records import (
    GeminiMessage,
    GeminiPart,
    GeminiToolCall,
    read_parts,
)
from rekindle.importers.gemini.tool_calls import (
    PLAN_TOOL,
    call_fields,
    is_done,
    message_text,
    result_fields,
    thoughts_in,
    todo_entries,
)
from rekindle.importers.gemini.user_text import (
    CANCELLED_TEXTS,
    CANNED_ANSWERS,
    GeminiTextKind,
    GeminiUserText,
    classify_parts,
)
from rekindle.importers.id_index import IdIndex
from rekindle.importers.lenient_reader import decode_string

_NOTICE_TYPES = frozenset({"info", "warning", "error"})
_MAX_MESSAGES = 256
_EMPTY = b'""'


class _ConvertedText(Struct):
    """The text of a message that was converted so far. The message may come again with more."""

    size: int = 0
    checksum: str = ""
    versions: int = 0
    thoughts: int = 0


class _Prompt(Struct, frozen=True):
    """A prompt."""

    id: str
    at_us: int
    content: GeminiUserText


class _SeenItems:
    """The messages, texts and calls of a session that were seen before."""

    def __init__(self) -> None:
        self._messages = IdIndex()
        self._texts = IdIndex()
        self.calls = IdIndex()
        self.recent: dict[str, _ConvertedText] = {}

    def add_message(self, message: GeminiMessage) -> None:
        """Remember a message."""
        if message.id is not None:
            _add_if_new(self._messages, message.id)

    def has_message(self, message: GeminiMessage) -> bool:
        """Return whether a message with this id was seen before."""
        return message.id is not None and message.id in self._messages

    def has_text(self, role: str, text: bytes) -> bool:
        """Return whether the text was seen before in this role."""
        return _digest(role, text) in self._texts

    def add_text(self, role: str, text: bytes) -> bool:
        """Remember a text; return whether it was seen before in this role."""
        return not _add_if_new(self._texts, _digest(role, text))


class GeminiConverter:
    """Converts one conversation. `child_id` returns the id of the session of a sub-agent."""

    def __init__(
        self,
        builder: EntryBuilder,
        notes: ImportNotes,
        cwd: str | None,
        child_id: Callable[[str], str],
    ) -> None:
        self._builder = builder
        self._notes = notes
        self._cwd = cwd
        self._child_id = child_id
        self._timestamps = TimestampParser()
        self._seen = _SeenItems()
        self._open_calls: dict[str, str] = {}
        """The names of the calls that are not done, by id."""
        self._held: _Prompt | None = None
        """A prompt with the text of an earlier one, until the next message decides about it."""
        self._has_begun = False
        self._turn_end = InferredTurnEnd(None)
        self._at_us = 0
        """The time of the last message; 0 if it is unknown."""
        self._count = 0
        """The number of messages. It is the id of a message that has none."""

    def convert(self, message: GeminiMessage, *, is_listed: bool) -> None:
        """Convert one message. A listed one is part of a list that repeats earlier messages."""
        self._count += 1
        at_us = self._timestamps.parse(message.timestamp)
        parts = read_parts(message.content)
        self._release_held(message, parts)
        self._at_us = self._at_us if at_us is None else max(at_us, self._at_us)
        self._builder.set_time(self._at_us or None)
        match message.type:
            case "user":
                self._convert_user(message, parts, is_listed=is_listed)
            case "gemini":
                self._convert_answer(message, parts, is_listed=is_listed)
            case kind if kind in _NOTICE_TYPES:
                self._convert_notice(message, parts)
            case kind:
                self._notes.skip(
                    f"a message of unknown type: {kind}" if kind else "a record without a type"
                )
        self._seen.add_message(message)

    def finish(self) -> None:
        """Add the provisional entries at the end of the file."""
        self._builder.is_provisional = True
        if self._held is not None:
            self._add_prompt(self._held)
        if self._turn_end.is_finished:
            self._turn_end.apply(self._builder)

    # -- the user -----------------------------------------------------------------------

    def _convert_user(
        self, message: GeminiMessage, parts: list[GeminiPart], *, is_listed: bool
    ) -> None:
        self._convert_results(parts)
        displayed = classify_parts(read_parts(message.display_content))
        content = _as_typed(classify_parts(parts), displayed)
        if content.kind is GeminiTextKind.CONTEXT:
            return
        is_repeated = self._seen.add_text("user", content.text.encode("utf-8", "surrogatepass"))
        message_id = message.id or f"prompt-{self._count}"
        if self._seen.has_message(message):
            if is_repeated:
                return
            # The message was rewritten. The time makes its id unique.
            message_id = f"{message_id}.{self._at_us}"
        match content.kind:
            case GeminiTextKind.SUMMARY if not is_repeated:
                self._builder.add_agent_text(COMPACTED_TEXT, message_id)
                self._builder.add_thought(content.text, message_id)
                self._turn_end.at_us = self._at_us or None
            case GeminiTextKind.SUMMARY:
                pass
            case GeminiTextKind.STEERING if self._builder.is_in_turn:
                for block in content.blocks:
                    self._builder.add_user_block(block, message_id)
            case _ if is_repeated and content.text and is_listed:
                pass
            case _ if is_repeated and content.text:
                self._held = _Prompt(message_id, self._at_us, content)
            case _:
                self._add_prompt(_Prompt(message_id, self._at_us, content))

    def _add_prompt(self, prompt: _Prompt) -> None:
        self._held = None
        self._turn_end.apply(self._builder)
        self._has_begun = True
        self._builder.set_time(prompt.at_us or None)
        self._builder.add_prompt(prompt.id, prompt.content.blocks)
        self._turn_end.is_finished = False
        if prompt.content.kind is GeminiTextKind.SHELL:
            if prompt.content.text.strip():
                self._builder.add_agent_text(prompt.content.text, prompt.id)
            self._turn_end.finish(self._at_us or None)

    def _release_held(self, message: GeminiMessage, parts: list[GeminiPart]) -> None:
        """Add the held prompt, unless an old answer shows that the tool wrote an old one again."""
        if self._held is None:
            return
        is_old = message.type == "gemini" and _is_synthetic(message)
        if is_old and self._seen.has_text("gemini", message_text(parts)):
            self._held = None
        else:
            self._add_prompt(self._held)

    # -- the model ----------------------------------------------------------------------

    def _convert_answer(
        self, message: GeminiMessage, parts: list[GeminiPart], *, is_listed: bool
    ) -> None:
        message_id = message.id or f"answer-{self._count}"
        self._convert_texts(message, message_id, parts, is_listed=is_listed)
        for number, part in enumerate(parts):
            if (call := part.function_call) is not None:
                call_id = call.id or f"{message_id}-{number}"
                self._convert_call(GeminiToolCall(id=call_id, name=call.name, args=call.args))
        for number, call in enumerate(message.tool_calls or []):
            self._convert_call(replace(call, id=call.id or f"{message_id}-{number}"))

    def _convert_texts(
        self, message: GeminiMessage, message_id: str, parts: list[GeminiPart], *, is_listed: bool
    ) -> None:
        """Convert the new thoughts and the new text of a message."""
        text = message_text(parts)
        is_repeated = text == _EMPTY or self._seen.add_text("gemini", text)
        is_known = self._seen.has_message(message)
        is_from_before = not is_known and (is_listed or _is_synthetic(message))
        if is_from_before and (is_repeated or text in CANNED_ANSWERS):
            return
        recent = self._seen.recent
        converted = recent.pop(message_id, None)
        if converted is None and is_known:
            return
        recent[message_id] = converted = converted or _ConvertedText()
        if len(recent) > _MAX_MESSAGES:
            del recent[next(iter(recent))]
        self._convert_thoughts(message, message_id, parts, converted)
        if text != _EMPTY and (new := _new_text(text, converted)) is not None:
            version = f".{converted.versions}" if converted.versions > 1 else ""
            self._builder.add_agent_text(Raw(new), message_id + version)
            self._has_begun = True
            self._turn_end.finish(self._at_us or None)

    def _convert_thoughts(
        self,
        message: GeminiMessage,
        message_id: str,
        parts: list[GeminiPart],
        converted: _ConvertedText,
    ) -> None:
        thoughts = [
            f"**{thought.subject}**\n{thought.description}"
            if thought.subject
            else thought.description
            for thought in message.thoughts or []
        ] or thoughts_in(parts)
        for number, text in enumerate(thoughts):
            if number >= converted.thoughts and text:
                # Each thought is a message: its heading must not follow the text of another one.
                self._builder.add_thought(text, f"{message_id}-{number}" if number else message_id)
                self._has_begun = True
                self._turn_end.is_finished = False
        converted.thoughts = max(converted.thoughts, len(thoughts))

    # -- tools --------------------------------------------------------------------------

    def _convert_call(self, call: GeminiToolCall) -> None:
        is_open = call.id in self._open_calls
        is_known = not _add_if_new(self._seen.calls, call.id)
        if is_known and not (is_open and is_done(call)):
            return
        self._turn_end.is_finished = False
        self._has_begun = True
        self._at_us = max(self._at_us, self._timestamps.parse(call.timestamp) or 0)
        self._builder.set_time(self._at_us or None)
        self._open_calls.pop(call.id, None)
        if not is_done(call):
            self._open_calls[call.id] = call.name
            if len(self._open_calls) > MAX_OPEN_CALLS:
                del self._open_calls[next(iter(self._open_calls))]
        if call.name == PLAN_TOOL:
            self._builder.add_plan(todo_entries(call))
            return
        fields = call_fields(call, self._cwd)
        if call.agent_id:
            fields["_meta"] |= child_session_meta(self._child_id(call.agent_id))
        add = self._builder.update_tool_call if is_known else self._builder.add_tool_call
        add(call.id, **fields)

    def _convert_results(self, parts: list[GeminiPart]) -> None:
        """Convert the results of calls that are not known to be done."""
        for part in parts:
            response = part.function_response
            if response is None:
                continue
            call_id = response.id or self._open_call_named(response.name)
            is_known = call_id is not None and call_id in self._seen.calls
            if call_id is None or (is_known and call_id not in self._open_calls):
                continue
            self._open_calls.pop(call_id, None)
            _add_if_new(self._seen.calls, call_id)
            if response.name != PLAN_TOOL:
                add = self._builder.update_tool_call if is_known else self._builder.add_tool_call
                add(call_id, **result_fields(response, is_known=is_known))

    def _open_call_named(self, name: str) -> str | None:
        """Return the call that a result without an id belongs to: the first with its name."""
        return next((call_id for call_id, open_ in self._open_calls.items() if open_ == name), None)

    # -- notices ------------------------------------------------------------------------

    def _convert_notice(self, message: GeminiMessage, parts: list[GeminiPart]) -> None:
        """Convert a notice that Gemini CLI has shown to the user."""
        text = decode_string(Raw(message_text(parts))).strip()
        if not text or not self._has_begun or self._seen.has_message(message):
            return
        if text in CANCELLED_TEXTS:
            self._builder.end_turn("cancelled", self._at_us)
            self._turn_end.is_finished = False
            return
        self._builder.add_agent_text(f"[{message.type}] {text}", message.id)
        self._turn_end.is_finished = self._turn_end.is_finished and message.type != "error"
        self._turn_end.at_us = self._at_us or None


def _as_typed(sent: GeminiUserText, displayed: GeminiUserText) -> GeminiUserText:
    """Return the text that the user typed, with the attachments that the model received."""
    if not displayed.text:
        return sent
    attachments = [block for block in sent.blocks if block["type"] != "text"]
    return GeminiUserText(displayed.kind, [*displayed.blocks, *attachments], displayed.text)


def _is_synthetic(message: GeminiMessage) -> bool:
    """Return whether Gemini CLI has written the message in the model's role."""
    return message.model is None and bytes(message.content)[:1] == b"["


def _add_if_new(index: IdIndex, item_id: str) -> bool:
    """Add an id to an index that is used as a set; return whether it is new."""
    if item_id in index:
        return False
    index.add(item_id, 1)
    return True


def _digest(role: str, text: bytes | memoryview) -> str:
    return f"{role} {blake2b(text, digest_size=16).hexdigest()}"


def _new_text(text: bytes, converted: _ConvertedText) -> bytes | None:
    """Return the part of a text that was not converted yet; all of it if its start has changed."""
    # The text may be long, so this uses a view of it instead of copies.
    inside = memoryview(text)[1:-1]
    is_same = converted.versions and _digest("", inside[: converted.size]) == converted.checksum
    start = converted.size if is_same else 0
    converted.versions += not is_same
    converted.size, converted.checksum = len(inside), _digest("", inside)
    if start == 0:
        return text if inside else None
    return b'"%b"' % inside[start:] if len(inside) > start else None
