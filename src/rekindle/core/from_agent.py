"""The lines of the agent: taken by a flow, swallowed, held back, or passed on."""

from typing import Any

from msgspec import UNSET, Raw

from rekindle.core.conductor import Conductor
from rekindle.core.desk import Desk
from rekindle.core.dialect import answer_for_client, question_for_client, update_for_client
from rekindle.core.replay import as_line
from rekindle.core.requests import OpenRequest
from rekindle.core.sessions import Hearing, Live
from rekindle.core.streak import Streak
from rekindle.core.translate.endings import ending_to_v1
from rekindle.model import NOBODY, Opened, Side
from rekindle.wire import methods
from rekindle.wire.envelope import (
    METHOD_NOT_FOUND,
    Message,
    encode,
    error_response,
    members,
    peek,
    response,
    split_batch,
    table,
    text,
)
from rekindle.wire.rewrite import with_id, with_session_id

CANCELLED = {"outcome": {"outcome": "cancelled"}}
"""The answer to a question for permission that nobody will be asked."""

_REQUIRES_ACTION = {"sessionUpdate": "state_update", "state": "requires_action"}


class FromAgent:
    """One direction of a connection."""

    def __init__(self, desk: Desk, conductor: Conductor) -> None:
        self._desk = desk
        self._conductor = conductor
        self.has_turn_ended = False
        """Whether the last line told that a version 2 agent has ended a turn."""

    def take(self, line: bytes) -> OpenRequest | None:
        """Decide on one line; return the request of the client's that it answers, if it does."""
        desk = self._desk
        seen = desk.recording.goes_on(line)
        if seen is not None:
            desk.tell(seen)
            return None
        message = peek(line)
        if message is not None and message.is_update:
            self._take_update(line, message)
            return None
        desk.recording.end_streak()
        if desk.objects(Side.AGENT, line, message):
            return None
        if message is not None:
            return self._take(line, message)
        self._take_unreadable(line)
        return None

    def _take_unreadable(self, line: bytes) -> None:
        batch = [(member, peek(member)) for member in split_batch(line)]
        if any(inner is not None and self._concerns_us(inner) for _, inner in batch):
            for member, _ in batch:
                self.take(member)
            return
        if not batch:
            self._desk.recording.unreadable(Side.AGENT, line)
        for member, inner in batch:
            if inner is not None:
                self._desk.see(Side.AGENT, member, inner)
        self._desk.tell(line)

    # -- updates ------------------------------------------------------------------------

    def _take_update(self, line: bytes, message: Message) -> None:
        desk = self._desk
        agent_id, kind = message.session_id, message.update_kind
        live = desk.conn.sessions.of_agent(agent_id)
        if live is not None:
            self._take_update_of(live, kind, line)
        elif agent_id is None:
            desk.tell(line)
        elif desk.conn.openings:
            desk.conn.sessions.hold_early(agent_id, line)
        elif desk.conn.sessions.is_abandoned(agent_id):
            return
        else:
            # A session that no client has opened: a sub-agent's, perhaps.
            desk.recording.update(agent_id, kind, line, line)
            desk.tell(line)

    def _take_update_of(self, live: Live, kind: str, line: bytes) -> None:
        is_history = kind not in methods.STATE_KINDS
        if is_history:
            live.told.add(kind, is_user=kind in methods.USER_MESSAGE_KINDS)
        if live.is_closed or (is_history and live.hearing is Hearing.SWALLOW):
            return
        if live.is_restoring:
            # Whether it is at work is told when it is restored, and by us.
            if kind == methods.STATE_UPDATE:
                live.is_working = _state_in(line).get("state") != "idle"
            else:
                live.held.append(line)
            return
        seen = line if live.agent_id == live.id else with_session_id(line, live.agent_id, live.id)
        if kind == methods.SESSION_INFO_UPDATE:
            seen = _with_its_title(live, seen)
        if kind == methods.STATE_UPDATE:
            self._take_state(live, seen)
        if self._desk.conn.is_translating:
            self._translate(live, kind, seen, line)
        else:
            self._pass_on(live, kind, seen, line)
        if kind == methods.STATE_UPDATE and not live.is_working:
            self._desk.tell_title(live)

    def _pass_on(self, live: Live, kind: str, seen: bytes, line: bytes) -> None:
        """Record an update, and tell it to a client of the same version."""
        may_be_seen = self._desk.recording.update(live.id, kind, seen, line)
        if live.hearing is Hearing.LEARN and kind not in methods.STATE_KINDS:
            self._desk.recording.end_streak()
        elif may_be_seen:
            self._desk.tell(seen)
        elif self._desk.conn.client_protocol > 1:
            self._desk.tell(_with_own_words(live, seen))

    def _take_state(self, live: Live, line: bytes) -> None:
        """Learn whether a version 2 agent is at work."""
        state = _state_in(line)
        is_working = state.get("state") != "idle"
        has_begun = live.has_begun or "stopReason" in state
        live.has_begun = is_working
        if live.open_prompt is not None and not is_working and not has_begun:
            # The end of something before it, which has crossed with the prompt.
            return
        was_working, live.is_working = live.is_working, is_working
        if was_working and not live.is_working:
            live.is_handing_over = False
            if self._desk.conn.client_protocol == 1:
                self._desk.end_turn(live.id, ending_to_v1(state))
            self.has_turn_ended = True

    def _translate(self, live: Live, kind: str, line: bytes, as_said: bytes) -> None:
        """Record an update as it is, and tell it to the client in its version."""
        desk = self._desk
        if desk.recording.takes_echo(live.id, kind, line):
            # The client was told of its prompt when it was taken, or shows it by itself.
            return
        update = table(table((members(line) or {}).get("params")).get("update"))
        seen = update_for_client(desk.conn, live, update)
        if seen.named is not None:
            desk.recording.named(live.id, seen.named.kind, seen.named.message_id)
        desk.recording.update(live.id, kind, line, line)
        desk.recording.end_streak()
        if live.hearing is Hearing.LEARN and kind not in methods.STATE_KINDS:
            return
        for told in seen.updates:
            desk.tell(as_line(live.id, told))
        if kind in methods.CHUNK_KINDS:
            # More of the same needs no more than the id that this one got.
            made_id = seen.message_id
            needs_ids = made_id is None and desk.conn.client_protocol > 1
            streak = Streak.after(line, live.id, kind, as_said, made_id, must_have_ids=needs_ids)
            listener = live.to_v1.hear if live.to_v1 is not None else None
            desk.recording.go_on_as(streak, live.id, listener)

    # -- all else -----------------------------------------------------------------------

    def _take(self, line: bytes, message: Message) -> OpenRequest | None:
        if message.is_response and self._conductor.replied(message, line):
            return None
        if isinstance(message.id, Raw) and message.is_response:
            return self._take_answer(line, message, message.id)
        live = self._desk.conn.sessions.of_agent(message.session_id)
        if live is not None and live.agent_id != live.id:
            line = with_session_id(line, live.agent_id, live.id)
            message = peek(line) or message
        if isinstance(message.id, Raw) and message.method is not UNSET:
            self._take_request(line, message, message.id, message.method)
        else:
            self._desk.see(Side.AGENT, line, message)
            self._desk.tell(line)
        return None

    def _take_request(self, line: bytes, message: Message, request_id: Raw, method: str) -> None:
        desk = self._desk
        live = desk.conn.sessions.get(message.session_id)
        if live is not None and live.is_closed and method == methods.REQUEST_PERMISSION:
            desk.send(response(request_id, CANCELLED))
            return
        if desk.conn.client_protocol > 1 and method.startswith(("fs/", "terminal/")):
            # Version 2 clients have neither files nor terminals to offer.
            words = f"this client has no {method}"
            desk.send(error_response(request_id, METHOD_NOT_FOUND, words))
            return
        told_as = request_id
        if desk.conn.agent.generation:
            # An answer to what an agent before this one had asked must not be taken for its own.
            told_as = Raw(
                encode(f"rekindle-{desk.conn.agent.generation}-{bytes(request_id).decode()}")
            )
            line = with_id(line, told_as)
        session_id = message.session_id
        desk.recording.request(Side.AGENT, told_as, method, session_id, line, asked_as=request_id)
        if desk.conn.is_translating and live is not None and method == methods.REQUEST_PERMISSION:
            line = question_for_client(desk.conn, live, line)
            if desk.conn.client_protocol > 1:
                desk.tell(as_line(live.id, _REQUIRES_ACTION))
        desk.tell(line)

    def _take_answer(self, line: bytes, message: Message, request_id: Raw) -> OpenRequest | None:
        desk = self._desk
        asked = desk.recording.response(Side.AGENT, request_id, message, line)
        if asked is not None and asked.method == methods.PROMPT and message.error is not UNSET:
            live = desk.conn.sessions.get(asked.session_id)
            self._turn_failed(live)
            if live is not None and live.is_working:
                live.is_working, self.has_turn_ended = False, True
        if asked is None and desk.conn.requests.is_late(Side.AGENT, request_id):
            return None
        if asked is not None and desk.conn.is_translating:
            self._translate_answer(asked, line)
        else:
            desk.tell(line)
        return asked

    def _translate_answer(self, asked: OpenRequest, line: bytes) -> None:
        desk = self._desk
        if asked.method != methods.PROMPT or asked.session_id is None:
            live = desk.conn.sessions.get(asked.session_id)
            desk.tell(answer_for_client(desk.conn, live, asked.method, line))
            return
        answer = members(line) or {}
        if desk.conn.client_protocol > 1 or "error" in answer:
            # A version 2 agent that takes a prompt says so at once, and is not done with it yet.
            desk.end_turn(asked.session_id, answer)

    def _turn_failed(self, live: Live | None) -> None:
        """Have the record told again, if the prompt that failed was to tell it."""
        if live is not None and live.is_handing_over:
            live.needs_handover = True
            unbound = Opened(
                session_id=live.id, at_us=self._desk.conn.at_us, agent_session_id=NOBODY
            )
            self._desk.recording.finish()
            self._desk.step.changes.append(unbound)

    def _concerns_us(self, message: Message) -> bool:
        """Tell whether a member of a batch needs more than to be passed on."""
        live = self._desk.conn.sessions.of_agent(message.session_id)
        is_plain = live is None or (live.agent_id == live.id and live.hearing is Hearing.LIVE)
        is_v1 = self._desk.conn.client_protocol == self._desk.conn.agent.own.protocol == 1
        return not is_plain or not is_v1 or self._conductor.expects(message)


def _state_in(line: bytes) -> dict[str, Any]:
    return table(table((members(line) or {}).get("params")).get("update"))


def _with_own_words(live: Live, line: bytes) -> bytes:
    """Return a prompt that the agent says back with the user's own words alone."""
    whole = members(line) or {}
    params = table(whole.get("params"))
    update = {**table(params.get("update")), "content": live.prompted}
    update["sessionUpdate"] = "user_message"
    return encode({**whole, "params": {**params, "update": update}})


def _with_its_title(live: Live, line: bytes) -> bytes:
    """Leave an agent's title out, if the session keeps the one it has."""
    whole = members(line) or {}
    params = table(whole.get("params"))
    update = table(params.get("update"))
    if "title" not in update:
        return line
    if not live.keeps_title:
        live.title, live.new_title = text(update["title"]), None
        return line
    rest = {name: value for name, value in update.items() if name != "title"}
    return encode({**whole, "params": {**params, "update": rest}})
