"""Convert the messages of a session to entries, one after the other.

The entries of a message depend only on earlier messages. So after a session has grown, its entries
begin with the same entries as before. But a message changes while the agent is working on it, so
all entries from there on are provisional. A turn ends where the next one begins.
"""

from collections.abc import Iterable, Iterator

from rekindle.importers.base import ImportNotes
from rekindle.importers.entry_builder import (
    COMPACTED_TEXT,
    EntryBuilder,
    InferredTurnEnd,
    text_block,
)
from rekindle.importers.lenient_reader import is_nonempty_string
from rekindle.importers.opencode.records import (
    OpenCodeMessage,
    OpenCodePart,
    OpenCodeToolState,
    microseconds,
)
from rekindle.importers.opencode.tool_calls import (
    PLAN_TOOL,
    call_fields,
    file_block,
    plan_entries,
    result_fields,
    todo_entries,
)
from rekindle.jsonvalue import Json

_STOP_REASONS = {
    "length": "max_tokens",
    "content-filter": "refusal",
    "MessageOutputLengthError": "max_tokens",
    "ContentFilterError": "refusal",
    "MessageAbortedError": "cancelled",
}
_UNFINISHED = frozenset({"tool-calls", "unknown"})
_USER_COMMAND_START = b'"The following tool was executed by the user'
_IGNORED_PARTS = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "agent", "retry", "source-url"}
)
_IGNORED_MESSAGES = frozenset({"synthetic", "system", "agent-switched", "model-switched"})

_Parts = Iterable[tuple[str, OpenCodePart]]


class OpenCodeConverter:
    """Converts one session."""

    def __init__(self, builder: EntryBuilder, notes: ImportNotes, cwd: str | None) -> None:
        self._builder = builder
        self._notes = notes
        self._cwd = cwd
        self._turn_end = InferredTurnEnd()
        self._at_us = 0
        self._answer_ended_us = 0
        self._call_ids = {""}
        self._plan: list[Json] | None = None
        self._user_command: str | None = None
        """The message that announces a command of the user. It is converted with the command."""
        self._compaction: tuple[str, int] | None = None
        """The id and time of the part that has started a compaction."""
        self._last_prompt: list[Json] = []
        self._may_repeat = False
        """Whether OpenCode may have recorded the last prompt again after a compaction."""

    def convert(self, message: OpenCodeMessage, parts: _Parts) -> Iterator[None]:
        """Convert one message. Yields now and then, so that the caller can take the entries."""
        self._set_time(message.at_us)
        match message.kind:
            case "user":
                self._convert_user(message, parts)
            case "assistant" if message.is_summary:
                self._convert_summary(message, parts)
            case "assistant":
                yield from self._convert_answer(message, parts)
            case "shell":
                self._convert_shell(message, parts)
            case "compaction":
                self._convert_summary(message, parts)
            case kind if kind not in _IGNORED_MESSAGES:
                self._notes.skip(f"a message of unknown type: {kind or 'none'}")
            case _:
                pass
        yield

    def finish(self, todos: Iterable[tuple[str, str, str]]) -> None:
        """Add the provisional entries at the end of the session."""
        self._builder.is_provisional = True
        plan = plan_entries(todos)
        if plan and plan != self._plan:
            self._builder.add_plan(plan)
        if self._turn_end.is_finished:
            self._end_turn()

    def _set_time(self, at_us: int | None) -> None:
        if at_us is not None:
            self._at_us = at_us
            self._builder.set_time(at_us)

    # -- the user -----------------------------------------------------------------------

    def _convert_user(self, message: OpenCodeMessage, parts: _Parts) -> None:
        blocks: list[Json] = []
        is_command = False
        for part_id, part in parts:
            if part.type == "text" and part.is_synthetic:
                is_command = is_command or bytes(part.text).startswith(_USER_COMMAND_START)
            if part.type == "compaction":
                self._compaction = part_id, self._at_us
                self._may_repeat = part.overflow
                return
            blocks += self._prompt_blocks(part)
        if not blocks:
            self._user_command = message.id if is_command else None
        elif not (self._may_repeat and blocks == self._last_prompt):
            self._add_prompt(message.id, blocks)
        self._may_repeat = False

    def _prompt_blocks(self, part: OpenCodePart) -> Iterator[Json]:
        match part.type:
            case "text" if (
                part.is_synthetic or part.is_ignored or not is_nonempty_string(part.text)
            ):
                pass
            case "text":
                yield text_block(part.text)
            case "file":
                yield file_block(part, self._notes)
            case "subtask":
                has_prompt = is_nonempty_string(part.prompt)
                yield text_block(part.prompt if has_prompt else part.description)
            case kind if kind not in _IGNORED_PARTS:
                self._notes.skip(f"a prompt has a part of unknown type: {kind or 'none'}")
            case _:
                pass

    def _add_prompt(self, message_id: str, blocks: list[Json]) -> None:
        self._last_prompt = blocks
        self._compaction = None
        is_working = not self._turn_end.is_finished and self._answer_ended_us > self._at_us
        if self._builder.is_in_turn and is_working:
            # The user typed it while the agent was working, and it became part of the turn.
            for block in blocks:
                self._builder.add_user_block(block, message_id)
            return
        at_us = self._at_us
        self._end_turn()
        self._builder.set_time(at_us)
        self._builder.add_prompt(message_id, blocks)
        self._turn_end.is_finished = False

    def _end_turn(self) -> None:
        self._turn_end.at_us = self._answer_ended_us
        self._turn_end.apply(self._builder)

    def _convert_shell(self, message: OpenCodeMessage, parts: _Parts) -> None:
        """Convert a command of the user, which is one message in the newest version."""
        self._add_prompt(message.id, [text_block(f"! {message.command}")])
        for part_id, part in parts:
            self._convert_call(part_id, part)
        self._finish_answer(message, ends_with_text=True)

    # -- the agent ----------------------------------------------------------------------

    def _convert_summary(self, message: OpenCodeMessage, parts: _Parts) -> None:
        """Convert the summary that replaced a conversation, unless the compaction has failed."""
        part_id, at_us = self._compaction or (message.id, self._at_us)
        self._compaction = None
        if self._turn_end.is_finished:
            self._end_turn()
        self._builder.set_time(at_us)
        if message.error is None:
            self._builder.add_agent_text(COMPACTED_TEXT, part_id)
        self._builder.set_time(self._at_us)
        for text_id, part in parts:
            if part.type == "text" and is_nonempty_string(part.text):
                self._builder.add_thought(part.text, text_id)
        if message.error is not None:
            self._finish_answer(message, ends_with_text=False)

    def _convert_answer(self, message: OpenCodeMessage, parts: _Parts) -> Iterator[None]:
        ends_with_text = False
        for part_id, part in parts:
            yield
            self._set_time(microseconds(part.time.start))
            match part.type:
                case "text":
                    is_hidden = part.is_synthetic or part.is_ignored
                    if is_nonempty_string(part.text) and not is_hidden:
                        self._builder.add_agent_text(part.text, message.id)
                        ends_with_text = True
                case "reasoning":
                    if is_nonempty_string(part.text):
                        self._builder.add_thought(part.text, part_id)
                        ends_with_text = False
                case "tool":
                    self._convert_call(part_id, part)
                    ends_with_text = False
                case "file":
                    block = file_block(part, self._notes)
                    self._builder.add_update(
                        {"sessionUpdate": "agent_message_chunk", "messageId": message.id,
                         "content": block}
                    )  # fmt: skip
                case kind if kind not in _IGNORED_PARTS:
                    self._notes.skip(f"an answer has a part of unknown type: {kind or 'none'}")
                case _:
                    pass
        is_complete = ends_with_text or self._user_command is not None
        self._finish_answer(message, ends_with_text=is_complete)
        self._user_command = None

    def _finish_answer(self, message: OpenCodeMessage, *, ends_with_text: bool) -> None:
        """Note how an answer has ended, and add its error if it has one."""
        end, error = self._turn_end, message.error
        if message.ended_us is not None:
            self._answer_ended_us = message.ended_us
        elif not message.is_open:
            self._answer_ended_us = self._at_us
        end.stop_reason = _STOP_REASONS.get(message.finish or "", "end_turn")
        if error is not None:
            end.is_finished = error.name in _STOP_REASONS
            end.stop_reason = _STOP_REASONS.get(error.name, "end_turn")
            if not end.is_finished:
                self._set_time(message.ended_us)
                text = error.text or error.name or "unknown"
                self._builder.add_agent_text(f"[The turn ended with an error: {text}]", message.id)
        elif message.finish is not None:
            end.is_finished = message.finish not in _UNFINISHED
        else:
            # Earlier versions do not record the reason.
            end.is_finished = ends_with_text and message.ended_us is not None

    def _convert_call(self, part_id: str, part: OpenCodePart) -> None:
        state = part.state or OpenCodeToolState()
        # Some models use the same ids again in each answer.
        call_id = part.call_id if part.call_id not in self._call_ids else part_id
        self._call_ids.add(call_id)
        self._set_time(microseconds(state.time.start))
        if self._user_command is not None:
            fields = call_fields(part, self._cwd)
            self._add_prompt(self._user_command, [text_block(f"! {fields['title']}")])
        if part.tool == PLAN_TOOL and state.status == "completed":
            self._plan = todo_entries(state)
            self._builder.add_plan(self._plan)
            return
        self._builder.add_tool_call(call_id, **call_fields(part, self._cwd))
        if state.time.end is not None:
            self._builder.set_time(microseconds(state.time.end))
        fields = result_fields(part, self._cwd, self._notes)
        self._builder.update_tool_call(call_id, **fields)
