"""The lines of the agent: taken by a flow, swallowed, held back, or passed on."""

from typing import Any

from msgspec import UNSET, Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    METHOD_NOT_FOUND,
    Envelope,
    error_response,
    read_envelope,
    response,
    split_batch,
    update_line,
)
from rekindle.acp.rewrite import MESSAGE_ID, with_id, with_session_id, with_suffixed_ids
from rekindle.acp.translate.endings import ending_to_v1
from rekindle.jsonvalue import as_object, as_str, decode_object, encode
from rekindle.model import UNKNOWN_TO_AGENT, Opened, Side
from rekindle.proxy.chunk_fast_path import ChunkFastPath
from rekindle.proxy.context import Desk
from rekindle.proxy.flow_scheduler import FlowScheduler
from rekindle.proxy.live_session import LiveSession, UpdatePolicy
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.translation import (
    Seen,
    answer_for_client,
    question_for_client,
    update_for_client,
)

CANCELLED = {"outcome": {"outcome": "cancelled"}}
"""The answer to a question for permission that nobody will be asked."""

_REQUIRES_ACTION = {"sessionUpdate": "state_update", "state": "requires_action"}


class AgentMessages:
    """One direction of a connection."""

    def __init__(self, desk: Desk, conductor: FlowScheduler) -> None:
        self._desk = desk
        self._conductor = conductor
        self.ended: str | None = None
        """The session in which a version 2 agent has ended a turn by the last line."""

    def take(self, line: bytes) -> OpenRequest | None:
        """Decide on one line; return the request of the client's that it answers, if it does."""
        desk = self._desk
        seen = desk.recording.goes_on(line)
        if seen is not None:
            if seen:
                desk.tell(seen)
            return None
        message = read_envelope(line)
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
        batch = [(member, read_envelope(member)) for member in split_batch(line)]
        if any(inner is not None and self._concerns_us(inner) for _, inner in batch):
            for member, inner in batch:
                # A batch in a batch is no message, however deep one looks.
                self.take(member) if inner is not None else self._desk.tell(member)
            return
        if not batch:
            self._desk.recording.unreadable(Side.AGENT, line)
        for member, inner in batch:
            if inner is not None:
                self._desk.see(Side.AGENT, member, inner)
        self._desk.tell(line)

    # -- updates ------------------------------------------------------------------------

    def _take_update(self, line: bytes, message: Envelope) -> None:
        desk = self._desk
        agent_id, kind = message.session_id, message.update_kind
        live = desk.conn.sessions.of_agent(agent_id)
        if live is not None:
            self._take_update_of(live, kind, line)
        elif agent_id is None:
            desk.tell(line)
        elif desk.conn.openings and desk.conn.sessions.hold_early(agent_id, line):
            pass  # it may be the one that is being opened
        elif not desk.conn.sessions.is_abandoned(agent_id):
            # A session that no client has opened: a sub-agent's, perhaps.
            desk.recording.update(agent_id, kind, line, line)
            if not desk.conn.is_translating:
                # Lost otherwise: what could only be told of a session that the client knows.
                desk.tell(line)

    def _take_update_of(self, live: LiveSession, kind: str, line: bytes) -> None:
        is_history = kind not in methods.STATE_KINDS
        if is_history:
            live.told.add(kind, is_user=kind in methods.USER_MESSAGE_KINDS)
        if live.is_closed or (is_history and live.hearing is UpdatePolicy.DISCARD):
            return
        if live.is_restoring and kind == methods.STATE_UPDATE:
            # Whether it is at work is told when it is restored, and by us.
            live.is_working = _state_in(line).get("state") != "idle"
            return
        if live.is_restoring and live.hearing is UpdatePolicy.DISCARD:
            live.held.append(line)
            return
        seen = self._as_known(live, line)
        if kind == methods.SESSION_INFO_UPDATE:
            seen = _with_its_title(live, seen)
        if live.notice is not None and _comes_after_prompt(kind, seen):
            self._desk.tell(live.notice)
            live.notice = None
        if self._desk.conn.is_translating:
            self._translate(live, kind, seen, line)
        else:
            self._pass_on(live, kind, seen, line)
        if kind == methods.STATE_UPDATE:
            self._take_state(live, seen)
            if not live.is_working:
                self._desk.tell_title(live)

    def _as_known(self, live: LiveSession, line: bytes) -> bytes:
        """Return a line with the names by which the client knows the session and what is in it."""
        if live.agent_id != live.id:
            line = with_session_id(line, live.agent_id, live.id)
        return with_suffixed_ids(line, live.taken_ids, live.suffix) if live.taken_ids else line

    def _pass_on(self, live: LiveSession, kind: str, seen: bytes, line: bytes) -> None:
        """Record an update, and tell it to a client of the same version."""
        may_be_seen = self._desk.recording.update(live.id, kind, seen, line)
        if live.taken_ids and MESSAGE_ID in line:
            # The next line may have an id that has to be another.
            self._desk.recording.end_streak()
        if live.hearing is UpdatePolicy.RECORD_ONLY and kind not in methods.STATE_KINDS:
            self._desk.recording.end_streak()
        elif may_be_seen:
            self._desk.tell(seen)
        elif self._desk.conn.client_protocol > 1:
            self._desk.tell(_with_own_words(live, seen))

    def _take_state(self, live: LiveSession, line: bytes) -> None:
        """Learn whether a version 2 agent is at work."""
        state = _state_in(line)
        # Without a reason it may be the end of something before, which has crossed with a prompt.
        is_end = "stopReason" in state or (live.is_working and not live.awaiting)
        was_working, live.is_working = live.is_working, state.get("state") != "idle"
        live.is_ahead = live.is_ahead or (live.awaiting > 0 and not was_working)
        if is_end and (was_working or live.is_ahead) and not live.is_working:
            live.end_telling()
            live.awaiting -= live.is_ahead
            live.is_ahead = False
            if self._desk.conn.client_protocol == 1:
                self._desk.end_turn(live.id, ending_to_v1(state))
            self.ended = live.id

    def _translate(self, live: LiveSession, kind: str, line: bytes, as_said: bytes) -> None:
        """Record an update as it is, and tell it to the client in its version."""
        desk = self._desk
        if desk.recording.takes_echo(live.id, kind, line):
            # The client was told of its prompt when it was taken, or shows it by itself.
            return
        update = as_object(as_object((decode_object(line) or {}).get("params")).get("update"))
        seen = update_for_client(desk.conn, live, update)
        if seen.named is not None:
            desk.recording.named(live.id, seen.named.kind, seen.named.message_id)
        desk.recording.update(live.id, kind, line, line)
        desk.recording.end_streak()
        if live.hearing is UpdatePolicy.RECORD_ONLY and kind not in methods.STATE_KINDS:
            return
        for told in seen.updates:
            desk.tell(update_line(live.id, told))
        streak = self._streak_after(live, kind, line, as_said, seen)
        if live.taken_ids and MESSAGE_ID in as_said:
            streak = None
        desk.recording.go_on_as(streak, live.id, live.to_v1.hear if live.to_v1 else None)

    def _streak_after(
        self, live: LiveSession, kind: str, line: bytes, as_said: bytes, seen: Seen
    ) -> ChunkFastPath | None:
        """Return how more of the same can go by without being looked at, if it can."""
        is_for_v2 = self._desk.conn.client_protocol > 1
        if kind in methods.CHUNK_KINDS and seen.is_same:
            # It needs no more than the id that this one got.
            needs_ids = is_for_v2 and seen.message_id is None
            return ChunkFastPath.after(
                line, live.id, kind, as_said, seen.message_id, must_have_ids=needs_ids
            )
        if kind == methods.TERMINAL_OUTPUT_CHUNK and not is_for_v2:
            return ChunkFastPath.after(line, live.id, kind, as_said, is_hidden=True)
        return None

    # -- all else -----------------------------------------------------------------------

    def _take(self, line: bytes, message: Envelope) -> OpenRequest | None:
        if message.is_response and self._conductor.replied(message, line):
            return None
        if isinstance(message.id, Raw) and message.is_response:
            return self._take_answer(line, message, message.id)
        live = self._desk.conn.sessions.of_agent(message.session_id)
        if live is not None:
            line = self._as_known(live, line)
            message = read_envelope(line) or message
        if isinstance(message.id, Raw) and message.method is not UNSET:
            self._take_request(line, message, message.id, message.method)
        else:
            if message.method == methods.CANCEL_REQUEST and self._desk.conn.agent.generation:
                line = self._with_told_id(line)
            self._desk.see(Side.AGENT, line, message)
            self._desk.tell(line)
        return None

    def _with_told_id(self, line: bytes) -> bytes:
        """Return what calls a question off with the id under which the client was asked."""
        whole = decode_object(line)
        if whole is None:
            return line
        params = as_object(whole.get("params"))
        told_as = self._told_as(Raw(encode(params.get("requestId"))))
        return encode({**whole, "params": {**params, "requestId": told_as}})

    def _told_as(self, request_id: Raw) -> Raw:
        said = bytes(request_id).decode("utf-8", "backslashreplace")
        return Raw(encode(f"rekindle-{self._desk.conn.agent.generation}-{said}"))

    def _take_request(self, line: bytes, message: Envelope, request_id: Raw, method: str) -> None:
        desk = self._desk
        live = desk.conn.sessions.get(message.session_id)
        if method == methods.REQUEST_PERMISSION and desk.conn.sessions.is_gone(message.session_id):
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
            told_as = self._told_as(request_id)
            line = with_id(line, told_as)
        session_id = message.session_id
        desk.recording.request(Side.AGENT, told_as, method, session_id, line, asked_as=request_id)
        if desk.conn.is_translating and method == methods.REQUEST_PERMISSION:
            line = question_for_client(desk.conn, live, line)
        is_told_to_wait = desk.conn.is_translating and desk.conn.client_protocol > 1
        if live is not None and is_told_to_wait and method in methods.ASKS_USER:
            desk.tell(update_line(live.id, _REQUIRES_ACTION))
        desk.tell(line)

    def _take_answer(self, line: bytes, message: Envelope, request_id: Raw) -> OpenRequest | None:
        desk = self._desk
        live = desk.conn.sessions.get(desk.conn.requests.session_of(Side.CLIENT, request_id))
        if live is not None and live.taken_ids:
            line = with_suffixed_ids(line, live.taken_ids, live.suffix)
        asked = desk.recording.response(Side.AGENT, request_id, message, line)
        if asked is not None and asked.method == methods.PROMPT:
            self._take_answer_to_prompt(asked, is_error=message.is_error)
        if asked is None and desk.conn.requests.is_late(Side.AGENT, request_id):
            return None
        if asked is not None and desk.conn.is_translating:
            self._translate_answer(asked, line)
        else:
            desk.tell(line)
        return asked

    def _take_answer_to_prompt(self, asked: OpenRequest, *, is_error: bool) -> None:
        live = self._desk.conn.sessions.get(asked.session_id)
        if live is None:
            return
        if is_error:
            self._turn_failed(live)
        elif live.awaiting:
            live.is_working = True
        live.awaiting, live.is_ahead = max(live.awaiting - 1, 0), False

    def _translate_answer(self, asked: OpenRequest, line: bytes) -> None:
        desk = self._desk
        if asked.method != methods.PROMPT or asked.session_id is None:
            live = desk.conn.sessions.get(asked.session_id)
            desk.tell(answer_for_client(desk.conn, live, asked.method, line))
            return
        answer = decode_object(line) or {}
        if desk.conn.client_protocol > 1 or answer.get("error") is not None:
            # A version 2 agent that takes a prompt says so at once, and is not done with it yet.
            desk.end_turn(asked.session_id, answer)

    def _turn_failed(self, live: LiveSession) -> None:
        """Have told again what the prompt that failed was to tell."""
        live.is_reminding = False
        if live.is_handing_over:
            live.needs_handover = True
            unbound = Opened(
                session_id=live.id, at_us=self._desk.conn.at_us, agent_session_id=UNKNOWN_TO_AGENT
            )
            self._desk.recording.finish()
            self._desk.step.changes.append(unbound)

    def _concerns_us(self, message: Envelope) -> bool:
        """Tell whether a member of a batch needs more than to be passed on."""
        live = self._desk.conn.sessions.of_agent(message.session_id)
        is_plain = live is None or (
            live.agent_id == live.id and live.hearing is UpdatePolicy.FORWARD
        )
        return not is_plain or self._desk.conn.has_version_2 or self._conductor.expects(message)


def _state_in(line: bytes) -> dict[str, Any]:
    return as_object(as_object((decode_object(line) or {}).get("params")).get("update"))


def _comes_after_prompt(kind: str, line: bytes) -> bool:
    """Tell whether an update shows that the agent has told all there is of the prompt."""
    if kind == methods.STATE_UPDATE:
        return _state_in(line).get("state") == "idle"
    return kind not in methods.STATE_KINDS and kind not in methods.USER_MESSAGE_KINDS


def _with_own_words(live: LiveSession, line: bytes) -> bytes:
    """Return a prompt that the agent says back with the user's own words alone."""
    whole = decode_object(line) or {}
    params = as_object(whole.get("params"))
    update = {**as_object(params.get("update")), "content": live.prompted}
    update["sessionUpdate"] = "user_message"
    return encode({**whole, "params": {**params, "update": update}})


def _with_its_title(live: LiveSession, line: bytes) -> bytes:
    """Leave an agent's title out, if the session keeps the one it has."""
    whole = decode_object(line) or {}
    params = as_object(whole.get("params"))
    update = as_object(params.get("update"))
    if "title" not in update:
        return line
    if not live.keeps_title:
        live.title, live.new_title = as_str(update["title"]), None
        return line
    rest = {name: value for name, value in update.items() if name != "title"}
    return encode({**whole, "params": {**params, "update": rest}})
