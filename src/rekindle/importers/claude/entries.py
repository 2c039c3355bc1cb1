"""The records of one conversation told as what a client would have heard, one after the other.

Each record is told by what stood before it alone, so that a file that has grown begins with what
was told of it before. A turn ends where the next one begins, or where the user has interrupted.
The last one is ended at the end of the file, for the time being, if the agent's last words were
said; else it was cut off.
"""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.base import Notes
from rekindle.importers.claude.records import NOTHING, Block, Record
from rekindle.importers.claude.tool_calls import (
    PLANS,
    WITH_OUTCOMES,
    Outcome,
    Tasks,
    call_fields,
    content_block,
    is_persisted,
    printed,
    read_outcome,
    result_fields,
    todo_steps,
    words_of,
)
from rekindle.importers.claude.user_text import Heard, What, hear
from rekindle.importers.entry_builder import Clock, Json, Teller, text
from rekindle.importers.lenient_reader import is_text

_STOP_REASONS = {"max_tokens": "max_tokens", "refusal": "refusal"}
_GOES_ON = frozenset({"tool_use", "pause_turn"})
_SYNTHETIC = "<synthetic>"
_NO_ANSWER = "No response requested."
_COMPACTED = "[The conversation was compacted here: the agent went on with a summary of it.]"
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_SILENT = frozenset({"redacted_thinking", "fallback"})
_NO_OUTCOME = Outcome()
_MOST_OPEN_CALLS = 10_000
_MOST_WAITING = 1_000


class _Call(Struct, frozen=True):
    """A call whose result is awaited."""

    name: str
    given: bytes = b""
    """What it was given, if that is needed then."""


class _Spoken(Struct):
    """What was told of a message of the model: it may be repeated, or come in longer versions."""

    id: str | None = None
    blocks: list[tuple[str, bytes]] = []
    last: str = ""
    """Of which kind is what was told last."""


class Conversation:
    """Tells one conversation. `externalised` reads output that is in a file of its own."""

    def __init__(
        self,
        teller: Teller,
        notes: Notes,
        cwd: str | None,
        externalised: Callable[[str], str | None],
        child_id: Callable[[str], str],
    ) -> None:
        self._teller = teller
        self._notes = notes
        self._cwd = cwd
        self._externalised = externalised
        self._child_id = child_id
        self._clock = Clock()
        self._calls: dict[str, _Call] = {}
        self._tasks = Tasks()
        self._spoken = _Spoken()
        self._waiting: list[tuple[int, str]] = []
        """Prompts that were typed while the agent was at work, and have not reached it."""
        self._is_finished = False
        self._stop_reason = "end_turn"
        self._finished_us = 0
        self._at_us = 0

    def take(self, record: Record) -> None:
        """Tell one more record."""
        at_us = self._clock.read(record.timestamp)
        self._at_us = self._at_us if at_us is None else at_us
        self._teller.at(at_us)
        match record.type:
            case "assistant":
                self._answer(record)
            case "user":
                self._user(record)
            case "system" if record.subtype == "local_command":
                self._command(record)
            case "system":
                self._teller.agent(_COMPACTED, record.uuid)
            case "attachment":
                self._attachment(record)
            case _:
                self._queue(record)

    def finish(self) -> None:
        """Tell what is so as long as the file does not go on."""
        self._teller.is_provisional = True
        heard = [(at_us, hear(said)) for at_us, said in self._waiting]
        prompts = [(at_us, it.words) for at_us, it in heard if it.what is What.PROMPT]
        if self._is_finished:
            self._end_turn()
        for number, (at_us, words) in enumerate(prompts):
            self._teller.leave()
            self._teller.at(at_us)
            self._teller.prompt(f"queued-{at_us}-{number}", [text(words)])

    # -- the model ----------------------------------------------------------------------

    def _answer(self, record: Record) -> None:
        message = record.message
        if message is None:
            self._notes.skip("an answer has no message")
            return
        message_id = message.id or record.uuid
        if self._spoken.id != message_id:
            self._spoken = _Spoken(message_id)
        blocks = message.content
        if isinstance(blocks, str):
            blocks = [Block(type="text", text=Raw(msgspec.json.encode(blocks)))]
        if message.model == _SYNTHETIC and _says_only(blocks, _NO_ANSWER):
            return
        for block in blocks:
            self._answer_block(block, record.tool_use_result)
        self._is_finished = self._is_finished and message.stop_reason not in _GOES_ON
        self._stop_reason = _STOP_REASONS.get(message.stop_reason or "", "end_turn")
        self._finished_us = self._at_us

    def _answer_block(self, block: Block, outcome: Raw) -> None:
        match block.type:
            case "text":
                self._is_finished = True
                if (words := self._news("text", block.text)) is not None:
                    self._teller.agent(words, self._spoken.id)
            case "thinking":
                self._is_finished = False
                if (words := self._news("thinking", block.thinking)) is not None:
                    self._teller.thought(words, self._spoken.id)
            case it if it in _CALLS:
                self._is_finished = False
                self._spoken.last = "call"
                self._call(block)
            case it if it.endswith("_tool_result"):
                self._result(block, outcome)
            case it if it not in _SILENT:
                self._notes.skip(f"an answer has a part of unknown type: {it}")
            case _:
                pass

    def _news(self, kind: str, words: Raw) -> Raw | None:
        """Return what of a text was not told yet."""
        said = bytes(words)
        told = self._spoken.blocks
        if not is_text(words) or said == b'""' or (kind, said) in told:
            return None
        last = next((it for it_kind, it in reversed(told) if it_kind == kind), None)
        # What something else has followed was at its end.
        goes_on = self._spoken.last == kind
        self._spoken.last = kind
        told.append((kind, said))
        if goes_on and last is not None and said.startswith(last[:-1]):
            # The same, said to its end.
            told.remove((kind, last))
            return Raw(b'"' + said[len(last) - 1 :])
        return words

    def _call(self, block: Block) -> None:
        if not block.id:
            self._notes.skip("a call has no id")
            return
        is_known = block.id in self._calls
        given = bytes(block.input) if block.name in PLANS else b""
        self._calls[block.id] = _Call(block.name, given)
        if len(self._calls) > _MOST_OPEN_CALLS:
            del self._calls[next(iter(self._calls))]
        if block.name == "TodoWrite":
            self._teller.plan(todo_steps(block.input))
        elif block.name not in PLANS:
            tell = self._teller.called if is_known else self._teller.call
            tell(block.id, **call_fields(block, self._cwd))

    # -- the user -----------------------------------------------------------------------

    def _user(self, record: Record) -> None:
        message = record.message
        if message is None:
            self._notes.skip("a prompt has no message")
            return
        content = message.content
        said: str | list[Block] = content
        if isinstance(content, list):
            said = [it for it in content if not it.type.endswith("tool_result")]
            # It does not say which result it is of.
            is_only = len(content) - len(said) == 1
            for block in content:
                if block.type.endswith("tool_result"):
                    self._is_finished = False
                    self._result(block, record.tool_use_result if is_only else NOTHING)
        if not said:
            return
        if record.is_compact_summary:
            self._summary(_words(said), record.uuid)
        elif not (record.is_meta or record.is_visible_in_transcript_only or _is_sent(record)):
            self._say(said, record.uuid)

    def _say(self, content: str | list[Block], uuid: str | None) -> None:
        """Tell what was said in the user's name, as far as it is for people."""
        blocks, others = _prompt_of(content, self._notes)
        if blocks:
            self._prompt(blocks, uuid)
            return
        for heard in others:
            match heard.what:
                case What.INTERRUPTED:
                    self._teller.end("cancelled", self._at_us)
                case What.OUTPUT:
                    if heard.words:
                        self._teller.agent(heard.words, uuid)
                    self._finish_now()
                case What.SUMMARY:
                    self._summary(heard.words, uuid)
                case _:
                    pass

    def _prompt(self, blocks: list[Json], uuid: str | None) -> None:
        self._forget_waiting(blocks)
        self._end_turn()
        self._teller.at(self._at_us)
        self._teller.prompt(uuid or f"prompt-{self._at_us}", blocks)
        self._is_finished = False

    def _end_turn(self) -> None:
        if self._is_finished:
            self._teller.end(self._stop_reason, self._finished_us)
        else:
            self._teller.leave()

    def _finish_now(self) -> None:
        self._is_finished, self._stop_reason, self._finished_us = True, "end_turn", self._at_us

    def _summary(self, words: str, uuid: str | None) -> None:
        """Tell what the model was told of the conversation: those are not the user's words."""
        if words:
            self._teller.thought(words, uuid)

    def _result(self, block: Block, outcome: Raw) -> None:
        call = self._calls.pop(block.tool_use_id, None)
        if not block.tool_use_id:
            self._notes.skip("a result has no id")
            return
        name = call.name if call is not None else ""
        words, is_error = bytes(block.content), block.is_error is True
        if call is not None and name in PLANS:
            steps = None if is_error else self._tasks.take(name, call.given, words_of(words))
            if steps is not None:
                self._teller.plan(steps)
            return
        # Of most tools it says once more what the model was told.
        is_needed = name in WITH_OUTCOMES or is_persisted(words)
        found = (read_outcome(bytes(outcome)) if is_needed else None) or _NO_OUTCOME
        fetch = partial(self._fetch, found)
        text_of_it = printed(name, words, fetch, is_error=is_error)
        if text_of_it is not None:
            self._teller.printed(block.tool_use_id, text_of_it, is_error=is_error)
            return
        fields = result_fields(name, words, found, fetch, is_error=is_error)
        if found.agent_id:
            meta = {"rekindle": {"childSessionId": self._child_id(found.agent_id)}}
            fields |= {"_meta": meta}
        self._teller.called(block.tool_use_id, **fields)

    def _fetch(self, outcome: Outcome, words: str) -> str | None:
        """Return the whole of an output of which only the beginning stands here."""
        _, said, rest = words.partition("Full output saved to:")
        named = rest.partition("\n")[0].strip() if said else ""
        path = named or outcome.persisted_output_path
        if not path:
            return None
        found = self._externalised(path)
        if found is None:
            self._notes.skip("an output that was in a file of its own is gone")
        return found

    # -- what was typed meanwhile -------------------------------------------------------

    def _command(self, record: Record) -> None:
        """Tell a command that is not in the user's name, as in newer files, or what it printed."""
        is_at_work = self._teller.is_in_turn and not self._is_finished
        heard = hear(_decoded(record.content))
        if heard.what is What.COMMAND and is_at_work and record.uuid:
            self._teller.user(text(heard.words), record.uuid)
        elif heard.what in {What.COMMAND, What.OUTPUT}:
            self._say(_decoded(record.content), record.uuid)

    def _attachment(self, record: Record) -> None:
        attached = record.attachment
        if attached is None or attached.type != "queued_command":
            return
        blocks, _ = _prompt_of(attached.prompt, self._notes)
        if not blocks:
            return
        self._forget_waiting(blocks)
        message_id = record.uuid or f"queued-{self._at_us}"
        if not self._teller.is_in_turn or self._is_finished:
            self._prompt(blocks, message_id)
            return
        for block in blocks:
            self._teller.user(block, message_id)

    def _queue(self, record: Record) -> None:
        match record.operation:
            case "enqueue" if is_text(record.content):
                said = str(msgspec.json.decode(record.content))
                self._waiting = [*self._waiting[-_MOST_WAITING:], (self._at_us, said)]
            case "dequeue":
                del self._waiting[:1]
            case "remove":
                del self._waiting[-1:]
            case "popAll":
                self._waiting.clear()
            case _:
                pass

    def _forget_waiting(self, blocks: list[Json]) -> None:
        said = {str(block.get("text")).strip() for block in blocks}
        self._waiting = [it for it in self._waiting if it[1].strip() not in said]


def _is_sent(record: Record) -> bool:
    """Tell whether it was not the user who said it, but another agent, or a machine."""
    return record.origin is not None and record.origin.kind not in {"", "human"}


def _prompt_of(content: str | list[Block], notes: Notes) -> tuple[list[Json], list[Heard]]:
    """Return what the user has said, and what else stands there."""
    blocks: list[Json] = []
    others: list[Heard] = []
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str) or part.type == "text":
            heard = hear(part if isinstance(part, str) else _decoded(part.text))
            if heard.what in {What.PROMPT, What.COMMAND}:
                blocks.append(text(heard.words))
            else:
                others.append(heard)
        elif part.type in {"image", "document"}:
            blocks.append(content_block(part))
        else:
            notes.skip(f"a prompt has a part of unknown type: {part.type}")
    return blocks, others


def _words(content: str | list[Block]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(_decoded(it.text) for it in content if it.type == "text")


def _decoded(words: Raw) -> str:
    return str(msgspec.json.decode(words)) if is_text(words) else ""


def _says_only(blocks: list[Block], words: str) -> bool:
    return [_decoded(it.text) for it in blocks] == [words]
