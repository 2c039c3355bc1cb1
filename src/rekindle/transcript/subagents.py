"""Sub-agents in a transcript: their relation to the session, and messages between sessions.

A sub-agent has a session of its own, with a record of its own. The record of its parent has the
updates that announce it and report its state. `attach` reads the sub-agents' records.

A fork has copies of the sub-agents' records. A sub-agent has one owner only, so the copies have
other ids: an update that names another session than the record's own was copied with a fork.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from rekindle.acp.translate.subagents import SUBAGENT_UPDATE, session_message_to_v1
from rekindle.acp.update_kinds import kind_of
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object, without
from rekindle.model import DocumentKind, Entry, subagent_record_id
from rekindle.transcript.model import (
    MAX_TEXT,
    ReplayContext,
    Role,
    SearchText,
    Terminals,
    TranscriptItem,
    TranscriptMessage,
    TranscriptTurn,
    Update,
)

if TYPE_CHECKING:
    from rekindle.transcript.reducer import Transcript

_IDLE = "idle"
_UNKNOWN_STATE = {"state": "unknown"}


class SubagentItem(TranscriptItem, kw_only=True):
    """A sub-agent that the agent has started; `fields` are the fields of its updates, merged."""

    id: str
    """The id of its session, as the client knows it."""
    recorded_id: str = ""
    """The id that the record has. A copy with a fork has another `id`."""
    announced_in: str = ""
    """The session that announced it, by the id that it had then; empty if that is unknown."""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    worked_us: int = 0
    """The time at which its parent last reported its state."""
    record_id: str = ""
    """The id under which its conversation is recorded, if that was read."""
    child: "Transcript | None" = None
    """Its conversation, if that was read and the record has it."""

    def copy_id(self, owner_record_id: str) -> str:
        """Return the id of its copy in a fork, for the client and for the record."""
        named = subagent_record_id(self.announced_in, self.recorded_id)
        return subagent_record_id(owner_record_id, named)

    @property
    def title(self) -> str:
        """The title that the parent gave it; otherwise its id."""
        return as_str(self.fields.get("title")) or self.id

    @property
    def description(self) -> str:
        """Its purpose; empty if the parent gave none."""
        return as_str(self.fields.get("description")) or ""

    @property
    def state(self) -> Json:
        """The last state of its work that it or its parent has reported; empty if neither has."""
        reported = as_object(self.fields.get("state"))
        own = self.child.state.get("state_update") if self.child is not None else None
        if self.child is None or own is None:
            return reported
        is_older = self.child.worked_us < self.worked_us
        return reported if reported and is_older else without(own, "sessionUpdate")

    @property
    def is_idle(self) -> bool:
        """Whether its work is known to have ended."""
        return self.state.get("state") == _IDLE

    @property
    def past_state(self) -> Json | None:
        """The state that a replay may report: no work is known to run any more."""
        if not self.state:
            return None
        return without(self.state, "background") if self.is_idle else dict(_UNKNOWN_STATE)

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the announcement, without the state and the capabilities of the past."""
        del context
        rest = without(self.fields, "capabilities", "state")
        yield {"sessionUpdate": SUBAGENT_UPDATE, "sessionId": self.id, **rest}

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the announcement, as in version 1."""
        return self.replay_v1(context)

    def search_text(self) -> SearchText:
        """Return the title and the description."""
        text = "\n".join(filter(None, [as_str(self.fields.get("title")), self.description]))
        return SearchText(DocumentKind.TOOL_CALL, None, text)

    def handover_lines(self, terminals: Terminals) -> Iterable[str]:
        """Return a line that names it, and its last message."""
        del terminals
        about = f": {self.description}" if self.description else ""
        yield f"You started a sub-agent, {self.title}{about}"
        turns = self.child.turns if self.child is not None else []
        answers = [
            it for turn in turns for it in turn.messages if it.role is Role.AGENT and it.text
        ]
        if answers:
            yield f"{self.title} ended with: {answers[-1].text}"

    def changed_seq(self, turn: TranscriptTurn, terminals: Terminals) -> int | None:
        """Return the last entry that changed it; None if its own conversation may change."""
        return None if self.child is not None else super().changed_seq(turn, terminals)


class SessionMessageItem(TranscriptItem, kw_only=True):
    """A message between two sessions: the parent and a sub-agent, or two sub-agents."""

    id: str
    recorded_in: str = ""
    """The session that it is a part of, by the id that it had then; empty if that is unknown."""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    """The sessions and messages that it names, and its `_meta`."""
    protocol: int = 1
    content: TranscriptMessage = field(
        default_factory=lambda: TranscriptMessage(role=Role.AGENT, seq=0, at_us=0)
    )
    """Its content blocks."""

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content blocks."""
        return self.content.blocks

    @property
    def route(self) -> str:
        """The sender and the recipient, for people."""
        sender, recipient = (as_str(self.fields.get(f"{it}SessionId")) for it in _PARTIES)
        return " ".join(
            [f"from {sender}"] * (sender is not None)
            + [f"to {recipient}"] * (recipient is not None)
        )

    def replay_v1(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the message in the form of version 1."""
        updates = self.replay_v2(context)
        return updates if self.protocol == 1 else map(session_message_to_v1, updates)

    def replay_v2(self, context: ReplayContext) -> Iterator[Update]:
        """Yield the whole message; if it is long, its beginning and then chunks."""
        del context
        first, rest = self.content.split(MAX_TEXT)
        named = {"sessionUpdate": "session_message", "messageId": self.id}
        yield {**named, **self.fields, "content": first}
        for piece in rest:
            yield {**named, "sessionUpdate": "session_message_chunk", "content": piece}

    def search_text(self) -> SearchText:
        """Return the text."""
        return SearchText(DocumentKind.AGENT, None, self.content.text)

    def handover_lines(self, terminals: Terminals) -> Iterable[str]:
        """Return the message with its sender and recipient."""
        del terminals
        yield f"Message {self.route}: {self.content.text}".replace(" :", ":")


_PARTIES = ("sender", "recipient")


# -- updates ----------------------------------------------------------------------------------

ClaimId = Callable[[str, str, int], str]
"""Returns an id that no earlier thing of the session has, given a scope, an id and a seq."""


class SessionLinks(Struct):
    """The sub-agents of a session, and the messages between sessions, that updates may name."""

    subagents: dict[str, SubagentItem] = {}
    messages: dict[str, SessionMessageItem] = {}

    def forget(self, gone: Container[int]) -> None:
        """Forget items that a rewind has removed, by their `id()`."""
        self.subagents = {key: it for key, it in self.subagents.items() if id(it) not in gone}
        self.messages = {key: it for key, it in self.messages.items() if id(it) not in gone}

    def fold_subagent(self, entry: Entry, update: Json, claim: ClaimId) -> SubagentItem | None:
        """Fold an update about a sub-agent; return the sub-agent if it is new."""
        session_id, parent_id = str(update.get("sessionId")), _session_of(entry)
        known = self.subagents.get(session_id)
        if known is not None and known.announced_in != parent_id:
            # A fork has a copy of it. The agent may use the same id again.
            known = None
        item = known
        if item is None:
            own_id = claim(f"subagent {parent_id}", session_id, entry.seq)
            item = SubagentItem(
                id=own_id,
                recorded_id=own_id,
                announced_in=parent_id,
                seq=entry.seq,
                at_us=entry.at_us,
            )
            self.subagents[session_id] = item
        item.last_seq = entry.seq
        if "state" in update:
            item.worked_us = entry.at_us
        _patch(item.fields, without(update, "sessionUpdate", "sessionId"), entry.protocol)
        return item if known is None else None

    def fold_message(self, entry: Entry, update: Json, claim: ClaimId) -> SessionMessageItem | None:
        """Fold a message between sessions, or a chunk of one; return it if it is new."""
        message_id = as_str(update.get("messageId")) or ""
        known = self.messages.get(message_id)
        item = known
        if item is None:
            own_id = claim("session_message", message_id, entry.seq)
            item = SessionMessageItem(
                id=own_id,
                recorded_in=_session_of(entry),
                seq=entry.seq,
                at_us=entry.at_us,
                protocol=entry.protocol,
            )
            self.messages[message_id] = item
        item.last_seq = entry.seq
        if kind_of(update.get("sessionUpdate")).is_chunk:
            item.content.add(as_object(update.get("content")))
            return item if known is None else None
        if "content" in update:
            item.content.replace(as_array(update["content"]))
        fields = without(update, "sessionUpdate", "messageId", "content")
        _patch(item.fields, fields, entry.protocol)
        return item if known is None else None


def _session_of(entry: Entry) -> str:
    """Return the id of the session that an update belongs to; empty if it has none."""
    params = as_object((decode_object(entry.line) or {}).get("params"))
    return as_str(params.get("sessionId")) or ""


def _patch(fields: Json, update: Json, protocol: int) -> None:
    """Merge an update into the known fields: null removes a field.

    From version 2 on `_meta` is merged, too; in version 1 it is replaced.
    """
    for name, value in update.items():
        if value is None:
            fields.pop(name, None)
        elif name == "_meta" and protocol > 1:
            merged = {**as_object(fields.get(name)), **as_object(value)}
            fields[name] = {key: it for key, it in merged.items() if it is not None}
        else:
            fields[name] = value


# -- conversations ----------------------------------------------------------------------------

ReadTranscript = Callable[[str], "Transcript | None"]
"""Returns the folded record with an id; None if the store does not have it."""


class _Owner(Struct, frozen=True):
    """A session whose sub-agents are attached."""

    record_id: str
    id: str
    """The id by which the client knows it."""
    recorded_id: str
    """The id that its own updates have, unless they were copied with a fork."""
    is_copy: bool = False
    """Whether its whole record was copied with a fork."""
    names: dict[str, str] = {}
    """The present ids of its parent and of the parent's sub-agents, by the recorded ones."""


def attach(transcript: "Transcript", record_id: str, read: ReadTranscript) -> None:
    """Attach the conversations of the sub-agents, and of theirs.

    `record_id` is the id of the transcript's own record. Sub-agents that were copied with a fork
    get the ids of the copies, also in messages between sessions.
    """
    _attach(transcript, _Owner(record_id, record_id, record_id), read)


def _attach(transcript: "Transcript", owner: _Owner, read: ReadTranscript) -> None:
    for item in subagents_in(transcript.turns):
        if owner.is_copy or item.announced_in not in {"", owner.recorded_id}:
            item.id = item.record_id = item.copy_id(owner.record_id)
        else:
            item.record_id = subagent_record_id(owner.record_id, item.id)
    names = _names_by_session(transcript, owner)
    for turn in transcript.turns:
        for item in turn.items:
            if isinstance(item, SessionMessageItem):
                own = names.get(item.recorded_in, {item.recorded_in: owner.id})
                _rename_parties(item, {**owner.names, **own})
            elif isinstance(item, SubagentItem):
                item.child = read(item.record_id)
                if item.child is not None:
                    own = names[item.announced_in]
                    is_copy = item.id == item.record_id
                    child = _Owner(item.record_id, item.id, item.recorded_id, is_copy, own)
                    _attach(item.child, child, read)
                    _end_last_turn(item, turn)


def _names_by_session(transcript: "Transcript", owner: _Owner) -> dict[str, dict[str, str]]:
    """Return the present ids of a session and its sub-agents, by the recorded ids.

    A fork has updates of several sessions, and each may have used the same ids.
    """
    names: dict[str, dict[str, str]] = {}
    for item in subagents_in(transcript.turns):
        known = names.setdefault(item.announced_in, {item.announced_in: owner.id})
        known[item.recorded_id] = item.id
    return names


def _rename_parties(item: SessionMessageItem, names: Json) -> None:
    for name in (f"{party}SessionId" for party in _PARTIES):
        if as_str(item.fields.get(name)) in names:
            item.fields[name] = names[item.fields[name]]


def _end_last_turn(item: SubagentItem, parent_turn: TranscriptTurn) -> None:
    """Let the last turn of a sub-agent end as its state reports.

    Only its parent reports the state of a version 1 sub-agent. Without an end the turn was cut off.
    """
    turns = item.child.turns if item.child is not None else []
    if not turns:
        return
    if item.is_idle:
        turns[-1].stop_reason = as_str(item.state.get("stopReason"))
    elif item.state or parent_turn.was_cut_off:
        turns[-1].ended_us = None


def subagents_in(turns: Iterable[TranscriptTurn]) -> Iterator[SubagentItem]:
    """Yield the sub-agents of some turns."""
    items = (item for turn in turns for item in turn.items)
    return (item for item in items if isinstance(item, SubagentItem))
