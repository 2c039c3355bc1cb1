"""Fold the entries of a session into a transcript: turns of messages, tool calls and plans.

Order of items: an item stays where it first appeared; later chunks and updates change it there. A
chunk belongs to the message with its `messageId`. Without one it belongs to the last item, if that
is a message of the same role without an id. A tool call is identified by its id. A plan of version
1 replaces the earlier plan of its turn.

Turns: a prompt begins one, and so does a user message in a history that the agent replayed. The
response to the prompt ends it; from version 2 on, the state `idle` does. A turn without an end was
interrupted, or still runs.

`REDUCERS` has the function for each kind of update. docs/design/update-kinds.md shows how one is
added.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from msgspec import UNSET, Struct

from rekindle.acp.jsonrpc import Envelope, read_envelope, request_key
from rekindle.acp.terminal_output import Terminal
from rekindle.acp.text_chunk import read_text_chunk
from rekindle.acp.translate.config import MODE, mode_option
from rekindle.acp.update_kinds import HISTORY_TRUNCATED, KINDS, Category, kind_of
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object, without
from rekindle.model import Entry, Kind, Side
from rekindle.transcript import terminals
from rekindle.transcript.item_index import IdRegistry, ItemIndex
from rekindle.transcript.model import (
    OtherItem,
    PlanItem,
    ReminderItem,
    Role,
    ToolCallItem,
    TranscriptItem,
    TranscriptMessage,
    TranscriptTurn,
    gap_in,
    handover_in,
    outcome_label,
    reports_agent_exit,
)
from rekindle.transcript.subagents import SessionLinks, SessionMessageItem, SubagentItem
from rekindle.transcript.truncation import (
    TOOL_SCOPE,
    Cut,
    Truncations,
    find_message,
    items_of,
    remove_after,
    terminals_of,
    used_ids,
)

_MAX_OPEN_PROMPTS = 4
"""The number of last turns whose prompt an echo may belong to."""
_ROLES = {
    Category.USER_MESSAGE: Role.USER,
    Category.AGENT_MESSAGE: Role.AGENT,
    Category.THOUGHT: Role.THOUGHT,
}
_CHUNK_ROLES = {
    kind.name: _ROLES[kind.category]
    for kind in KINDS.values()
    if kind.is_chunk and kind.category in _ROLES
}


# -- the parts of a transcript that only folding needs ----------------------------------------


class _OpenRequests(Struct):
    """Requests whose responses are still to be folded, by request key."""

    prompts: dict[Hashable, TranscriptTurn] = {}
    waiting: list[TranscriptTurn] = []
    """The turns of prompts that a version 2 agent has not begun."""
    settings: dict[Hashable, Any] = {}
    """The requested modes."""
    permissions: dict[Hashable, tuple[ToolCallItem, Json]] = {}
    """The tool call and the params of each permission request."""


class _Opening(Struct):
    """The facts that the openings of a session show."""

    past_turns: int = 0
    """The number of turns when the session was last opened. None of them continues."""
    system_prompt: Json | None = None
    """The client's last `systemPrompt`, with masked secrets."""


class Transcript:
    """A session folded up to the last entry added."""

    def __init__(self) -> None:
        self.turns: list[TranscriptTurn] = []
        self.last_seq = 0
        self.state: dict[str, Json] = {}
        """The last update of each kind that reports the present state."""
        self.worked_us = 0
        """The time of the last `state_update`."""
        self.offered: dict[str, Json] = {}
        """The modes and models that the agent last offered."""
        self.terminals: dict[str, Terminal] = {}
        """The terminals by id."""
        self.latest: ToolCallItem | PlanItem | None = None
        """The tool call or plan that changed last."""
        self.truncations = Truncations()
        """The parts of the history that rewinds have removed."""
        self._known = ItemIndex()
        self._ids = IdRegistry()
        self._requests = _OpenRequests()
        self._opening = _Opening()

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all messages and tool calls, as a replay has them."""
        return frozenset(self._ids.used.values())

    @property
    def retired_ids(self) -> frozenset[str]:
        """The ids from before the last handover. The agent may use them again."""
        return self._ids.retired_ids

    @property
    def suffix(self) -> str:
        """The suffix that a retired id receives when the agent uses it again."""
        return self._ids.suffix

    @property
    def current_mode(self) -> object:
        """The id of the current mode; None if no entry reports one."""
        return as_object(self.state.get("current_mode_update")).get("currentModeId")

    @property
    def config_options(self) -> object:
        """The configuration options with their values, as the agent reported them."""
        return as_object(self.state.get("config_option_update")).get("configOptions")

    @property
    def system_prompt(self) -> Json | None:
        """The client's last `systemPrompt`, with masked secrets; None if it sent none."""
        return self._opening.system_prompt

    def take_turns(self) -> Iterator[TranscriptTurn]:
        """Yield the turns and remove each from the transcript, so that its memory can be freed."""
        self._known.by_id.clear()
        self._known.tool_calls.clear()
        self.turns.reverse()
        while self.turns:
            yield self.turns.pop()

    def message(self, role: Role, message_id: str | None) -> TranscriptMessage | None:
        """Return the message with an id of the agent's."""
        return self._known.by_id.get((role, message_id)) if message_id is not None else None

    def subagent(self, session_id: str) -> SubagentItem | None:
        """Return the sub-agent with an id of the agent's."""
        return self._known.links.subagents.get(session_id)

    def add(self, entry: Entry) -> None:
        """Fold one more entry."""
        if entry.seq > self.last_seq:  # noqa: PLR1730 - faster than `max`, and run for each chunk
            self.last_seq = entry.seq
        if entry.kind is Kind.UPDATE:
            # Most entries are chunks of plain text, so they are read without decoding the rest.
            if not self._add_text_chunk(entry):
                self._add_update(entry)
            return
        fold_entry = _ENTRY_REDUCERS.get(entry.kind)
        if fold_entry is not None:
            fold_entry(self, entry)

    # -- turns --------------------------------------------------------------------------

    def turn_for(self, entry: Entry) -> TranscriptTurn:
        """Return the turn that an entry belongs to: the last one, or the first one."""
        return self.turns[-1] if self.turns else self._begin_turn(entry)

    def _begin_turn(self, entry: Entry) -> TranscriptTurn:
        """Begin a turn of a history that the agent replayed. It has ended, without an entry."""
        turn = TranscriptTurn(number=len(self.turns) + 1, at_us=entry.at_us, ended_us=entry.at_us)
        self.turns.append(turn)
        return turn

    def add_prompt(self, entry: Entry) -> None:
        """Fold a prompt."""
        message = TranscriptMessage(role=Role.USER, seq=entry.seq, at_us=entry.at_us)
        message.replace(as_array(_params(entry).get("prompt")))
        turn = TranscriptTurn(number=0, at_us=entry.at_us, items=[message])
        self._requests.prompts[_key(entry)] = turn
        is_another_running = (
            self.turns[self._opening.past_turns :] and self.turns[-1].ended_us is None
        )
        if entry.protocol > 1 and is_another_running:
            # From version 2 on a prompt may have to wait, and may be refused.
            self._requests.waiting.append(turn)
        else:
            self._begin_prompted(turn)

    def _begin_prompted(self, turn: TranscriptTurn) -> None:
        if turn in self._requests.waiting:
            self._requests.waiting.remove(turn)
        turn.number = len(self.turns) + 1
        self.turns.append(turn)
        self._known.last_with_made_id = None

    def settle(self) -> None:
        """Begin the turns of all prompts that wait: no agent is left to begin them."""
        for turn in list(self._requests.waiting):
            self._begin_prompted(turn)

    def add_echo(self, entry: Entry) -> None:
        """Fold a prompt that the agent sent back: it may have the prompt's message id."""
        echo = as_object(_params(entry).get("update"))
        message = TranscriptMessage(role=Role.USER, seq=entry.seq, at_us=entry.at_us)
        message.replace(as_array(echo.get("content")))
        recent = [*self.turns[-_MAX_OPEN_PROMPTS:], *self._requests.waiting]
        echoed = (turn for turn in recent if _has_content(turn.unnamed_prompt, message))
        turn = next(echoed, None) or self.turn_for(entry)
        if turn in self._requests.waiting:
            self._begin_prompted(turn)
        self._name_prompt(turn, as_str(echo.get("messageId")), entry)

    def add_answer(self, entry: Entry) -> None:
        """Fold the response to a prompt."""
        prompted = self._requests.prompts.pop(_key(entry), None)
        turn = prompted or self.turn_for(entry)
        answer = decode_object(entry.line) or {}
        result = as_object(answer.get("result"))
        is_error = answer.get("error") is not None
        if prompted is not None and prompted in self._requests.waiting:
            if is_error and not reports_agent_exit(answer["error"]):
                # The agent refused the prompt, so it never became part of the conversation.
                self._requests.waiting.remove(prompted)
                return
            self._begin_prompted(prompted)
        if is_error:
            turn.error = as_object(answer["error"])
            turn.ended_us, turn.ended_seq = entry.at_us, entry.seq
        elif entry.protocol == 1 or "stopReason" in result:
            turn.stop_reason = as_str(result.get("stopReason"))
            turn.ended_us, turn.ended_seq = entry.at_us, entry.seq
        else:
            self._name_prompt(turn, as_str(result.get("messageId")), entry)

    def _name_prompt(self, turn: TranscriptTurn, message_id: str | None, entry: Entry) -> None:
        # A prompt keeps its first id, because the client knows it.
        prompt = turn.unnamed_prompt
        if message_id and prompt is not None:
            prompt.id = self._ids.claim(Role.USER, message_id, entry.seq)
            self._known.by_id[Role.USER, message_id] = prompt

    def add_setup(self, entry: Entry) -> None:
        """Fold the request that opened the session."""
        prompt = as_object(_params(entry).get("systemPrompt"))
        if prompt:
            self._opening.system_prompt = prompt

    def add_ready(self, entry: Entry) -> None:
        """Fold the response that opened the session."""
        self.settle()
        self._opening.past_turns = len(self.turns)
        if self.turns:
            self.turns[-1].precedes_opening = True
        if entry.protocol == 1:
            self._retire_terminals(entry)
        self.add_configured(entry)

    def add_handover(self, entry: Entry) -> None:
        """Fold a handover: another session of the agent, which may use the same ids again."""
        self._ids.retire(suffix_of(entry.at_us))
        self._known.by_id.clear()
        self._known.tool_calls.clear()
        self._known.links = SessionLinks()
        self._retire_terminals(entry)
        self.turn_for(entry).items.append(handover_in(entry))

    def add_reminder(self, entry: Entry) -> None:
        """Fold a reminder of an interrupted turn."""
        self.turn_for(entry).items.append(ReminderItem(seq=entry.seq, at_us=entry.at_us))

    def add_gap(self, entry: Entry) -> None:
        """Fold a mark of missing entries."""
        self.turn_for(entry).items.append(gap_in(entry))

    def add_truncation(self, entry: Entry, update: Json) -> None:
        """Fold a rewind: remove everything after the last message that stays.

        The present state stays, and so do the settings: only the conversation is truncated.
        """
        self.settle()
        wanted = update.get("lastMessageId")
        cut = find_message(self.turns, wanted) if isinstance(wanted, str) else Cut()
        if cut is None or "lastMessageId" not in update:
            self.truncations.unresolved += 1
            return
        removed = remove_after(self.turns, cut)
        self.truncations.removed += removed
        self.truncations.last_seq = entry.seq
        self._known.forget(items_of(removed))
        self._ids.release(used_ids(removed) - used_ids(self.turns))
        for terminal in terminals_of(removed) - terminals_of(self.turns):
            self.terminals.pop(terminal, None)
        self.latest = None
        self._opening.past_turns = min(self._opening.past_turns, len(self.turns))
        if self.turns and self.turns[-1].ended_us is None:
            self.turns[-1].ended_us, self.turns[-1].ended_seq = entry.at_us, entry.seq

    # -- updates ------------------------------------------------------------------------

    def _add_text_chunk(self, entry: Entry) -> bool:
        """Fold a chunk of plain text; return whether the entry is one."""
        update = read_text_chunk(entry.line)
        role = _CHUNK_ROLES.get(update.kind) if update is not None else None
        if update is None or role is None:
            return False
        message = self._find_message(entry, role, update.message_id)
        message.last_seq = entry.seq
        message.add_text(update.content.text)
        return True

    def _add_update(self, entry: Entry) -> None:
        update = as_object(_params(entry).get("update"))
        name = as_str(update.get("sessionUpdate")) or ""
        reducer = REDUCERS.get(name)
        if reducer is not None:
            reducer.fold(self, entry, update)
        elif name:
            # An update without a kind could not be replayed.
            self.add_other(entry, update)

    def add_other(self, entry: Entry, update: Json) -> None:
        """Keep an update that is part of the history as it came."""
        protocol = entry.protocol
        item = OtherItem(seq=entry.seq, at_us=entry.at_us, update=update, protocol=protocol)
        self.turn_for(entry).items.append(item)

    def ignore(self, entry: Entry, update: Json) -> None:
        """Skip an update that is not part of the history."""

    # -- messages -----------------------------------------------------------------------

    def add_chunk(self, entry: Entry, update: Json) -> None:
        """Fold a chunk of a message."""
        self._message_of(entry, update).add(as_object(update.get("content")))

    def add_whole_message(self, entry: Entry, update: Json) -> None:
        """Fold a whole message: its content replaces the earlier content."""
        message = self._message_of(entry, update)
        if "content" in update:
            message.replace(as_array(update["content"]))

    def _message_of(self, entry: Entry, update: Json) -> TranscriptMessage:
        role = _ROLES[kind_of(update["sessionUpdate"]).category]
        message = self._find_message(entry, role, as_str(update.get("messageId")))
        message.last_seq = entry.seq
        if "_meta" in update:
            message.meta = _merge_meta(message.meta, update["_meta"], entry)
        return message

    def _find_message(self, entry: Entry, role: Role, message_id: str | None) -> TranscriptMessage:
        index = self._known
        if message_id is not None:
            known = index.by_id.get((role, message_id))
            if known:
                return known
        elif role not in index.made_ids:
            items = self.turn_for(entry).items
            last = index.last_with_made_id or (items[-1] if items else None)
            if isinstance(last, TranscriptMessage) and last.role is role and last.id is None:
                return last
        turn = self.turn_for(entry)
        if role is Role.USER and turn.items and turn.ended_us is not None:
            turn = self._begin_turn(entry)
        own_id = None if message_id is None else self._ids.claim(role, message_id, entry.seq)
        message = TranscriptMessage(
            role=role, seq=entry.seq, at_us=entry.at_us, protocol=entry.protocol, id=own_id
        )
        if own_id is None:
            message.made_id = index.made_ids.pop(role, None)
            index.last_with_made_id = message if message.made_id is not None else None
        turn.items.append(message)
        if message_id is not None:
            index.by_id[role, message_id] = message
        return message

    def add_made_id(self, entry: Entry) -> None:
        """Fold the id that Rekindle gave to the next message of a role."""
        fields = decode_object(entry.line) or {}
        role = _ROLES.get(kind_of(fields.get("kind")).category)
        message_id = as_str(fields.get("messageId"))
        if role is not None and message_id is not None:
            self._known.made_ids[role] = message_id

    # -- tool calls and terminals -------------------------------------------------------

    def add_tool_call(self, entry: Entry, update: Json) -> None:
        """Fold the fields of a tool call."""
        self._merge_call(entry, update)

    def _merge_call(self, entry: Entry, update: Json) -> ToolCallItem:
        call_id = as_str(update.get("toolCallId")) or ""
        call = self._known.tool_calls.get(call_id)
        if call is None:
            own_id = self._ids.claim(TOOL_SCOPE, call_id, entry.seq)
            call = ToolCallItem(id=own_id, seq=entry.seq, at_us=entry.at_us, fields={})
            self._known.tool_calls[call_id] = call
            self.turn_for(entry).items.append(call)
        call.last_seq, self.latest = entry.seq, call
        fields = without(update, "sessionUpdate", "toolCallId")
        for name in [name for name, value in fields.items() if value is None]:
            del fields[name]
            if entry.protocol > 1:
                # From version 2 on null clears a field; before, it left the field unchanged.
                call.fields.pop(name, None)
        if "_meta" in fields:
            known = as_object(call.fields.get("_meta"))
            fields["_meta"] = _merge_meta(known, fields["_meta"], entry)
        call.fields.update(fields)
        terminals.fold_meta(self.terminals, as_object(update.get("_meta")), entry.seq)
        return call

    def add_call_content(self, entry: Entry, update: Json) -> None:
        """Fold one more part of a tool call's content."""
        call = self._merge_call(entry, {"toolCallId": update.get("toolCallId")})
        # The list is extended in place, because there may be very many parts.
        call.fields["content"] = content = as_array(call.fields.get("content"))
        content.append(update.get("content"))

    def add_terminal(self, entry: Entry, update: Json) -> None:
        """Fold an update of a terminal."""
        terminals.fold_update(self.terminals, update, entry.seq)

    def add_terminal_output(self, entry: Entry, update: Json) -> None:
        """Fold more output of a terminal."""
        terminals.fold_output_chunk(self.terminals, update, entry.seq)

    def add_client_terminal(self, entry: Entry) -> None:
        """Fold the output of a terminal of the client."""
        terminals.fold_client_output(self.terminals, decode_object(entry.line) or {}, entry.seq)

    def _retire_terminals(self, entry: Entry) -> None:
        items = (item for turn in self.turns for item in turn.items)
        calls = (item for item in items if isinstance(item, ToolCallItem))
        terminals.retire(self.terminals, calls, suffix_of(entry.at_us))

    # -- plans --------------------------------------------------------------------------

    def add_plan(self, entry: Entry, update: Json) -> None:
        """Fold the plan of a version 1 agent, which replaces the earlier plan of the turn."""
        items = self.turn_for(entry).items
        plan = next((it for it in items if isinstance(it, PlanItem) and it.id is None), None)
        if plan is None:
            plan = PlanItem(seq=entry.seq, at_us=entry.at_us, entries=[])
            items.append(plan)
        rest = without(update, "sessionUpdate", "entries")
        self._replace_plan(plan, entry, update.get("entries"), rest)

    def add_plan_update(self, entry: Entry, update: Json) -> None:
        """Fold a plan of version 2, by its id. Other forms of plans are kept as they came."""
        fields = as_object(update.get("plan"))
        if fields.get("type") != "items":
            self.add_other(entry, update)
            return
        plan_id = as_str(fields.get("planId")) or ""
        plan = self._known.plans.get(plan_id)
        if plan is None:
            plan = PlanItem(seq=entry.seq, at_us=entry.at_us, entries=[], id=plan_id)
            self._known.plans[plan_id] = plan
            self.turn_for(entry).items.append(plan)
        rest = without(update, "sessionUpdate", "plan")
        self._replace_plan(plan, entry, fields.get("entries"), rest)

    def _replace_plan(self, plan: PlanItem, entry: Entry, entries: object, rest: Json) -> None:
        plan.last_seq, self.latest = entry.seq, plan
        plan.entries, plan.rest = as_array(entries), rest

    # -- sub-agents ---------------------------------------------------------------------

    def add_subagent(self, entry: Entry, update: Json) -> None:
        """Fold an update about a sub-agent, by the id of its session."""
        if as_str(update.get("sessionId")) is None:
            self.add_other(entry, update)
        else:
            self._append(entry, self._known.links.fold_subagent(entry, update, self._ids.claim))

    def add_session_message(self, entry: Entry, update: Json) -> None:
        """Fold a message between sessions, or a chunk of one."""
        self._append(entry, self._known.links.fold_message(entry, update, self._ids.claim))

    def _append(self, entry: Entry, item: TranscriptItem | None) -> None:
        if item is not None:
            self.turn_for(entry).items.append(item)

    # -- state --------------------------------------------------------------------------

    def replace_state(self, entry: Entry, update: Json) -> None:
        """Fold an update that reports a part of the state as a whole."""
        del entry
        self.state[update["sessionUpdate"]] = dict(update)

    def merge_session_info(self, entry: Entry, update: Json) -> None:
        """Fold a `session_info_update`: fields that it does not have stay unchanged."""
        del entry
        self.state.setdefault(update["sessionUpdate"], {}).update(update)

    def replace_options(self, entry: Entry, update: Json) -> None:
        """Fold a `config_option_update`: one of the options may be the mode."""
        self.replace_state(entry, update)
        self._note_mode_in(update.get("configOptions"))

    def add_session_state(self, entry: Entry, update: Json) -> None:
        """Fold a `state_update`. The state `idle` ends the turn of a version 2 agent."""
        self.replace_state(entry, update)
        self.worked_us = entry.at_us
        if update.get("state") == "idle" and self.turns:
            turn = self.turns[-1]
            if turn.ended_us is None:
                turn.ended_us, turn.ended_seq = entry.at_us, entry.seq
            turn.stop_reason = as_str(update.get("stopReason")) or turn.stop_reason
            if self._requests.waiting:
                self._begin_prompted(self._requests.waiting[0])

    def add_configured(self, entry: Entry) -> None:
        """Fold the modes and options in a response, as if updates had reported them."""
        response = decode_object(entry.line) or {}
        requested = self._requests.settings.pop(_key(entry), None)
        if response.get("error") is not None:
            return
        result = as_object(response.get("result"))
        mode = as_str(as_object(result.get("modes")).get("currentModeId")) or as_str(requested)
        if mode is not None:
            self.state["current_mode_update"] = {"currentModeId": mode}
        if isinstance(result.get("configOptions"), list):
            self.state["config_option_update"] = {"configOptions": result["configOptions"]}
            self._note_mode_in(result["configOptions"])
        if isinstance(result.get("availableCommands"), list):
            commands = {"availableCommands": result["availableCommands"]}
            self.state["available_commands_update"] = commands
        for name in ("modes", "models"):
            if isinstance(result.get(name), dict):
                self.offered[name] = as_object(result[name])

    def _note_mode_in(self, options: object) -> None:
        """Note the mode, if one of the options is the mode."""
        mode = as_str(as_object(mode_option(options)).get("currentValue"))
        if mode is not None:
            self.state["current_mode_update"] = {"currentModeId": mode}

    def add_setting(self, entry: Entry) -> None:
        """Fold a request that sets a mode or an option: its response may not repeat the value."""
        params = _params(entry)
        # A version 2 client sets the mode of a version 1 agent as an option.
        chosen = params.get("value") if params.get("configId") == MODE else None
        self._requests.settings[_key(entry)] = params.get("modeId") or chosen

    # -- permissions --------------------------------------------------------------------

    def add_permission(self, entry: Entry) -> None:
        """Fold a permission request."""
        params = _params(entry)
        subject = as_object(params.get("subject"))
        fields = as_object(params.get("toolCall") or subject.get("toolCall"))
        if fields:
            call = self._merge_call(entry, fields)
        else:
            # From version 2 on a request may be about anything. It becomes a call of its own.
            made_id = made_permission_id(read_envelope(entry.line))
            call = self._merge_call(entry, {"toolCallId": made_id, "title": params.get("title")})
            call.is_made_up = True
        self._requests.permissions[_key(entry)] = (call, params)

    def add_outcome(self, entry: Entry) -> None:
        """Fold the answer to a permission request."""
        request = self._requests.permissions.pop(_key(entry), None)
        if request is not None:
            call, params = request
            result = as_object((decode_object(entry.line) or {}).get("result"))
            outcome = as_object(result.get("outcome"))
            call.outcome = outcome_label(outcome, as_array(params.get("options")))
            if call.is_made_up and outcome.get("outcome") == "selected":
                call.fields["status"] = "completed"


# -- tables -----------------------------------------------------------------------------------


class Reducer(Struct, frozen=True):
    """The function that folds one kind of update, and the class of the items that it adds."""

    fold: Callable[[Transcript, Entry, Json], None]
    item: type[TranscriptItem] | None = None


REDUCERS: dict[str, Reducer] = {
    "user_message": Reducer(Transcript.add_whole_message, TranscriptMessage),
    "user_message_chunk": Reducer(Transcript.add_chunk, TranscriptMessage),
    "agent_message": Reducer(Transcript.add_whole_message, TranscriptMessage),
    "agent_message_chunk": Reducer(Transcript.add_chunk, TranscriptMessage),
    "agent_thought": Reducer(Transcript.add_whole_message, TranscriptMessage),
    "agent_thought_chunk": Reducer(Transcript.add_chunk, TranscriptMessage),
    "tool_call": Reducer(Transcript.add_tool_call, ToolCallItem),
    "tool_call_update": Reducer(Transcript.add_tool_call, ToolCallItem),
    "tool_call_content_chunk": Reducer(Transcript.add_call_content, ToolCallItem),
    "terminal_update": Reducer(Transcript.add_terminal),
    "terminal_output_chunk": Reducer(Transcript.add_terminal_output),
    "plan": Reducer(Transcript.add_plan, PlanItem),
    "plan_update": Reducer(Transcript.add_plan_update, PlanItem),
    "subagent_update": Reducer(Transcript.add_subagent, SubagentItem),
    "session_message": Reducer(Transcript.add_session_message, SessionMessageItem),
    "session_message_chunk": Reducer(Transcript.add_session_message, SessionMessageItem),
    "compaction_update": Reducer(Transcript.add_other, OtherItem),
    "compaction_summary_chunk": Reducer(Transcript.add_other, OtherItem),
    HISTORY_TRUNCATED: Reducer(Transcript.add_truncation),
    "notice": Reducer(Transcript.ignore),
    "current_mode_update": Reducer(Transcript.replace_state),
    "config_option_update": Reducer(Transcript.replace_options),
    "available_commands_update": Reducer(Transcript.replace_state),
    "session_info_update": Reducer(Transcript.merge_session_info),
    "usage_update": Reducer(Transcript.replace_state),
    "state_update": Reducer(Transcript.add_session_state),
}
"""The reducers by kind of update. An update of any other kind is kept as it came."""

_ENTRY_REDUCERS: dict[Kind, Callable[[Transcript, Entry], None]] = {
    Kind.PROMPT: Transcript.add_prompt,
    Kind.ECHO: Transcript.add_echo,
    Kind.ANSWER: Transcript.add_answer,
    Kind.PERMISSION: Transcript.add_permission,
    Kind.OUTCOME: Transcript.add_outcome,
    Kind.TERMINAL: Transcript.add_client_terminal,
    Kind.NAMED: Transcript.add_made_id,
    Kind.SETUP: Transcript.add_setup,
    Kind.READY: Transcript.add_ready,
    Kind.CONFIG: Transcript.add_setting,
    Kind.CONFIGURED: Transcript.add_configured,
    Kind.HANDOVER: Transcript.add_handover,
    Kind.REMINDER: Transcript.add_reminder,
    Kind.GAP: Transcript.add_gap,
}
"""The reducers of entries that are not updates. Entries of any other kind change nothing."""


def fold(entries: Iterable[Entry]) -> Transcript:
    """Fold a session's entries, from the first on."""
    transcript = Transcript()
    for entry in entries:
        transcript.add(entry)
    transcript.settle()
    return transcript


def made_permission_id(message: Envelope | None) -> str:
    """Return the id of the tool call that is made for a permission request without one."""
    request_id = message.id if message is not None and message.id is not UNSET else b""
    return f"rekindle-permission-{bytes(request_id).decode('utf-8', 'replace')}"


def suffix_of(at_us: int) -> str:
    """Return the suffix of ids that an agent uses again after a handover at that time."""
    return f"~{at_us:x}"


def _has_content(prompt: TranscriptMessage | None, message: TranscriptMessage) -> bool:
    return prompt is not None and prompt.blocks == message.blocks


def _merge_meta(known: Json, meta: object, entry: Entry) -> Json:
    """Merge `_meta` into the known one in place, and return that."""
    known.update(as_object(meta))
    if entry.protocol > 1:
        # From version 2 on null removes a name, or all names.
        removed = [*known] if meta is None else [it for it in as_object(meta) if known[it] is None]
        for name in removed:
            del known[name]
    return known


def _key(entry: Entry) -> Hashable:
    message = read_envelope(entry.line)
    return request_key(message.id) if message is not None and message.id is not UNSET else None


def _params(entry: Entry) -> Json:
    return as_object((decode_object(entry.line) or {}).get("params"))


def turn_has_ended(entries: Iterable[Entry]) -> bool:
    """Return whether a turn has ended, given the entries that follow its prompt.

    Entries that do not affect the end of a turn may be missing.
    """
    transcript = Transcript()
    transcript.add(Entry(seq=0, side=Side.CLIENT, kind=Kind.PROMPT, at_us=0, line=b"{}"))
    for entry in entries:
        transcript.add(entry)
    return transcript.turns[-1].ended_us is not None
