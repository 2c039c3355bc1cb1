"""Folding entries into a transcript: turns of messages, tool calls and plans.

Timeline. An item stands where it was first seen; later chunks and updates change it there.
A chunk belongs to the message with its `messageId`; without one, to the last item, if that
is a message of the same role which has no id either. A tool call is known by its id. A
plan replaces the turn's earlier plan.

Turns. A prompt begins one, and so does a user message in a session whose history was told
by the agent. The answer ends it; from version 2 on, the state `idle` does. A turn without
an end was cut off, or is still going on.
"""

from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec import UNSET

from rekindle.acp import methods
from rekindle.acp.jsonrpc import Envelope, read_envelope, request_key
from rekindle.acp.terminal_output import Terminal
from rekindle.acp.text_chunk import read_text_chunk
from rekindle.acp.translate.config import MODE, mode_option
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object
from rekindle.model import Entry, Kind, Side
from rekindle.transcript import terminals
from rekindle.transcript.model import (
    HandoverItem,
    OtherItem,
    PlanItem,
    ReminderItem,
    Role,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
    gap_in,
    is_turn_end,
    outcome_label,
)


class Transcript:
    """A session folded up to the last entry added."""

    def __init__(self) -> None:
        self.turns: list[TranscriptTurn] = []
        self.last_seq = 0
        self.state: dict[str, dict[str, Any]] = {}
        """The last update of each kind that tells the session's state."""
        self._messages: dict[tuple[Role, str], TranscriptMessage] = {}
        self._tool_calls: dict[str, ToolCallItem] = {}
        self._used_ids: dict[tuple[str, str], str] = {}
        self._retired = 0
        self.suffix = ""
        """What they get then."""
        self.offered: dict[str, dict[str, Any]] = {}
        """The modes and models there are, as the agent last told them."""
        self.terminals: dict[str, Terminal] = {}
        """What is last known of each terminal."""
        self.latest: ToolCallItem | PlanItem | None = None
        """The one that was changed last."""
        self._plans: dict[str, PlanItem] = {}
        self._names: dict[Role, str] = {}
        self._named_message: TranscriptMessage | None = None
        """The last message that was given an id on the way: what follows belongs to it."""
        self._prompted: dict[Hashable, TranscriptTurn] = {}
        self._waiting: list[TranscriptTurn] = []
        """Those of prompts that an agent of version 2 has not taken yet."""
        self._past_turns = 0
        """How many there were when the session was last opened: none of them goes on."""
        self._configs: dict[Hashable, Any] = {}
        self._asked: dict[Hashable, tuple[ToolCallItem, dict[str, Any]]] = {}

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all messages and tool calls, as they are told."""
        return frozenset(self._used_ids.values())

    @property
    def retired_ids(self) -> frozenset[str]:
        """Those from before the agent was last told the record: it may give them anew."""
        return frozenset(islice(self._used_ids.values(), self._retired))

    def take_turns(self) -> Iterator[TranscriptTurn]:
        """Yield the turns, and let go of each: what is made of a long session needs the room."""
        self._messages.clear()
        self._tool_calls.clear()
        self.turns.reverse()
        while self.turns:
            yield self.turns.pop()

    def message(self, role: Role, message_id: str | None) -> TranscriptMessage | None:
        """Return what was said under an id."""
        return self._messages.get((role, message_id)) if message_id is not None else None

    def add(self, entry: Entry) -> None:
        """Fold one more entry."""
        self.last_seq = max(self.last_seq, entry.seq)
        match entry.kind:
            case Kind.UPDATE:
                self._update(entry)
            case Kind.PROMPT:
                self._prompt(entry)
            case Kind.ECHO:
                self._echo(entry)
            case Kind.ANSWER:
                self._answer(entry)
            case Kind.PERMISSION:
                self._permission(entry)
            case Kind.OUTCOME:
                self._outcome(entry)
            case Kind.TERMINAL:
                told = decode_object(entry.line) or {}
                terminals.take_from_client(self.terminals, told, entry.seq)
            case Kind.NAMED:
                self._named(entry)
            case _:
                self._add_what_is_not_said(entry)

    def _add_what_is_not_said(self, entry: Entry) -> None:
        match entry.kind:
            case Kind.READY | Kind.CONFIGURED:
                if entry.kind is Kind.READY:
                    self.settle()
                    self._past_turns = len(self.turns)
                if entry.kind is Kind.READY and entry.protocol == 1:
                    self._retire_terminals(entry)
                self._configured(entry)
            case Kind.CONFIG:
                self._config(entry)
            case Kind.HANDOVER:
                # Another session of the agent's, which may give the same ids to other things.
                self._retired, self.suffix = len(self._used_ids), suffix_of(entry.at_us)
                self._messages.clear()
                self._tool_calls.clear()
                self._retire_terminals(entry)
                self._turn(entry).items.append(HandoverItem(seq=entry.seq, at_us=entry.at_us))
            case Kind.REMINDER:
                self._turn(entry).items.append(ReminderItem(seq=entry.seq, at_us=entry.at_us))
            case Kind.GAP:
                self._turn(entry).items.append(gap_in(entry))
            case _:
                pass

    # -- turns --------------------------------------------------------------------------

    def _turn(self, entry: Entry) -> TranscriptTurn:
        return self.turns[-1] if self.turns else self._begin_turn(entry)

    def _begin_turn(self, entry: Entry) -> TranscriptTurn:
        """Begin a turn that the agent tells of: it has ended, though nobody says so."""
        turn = TranscriptTurn(number=len(self.turns) + 1, at_us=entry.at_us, ended_us=entry.at_us)
        self.turns.append(turn)
        return turn

    def _prompt(self, entry: Entry) -> None:
        message = TranscriptMessage(role=Role.USER, seq=entry.seq, at_us=entry.at_us)
        message.replace(as_array(_params(entry).get("prompt")))
        turn = TranscriptTurn(number=0, at_us=entry.at_us, items=[message])
        self._prompted[_key(entry)] = turn
        is_another_running = self.turns[self._past_turns :] and self.turns[-1].ended_us is None
        if entry.protocol > 1 and is_another_running:
            # From version 2 on a prompt may have to wait, and may be refused.
            self._waiting.append(turn)
        else:
            self._begin_prompted(turn)

    def _begin_prompted(self, turn: TranscriptTurn) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
        turn.number = len(self.turns) + 1
        self.turns.append(turn)
        self._named_message = None

    def _begin_waiting(self) -> None:
        """Begin the turn of a prompt that waits for the end of another."""
        if self._waiting:
            self._begin_prompted(self._waiting[0])

    def settle(self) -> None:
        """Begin the turns of all prompts that wait: nobody is there any more who would."""
        for turn in list(self._waiting):
            self._begin_prompted(turn)

    def _echo(self, entry: Entry) -> None:
        echo = as_object(_params(entry).get("update"))
        said = TranscriptMessage(role=Role.USER, seq=entry.seq, at_us=entry.at_us)
        said.replace(as_array(echo.get("content")))
        recent = [*self.turns[-_MOST_PROMPTS_AT_ONCE:], *self._waiting]
        meant = (turn for turn in recent if _says(turn.unnamed_prompt, said))
        turn = next(meant, None) or self._turn(entry)
        if turn in self._waiting:
            self._begin_prompted(turn)
        self._name_prompt(turn, as_str(echo.get("messageId")), entry)

    def _answer(self, entry: Entry) -> None:
        asked = self._prompted.pop(_key(entry), None)
        turn = asked or self._turn(entry)
        answer = decode_object(entry.line) or {}
        result = as_object(answer.get("result"))
        is_refused = answer.get("error") is not None
        if asked is not None and asked in self._waiting:
            if is_refused and not is_turn_end(answer["error"]):
                # Refused, and so never part of the conversation.
                self._waiting.remove(asked)
                return
            self._begin_prompted(asked)
        if is_refused:
            turn.error = as_object(answer["error"])
            turn.ended_us, turn.ended_seq = entry.at_us, entry.seq
        elif entry.protocol == 1 or "stopReason" in result:
            turn.stop_reason = as_str(result.get("stopReason"))
            turn.ended_us, turn.ended_seq = entry.at_us, entry.seq
        else:
            self._name_prompt(turn, as_str(result.get("messageId")), entry)

    def _name_prompt(self, turn: TranscriptTurn, message_id: str | None, entry: Entry) -> None:
        # One that has an id keeps it: the client was told it when the prompt was taken.
        prompt = turn.unnamed_prompt
        if message_id and prompt is not None:
            prompt.id = self._unused(Role.USER, message_id, entry)
            self._messages[Role.USER, message_id] = prompt

    # -- updates ------------------------------------------------------------------------

    def _update(self, entry: Entry) -> None:
        if not self._text_chunk(entry):
            self._other_update(entry)

    def _text_chunk(self, entry: Entry) -> bool:
        """Fold a chunk of plain text, if it is one. Most entries are, so this way is short."""
        update = read_text_chunk(entry.line)
        role = _ROLES_OF_CHUNKS.get(update.kind) if update is not None else None
        if update is None or role is None:
            return False
        message = self._find_message(entry, role, update.message_id)
        message.last_seq = entry.seq
        message.add_text(update.content.text)
        return True

    def _other_update(self, entry: Entry) -> None:
        update = as_object(_params(entry).get("update"))
        kind = as_str(update.get("sessionUpdate")) or ""
        role = _ROLES.get(kind)
        if role:
            self._message(entry, role, update, is_chunk=kind.endswith("_chunk"))
        elif kind in {"tool_call", "tool_call_update"}:
            self._tool_call(entry, update)
        elif kind == "tool_call_content_chunk":
            self._tool_call_content(entry, update)
        elif kind in {"terminal_update", "terminal_output_chunk"}:
            terminals.take_update(self.terminals, update, entry.seq)
        elif kind == "plan":
            self._plan(entry, update)
        elif kind == "plan_update" and as_object(update.get("plan")).get("type") == "items":
            self._plan_update(entry, update)
        elif kind in methods.STATE_KINDS:
            self._state(entry, kind, update)
        elif kind and kind != methods.NOTICE:
            # One that could not be read has no kind, and nobody could be told it again.
            version = entry.protocol
            other = OtherItem(seq=entry.seq, at_us=entry.at_us, update=update, protocol=version)
            self._turn(entry).items.append(other)

    def _message(self, entry: Entry, role: Role, update: dict[str, Any], *, is_chunk: bool) -> None:
        message = self._find_message(entry, role, as_str(update.get("messageId")))
        message.last_seq = entry.seq
        if "_meta" in update:
            message.meta = _patched(message.meta, update["_meta"], entry)
        if is_chunk:
            message.add(as_object(update.get("content")))
        elif "content" in update:
            message.replace(as_array(update["content"]))

    def _find_message(self, entry: Entry, role: Role, message_id: str | None) -> TranscriptMessage:
        if message_id is not None:
            known = self._messages.get((role, message_id))
            if known:
                return known
        elif role not in self._names:
            items = self._turn(entry).items
            last = self._named_message or (items[-1] if items else None)
            if isinstance(last, TranscriptMessage) and last.role is role and last.id is None:
                return last
        turn = self._turn(entry)
        if role is Role.USER and turn.items and turn.ended_us is not None:
            turn = self._begin_turn(entry)
        own_id = None if message_id is None else self._unused(role, message_id, entry)
        message = TranscriptMessage(
            role=role, seq=entry.seq, at_us=entry.at_us, protocol=entry.protocol, id=own_id
        )
        if own_id is None:
            message.name = self._names.pop(role, None)
            self._named_message = message if message.name is not None else None
        turn.items.append(message)
        if message_id is not None:
            self._messages[role, message_id] = message
        return message

    def _unused(self, what: str, given: str, entry: Entry) -> str:
        """Return an id that means one thing in the whole session, where the agent's means two."""
        own = given if (what, given) not in self._used_ids else f"{given}~{entry.seq}"
        return self._used_ids.setdefault((what, own), own)

    def _tool_call(self, entry: Entry, update: dict[str, Any]) -> ToolCallItem:
        call_id = as_str(update.get("toolCallId")) or ""
        call = self._tool_calls.get(call_id)
        if call is None:
            own_id = self._unused("tool", call_id, entry)
            call = ToolCallItem(id=own_id, seq=entry.seq, at_us=entry.at_us, fields={})
            self._tool_calls[call_id] = call
            self._turn(entry).items.append(call)
        call.last_seq, self.latest = entry.seq, call
        told = {k: v for k, v in update.items() if k not in {"sessionUpdate", "toolCallId"}}
        for name in [name for name, value in told.items() if value is None]:
            del told[name]
            if entry.protocol > 1:
                # From version 2 on null clears; before, it left things as they were.
                call.fields.pop(name, None)
        if "_meta" in told:
            told["_meta"] = _patched(as_object(call.fields.get("_meta")), told["_meta"], entry)
        call.fields.update(told)
        terminals.take_from_meta(self.terminals, as_object(update.get("_meta")), entry.seq)
        return call

    def _retire_terminals(self, entry: Entry) -> None:
        items = (item for turn in self.turns for item in turn.items)
        calls = (item for item in items if isinstance(item, ToolCallItem))
        terminals.retire(self.terminals, calls, suffix_of(entry.at_us))

    def _tool_call_content(self, entry: Entry, update: dict[str, Any]) -> None:
        call = self._tool_call(entry, {"toolCallId": update.get("toolCallId")})
        # There may be very many, so that nothing is copied.
        call.fields["content"] = known = as_array(call.fields.get("content"))
        known.append(update.get("content"))

    def _plan_update(self, entry: Entry, update: dict[str, Any]) -> None:
        told = as_object(update.get("plan"))
        plan_id = as_str(told.get("planId")) or ""
        plan = self._plans.get(plan_id)
        if plan is None:
            plan = PlanItem(seq=entry.seq, at_us=entry.at_us, entries=[], id=plan_id)
            self._plans[plan_id] = plan
            self._turn(entry).items.append(plan)
        plan.last_seq, self.latest = entry.seq, plan
        plan.entries = as_array(told.get("entries"))
        plan.rest = {k: v for k, v in update.items() if k not in {"sessionUpdate", "plan"}}

    def _named(self, entry: Entry) -> None:
        told = decode_object(entry.line) or {}
        role = _ROLES.get(as_str(told.get("kind")) or "")
        message_id = as_str(told.get("messageId"))
        if role is not None and message_id is not None:
            self._names[role] = message_id

    def _plan(self, entry: Entry, update: dict[str, Any]) -> None:
        items = self._turn(entry).items
        plan = next((it for it in items if isinstance(it, PlanItem) and it.id is None), None)
        if plan is None:
            plan = PlanItem(seq=entry.seq, at_us=entry.at_us, entries=[])
            items.append(plan)
        plan.last_seq, self.latest = entry.seq, plan
        plan.entries = as_array(update.get("entries"))
        plan.rest = {k: v for k, v in update.items() if k not in {"sessionUpdate", "entries"}}

    def _state(self, entry: Entry, kind: str, update: dict[str, Any]) -> None:
        # What an information leaves out stays as it was; all other kinds tell the whole.
        known = self.state.get(kind) if kind == methods.SESSION_INFO_UPDATE else None
        self.state[kind] = known = {} if known is None else known
        known.update(update)
        if kind == "config_option_update":
            self._take_mode_of(update.get("configOptions"))
        if kind == methods.STATE_UPDATE and update.get("state") == "idle" and self.turns:
            turn = self.turns[-1]
            if turn.ended_us is None:
                turn.ended_us, turn.ended_seq = entry.at_us, entry.seq
            turn.stop_reason = as_str(update.get("stopReason")) or turn.stop_reason
            self._begin_waiting()

    def _configured(self, entry: Entry) -> None:
        """Take modes and options from an answer, as if they had been told by updates."""
        answer = decode_object(entry.line) or {}
        asked = self._configs.pop(_key(entry), None)
        if answer.get("error") is not None:
            return
        result = as_object(answer.get("result"))
        mode = as_str(as_object(result.get("modes")).get("currentModeId")) or as_str(asked)
        if mode is not None:
            self.state["current_mode_update"] = {"currentModeId": mode}
        if isinstance(result.get("configOptions"), list):
            self.state["config_option_update"] = {"configOptions": result["configOptions"]}
            self._take_mode_of(result["configOptions"])
        if isinstance(result.get("availableCommands"), list):
            commands = {"availableCommands": result["availableCommands"]}
            self.state["available_commands_update"] = commands
        for name in ("modes", "models"):
            if isinstance(result.get(name), dict):
                self.offered[name] = as_object(result[name])

    def _take_mode_of(self, options: object) -> None:
        """Learn the mode from the option that chooses it, where there is one."""
        mode = as_str(as_object(mode_option(options)).get("currentValue"))
        if mode is not None:
            self.state["current_mode_update"] = {"currentModeId": mode}

    def _config(self, entry: Entry) -> None:
        params = _params(entry)
        # A version 2 client sets the mode of a version 1 agent as an option.
        chosen = params.get("value") if params.get("configId") == MODE else None
        self._configs[_key(entry)] = params.get("modeId") or chosen

    # -- permissions --------------------------------------------------------------------

    def _permission(self, entry: Entry) -> None:
        params = _params(entry)
        subject = as_object(params.get("subject"))
        told = as_object(params.get("toolCall") or subject.get("toolCall"))
        if not told:
            # From version 2 on it may be about anything; then it stands as a call of its own.
            made_id = made_permission_id(read_envelope(entry.line))
            call = self._tool_call(entry, {"toolCallId": made_id, "title": params.get("title")})
            call.is_made_up = True
        else:
            call = self._tool_call(entry, told)
        self._asked[_key(entry)] = (call, params)

    def _outcome(self, entry: Entry) -> None:
        asked = self._asked.pop(_key(entry), None)
        if asked is not None:
            call, params = asked
            result = as_object((decode_object(entry.line) or {}).get("result"))
            outcome = as_object(result.get("outcome"))
            call.outcome = outcome_label(outcome, as_array(params.get("options")))
            if call.is_made_up and outcome.get("outcome") == "selected":
                call.fields["status"] = "completed"


_MOST_PROMPTS_AT_ONCE = 4

_ROLES = {
    "user_message": Role.USER,
    "user_message_chunk": Role.USER,
    "agent_message": Role.AGENT,
    "agent_message_chunk": Role.AGENT,
    "agent_thought": Role.THOUGHT,
    "agent_thought_chunk": Role.THOUGHT,
}
_ROLES_OF_CHUNKS = {kind: role for kind, role in _ROLES.items() if kind.endswith("_chunk")}


def fold(entries: Iterable[Entry]) -> Transcript:
    """Fold a session's entries, from the first on."""
    transcript = Transcript()
    for entry in entries:
        transcript.add(entry)
    transcript.settle()
    return transcript


def made_permission_id(message: Envelope | None) -> str:
    """Return the id of the tool call that stands for a question which is about none."""
    asked = message.id if message is not None and message.id is not UNSET else b""
    return f"rekindle-permission-{bytes(asked).decode('utf-8', 'replace')}"


def suffix_of(at_us: int) -> str:
    """Return what ids get that an agent gives anew, which was told the record at that time."""
    return f"~{at_us:x}"


def _says(one: TranscriptMessage | None, other: TranscriptMessage) -> bool:
    return one is not None and one.blocks == other.blocks


def _patched(known: dict[str, Any], told: object, entry: Entry) -> dict[str, Any]:
    """Put into `_meta` what is said of it anew, and return it: nothing is copied, as above."""
    known.update(as_object(told))
    if entry.protocol > 1:
        # From version 2 on null removes: a name, or all there is.
        for name in (
            [*known] if told is None else [it for it in as_object(told) if known[it] is None]
        ):
            del known[name]
    return known


def _key(entry: Entry) -> Hashable:
    message = read_envelope(entry.line)
    return request_key(message.id) if message is not None and message.id is not UNSET else None


def _params(entry: Entry) -> dict[str, Any]:
    return as_object((decode_object(entry.line) or {}).get("params"))


def turn_has_ended(entries: Iterable[Entry]) -> bool:
    """Return whether a turn has ended, given the entries that follow its prompt.

    Entries that do not tell the end of a turn may be missing.
    """
    transcript = Transcript()
    transcript.add(Entry(seq=0, side=Side.CLIENT, kind=Kind.PROMPT, at_us=0, line=b"{}"))
    for entry in entries:
        transcript.add(entry)
    return transcript.turns[-1].ended_us is not None
