"""Convert the lines of a Codex session to entries, one after the other.

Messages are recorded twice: as input and output of the model, and as events that the user saw.
The events are converted, because they have only the user's own text. Older files have no events.

The entries of a line depend only on earlier lines. So after a file has grown, its entries begin
with the same entries as before. A turn ends where an event says so. Older files have no such
event: there a turn ends where the next one begins, and the last one ends provisionally at the end
of the file.
"""

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.base import ImportNotes
from rekindle.importers.codex.call_tracker import CodexCallTracker
from rekindle.importers.codex.outline import ITEM_TYPES
from rekindle.importers.codex.records import (
    CodexEvent,
    CodexItem,
    CodexLine,
    CodexPart,
    CodexReview,
    CodexTurnItem,
    read_event,
    read_item,
    read_message,
)
from rekindle.importers.codex.tool_calls import image_block, image_of, link_block
from rekindle.importers.codex.user_text import is_context, own_text, parse_shell_command
from rekindle.importers.entry_builder import (
    COMPACTED_TEXT,
    EntryBuilder,
    InferredTurnEnd,
    TimestampParser,
    text_block,
)
from rekindle.importers.lenient_reader import decode_string, is_json_string, is_nonempty_string
from rekindle.jsonvalue import Json

_CALL_ITEMS = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"}
)
_OUTPUT_ITEMS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_IGNORED_ITEMS = frozenset(
    {"compaction", "compaction_summary", "context_compaction", "ghost_snapshot",
     "additional_tools", "compaction_trigger", "other"}
)  # fmt: skip
_IGNORED_TURN_ITEMS = frozenset({"ContextCompaction", "HookPrompt"})


class CodexSessionFacts(Struct, frozen=True, kw_only=True):
    """Facts that hold for all lines of a session."""

    cwd: str | None
    start_us: int
    has_events: bool
    """Whether messages are converted from events; otherwise from the model's input and output."""
    is_child: bool
    is_paginated: bool
    """Whether the events are complete."""


class CodexConverter:
    """Converts one session."""

    def __init__(self, builder: EntryBuilder, notes: ImportNotes, facts: CodexSessionFacts) -> None:
        self._builder = builder
        self._notes = notes
        self._calls = CodexCallTracker(builder, notes, facts.cwd)
        self._facts = facts
        self._timestamps = TimestampParser()
        self._turn_id: str | None = None
        """The turn that an event has started, until an event ends it."""
        self._is_prompted = False
        self._turn_end = InferredTurnEnd(facts.start_us)
        self._at_us = facts.start_us
        self._count = 0
        self._images: list[Json] = []
        """The images in the last message of the user to the model."""

    def convert(self, line: CodexLine) -> None:
        """Convert one line."""
        at_us = self._timestamps.parse(line.timestamp)
        self._at_us = self._at_us if at_us is None else at_us
        self._builder.set_time(at_us)
        payload = bytes(line.payload)
        match line.type:
            case "event_msg":
                if (event := read_event(payload)) is not None:
                    self._convert_event(event)
            case "response_item":
                if (item := read_item(payload)) is not None:
                    self._convert_item(item)
            case "compacted":
                self._convert_compaction(payload)
            case "inter_agent_communication":
                message = read_message(payload)
                if message is not None and is_json_string(message.content):
                    self._add_agent_message(message.content)
            case _:
                pass

    def convert_bare(self, item: CodexItem) -> None:
        """Convert one line of an old file."""
        if item.type in ITEM_TYPES:
            self._convert_item(item)

    def finish(self) -> None:
        """Add the provisional entries at the end of the file."""
        self._builder.is_provisional = True
        if self._turn_id is None and self._turn_end.is_finished:
            self._turn_end.apply(self._builder)

    def _next_id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    # -- turns --------------------------------------------------------------------------

    def _begin_turn(self, turn_id: str) -> None:
        self._close_turn()
        self._turn_id, self._is_prompted = turn_id, False

    def _end_turn(self, stop_reason: str) -> None:
        self._builder.end_turn(stop_reason)
        self._turn_id = None

    def _close_turn(self) -> None:
        """End a turn that no event has ended."""
        if self._turn_id is None and self._turn_end.is_finished:
            self._turn_end.apply(self._builder)
            self._builder.set_time(self._at_us)
        else:
            self._builder.abandon_turn()
        self._turn_end.is_finished = False

    def _add_prompt(self, blocks: list[Json]) -> None:
        if not blocks:
            return
        if self._turn_id is not None and self._is_prompted:
            message_id = self._next_id("meanwhile")
            for block in blocks:
                self._builder.add_user_block(block, message_id)
            return
        if self._turn_id is None:
            self._close_turn()
        self._builder.add_prompt(self._turn_id or self._next_id("prompt"), blocks)
        self._is_prompted, self._turn_end.is_finished = True, False

    # -- texts --------------------------------------------------------------------------

    def _add_text(self, text: Raw, message_id: str | None = None) -> None:
        if is_nonempty_string(text):
            self._builder.add_agent_text(text, message_id or self._next_id("message"))
            self._turn_end.finish(self._at_us)

    def _add_decoded_text(self, text: str, message_id: str | None = None) -> None:
        self._add_text(Raw(msgspec.json.encode(text)), message_id)

    def _add_thought(self, text: Raw, message_id: str | None = None) -> None:
        if is_nonempty_string(text):
            self._turn_end.is_finished = False
            self._builder.add_thought(text, message_id or self._next_id("thought"))

    def _add_thoughts(self, thoughts: list[Raw], item_id: str | None) -> None:
        """Add the thoughts of one item, each as a message of its own."""
        for number, text in enumerate(thoughts):
            self._add_thought(text, f"{item_id}-{number}" if item_id and number else item_id)

    def _convert_compaction(self, payload: bytes) -> None:
        self._builder.add_agent_text(COMPACTED_TEXT, self._next_id("compaction"))
        message = read_message(payload)
        is_finished = self._turn_end.is_finished
        self._add_thought(message.message if message is not None else Raw())
        self._turn_end.is_finished = is_finished

    def _add_agent_message(self, text: Raw) -> None:
        """Add a message of another agent. For a sub-agent it is the prompt."""
        if self._facts.is_child:
            self._add_prompt([text_block(text)])
        else:
            self._add_thought(text)

    # -- events that the user saw -------------------------------------------------------

    def _convert_event(self, event: CodexEvent) -> None:
        match event.type:
            case "user_message":
                if event.kind in {None, "plain"}:
                    self._add_prompt(self._event_prompt(event))
            case "agent_message" | "error":
                self._add_text(event.message)
            case "agent_reasoning" | "agent_reasoning_raw_content":
                self._add_thought(event.text)
            case "item_completed":
                if event.item is not None:
                    self._convert_turn_item(event.item)
            case "entered_review_mode":
                self._add_decoded_text(_review_start(event.user_facing_hint))
            case "exited_review_mode":
                self._add_decoded_text(_review_result(event.review_output))
            case _:
                self._convert_turn_event(event)

    def _convert_turn_event(self, event: CodexEvent) -> None:
        match event.type:
            case "task_started" | "turn_started":
                self._begin_turn(event.turn_id or self._next_id("turn"))
            case "task_complete" | "turn_complete":
                if event.error is not None and event.error.message:
                    self._add_decoded_text(event.error.message)
                self._end_turn("end_turn")
            case "turn_aborted":
                self._end_turn("cancelled")
            case kind:
                # Events with these endings are completed calls. Most others are ignored.
                end = self._turn_end
                end.is_finished = end.is_finished and not kind.endswith(("_end", "_activity"))
                self._calls.add_event(event)

    def _event_prompt(self, event: CodexEvent) -> list[Json]:
        text = own_text(decode_string(event.message))
        blocks = [text_block(text)] if text else []
        local = event.local_images or []
        if local and self._images:
            # The event has only the paths, but the model's input has the images themselves.
            return blocks + self._images
        images = [image_block(url) for url in event.images or [] if is_json_string(url)]
        return blocks + images + [link_block(path, path) for path in local]

    def _convert_turn_item(self, item: CodexTurnItem) -> None:
        match item.type:
            case "UserMessage":
                self._add_prompt(self._item_prompt(item.content or []))
            case "AgentMessage":
                for part in item.content or []:
                    self._add_text(part.text, item.id)
            case "Plan":
                self._add_text(item.text, item.id)
            case "Reasoning":
                self._add_thoughts(item.summary_text or item.raw_content, item.id)
            case "EnteredReviewMode":
                self._add_decoded_text(_review_start(item.user_facing_hint), item.id)
            case "ExitedReviewMode":
                self._add_decoded_text(_review_result(item.review_output), item.id)
            case kind if kind not in _IGNORED_TURN_ITEMS:
                self._turn_end.is_finished = False
                self._calls.add_turn_item(item)
            case _:
                pass

    def _item_prompt(self, parts: list[CodexPart]) -> list[Json]:
        blocks: list[Json] = []
        images: list[Json] = []
        for part in parts:
            if is_json_string(part.text):
                text = own_text(decode_string(part.text))
                blocks += [text_block(text)] if text else []
            elif part.type in {"skill", "mention"} and part.name:
                blocks.append(link_block(part.path or "", part.name))
            elif (image := image_of(part)) is not None:
                images.append(image)
        is_local = any(part.type == "local_image" for part in parts)
        return blocks + (self._images if is_local and self._images else images)

    # -- input and output of the model --------------------------------------------------

    def _convert_item(self, item: CodexItem) -> None:
        match item.type:
            case "message":
                self._convert_message(item)
            case "reasoning":
                if not self._facts.has_events:
                    parts = item.summary or item.content or []
                    self._add_thoughts([part.text for part in parts], item.id)
            case "agent_message":
                for part in item.content or []:
                    if is_json_string(part.text):
                        self._add_agent_message(part.text)
            case kind if kind not in _IGNORED_ITEMS:
                self._turn_end.is_finished = False
                self._convert_call(item)
            case _:
                pass

    def _convert_call(self, item: CodexItem) -> None:
        match item.type:
            case kind if kind in _CALL_ITEMS:
                self._calls.add_call(item)
            case kind if kind in _OUTPUT_ITEMS:
                self._calls.add_output(item)
            case "web_search_call":
                self._calls.add_search(item)
            case "image_generation_call":
                self._calls.add_image(item)
            case kind:
                self._notes.skip(
                    f"an item of unknown type: {kind}" if kind else "a record without a type"
                )

    def _convert_message(self, item: CodexItem) -> None:
        parts = item.content or []
        if item.role == "user":
            self._convert_user_message(parts)
        elif item.role == "assistant" and not self._facts.has_events:
            for part in parts:
                self._add_text(part.text, item.id)

    def _convert_user_message(self, parts: list[CodexPart]) -> None:
        texts = [decode_string(part.text) for part in parts]
        if not any(map(is_context, texts)):
            self._images = [image for image in map(image_of, parts) if image is not None]
        for text in texts:
            command = None if self._facts.is_paginated else parse_shell_command(text)
            if command is not None:
                self._calls.add_shell_command(command)
        if not self._facts.has_events:
            own = [text_block(text) for text in map(own_text, texts) if text]
            self._add_prompt([*own, *self._images] if own else [])


def _review_start(hint: str | None) -> str:
    return f"[Review: {hint}]" if hint else "[Review]"


def _review_result(review: CodexReview | None) -> str:
    """Return the result of a review as text."""
    if review is None:
        return "[The review was interrupted.]"
    findings: list[str] = []
    for finding in review.findings:
        location = finding.code_location
        path = location.absolute_file_path if location is not None else None
        findings.append("\n".join(filter(None, (f"- {finding.title}", path, finding.body))))
    return "\n\n".join(filter(None, (review.overall_explanation, *findings)))
