"""Convert the records of a conversation to entries, one after the other.

The entries of a record depend only on earlier records. So after a file has grown, its entries
begin with the same entries as before. A turn ends where the next one begins, or where the user has
interrupted it. The last turn ends provisionally at the end of the file, if the agent's last
message was complete; otherwise it counts as interrupted.
"""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.base import ImportNotes
from rekindle.importers.claude.records import ClaudeBlock, ClaudeRecord
from rekindle.importers.claude.tool_calls import (
    PLAN_TOOLS,
    STRUCTURED_TOOLS,
    ClaudeTaskList,
    ClaudeToolResult,
    call_fields,
    is_persisted,
    media_block,
    plain_result,
    read_tool_result,
    result_fields,
    result_text,
    todo_entries,
)
from rekindle.importers.claude.user_text import ClaudeTextKind, ClaudeUserText, classify_text
from rekindle.importers.entry_builder import (
    COMPACTED_TEXT,
    MAX_OPEN_CALLS,
    EntryBuilder,
    InferredTurnEnd,
    TimestampParser,
    child_session_meta,
    text_block,
)
from rekindle.importers.lenient_reader import MISSING, decode_string, is_json_string
from rekindle.jsonvalue import Json

_STOP_REASONS = {"max_tokens": "max_tokens", "refusal": "refusal"}
_UNFINISHED = frozenset({"tool_use", "pause_turn"})
_SYNTHETIC = "<synthetic>"
_NO_RESPONSE = "No response requested."
_CALL_BLOCKS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_IGNORED_BLOCKS = frozenset({"redacted_thinking", "fallback"})
_NO_RESULT = ClaudeToolResult()
_MAX_QUEUED = 1_000


class _OpenCall(Struct, frozen=True):
    """A call without a result yet."""

    name: str
    input: bytes = b""
    """The input of a plan tool, which is needed together with the result."""


class _ModelMessage(Struct):
    """The texts of the current message. The file may repeat it, or have it again with more text."""

    id: str | None = None
    texts: list[tuple[str, bytes]] = []
    last_kind: str = ""


class ClaudeConverter:
    """Converts one conversation.

    `fetch_output` reads an output that is in a file of its own. `child_id` returns the id of the
    session of a sub-agent.
    """

    def __init__(
        self,
        builder: EntryBuilder,
        notes: ImportNotes,
        cwd: str | None,
        fetch_output: Callable[[str], str | None],
        child_id: Callable[[str], str],
    ) -> None:
        self._builder = builder
        self._notes = notes
        self._cwd = cwd
        self._fetch_output = fetch_output
        self._child_id = child_id
        self._timestamps = TimestampParser()
        self._open_calls: dict[str, _OpenCall] = {}
        self._tasks = ClaudeTaskList()
        self._message = _ModelMessage()
        self._queued: list[tuple[int, str]] = []
        """Prompts that the user typed while the agent was working, and that are still queued."""
        self._turn_end = InferredTurnEnd()
        self._at_us = 0

    def convert(self, record: ClaudeRecord) -> None:
        """Convert one record."""
        at_us = self._timestamps.parse(record.timestamp)
        self._at_us = self._at_us if at_us is None else at_us
        self._builder.set_time(at_us)
        match record.type:
            case "assistant":
                self._convert_assistant(record)
            case "user":
                self._convert_user(record)
            case "system" if record.subtype == "local_command":
                self._convert_local_command(record)
            case "system":
                self._builder.add_agent_text(COMPACTED_TEXT, record.uuid)
            case "attachment":
                self._convert_attachment(record)
            case _:
                self._convert_queue_operation(record)

    def finish(self) -> None:
        """Add the provisional entries at the end of the file."""
        self._builder.is_provisional = True
        queued = [(at_us, classify_text(text)) for at_us, text in self._queued]
        prompts = [
            (at_us, item.text) for at_us, item in queued if item.kind is ClaudeTextKind.PROMPT
        ]
        if self._turn_end.is_finished:
            self._turn_end.apply(self._builder)
        for number, (at_us, text) in enumerate(prompts):
            self._builder.abandon_turn()
            self._builder.set_time(at_us)
            self._builder.add_prompt(f"queued-{at_us}-{number}", [text_block(text)])

    # -- the model ----------------------------------------------------------------------

    def _convert_assistant(self, record: ClaudeRecord) -> None:
        message = record.message
        if message is None:
            self._notes.skip("an answer has no message")
            return
        message_id = message.id or record.uuid
        if self._message.id != message_id:
            self._message = _ModelMessage(message_id)
        blocks = message.content
        if isinstance(blocks, str):
            blocks = [ClaudeBlock(type="text", text=Raw(msgspec.json.encode(blocks)))]
        if message.model == _SYNTHETIC and _has_only_text(blocks, _NO_RESPONSE):
            return
        for block in blocks:
            self._convert_assistant_block(block, record.tool_use_result)
        end = self._turn_end
        end.is_finished = end.is_finished and message.stop_reason not in _UNFINISHED
        end.stop_reason = _STOP_REASONS.get(message.stop_reason or "", "end_turn")
        end.at_us = self._at_us

    def _convert_assistant_block(self, block: ClaudeBlock, result: Raw) -> None:
        match block.type:
            case "text":
                self._turn_end.is_finished = True
                if (text := self._new_text("text", block.text)) is not None:
                    self._builder.add_agent_text(text, self._message.id)
            case "thinking":
                self._turn_end.is_finished = False
                if (text := self._new_text("thinking", block.thinking)) is not None:
                    self._builder.add_thought(text, self._message.id)
            case kind if kind in _CALL_BLOCKS:
                self._turn_end.is_finished = False
                self._message.last_kind = "call"
                self._convert_call(block)
            case kind if kind.endswith("_tool_result"):
                self._convert_result(block, result)
            case kind if kind not in _IGNORED_BLOCKS:
                self._notes.skip(f"an answer has a part of unknown type: {kind}")
            case _:
                pass

    def _new_text(self, kind: str, text: Raw) -> Raw | None:
        """Return the part of a text that was not added before; None if all of it was."""
        encoded = bytes(text)
        known = self._message.texts
        if not is_json_string(text) or encoded == b'""' or (kind, encoded) in known:
            return None
        last = next((other for other_kind, other in reversed(known) if other_kind == kind), None)
        # A text that something else has followed is complete.
        may_continue = self._message.last_kind == kind
        self._message.last_kind = kind
        known.append((kind, encoded))
        if may_continue and last is not None and encoded.startswith(last[:-1]):
            # A longer version of the same text.
            known.remove((kind, last))
            return Raw(b'"' + encoded[len(last) - 1 :])
        return text

    def _convert_call(self, block: ClaudeBlock) -> None:
        if not block.id:
            self._notes.skip("a tool call has no id")
            return
        is_known = block.id in self._open_calls
        given = bytes(block.input) if block.name in PLAN_TOOLS else b""
        self._open_calls[block.id] = _OpenCall(block.name, given)
        if len(self._open_calls) > MAX_OPEN_CALLS:
            del self._open_calls[next(iter(self._open_calls))]
        if block.name == "TodoWrite":
            self._builder.add_plan(todo_entries(block.input))
        elif block.name not in PLAN_TOOLS:
            builder = self._builder
            add = builder.update_tool_call if is_known else builder.add_tool_call
            add(block.id, **call_fields(block, self._cwd))

    # -- the user -----------------------------------------------------------------------

    def _convert_user(self, record: ClaudeRecord) -> None:
        message = record.message
        if message is None:
            self._notes.skip("a prompt has no message")
            return
        content = message.content
        others: str | list[ClaudeBlock] = content
        if isinstance(content, list):
            others = [block for block in content if not block.type.endswith("tool_result")]
            # The structured result does not name its call, so it is used only for a single one.
            is_single = len(content) - len(others) == 1
            for block in content:
                if block.type.endswith("tool_result"):
                    self._turn_end.is_finished = False
                    self._convert_result(block, record.tool_use_result if is_single else MISSING)
        if not others:
            return
        if record.is_compact_summary:
            self._add_summary(_text_of(others), record.uuid)
        elif not (record.is_meta or record.is_visible_in_transcript_only or _is_sent(record)):
            self._convert_user_content(others, record.uuid)

    def _convert_user_content(self, content: str | list[ClaudeBlock], uuid: str | None) -> None:
        """Convert content in the user's role, except for context that people do not see."""
        blocks, others = _split_prompt(content, self._notes)
        if blocks:
            self._add_prompt(blocks, uuid)
            return
        for other in others:
            match other.kind:
                case ClaudeTextKind.INTERRUPTED:
                    self._builder.end_turn("cancelled", self._at_us)
                case ClaudeTextKind.OUTPUT:
                    if other.text:
                        self._builder.add_agent_text(other.text, uuid)
                    self._turn_end.finish(self._at_us)
                case ClaudeTextKind.SUMMARY:
                    self._add_summary(other.text, uuid)
                case _:
                    pass

    def _add_prompt(self, blocks: list[Json], uuid: str | None) -> None:
        self._remove_queued(blocks)
        self._turn_end.apply(self._builder)
        self._builder.set_time(self._at_us)
        self._builder.add_prompt(uuid or f"prompt-{self._at_us}", blocks)
        self._turn_end.is_finished = False

    def _add_summary(self, text: str, uuid: str | None) -> None:
        """Add the summary that the model received. The user has not written it."""
        if text:
            self._builder.add_thought(text, uuid)

    def _convert_result(self, block: ClaudeBlock, structured: Raw) -> None:
        call = self._open_calls.pop(block.tool_use_id, None)
        if not block.tool_use_id:
            self._notes.skip("a tool result has no id")
            return
        name = call.name if call is not None else ""
        content, is_error = bytes(block.content), block.is_error is True
        if call is not None and name in PLAN_TOOLS:
            plan = None if is_error else self._tasks.apply(name, call.input, result_text(content))
            if plan is not None:
                self._builder.add_plan(plan)
            return
        # For most tools the structured result only repeats the text, so it is not decoded.
        is_needed = name in STRUCTURED_TOOLS or is_persisted(content)
        result = (read_tool_result(bytes(structured)) if is_needed else None) or _NO_RESULT
        fetch_output = partial(self._fetch, result)
        text = plain_result(name, content, fetch_output, is_error=is_error)
        if text is not None:
            self._builder.finish_tool_call(block.tool_use_id, text, is_error=is_error)
            return
        fields = result_fields(name, content, result, fetch_output, is_error=is_error)
        if result.agent_id:
            fields["_meta"] = child_session_meta(self._child_id(result.agent_id))
        self._builder.update_tool_call(block.tool_use_id, **fields)

    def _fetch(self, result: ClaudeToolResult, text: str) -> str | None:
        """Return the whole output, if only its beginning is in the record."""
        _, label, rest = text.partition("Full output saved to:")
        path = rest.partition("\n")[0].strip() if label else ""
        path = path or result.persisted_output_path or ""
        if not path:
            return None
        output = self._fetch_output(path)
        if output is None:
            self._notes.skip("the file of a tool output is missing")
        return output

    # -- input while the agent is working -----------------------------------------------

    def _convert_local_command(self, record: ClaudeRecord) -> None:
        """Convert a command or its output, which newer versions record as a system record."""
        is_working = self._builder.is_in_turn and not self._turn_end.is_finished
        text = decode_string(record.content)
        command = classify_text(text)
        if command.kind is ClaudeTextKind.COMMAND and is_working and record.uuid:
            self._builder.add_user_block(text_block(command.text), record.uuid)
        elif command.kind in {ClaudeTextKind.COMMAND, ClaudeTextKind.OUTPUT}:
            self._convert_user_content(text, record.uuid)

    def _convert_attachment(self, record: ClaudeRecord) -> None:
        attachment = record.attachment
        if attachment is None or attachment.type != "queued_command":
            return
        blocks, _ = _split_prompt(attachment.prompt, self._notes)
        if not blocks:
            return
        self._remove_queued(blocks)
        message_id = record.uuid or f"queued-{self._at_us}"
        if not self._builder.is_in_turn or self._turn_end.is_finished:
            self._add_prompt(blocks, message_id)
            return
        for block in blocks:
            self._builder.add_user_block(block, message_id)

    def _convert_queue_operation(self, record: ClaudeRecord) -> None:
        match record.operation:
            case "enqueue" if is_json_string(record.content):
                text = decode_string(record.content)
                self._queued = [*self._queued[-_MAX_QUEUED:], (self._at_us, text)]
            case "dequeue":
                del self._queued[:1]
            case "remove":
                del self._queued[-1:]
            case "popAll":
                self._queued.clear()
            case _:
                pass

    def _remove_queued(self, blocks: list[Json]) -> None:
        delivered = {str(block.get("text")).strip() for block in blocks}
        self._queued = [item for item in self._queued if item[1].strip() not in delivered]


def _is_sent(record: ClaudeRecord) -> bool:
    """Return whether the message comes from another agent or a program, not from the user."""
    return record.origin is not None and record.origin.kind not in {"", "human"}


def _split_prompt(
    content: str | list[ClaudeBlock], notes: ImportNotes
) -> tuple[list[Json], list[ClaudeUserText]]:
    """Return the content blocks of the user, and the texts that the user has not written."""
    blocks: list[Json] = []
    others: list[ClaudeUserText] = []
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str) or part.type == "text":
            text = classify_text(part if isinstance(part, str) else decode_string(part.text))
            if text.kind in {ClaudeTextKind.PROMPT, ClaudeTextKind.COMMAND}:
                blocks.append(text_block(text.text))
            else:
                others.append(text)
        elif part.type in {"image", "document"}:
            blocks.append(media_block(part))
        else:
            notes.skip(f"a prompt has a part of unknown type: {part.type}")
    return blocks, others


def _text_of(content: str | list[ClaudeBlock]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(decode_string(block.text) for block in content if block.type == "text")


def _has_only_text(blocks: list[ClaudeBlock], text: str) -> bool:
    return [decode_string(block.text) for block in blocks] == [text]
