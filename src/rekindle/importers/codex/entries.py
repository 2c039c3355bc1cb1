"""The lines of a session of Codex's told as what a client would have heard, one after the other.

What was said stands there twice: as what the model was told, and as what the user was shown. The
latter is told, as it has only the user's own words; older files have only the former.

Each line is told by what stood before it alone, so that a file that has grown begins with what was
told of it before. A turn ends where it is said to. Older files do not say it: there, it ends where
the next one begins; the last one at the end of the file, for the time being.
"""

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.base import Notes
from rekindle.importers.codex.call_tracker import Calls
from rekindle.importers.codex.outline import ITEMS
from rekindle.importers.codex.records import (
    Event,
    Item,
    Line,
    Part,
    Review,
    TurnItem,
    read_event,
    read_item,
    read_message,
)
from rekindle.importers.codex.tool_calls import decoded, link, picture, picture_of
from rekindle.importers.codex.user_text import is_context, own_words, typed_command
from rekindle.importers.entry_builder import Clock, Json, Teller, text
from rekindle.importers.lenient_reader import has_words, is_text

_COMPACTED = "[The conversation was compacted here: the agent went on with a summary of it.]"
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_QUIET_ITEMS = frozenset(
    {"compaction", "compaction_summary", "context_compaction", "ghost_snapshot",
     "additional_tools", "compaction_trigger", "other"}
)  # fmt: skip
_QUIET_TURN_ITEMS = frozenset({"ContextCompaction", "HookPrompt"})


class About(Struct, frozen=True, kw_only=True):
    """What holds for all lines of a session."""

    cwd: str | None
    begun_us: int
    has_events: bool
    """Else it is told by what the model was told."""
    is_child: bool
    is_paginated: bool
    """Whether all that the user was shown is there."""


class Conversation:
    """Tells one session."""

    def __init__(self, teller: Teller, notes: Notes, about: About) -> None:
        self._teller = teller
        self._notes = notes
        self._calls = Calls(teller, notes, about.cwd)
        self._about = about
        self._clock = Clock()
        self._turn_id: str | None = None
        """The turn that is said to have begun, until it is said to have ended."""
        self._is_prompted = False
        self._is_finished = False
        self._finished_us = about.begun_us
        self._at_us = about.begun_us
        self._count = 0
        self._pictures: list[Json] = []
        """Those that the model was shown last by the user."""

    def take(self, line: Line) -> None:
        """Tell one more line."""
        at_us = self._clock.read(line.timestamp)
        self._at_us = self._at_us if at_us is None else at_us
        self._teller.at(at_us)
        payload = bytes(line.payload)
        match line.type:
            case "event_msg":
                if (event := read_event(payload)) is not None:
                    self._event(event)
            case "response_item":
                if (item := read_item(payload)) is not None:
                    self._item(item)
            case "compacted":
                self._compacted(payload)
            case "inter_agent_communication":
                message = read_message(payload)
                if message is not None and is_text(message.content):
                    self._from_agent(message.content)
            case _:
                pass

    def take_bare(self, item: Item) -> None:
        """Tell one more line of an old file."""
        if item.type in ITEMS:
            self._item(item)

    def finish(self) -> None:
        """Tell what is so as long as the file does not go on."""
        self._teller.is_provisional = True
        if self._turn_id is None and self._is_finished:
            self._teller.end(at_us=self._finished_us)

    def _next_id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    # -- turns --------------------------------------------------------------------------

    def _begin_turn(self, turn_id: str) -> None:
        self._close_turn()
        self._turn_id, self._is_prompted = turn_id, False

    def _end_turn(self, stop_reason: str) -> None:
        self._teller.end(stop_reason)
        self._turn_id = None

    def _close_turn(self) -> None:
        """Be done with a turn that is not said to have ended."""
        if self._turn_id is None and self._is_finished:
            self._teller.end(at_us=self._finished_us)
            self._teller.at(self._at_us)
        else:
            self._teller.leave()
        self._is_finished = False

    def _prompt(self, blocks: list[Json]) -> None:
        if not blocks:
            return
        if self._turn_id is not None and self._is_prompted:
            message_id = self._next_id("meanwhile")
            for block in blocks:
                self._teller.user(block, message_id)
            return
        if self._turn_id is None:
            self._close_turn()
        self._teller.prompt(self._turn_id or self._next_id("prompt"), blocks)
        self._is_prompted, self._is_finished = True, False

    # -- words --------------------------------------------------------------------------

    def _say(self, words: Raw, message_id: str | None = None) -> None:
        if has_words(words):
            self._teller.agent(words, message_id or self._next_id("message"))
            self._is_finished, self._finished_us = True, self._at_us

    def _say_words(self, words: str, message_id: str | None = None) -> None:
        self._say(Raw(msgspec.json.encode(words)), message_id)

    def _think(self, words: Raw, message_id: str | None = None) -> None:
        if has_words(words):
            self._is_finished = False
            self._teller.thought(words, message_id or self._next_id("thought"))

    def _think_all(self, thoughts: list[Raw], item_id: str | None) -> None:
        """Tell thoughts that stand together: each is one of its own."""
        for number, words in enumerate(thoughts):
            self._think(words, f"{item_id}-{number}" if item_id and number else item_id)

    def _compacted(self, payload: bytes) -> None:
        self._teller.agent(_COMPACTED, self._next_id("compaction"))
        message = read_message(payload)
        is_finished = self._is_finished
        self._think(message.message if message is not None else Raw())
        self._is_finished = is_finished

    def _from_agent(self, words: Raw) -> None:
        """Tell what another agent has said: to a sub-agent that is what it is asked."""
        if self._about.is_child:
            self._prompt([text(words)])
        else:
            self._think(words)

    # -- what the user was shown --------------------------------------------------------

    def _event(self, event: Event) -> None:
        match event.type:
            case "user_message":
                if event.kind in {None, "plain"}:
                    self._prompt(self._asked(event))
            case "agent_message" | "error":
                self._say(event.message)
            case "agent_reasoning" | "agent_reasoning_raw_content":
                self._think(event.text)
            case "item_completed":
                if event.item is not None:
                    self._turn_item(event.item)
            case "entered_review_mode":
                self._say_words(_review_begins(event.user_facing_hint))
            case "exited_review_mode":
                self._say_words(_review_ends(event.review_output))
            case _:
                self._other_event(event)

    def _other_event(self, event: Event) -> None:
        match event.type:
            case "task_started" | "turn_started":
                self._begin_turn(event.turn_id or self._next_id("turn"))
            case "task_complete" | "turn_complete":
                if event.error is not None and event.error.message:
                    self._say_words(event.error.message)
                self._end_turn("end_turn")
            case "turn_aborted":
                self._end_turn("cancelled")
            case it:
                # Of the others, most are passed over; those that end something are calls.
                self._is_finished = self._is_finished and not it.endswith(("_end", "_activity"))
                self._calls.event(event)

    def _asked(self, event: Event) -> list[Json]:
        words = own_words(decoded(event.message))
        blocks = [text(words)] if words else []
        local = event.local_images or []
        if local and self._pictures:
            # What the model was shown has the pictures themselves.
            return blocks + self._pictures
        links = [picture(it) for it in event.images or [] if is_text(it)]
        return blocks + links + [link(path, path) for path in local]

    def _turn_item(self, item: TurnItem) -> None:
        match item.type:
            case "UserMessage":
                self._prompt(self._input(item.content or []))
            case "AgentMessage":
                for part in item.content or []:
                    self._say(part.text, item.id)
            case "Plan":
                self._say(item.text, item.id)
            case "Reasoning":
                self._think_all(item.summary_text or item.raw_content, item.id)
            case "EnteredReviewMode":
                self._say_words(_review_begins(item.user_facing_hint), item.id)
            case "ExitedReviewMode":
                self._say_words(_review_ends(item.review_output), item.id)
            case it if it not in _QUIET_TURN_ITEMS:
                self._is_finished = False
                self._calls.item(item)
            case _:
                pass

    def _input(self, parts: list[Part]) -> list[Json]:
        """Return what the user has put in."""
        blocks: list[Json] = []
        pictures: list[Json] = []
        for part in parts:
            if is_text(part.text):
                words = own_words(decoded(part.text))
                blocks += [text(words)] if words else []
            elif part.type in {"skill", "mention"} and part.name:
                blocks.append(link(part.path or "", part.name))
            elif (told := picture_of(part)) is not None:
                pictures.append(told)
        is_local = any(it.type == "local_image" for it in parts)
        return blocks + (self._pictures if is_local and self._pictures else pictures)

    # -- what the model was told --------------------------------------------------------

    def _item(self, item: Item) -> None:
        match item.type:
            case "message":
                self._message(item)
            case "reasoning":
                if not self._about.has_events:
                    parts = item.summary or item.content or []
                    self._think_all([part.text for part in parts], item.id)
            case "agent_message":
                for part in item.content or []:
                    if is_text(part.text):
                        self._from_agent(part.text)
            case it if it not in _QUIET_ITEMS:
                self._is_finished = False
                self._call(item)
            case _:
                pass

    def _call(self, item: Item) -> None:
        match item.type:
            case it if it in _CALLS:
                self._calls.call(item)
            case it if it in _OUTPUTS:
                self._calls.output(item)
            case "web_search_call":
                self._calls.searched(item)
            case "image_generation_call":
                self._calls.made_image(item)
            case it:
                self._notes.skip(f"an item of unknown type: {it}" if it else "no type")

    def _message(self, item: Item) -> None:
        parts = item.content or []
        if item.role == "user":
            self._told_by_user(parts)
        elif item.role == "assistant" and not self._about.has_events:
            for part in parts:
                self._say(part.text, item.id)

    def _told_by_user(self, parts: list[Part]) -> None:
        words = [decoded(it.text) for it in parts]
        if not any(map(is_context, words)):
            self._pictures = [it for it in map(picture_of, parts) if it is not None]
        for said in words:
            typed = None if self._about.is_paginated else typed_command(said)
            if typed is not None:
                self._calls.typed(typed)
        if not self._about.has_events:
            own = [text(it) for it in map(own_words, words) if it]
            self._prompt([*own, *self._pictures] if own else [])


def _review_begins(hint: str | None) -> str:
    return f"[Review: {hint}]" if hint else "[Review]"


def _review_ends(review: Review | None) -> str:
    """Return what a review has brought, in words."""
    if review is None:
        return "[The review was interrupted.]"
    findings: list[str] = []
    for it in review.findings:
        place = it.code_location.absolute_file_path if it.code_location is not None else None
        findings.append("\n".join(filter(None, (f"- {it.title}", place, it.body))))
    return "\n\n".join(filter(None, (review.overall_explanation, *findings)))
