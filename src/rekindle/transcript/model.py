"""The parts of a transcript: turns, and the items in them.

Each item class answers for its kind of item: `replay_v1` and `replay_v2` write it as updates,
`search_text` and `handover_lines` as text. `export/views` has its presentation to people.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from rekindle.acp.terminal_output import Terminal, raw_output_text
from rekindle.acp.translate.content import block_to_v1
from rekindle.acp.translate.plans import plan_to_v1, plan_to_v2
from rekindle.acp.translate.tool_calls import call_to_v1, call_to_v2
from rekindle.acp.update_kinds import kind_of
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object
from rekindle.model import DocumentKind, Entry
from rekindle.transcript.preface import user_blocks

Update = dict[str, Any]
Terminals = Mapping[str, Terminal]

MAX_TEXT = 48 * 1024
"""The longest text of a replayed update, in characters: clients limit the length of a line."""
_UNFINISHED = ("pending", "in_progress")
_CHUNKS_PER_PASSAGE = 128
_PLAIN_TEXT = frozenset({"type", "text"})


class Role(StrEnum):
    """The author of a message, or a thought of the agent."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"


class HandoverReason(StrEnum):
    """Why the agent received the history. The values are in records and in `_meta.rekindle`."""

    LOST = "lost"
    """It did not know the session any more. Records of earlier versions name no reason."""
    OTHER_AGENT = "other_agent"
    REWOUND = "rewound"
    FORKED = "forked"
    USED_ELSEWHERE = "used_elsewhere"


_CAUSES = {
    HandoverReason.LOST: ("the agent had lost this session", "it the history"),
    HandoverReason.OTHER_AGENT: ("another agent continues this session", "it the history"),
    HandoverReason.REWOUND: ("this session was rewound", "the agent the rest of the history"),
    HandoverReason.FORKED: ("this session is a fork", "the agent its history"),
    HandoverReason.USED_ELSEWHERE: (
        "another process had continued this session",
        "the agent the history",
    ),
}


class SearchText(Struct, frozen=True):
    """The text of an item that can be searched for."""

    kind: DocumentKind
    id: str | None
    text: str


class ReplayContext(Struct, kw_only=True):
    """The surroundings of an item in a replay."""

    terminals: Terminals
    turn: "TranscriptTurn"
    is_over: bool = True
    """Whether the turn has ended."""
    may_continue: bool = False
    """Whether the agent may add to the item: it is the last one of a running turn."""
    shown_terminals: set[str] = field(default_factory=set[str])
    """The terminals that the replay has sent."""

    def has_interrupted(self, call: Mapping[str, Any], *, is_made_up: bool = False) -> bool:
        """Return whether the turn was interrupted before this tool call ended.

        Any other turn leaves its calls as the agent did. A client marks the open calls of a turn
        that it cancels, as the protocol asks. A client that receives the replay did not cancel the
        turn, so the replay marks them.
        """
        is_unfinished = as_str(call.get("status", "pending")) in _UNFINISHED
        return is_unfinished and self.is_over and (is_made_up or self.turn.was_interrupted)


class TranscriptItem(Struct, kw_only=True):
    """A part of a turn. By default it is neither replayed nor searched for nor handed over."""

    seq: int
    """The entry that began it."""
    at_us: int
    last_seq: int = 0
    """The last entry that changed it; 0 if none did."""

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the updates that show it to a version 1 client."""
        del context
        return iter(())

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the updates that show it to a version 2 client."""
        del context
        return iter(())

    def search_text(self) -> SearchText | None:
        """Return the text that can be searched for; None if it has none and never will."""
        return None

    def handover_lines(self, terminals: Terminals) -> Iterable[str]:
        """Return the lines that describe it to an agent that has lost the session."""
        del terminals
        return ()

    def changed_seq(self, turn: "TranscriptTurn", terminals: Terminals) -> int | None:
        """Return the last entry that changed it in any way; None if it may still change."""
        del turn, terminals
        return max(self.seq, self.last_seq)


# -- messages -------------------------------------------------------------------------------


class TranscriptMessage(TranscriptItem, kw_only=True):
    """A message. Chunks of plain text are joined; other content blocks are kept as they came."""

    role: Role
    protocol: int = 1
    """The protocol version in which it was sent."""
    id: str | None = None
    made_id: str | None = None
    """The id that Rekindle gave it for a version 2 client, if the agent gave none."""
    meta: dict[str, Any] = {}
    """The `_meta` of its updates, merged."""
    _blocks: list[dict[str, Any]] = []
    _passages: list[str] = []
    _chunks: list[str] = []

    def add(self, block: dict[str, Any]) -> None:
        """Append a content block."""
        if is_plain_text(block):
            self.add_text(block["text"])
        else:
            self._end_text()
            self._blocks.append(block)

    def add_text(self, text: str) -> None:
        """Append plain text."""
        self._chunks.append(text)
        if len(self._chunks) >= _CHUNKS_PER_PASSAGE:
            # A long answer may have a million chunks. Joining them saves one object per chunk.
            self._passages.append("".join(self._chunks))
            self._chunks.clear()

    def replace(self, blocks: list[Any]) -> None:
        """Replace the whole content."""
        self._blocks.clear()
        self._passages.clear()
        self._chunks.clear()
        for block in blocks:
            self.add(as_object(block))

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content blocks."""
        self._end_text()
        return self._blocks

    def pieces(self, max_text: int) -> Iterator[dict[str, Any]]:
        """Yield the content blocks, with plain text cut into pieces of at most `max_text`.

        The text is not joined for that, so a long one is not held twice.
        """
        for block in self._blocks:
            if is_plain_text(block):
                yield from map(_text_block, _cut([block["text"]], max_text))
            else:
                yield block
        yield from map(_text_block, _cut([*self._passages, *self._chunks], max_text))

    @property
    def text(self) -> str:
        """The text of all blocks that have one."""
        return "".join(as_str(block.get("text")) or "" for block in self.blocks)

    @property
    def own_blocks(self) -> list[dict[str, Any]]:
        """The content blocks without a handover or reminder that an agent took for the user's."""
        return user_blocks(self.blocks) if self.role is Role.USER else self.blocks

    @property
    def replay_id(self) -> str:
        """The id under which it is replayed. It never changes, even if the agent gave none."""
        return self.id or self.made_id or f"rekindle-{self.seq}"

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the message in chunks."""
        update: Update = {"sessionUpdate": f"{_KINDS[self.role]}_chunk"}
        if self.id is not None or self.role is Role.USER or not context.may_continue:
            # A message that continues has no id, because its next chunks will have none.
            update["messageId"] = self.replay_id
        meta = {"_meta": self.meta} if self.meta else {}
        is_empty = True
        for piece in self.pieces(MAX_TEXT):
            block = piece if self.protocol == 1 else block_to_v1(piece)
            yield {**update, "content": block, **meta}
            is_empty, meta = False, {}
        if is_empty and (self.role is Role.USER or meta):
            # An empty user message still begins a turn.
            yield {**update, "content": {"type": "text", "text": ""}, **meta}

    def split(self, max_text: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the content blocks of a first update, and of the chunks that follow it."""
        first: list[dict[str, Any]] = []
        rest: list[dict[str, Any]] = []
        size = 0
        for piece in self.pieces(max_text):
            size += len(str(piece.get("text", "")))
            (rest if rest or size > max_text else first).append(piece)
        return first, rest

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the whole message; if it is long, its beginning and then chunks."""
        del context
        kind = _KINDS[self.role]
        first, rest = self.split(MAX_TEXT)
        meta = {"_meta": self.meta} if self.meta else {}
        yield {"sessionUpdate": kind, "messageId": self.replay_id, "content": first, **meta}
        for piece in rest:
            yield {"sessionUpdate": f"{kind}_chunk", "messageId": self.replay_id, "content": piece}

    def search_text(self) -> SearchText:
        """Return the text, and the names of attachments."""
        text = "".join(map(_searchable, self.own_blocks))
        return SearchText(DocumentKind(self.role), self.id, text)

    def handover_lines(self, terminals: Terminals) -> Iterable[str]:
        """Return the message with its author. Thoughts are not handed over."""
        del terminals
        if self.role is Role.THOUGHT:
            return ()
        author = "User" if self.role is Role.USER else "You"
        return [f"{author}: {''.join(map(_handed_over, self.blocks))}"]

    def _end_text(self) -> None:
        text = _join_surrogates("".join([*self._passages, *self._chunks]))
        self._passages.clear()
        self._chunks.clear()
        last = self._blocks[-1] if self._blocks else None
        if text and last is not None and is_plain_text(last):
            self._blocks[-1] = _text_block(last["text"] + text)
        elif text:
            self._blocks.append(_text_block(text))


_KINDS = {Role.USER: "user_message", Role.AGENT: "agent_message", Role.THOUGHT: "agent_thought"}


def is_plain_text(block: dict[str, Any]) -> bool:
    """Return whether a content block has a text and no other field."""
    is_text = block.get("type") == "text" and isinstance(block.get("text"), str)
    return is_text and block.keys() == _PLAIN_TEXT


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _cut(parts: list[str], max_text: int) -> Iterator[str]:
    """Join parts up to `max_text` characters, and cut longer parts."""
    held: list[str] = []
    size = 0
    if any(part and "\ud800" <= part[-1] <= "\udfff" for part in parts):
        parts = [_join_surrogates("".join(parts))]
    for part in parts:
        if held and size + len(part) > max_text:
            yield "".join(held)
            held, size = [], 0
        starts = range(0, max(len(part) - max_text, 0), max_text)
        yield from (part[start : start + max_text] for start in starts)
        rest = part[len(starts) * max_text :]
        if rest:
            held.append(rest)
            size += len(rest)
    if held:
        yield "".join(held)


def _join_surrogates(text: str) -> str:
    """Join the halves of characters that an agent has sent in two chunks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text


def _searchable(block: dict[str, Any]) -> str:
    text = as_str(block.get("text"))
    if text is not None:
        return text
    names = [block.get("name"), block.get("uri"), as_object(block.get("resource")).get("uri")]
    return "".join(f"\n{name}\n" for name in map(as_str, names) if name)


def _handed_over(block: dict[str, Any]) -> str:
    text = as_str(block.get("text"))
    if text is not None:
        return text
    resource = as_object(block.get("resource"))
    uri = as_str(block.get("uri")) or as_str(resource.get("uri")) or ""
    return f"[{block.get('type', 'attachment')} {uri}]".replace(" ]", "]")


# -- tool calls -----------------------------------------------------------------------------

_GONE = "[terminal output not available]"
_MAX_RESULT = 2_000


class ToolCallItem(TranscriptItem, kw_only=True):
    """A tool call in its latest state; `fields` are the fields of its updates, merged."""

    id: str
    fields: dict[str, Any]
    outcome: str | None = None
    """The user's answer to a permission request about it."""
    is_made_up: bool = False
    """Whether Rekindle made it for a permission request that is not about a tool call."""

    @property
    def is_unfinished(self) -> bool:
        """Whether no update has reported its end."""
        return as_str(self.fields.get("status", "pending")) in _UNFINISHED

    @property
    def terminal_ids(self) -> list[str]:
        """The ids of the terminals in its content."""
        parts = map(as_object, as_array(self.fields.get("content")))
        return [str(part.get("terminalId")) for part in parts if part.get("type") == "terminal"]

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the call as one update. A call that its turn's interruption ended has failed."""

        def show(terminal_id: str) -> str:
            return terminal_text(self.fields, context.terminals.get(terminal_id)) or _GONE

        fields = call_to_v1(self.fields, show)
        update = {"sessionUpdate": "tool_call", "toolCallId": self.id, "title": "", **fields}
        # No agent ends a call that Rekindle made, so its turn does.
        if context.has_interrupted(update, is_made_up=self.is_made_up):
            update["status"] = "failed"
        yield update

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield its terminals, and then the call as one update."""
        if self.is_made_up:
            return
        for terminal_id in self.terminal_ids:
            if terminal_id not in context.shown_terminals:
                context.shown_terminals.add(terminal_id)
                terminal = context.terminals.get(terminal_id, Terminal())
                output = terminal.output or raw_output_text(self.fields.get("rawOutput")).encode()
                yield _terminal_update(terminal_id, terminal, output)
        fields = call_to_v2(self.fields)
        if context.has_interrupted(fields):
            is_cancelled = context.turn.stop_reason == "cancelled"
            fields["status"] = "cancelled" if is_cancelled else "failed"
        yield {"sessionUpdate": "tool_call_update", "toolCallId": self.id, **fields}

    def search_text(self) -> SearchText:
        """Return the title and the paths of files. Output is left out: it is long."""
        lines = dict.fromkeys([as_str(self.fields.get("title")) or "", *_paths(self.fields)])
        return SearchText(DocumentKind.TOOL_CALL, self.id, "\n".join(filter(None, lines)))

    def handover_lines(self, terminals: Terminals) -> Iterable[str]:
        """Return the title and status, and the result if there is one."""
        fields = self.fields
        title = as_str(fields.get("title")) or as_str(fields.get("kind")) or "a tool"
        status = as_str(fields.get("status")) or "pending"
        state = "not finished" if status in _UNFINISHED else status
        yield f"You used a tool: {title} ({state})"
        content = [as_object(part) for part in as_array(fields.get("content"))]
        parts = [_part_text(part, fields, terminals) for part in content]
        result = "\n".join(parts).strip()
        if not result and "rawOutput" in fields:
            raw = fields["rawOutput"]
            result = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
        if result:
            yield shorten_middle(result, _MAX_RESULT)

    def changed_seq(self, turn: "TranscriptTurn", terminals: Terminals) -> int | None:
        """Return the last entry that changed the call or one of its terminals.

        The end of its turn may end an unfinished call. No entry marks the end of a turn that was
        cut off.
        """
        parts = map(as_object, as_array(self.fields.get("content")))
        shown = [terminals.get(str(part.get("terminalId"))) for part in parts]
        seqs = [self.seq, self.last_seq, *(it.last_seq for it in shown if it is not None)]
        if self.is_unfinished:
            if not turn.ended_seq:
                return None
            seqs.append(turn.ended_seq)
        return max(seqs)


def terminal_text(call: Mapping[str, Any], terminal: Terminal | None) -> str:
    """Return the text of a terminal that a tool call shows; empty if it is unknown.

    Where the terminal is gone, the `rawOutput` of the call may have the text.
    """
    return (terminal.text if terminal else "") or raw_output_text(call.get("rawOutput"))


def _terminal_update(terminal_id: str, terminal: Terminal, output: bytes | bytearray) -> Update:
    data = base64.b64encode(output).decode("ascii")
    return {
        "sessionUpdate": "terminal_update",
        "terminalId": terminal_id,
        **terminal.rest,
        "output": {"data": data},
    }


def _paths(fields: dict[str, Any]) -> Iterator[str]:
    """Yield the paths of the files that a tool call names."""
    parts = [as_object(part) for part in as_array(fields.get("content"))]
    changes = [change for part in parts for change in as_array(part.get("changes"))]
    for place in map(as_object, [*as_array(fields.get("locations")), *parts, *changes]):
        for name in ("oldPath", "path"):
            if path := as_str(place.get(name)):
                yield path


def _part_text(part: dict[str, Any], call: Mapping[str, Any], terminals: Terminals) -> str:
    if part.get("type") == "terminal":
        return terminal_text(call, terminals.get(str(part.get("terminalId"))))
    if part.get("type") == "diff":
        old = as_str(part.get("oldText")) or ""
        new = as_str(part.get("newText")) or ""
        removed = [f"- {line}" for line in old.splitlines()]
        added = [f"+ {line}" for line in new.splitlines()]
        return "\n".join([f"changes to {part.get('path', 'a file')}:", *removed, *added])
    return as_str(as_object(part.get("content")).get("text")) or ""


def shorten_middle(text: str, room: int) -> str:
    """Keep the beginning and the end of a text, and note how much is missing between them."""
    if len(text) <= room:
        return text
    gap = f"\n[{len(text) - room:,} characters omitted]\n"
    half = max(0, room - len(gap)) // 2
    return text[:half] + gap + (text[-half:] if half else "")


def outcome_label(outcome: dict[str, Any], options: list[Any]) -> str:
    """Return the answer to a permission request: the name of the chosen option, or the outcome."""
    chosen = as_str(outcome.get("optionId"))
    for option in map(as_object, options):
        if chosen is not None and option.get("optionId") == chosen:
            return as_str(option.get("name")) or chosen
    return chosen or as_str(outcome.get("outcome")) or "not answered"


# -- plans ----------------------------------------------------------------------------------


class PlanItem(TranscriptItem, kw_only=True):
    """A plan in its latest state; `rest` are the other fields of its last update."""

    entries: list[Any]
    id: str | None = None
    rest: dict[str, Any] = {}

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the plan."""
        del context
        entries = plan_to_v1({"type": "items", "entries": self.entries})
        yield {"sessionUpdate": "plan", **self.rest, "entries": entries}

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the plan with its id."""
        del context
        plan = plan_to_v2(self.entries, self.id)
        yield {"sessionUpdate": "plan_update", **self.rest, "plan": plan}

    def search_text(self) -> SearchText:
        """Return the texts of the entries."""
        entries = (as_str(as_object(entry).get("content")) or "" for entry in self.entries)
        return SearchText(DocumentKind.PLAN, self.id, "\n".join(entries))

    def open_steps(self) -> list[str]:
        """Return all entries as lines if at least one is not finished; otherwise none."""
        entries = [as_object(entry) for entry in as_array(self.entries)]
        if not any(as_str(entry.get("status")) in _UNFINISHED for entry in entries):
            return []
        return [f"- {it.get('content', '')} ({it.get('status', 'pending')})" for it in entries]


# -- other items ----------------------------------------------------------------------------


class OtherItem(TranscriptItem, kw_only=True):
    """An update of a kind that has no item class; kept as it came."""

    update: dict[str, Any]
    protocol: int
    """The protocol version in which it was sent."""

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the update, unless only version 2 has its kind."""
        del context
        if self.protocol == 1 or str(self.update.get("sessionUpdate")).startswith("_"):
            yield self.update

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the update; a kind that only version 1 has gets an underscore."""
        del context
        kind = str(self.update.get("sessionUpdate"))
        is_free = self.protocol > 1 or kind.startswith("_") or 2 in kind_of(kind).versions  # noqa: PLR2004
        yield {**self.update, "sessionUpdate": kind if is_free else f"_{kind}"}


class GapItem(TranscriptItem, kw_only=True):
    """Entries that the store could not write, or has lost."""

    lost: int
    is_damage: bool = False
    """Whether they were written, and cannot be read any more."""

    def __str__(self) -> str:
        entries = "1 entry is" if self.lost == 1 else f"{self.lost} entries are"
        why = "the store was damaged" if self.is_damage else "the store could not be written"
        return f"{entries} missing: {why}"

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield a message that names the gap."""
        del context
        yield {
            "sessionUpdate": "agent_message_chunk",
            "messageId": f"rekindle-{self.seq}",
            "content": _text_block(f"[{self}]"),
        }

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield a message that names the gap."""
        del context
        yield _whole_message(f"rekindle-{self.seq}", f"[{self}]")


def gap_in(entry: Entry) -> GapItem:
    """Return the gap that an entry marks."""
    fields = decode_object(entry.line) or {}
    lost, is_damage = fields.get("lostEntries"), fields.get("isDamage") is True
    count = lost if isinstance(lost, int) else 0
    return GapItem(seq=entry.seq, at_us=entry.at_us, lost=count, is_damage=is_damage)


class HandoverItem(TranscriptItem, kw_only=True):
    """The agent received the history of the session."""

    reason: HandoverReason = HandoverReason.LOST

    @property
    def replay_id(self) -> str:
        """The message id of the notice that the client received."""
        return _handover_id(self.at_us)

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the notice that the client received."""
        del context
        yield handover_notice(self.at_us, self.reason)

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the notice that the client received."""
        del context
        yield _whole_message(self.replay_id, _notice_text(self.reason))


class ReminderItem(TranscriptItem, kw_only=True):
    """The agent received an interrupted turn again. It is not replayed: the user knows the turn."""


def handover_in(entry: Entry) -> HandoverItem:
    """Return the handover that an entry records."""
    recorded = as_object(decode_object(entry.line)).get("_meta")
    reason = read_handover_reason(as_object(recorded))
    return HandoverItem(seq=entry.seq, at_us=entry.at_us, reason=reason)


def read_handover_reason(meta: Mapping[str, Any]) -> HandoverReason:
    """Return the reason in the `_meta` of a recorded handover, or of the client's notice."""
    value = as_object(meta.get("rekindle")).get("reason")
    known = {it.value: it for it in HandoverReason}
    return known.get(str(value), HandoverReason.LOST)


def handover_meta(reason: HandoverReason) -> dict[str, Any]:
    """Return the fields of `_meta.rekindle` that name the reason of a handover."""
    return {} if reason is HandoverReason.LOST else {"reason": reason.value}


def handover_notice(at_us: int, reason: HandoverReason = HandoverReason.LOST) -> Update:
    """Return the update that informs a client of a handover, as version 1 has it."""
    return {
        "sessionUpdate": "agent_message_chunk",
        "messageId": _handover_id(at_us),
        "content": _text_block(_notice_text(reason)),
        "_meta": {"rekindle": {"restored": "handover", **handover_meta(reason)}},
    }


def handover_remark(reason: HandoverReason) -> str:
    """Return a sentence about a handover, for documents and the terminal."""
    cause, sent = _CAUSES[reason]
    return f"{cause}; Rekindle sent {sent}"


def _notice_text(reason: HandoverReason) -> str:
    cause, sent = _CAUSES[reason]
    return f"[Rekindle: {cause}, so Rekindle sent {sent}.]\n\n"


def _handover_id(at_us: int) -> str:
    return f"rekindle-handover-{at_us}"


def _whole_message(message_id: str, text: str) -> Update:
    content = [_text_block(text)]
    return {"sessionUpdate": "agent_message", "messageId": message_id, "content": content}


# -- turns ----------------------------------------------------------------------------------


class TranscriptTurn(Struct, kw_only=True):
    """A prompt and everything that answers it."""

    number: int
    at_us: int
    items: list[TranscriptItem] = []
    ended_us: int | None = None
    ended_seq: int = 0
    """The entry that ended it."""
    stop_reason: str | None = None
    error: dict[str, Any] | None = None
    precedes_opening: bool = False
    """Whether the session was opened again after it, before the next turn."""

    @property
    def messages(self) -> Iterator[TranscriptMessage]:
        """The messages, with thoughts."""
        return (item for item in self.items if isinstance(item, TranscriptMessage))

    @property
    def unnamed_prompt(self) -> TranscriptMessage | None:
        """The prompt that began it, if that has no id yet."""
        first = self.items[0] if self.items else None
        if (
            not isinstance(first, TranscriptMessage)
            or first.role is not Role.USER
            or first.id is not None
        ):
            return None
        return first

    @property
    def was_cut_off(self) -> bool:
        """Whether the agent exited before it ended the turn, or the turn still runs."""
        return self.ended_us is None or reports_agent_exit(self.error)

    @property
    def was_interrupted(self) -> bool:
        """Whether it was cut off, or the user cancelled it."""
        return self.was_cut_off or self.stop_reason == "cancelled"


def reports_agent_exit(error: object) -> bool:
    """Return whether an error of a prompt reports only that the agent has exited."""
    return "agentEnded" in as_object(as_object(error).get("data"))
