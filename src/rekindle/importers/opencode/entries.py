"""The messages of one session told as what a client would have heard, one after the other.

Each message is told by what stood before it alone, so that a session that has grown begins with
what was told of it before. But a message is changed while the agent is at work on it: whatever
is told from there on is told for the time being. A turn ends where the next one begins.
"""

from collections.abc import Iterable, Iterator

from rekindle.importers.base import Notes
from rekindle.importers.entry_builder import Json, Teller, text
from rekindle.importers.lenient_reader import has_words
from rekindle.importers.opencode.records import Message, Part, State, microseconds
from rekindle.importers.opencode.tool_calls import (
    PLANS,
    call_fields,
    file_block,
    result_fields,
    steps,
    todo_steps,
)

_STOP_REASONS = {
    "length": "max_tokens",
    "content-filter": "refusal",
    "MessageOutputLengthError": "max_tokens",
    "ContentFilterError": "refusal",
    "MessageAbortedError": "cancelled",
}
_GOES_ON = frozenset({"tool-calls", "unknown"})
_COMPACTED = "[The conversation was compacted here: the agent went on with a summary of it.]"
_BY_HAND = b'"The following tool was executed by the user'
_SILENT = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "agent", "retry", "source-url"}
)
_SILENT_MESSAGES = frozenset({"synthetic", "system", "agent-switched", "model-switched"})


class Conversation:
    """Tells one session."""

    def __init__(self, teller: Teller, notes: Notes, cwd: str | None) -> None:
        self._teller = teller
        self._notes = notes
        self._cwd = cwd
        self._is_finished = False
        self._stop_reason = "end_turn"
        self._at_us = 0
        self._ended_us = 0
        """When the last answer ended."""
        self._calls = {""}
        self._plan: list[Json] | None = None
        self._by_hand: str | None = None
        """The message by which the user has run a command, which is told with the command."""
        self._compacting: tuple[str, int] | None = None
        """By which part it was begun to compact the conversation, and when."""
        self._asked: list[Json] = []
        self._may_repeat = False
        """Whether what was asked last may stand there once more: the tool has asked it again."""

    def take(self, message: Message, parts: Iterable[tuple[str, Part]]) -> Iterator[None]:
        """Tell one more message; stops now and then, so that not all of it must be held."""
        self._at(message.at_us)
        match message.kind:
            case "user":
                self._user(message, parts)
            case "assistant" if message.is_summary:
                self._summary(message, parts)
            case "assistant":
                yield from self._answer(message, parts)
            case "shell":
                self._shell(message, parts)
            case "compaction":
                self._summary(message, parts)
            case it if it not in _SILENT_MESSAGES:
                self._notes.skip(f"a message of unknown type: {it or 'none'}")
            case _:
                pass
        yield

    def finish(self, todos: Iterable[tuple[str, str, str]]) -> None:
        """Tell what is so as long as the session does not go on."""
        self._teller.is_provisional = True
        plan = steps(todos)
        if plan and plan != self._plan:
            self._teller.plan(plan)
        if self._is_finished:
            self._end_turn()

    def _at(self, at_us: int | None) -> None:
        if at_us is not None:
            self._at_us = at_us
            self._teller.at(at_us)

    # -- the user -----------------------------------------------------------------------

    def _user(self, message: Message, parts: Iterable[tuple[str, Part]]) -> None:
        blocks: list[Json] = []
        is_by_hand = False
        for part_id, part in parts:
            if part.type == "text":
                is_by_hand = is_by_hand or (
                    part.is_synthetic and bytes(part.text).startswith(_BY_HAND)
                )
            if part.type == "compaction":
                self._compacting = part_id, self._at_us
                self._may_repeat = part.overflow
                return
            blocks += self._said(part)
        if not blocks:
            self._by_hand = message.id if is_by_hand else None
        elif not (self._may_repeat and blocks == self._asked):
            self._prompt(message.id, blocks)
        self._may_repeat = False

    def _said(self, part: Part) -> Iterator[Json]:
        match part.type:
            case "text" if part.is_synthetic or part.is_ignored or not has_words(part.text):
                pass
            case "text":
                yield text(part.text)
            case "file":
                yield file_block(part, self._notes)
            case "subtask":
                yield text(part.prompt if has_words(part.prompt) else part.description)
            case it if it not in _SILENT:
                self._notes.skip(f"a prompt has a part of unknown type: {it or 'none'}")
            case _:
                pass

    def _prompt(self, message_id: str, blocks: list[Json]) -> None:
        self._asked = blocks
        self._compacting = None
        is_meanwhile = not self._is_finished and self._ended_us > self._at_us
        if self._teller.is_in_turn and is_meanwhile:
            # It was typed while the agent was at work, which has heard it on its way.
            for block in blocks:
                self._teller.user(block, message_id)
            return
        at_us = self._at_us
        self._end_turn()
        self._teller.at(at_us)
        self._teller.prompt(message_id, blocks)
        self._is_finished = False

    def _end_turn(self) -> None:
        if self._is_finished:
            self._teller.end(self._stop_reason, self._ended_us)
        else:
            self._teller.leave()

    def _shell(self, message: Message, parts: Iterable[tuple[str, Part]]) -> None:
        """Tell a command that the user has run, which the newest version has in a message."""
        self._prompt(message.id, [text(f"! {message.command}")])
        for part_id, part in parts:
            self._call(part_id, part)
        self._finish(message, is_said=True)

    # -- the agent ----------------------------------------------------------------------

    def _summary(self, message: Message, parts: Iterable[tuple[str, Part]]) -> None:
        """Tell what the model was told of the conversation, unless nothing came of it."""
        part_id, at_us = self._compacting or (message.id, self._at_us)
        self._compacting = None
        if self._is_finished:
            self._end_turn()
        self._teller.at(at_us)
        if message.error is None:
            self._teller.agent(_COMPACTED, part_id)
        self._teller.at(self._at_us)
        for said_id, part in parts:
            if part.type == "text" and has_words(part.text):
                self._teller.thought(part.text, said_id)
        if message.error is not None:
            self._finish(message, is_said=False)

    def _answer(self, message: Message, parts: Iterable[tuple[str, Part]]) -> Iterator[None]:
        is_said = False
        for part_id, part in parts:
            yield
            self._at(microseconds(part.time.start))
            match part.type:
                case "text":
                    if has_words(part.text) and not (part.is_synthetic or part.is_ignored):
                        self._teller.agent(part.text, message.id)
                        is_said = True
                case "reasoning":
                    if has_words(part.text):
                        self._teller.thought(part.text, part_id)
                        is_said = False
                case "tool":
                    self._call(part_id, part)
                    is_said = False
                case "file":
                    block = file_block(part, self._notes)
                    self._teller.update(
                        {"sessionUpdate": "agent_message_chunk", "messageId": message.id,
                         "content": block}
                    )  # fmt: skip
                case it if it not in _SILENT:
                    self._notes.skip(f"an answer has a part of unknown type: {it or 'none'}")
                case _:
                    pass
        self._finish(message, is_said=is_said or self._by_hand is not None)
        self._by_hand = None

    def _finish(self, message: Message, *, is_said: bool) -> None:
        """Take in how an answer has ended."""
        reason = message.finish
        error = message.error
        if message.ended_us is not None:
            self._ended_us = message.ended_us
        elif not message.is_open:
            self._ended_us = self._at_us
        self._stop_reason = _STOP_REASONS.get(reason or "", "end_turn")
        if error is not None:
            self._is_finished = error.name in _STOP_REASONS
            self._stop_reason = _STOP_REASONS.get(error.name, "end_turn")
            if not self._is_finished:
                self._at(message.ended_us)
                words = error.words or error.name or "unknown"
                self._teller.agent(f"[The turn ended with an error: {words}]", message.id)
        elif reason is not None:
            self._is_finished = reason not in _GOES_ON
        else:
            # Earlier versions do not say.
            self._is_finished = is_said and message.ended_us is not None

    def _call(self, part_id: str, part: Part) -> None:
        state = part.state or State()
        # Some models number their calls anew in each answer.
        call_id = part.call_id if part.call_id not in self._calls else part_id
        self._calls.add(call_id)
        self._at(microseconds(state.time.start))
        if self._by_hand is not None:
            fields = call_fields(part, self._cwd)
            self._prompt(self._by_hand, [text(f"! {fields['title']}")])
        if part.tool == PLANS and state.status == "completed":
            self._plan = todo_steps(state)
            self._teller.plan(self._plan)
            return
        self._teller.call(call_id, **call_fields(part, self._cwd))
        if state.time.end is not None:
            self._teller.at(microseconds(state.time.end))
        self._teller.called(call_id, **result_fields(part, self._cwd, self._notes))
