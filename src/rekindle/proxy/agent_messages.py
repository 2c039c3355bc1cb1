"""Messages of the agent: continue a flow, discard, hold, or forward to the clients."""

from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from rekindle.acp import methods, update_kinds
from rekindle.acp.jsonrpc import (
    METHOD_NOT_FOUND,
    Envelope,
    error_response,
    read_envelope,
    response,
)
from rekindle.acp.rewrite import MESSAGE_ID, with_id, with_session_id, with_suffixed_ids
from rekindle.acp.translate.config import MODE
from rekindle.acp.translate.endings import ending_to_v1
from rekindle.jsonvalue import Json, as_object, as_str, decode_object, encode, without
from rekindle.model import UNKNOWN_TO_AGENT, AgentObserved, AgentTrait, Opened
from rekindle.proxy.chunk_fast_path import ChunkFastPath
from rekindle.proxy.flow_scheduler import FlowScheduler
from rekindle.proxy.journal import update_in
from rekindle.proxy.leak_guard import HeldUpdate, LeakGuard
from rekindle.proxy.live_session import LiveSession, UpdatePolicy
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.outbox import RUNNING, Outbox
from rekindle.proxy.peers import AGENT, NO_CLIENT, ClientConnection, Peer
from rekindle.proxy.permissions import CANCELLED, PermissionRequests
from rekindle.proxy.step import TurnEventKind, UserReport
from rekindle.proxy.subagent_updates import SubagentUpdates
from rekindle.proxy.subagents import LiveSubagent, is_announcement
from rekindle.proxy.translation import (
    TranslatedUpdate,
    response_for_client,
    translate_permission,
    translate_update,
)
from rekindle.transcript.preface import is_preface_title
from rekindle.transcript.titles import is_placeholder

_LEAK = (
    "the agent sends copies of updates under the id of another session; Rekindle drops the copies"
)


class AgentMessages:
    """The direction from the agent to the clients."""

    def __init__(
        self,
        outbox: Outbox,
        scheduler: FlowScheduler,
        leaks: LeakGuard,
        permissions: PermissionRequests,
    ) -> None:
        self._outbox = outbox
        self._permissions = permissions
        self._conn = outbox.conn
        self._journal = outbox.journal
        self._scheduler = scheduler
        self._subagents = SubagentUpdates(outbox)
        self.ended_sessions: list[str] = []
        """Sessions in which the last line ended a turn. The engine empties the list."""
        self._leaks = leaks
        self._has_reported_leak = False

    def receive(self, line: bytes) -> None:
        """Process one line of the agent."""
        outbox = self._outbox
        if self._journal.fast_path is not None and self.receive_chunks(line):
            return
        envelope = read_envelope(line)
        if self._leaks.held:
            self._settle_held(line, envelope)
        if envelope is not None and envelope.is_update:
            self._receive_update(line, envelope)
            return
        self._journal.fast_path = None
        if outbox.strict is not None and outbox.is_refused(AGENT, line, envelope):
            return
        if envelope is not None:
            self._receive_message(line, envelope)
        else:
            self._journal.unparsable(line)
            outbox.send_to_primary(line)

    def receive_chunks(self, lines: bytes) -> bool:
        """Process lines that are further chunks of the last message; return whether they are."""
        chunks = self._journal.record_chunks(lines)
        if chunks is None:
            return False
        conn, send = self._conn, self._outbox.send
        live = conn.live(self._journal.fast_path_session)
        if live is None:
            self._outbox.send_to_primary(chunks.recorded)
            return True
        protocol = conn.agent.capabilities.protocol
        for client in conn.audience(live):
            is_same = client.protocol == protocol
            shown = chunks.recorded if is_same else chunks.translated(lines)
            if shown:
                send(client.peer, shown)
        if conn.sessions.are_several and conn.has_turn(live.id):
            self._leaks.note_original(live.agent_id, lines)
        return True

    # -- updates ---------------------------------------------------------------------------

    def _receive_update(self, line: bytes, envelope: Envelope) -> None:
        conn = self._conn
        agent_id, kind = envelope.session_id, envelope.update_kind
        if kind == update_kinds.SESSION_INFO_UPDATE:
            line = _without_preface_title(line)
        live = conn.sessions.get_by_agent_id(agent_id)
        if live is not None:
            self._receive_session_update(live, kind, line)
        elif (subagent := conn.subagents.get_by_agent_id(agent_id)) is not None:
            self._receive_subagent_update(subagent, kind, line)
        elif agent_id is None:
            self._outbox.send_to_primary(line)
        elif conn.unnamed_sessions and conn.queues.hold_early(agent_id, line):
            pass  # It may belong to the session that the agent is creating.
        elif not conn.sessions.is_abandoned(agent_id):
            # No client has opened this session. It may be a sub-agent's that was not announced.
            self._journal.update(agent_id, kind, line, line)
            primary = conn.clients.get(conn.primary)
            if primary is not None and not conn.translates_for(primary):
                # Lost otherwise: a translation needs a session that the client knows.
                self._outbox.send_to_primary(line)
            else:
                self._journal.fast_path = None

    def _receive_session_update(self, live: LiveSession, kind: str, line: bytes) -> None:
        is_history = not update_kinds.is_state(kind)
        policy = live.updates.policy
        if is_history:
            live.updates.add_history(kind, line)
            self._note_late_replay(live, kind)
        announced = self._subagents.announce(live, line) if is_announcement(kind) else None
        is_past = policy is UpdatePolicy.DISCARD and (announced is None or not announced.is_fresh)
        is_ignored = live.is_closed and policy is not UpdatePolicy.RECORD_REST
        if is_ignored or (is_history and is_past):
            return
        if live.memory.is_in_transition and self._is_held_back(live, kind, line):
            return
        if is_history and policy is UpdatePolicy.FORWARD and self._may_be_leaked(live, kind, line):
            return
        self._accept_update(live, kind, line)

    def _note_late_replay(self, live: LiveSession, kind: str) -> None:
        """Record that an agent replays after all, later than a restore has waited for it."""
        release = live.updates.silent_release
        if release is not None and update_kinds.is_user_message(kind):
            live.updates.silent_release = None
            observed = AgentObserved(
                session_id=live.id,
                at_us=self._conn.at_us,
                release=release,
                trait=AgentTrait.REPLAYS,
            )
            self._journal.record_changes([observed])

    def _accept_update(self, live: LiveSession, kind: str, line: bytes) -> None:
        """Record and forward an update."""
        seen = self._with_client_ids(live, line, kind)
        if kind == update_kinds.SESSION_INFO_UPDATE:
            seen = _with_allowed_title(live, seen)
        if _follows_prompt(kind, seen):
            self._send_notice(live)
        if kind == update_kinds.STATE_UPDATE and _is_idle(seen):
            self._outbox.announce_title(live)
        self._forward_update(live, kind, seen, line)
        if kind == update_kinds.STATE_UPDATE:
            self._state_changed(live, seen)
        elif is_announcement(kind):
            self._subagents.announced(line)

    def _receive_subagent_update(self, subagent: LiveSubagent, kind: str, line: bytes) -> None:
        """Record and forward an update of a sub-agent."""
        announced = self._subagents.announce(subagent, line) if is_announcement(kind) else None
        if subagent.is_ignored or (announced is not None and announced.is_ignored):
            return
        live = subagent.live
        seen = self._with_client_ids(live, line, kind)
        self._forward_update(live, kind, seen, line)
        if kind == update_kinds.STATE_UPDATE:
            self._subagents.state_changed(subagent, update_in(seen))
        elif announced is not None:
            self._subagents.announced(line)

    def _send_notice(self, live: LiveSession | None) -> None:
        """Send the notice of a handover, if one waits for the agent to echo the prompt."""
        if live is not None and live.handover.notice is not None:
            for client in self._conn.audience(live):
                if client.peer != live.handover.notified:
                    self._outbox.send(client.peer, live.handover.notice)
            live.handover.notice = None

    # -- updates under the id of a wrong session -------------------------------------------

    def release_held(self) -> None:
        """Accept the updates that were held because they might have been copies."""
        self._accept_held(self._leaks.take_all())

    def release_due(self) -> None:
        """Accept the updates whose hold time has passed."""
        self._accept_held(self._leaks.take_due(self._conn.at_us))

    def _accept_held(self, held: list[HeldUpdate]) -> None:
        for it in held:
            self._accept_update(it.live, it.kind, it.line)

    def subagents_exited(self) -> None:
        """Report the end of all sub-agents: the agent has exited."""
        self._subagents.agent_exited()

    def prompted(self) -> None:
        """Note that a prompt is forwarded."""
        self._leaks.prompted()

    def _may_be_leaked(self, live: LiveSession, kind: str, line: bytes) -> bool:
        """Drop or hold an update that may belong to another session; return whether it did."""
        conn, leaks = self._conn, self._leaks
        if not conn.sessions.are_several:
            return False
        if conn.has_turn(live.id):
            leaks.note_original(live.agent_id, line)
            return False
        if leaks.is_trusted(live) or not conn.has_turn_besides(live.id):
            return False
        is_copy = leaks.is_copy(live, line)
        if is_copy and leaks.note_copy(live, line):
            self._report_leak()
        else:
            leaks.hold(live, kind, line, conn.at_us, is_copy=is_copy)
            # The next line must be compared, so it must be parsed.
            self._journal.fast_path = None
        return True

    def _settle_held(self, line: bytes, envelope: Envelope | None) -> None:
        """Drop the held updates that are certain copies, and accept the others."""
        conn, leaks = self._conn, self._leaks
        live: LiveSession | None = None
        if envelope is not None and envelope.is_update:
            is_history = not update_kinds.is_state(envelope.update_kind)
            live = conn.sessions.get_by_agent_id(envelope.session_id) if is_history else None
        if live is None:
            self.release_held()
            return
        if conn.has_turn(live.id):
            leaks.note_original(live.agent_id, line)
            if leaks.drop_copies():
                self._report_leak()
        elif not any(it.live is live and not it.is_copy for it in leaks.held):
            # It may be a copy too, of the same original.
            return
        self._accept_held(leaks.take_unlike())

    def _report_leak(self) -> None:
        if not self._has_reported_leak:
            self._has_reported_leak = True
            self._outbox.step.reports.append(UserReport(_LEAK))

    # -- forwarding updates ----------------------------------------------------------------

    def _is_held_back(self, live: LiveSession, kind: str, line: bytes) -> bool:
        """Note or hold an update of a session that a flow restores; return whether it did."""
        if kind == update_kinds.STATE_UPDATE:
            # The engine itself reports the state when the session is restored.
            live.turn.report_state(is_idle=_is_idle(line))
            return True
        if live.updates.policy is UpdatePolicy.DISCARD:
            self._conn.queues.hold(live.id, line)
            return True
        return False

    def _with_client_ids(self, live: LiveSession, line: bytes, kind: str = "") -> bytes:
        """Return a line with the session ids and the message ids that the client knows."""
        if live.agent_id != live.id:
            line = with_session_id(line, live.agent_id, live.id)
        if update_kinds.concerns_subagents(kind):
            line = self._subagents.with_client_ids(line)
        suffixed = live.suffixed
        return with_suffixed_ids(line, suffixed.taken, suffixed.suffix) if suffixed.taken else line

    def _forward_update(self, live: LiveSession, kind: str, seen: bytes, line: bytes) -> None:
        """Record an update, and send it to the clients of the session, each in its version."""
        journal = self._journal
        if journal.record_echo(live.id, kind, seen):
            self._forward_echo(live, seen)
            return
        translated: TranslatedUpdate | None = None
        if self._has_other_version(live):
            translated = translate_update(self._conn, live, update_in(seen))
            if translated.named is not None:
                journal.named_message(live.id, translated.named.kind, translated.named.message_id)
        journal.update(live.id, kind, seen, line)
        is_hidden = live.updates.policy is UpdatePolicy.RECORD_ONLY
        if is_hidden and not update_kinds.is_state(kind):
            journal.fast_path = None
            return
        self._outbox.broadcast(live, seen, translated.updates if translated is not None else ())
        if translated is not None:
            to_v1 = live.translators.to_v1
            fast_path = self._fast_path_after(live, kind, seen, line, translated)
            listener = None if to_v1 is None else to_v1.note_passed
            journal.continue_with(fast_path, live.id, listener)
        if live.suffixed.taken and MESSAGE_ID in line:
            # The next line may have an id that needs the suffix.
            journal.fast_path = None

    def _has_other_version(self, live: LiveSession) -> bool:
        """Return whether a client of the session needs translations, or needed them in this turn.

        The translator gives ids to messages, and all messages of a turn need one if some have it.
        """
        if live.translators.are_in_use:
            return True
        protocol = self._conn.agent.capabilities.protocol
        return any(it.protocol != protocol for it in self._conn.audience(live))

    def _forward_echo(self, live: LiveSession, seen: bytes) -> None:
        """Send the echo of a prompt to the clients that do not know the prompt.

        The client that prompted receives it only if it uses the agent's version: the others know
        the prompt already, or need its text. A handover in it is left out.
        """
        conn, outbox = self._conn, self._outbox
        user_blocks = self._journal.user_blocks_of_echo(live.id)
        prompter = conn.clients.get(live.turn.prompter)
        if conn.agent.capabilities.protocol == 1:
            # The other clients have received the prompt when it was sent.
            if prompter is not None and not conn.translates_for(prompter) and user_blocks is None:
                outbox.send(prompter.peer, seen)
            return
        shown = seen if user_blocks is None else _with_blocks(seen, user_blocks)
        translated = TranslatedUpdate()
        if self._has_other_version(live):
            translated = translate_update(conn, live, update_in(shown))
        is_v1 = prompter is not None and prompter.protocol == 1
        outbox.broadcast(
            live, shown, translated.updates, but=live.turn.prompter if is_v1 else NO_CLIENT
        )

    def _fast_path_after(
        self, live: LiveSession, kind: str, seen: bytes, line: bytes, translated: TranslatedUpdate
    ) -> ChunkFastPath | None:
        """Return the fast path for further chunks of the same message, if any."""
        is_v1_agent = self._conn.agent.capabilities.protocol == 1
        if update_kinds.is_agent_chunk(kind) and translated.is_same:
            # Further chunks need only the message id that this one received.
            needs_ids = is_v1_agent and translated.message_id is None
            return ChunkFastPath.after(
                seen, live.id, kind, line, translated.message_id, must_have_ids=needs_ids
            )
        if update_kinds.is_terminal_output(kind) and not is_v1_agent:
            return ChunkFastPath.after(seen, live.id, kind, line, is_hidden=True)
        return None

    def _state_changed(self, live: LiveSession, line: bytes) -> None:
        """Note the state that a version 2 agent reports, and end the turn if it ended."""
        state = update_in(line)
        if live.turn.state_changed(is_idle=_is_idle(line), has_stop_reason="stopReason" in state):
            live.handover.turn_ended()
            self._outbox.turn_ended(live, ending_to_v1(state), is_reported=True)
            self.ended_sessions.append(live.id)

    # -- requests and notifications --------------------------------------------------------

    def _receive_message(self, line: bytes, envelope: Envelope) -> None:
        if envelope.is_response and self._scheduler.agent_replied(envelope, line):
            return
        if isinstance(envelope.id, Raw) and envelope.is_response:
            self._receive_response(line, envelope, envelope.id)
            return
        live = self._conn.live_by_agent_id(envelope.session_id)
        if live is not None:
            agent_line, line = line, self._with_client_ids(live, line)
            if line is not agent_line:
                envelope = read_envelope(line) or envelope
        if isinstance(envelope.id, Raw) and envelope.method is not UNSET:
            self._receive_request(line, envelope, envelope.id, envelope.method)
            return
        if envelope.method == methods.CANCEL_REQUEST and self._conn.agent.generation:
            line = self._with_unique_request_id(line)
        self._journal.agent_message(line, envelope)
        self._forward_notification(line, envelope)

    def _forward_notification(self, line: bytes, envelope: Envelope) -> None:
        """Send a notification to the clients that it concerns."""
        conn, outbox = self._conn, self._outbox
        if envelope.method == methods.CANCEL_REQUEST:
            named = as_object((decode_object(line) or {}).get("params")).get("requestId")
            for client in conn.requests.asked(Raw(encode(named))) or [conn.primary]:
                outbox.send(client, line)
            return
        live = conn.live(envelope.session_id)
        if live is not None:
            outbox.send_to_session(live, line)
        else:
            outbox.send_to_primary(line)

    def _with_unique_request_id(self, line: bytes) -> bytes:
        """Return a `$/cancel_request` with the id under which the client received the request."""
        message = decode_object(line)
        if message is None:
            return line
        params = as_object(message.get("params"))
        unique_id = self._unique_id(Raw(encode(params.get("requestId"))))
        return encode({**message, "params": {**params, "requestId": unique_id}})

    def _unique_id(self, request_id: Raw) -> Raw:
        """Return a request id that no earlier process of the agent has used."""
        own_id = bytes(request_id).decode("utf-8", "backslashreplace")
        return Raw(encode(f"rekindle-{self._conn.agent.generation}-{own_id}"))

    def _receive_request(
        self, line: bytes, envelope: Envelope, request_id: Raw, method: str
    ) -> None:
        conn, outbox = self._conn, self._outbox
        session_id = envelope.session_id
        live = conn.sessions.get(session_id)
        subagent = conn.subagents.get(session_id)
        is_gone = conn.sessions.is_gone(session_id) if subagent is None else subagent.root.is_closed
        if method == methods.REQUEST_PERMISSION and is_gone:
            outbox.send_to_agent(response(request_id, CANCELLED))
            return
        root = live if subagent is None else subagent.root
        client = self._answering_client(method, root)
        answering = conn.clients.get(client)
        is_refused = answering is None or (
            # Version 2 clients offer neither files nor terminals.
            (answering.protocol > 1 or conn.hides_client_tools(answering))
            and method.startswith(("fs/", "terminal/"))
        )
        must_ask = root is not None and method == methods.REQUEST_PERMISSION
        if is_refused and not must_ask:
            text = (
                f"the client that could answer {method} has left"
                if answering is None
                else f"this client does not support {method}"
            )
            outbox.send_to_agent(error_response(request_id, METHOD_NOT_FOUND, text))
            return
        if method in methods.ASKS_USER:
            self._send_notice(live)
            if root is not None and conn.settings.has_hooks:
                outbox.note_event(root, TurnEventKind.WAITING, *_question_in(method, line))
        sent_id = request_id
        if conn.agent.generation:
            # A late answer to an earlier process must not count as an answer to this one.
            sent_id = self._unique_id(request_id)
            line = with_id(line, sent_id)
        request = self._journal.request(AGENT, sent_id, envelope, line, own_id=request_id)
        if method == methods.REQUEST_PERMISSION and root is not None:
            self._permissions.ask(root, replace(request, line=line))
            return
        conn.requests.add(client, sent_id, request)
        is_translated = answering is not None and conn.translates_for(answering)
        if method == methods.REQUEST_PERMISSION and is_translated:
            line = translate_permission(conn, None, line)
        if live is not None and method in methods.ASKS_USER:
            self._permissions.report_state(live, is_waiting=True)
        outbox.send(client, line)

    def _answering_client(self, method: str, root: LiveSession | None) -> Peer:
        """Return the client that answers a request of the agent.

        Files and terminals are those of the client whose capabilities the agent knows. The client
        that prompted is asked for other input, and the one that supplied MCP servers serves them.
        """
        conn = self._conn
        if root is None or method.startswith(("fs/", "terminal/")):
            return conn.primary
        wanted = root.setup.client if method.startswith("mcp/") else root.turn.prompter
        if wanted in root.clients or method.startswith("mcp/"):
            return wanted
        acting = (peer for peer, it in root.clients.items() if not it.is_observer)
        return next(acting, NO_CLIENT)

    # -- responses -------------------------------------------------------------------------

    def _receive_response(self, line: bytes, envelope: Envelope, request_id: Raw) -> None:
        conn = self._conn
        request = conn.requests.find(AGENT, request_id)
        if request is None:
            if not conn.requests.is_late(AGENT, request_id):
                self._outbox.send_to_primary(line)
            return
        live = conn.sessions.get(request.session_id)
        if live is not None and live.suffixed.taken:
            line = with_suffixed_ids(line, live.suffixed.taken, live.suffixed.suffix)
        session_id = request.session_id if request.method == methods.PROMPT else None
        if session_id is not None and live is not None:
            self._prompt_answered(live, is_error=envelope.is_error)
        client = conn.clients.get(request.asked_by)
        if request.id != request.sent_id:
            line = with_id(line, Raw(request.id))
        self._journal.response(AGENT, request_id, envelope, line)
        if session_id is not None and live is not None and envelope.is_error:
            self._unbind_without_history(live, request)
        if session_id is None:
            self._forward_response(client, live, request, line)
            return
        self._forward_ending(live, request, line)
        self._prompt_settled(live, request.sent_id)
        self.ended_sessions.append(session_id)

    def _forward_response(
        self,
        client: ClientConnection | None,
        live: LiveSession | None,
        request: OpenRequest,
        line: bytes,
    ) -> None:
        """Send a response to the client that asked, and a changed setting to the others."""
        conn = self._conn
        if client is not None:
            if conn.translates_for(client):
                shown = response_for_client(conn, client, live, request.method, line)
            else:
                shown = line
            self._outbox.send(client.peer, shown)
        update = _changed_setting(request, line) if live is not None else None
        if live is not None and update is not None:
            self._outbox.send_update(live, update, but=request.asked_by)

    def _forward_ending(self, live: LiveSession | None, request: OpenRequest, line: bytes) -> None:
        """Send the response to a prompt to the client that asked, and inform the others."""
        message = decode_object(line) or {}
        is_ending = message.get("error") is not None
        if self._conn.agent.capabilities.protocol == 1 or is_ending:
            self._outbox.prompt_ended(live, request.asked_by, message, line)
            return
        # A version 2 agent only acknowledges a prompt; its turn ends with a state.
        client = self._conn.clients.get(request.asked_by)
        if client is not None and not self._conn.translates_for(client):
            self._outbox.send(client.peer, line)
        message_id = as_object(message.get("result")).get("messageId")
        if live is not None and len(live.clients) > 1 and message_id is not None:
            # The agent may send it again, and later than its first update of the turn.
            prompt = {"sessionUpdate": "user_message", "messageId": message_id}
            content = {"content": request.params["prompt"]}
            self._outbox.send_update(live, {**prompt, **content}, but=request.asked_by)
            self._outbox.report_turn(live, RUNNING, but=request.asked_by, to_v2=False)

    def _prompt_answered(self, live: LiveSession, *, is_error: bool) -> None:
        """Note the response to a prompt. If it ends the turn, the title goes before it."""
        if is_error:
            live.turn.prompt_failed()
        else:
            live.turn.acknowledged()
        if not live.turn.is_working:
            self._outbox.announce_title(live)

    def _unbind_without_history(self, live: LiveSession, request: OpenRequest) -> None:
        """Unbind the agent's id if it did not receive the history: it does not know the session."""
        if live.handover.prompt_failed(request.sent_id):
            unbound = Opened(
                session_id=live.id,
                at_us=self._conn.at_us,
                agent_session_id=UNKNOWN_TO_AGENT,
            )
            self._journal.finish()
            self._journal.step.changes.append(unbound)

    def _prompt_settled(self, live: LiveSession | None, prompt_id: bytes) -> None:
        """Finish a prompt after the client has its response, unless its turn still runs."""
        self._conn.agent.deaths = 0
        if live is not None and not live.turn.is_working:
            live.handover.prompt_ended(prompt_id)


def _question_in(method: str, line: bytes) -> tuple[str, str]:
    """Return the kind of a question to the user, and its text."""
    params = as_object((decode_object(line) or {}).get("params"))
    if method == methods.ELICIT:
        return "input", as_str(params.get("message")) or ""
    # Version 2 has a title; in version 1, the title is that of the tool call.
    title = as_str(params.get("title")) or as_str(as_object(params.get("toolCall")).get("title"))
    return "permission", title or ""


def _changed_setting(request: OpenRequest, line: bytes) -> Json | None:
    """Return the update for clients that have not asked for a change of a setting."""
    if request.method not in methods.SETS_CONFIG:
        return None
    message = decode_object(line) or {}
    if message.get("error") is not None:
        return None
    options = as_object(message.get("result")).get("configOptions")
    if isinstance(options, list):
        return {"sessionUpdate": "config_option_update", "configOptions": options}
    mode = as_str(request.params.get("modeId"))
    if mode is None and request.params.get("configId") == MODE:
        mode = as_str(request.params.get("value"))
    return None if mode is None else {"sessionUpdate": "current_mode_update", "currentModeId": mode}


def _follows_prompt(kind: str, line: bytes) -> bool:
    """Return whether an update shows that the agent has echoed the whole prompt."""
    if kind == update_kinds.STATE_UPDATE:
        return _is_idle(line)
    return not update_kinds.is_state(kind) and not update_kinds.is_user_message(kind)


def _is_idle(line: bytes) -> bool:
    """Return whether a `state_update` reports that the agent does not work any more."""
    return update_in(line).get("state") == "idle"


def _with_blocks(line: bytes, blocks: list[Any]) -> bytes:
    """Return an echoed prompt with other blocks."""
    message = decode_object(line) or {}
    params = as_object(message.get("params"))
    update = {**as_object(params.get("update")), "content": blocks}
    update["sessionUpdate"] = "user_message"
    return encode({**message, "params": {**params, "update": update}})


def _without_preface_title(line: bytes) -> bytes:
    """Return an update without the agent's title, if that was made from a handover."""
    title = as_str(update_in(line).get("title"))
    return line if title is None or not is_preface_title(title) else _without_title(line)


def _with_allowed_title(live: LiveSession, line: bytes) -> bytes:
    """Return an update without the agent's title, if the agent may not rename the session."""
    update = update_in(line)
    if "title" not in update:
        return line
    title = as_str(update["title"])
    if title is not None and is_placeholder(title) and not live.title.is_locked:
        # The client may see it, but it is not the title of the session.
        return line
    return line if live.title.agent_titled(title) else _without_title(line)


def _without_title(line: bytes) -> bytes:
    message = decode_object(line) or {}
    params = as_object(message.get("params"))
    rest = without(as_object(params.get("update")), "title")
    return encode({**message, "params": {**params, "update": rest}})
