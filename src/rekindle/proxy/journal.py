"""Turn messages into the entries worth recording. Sees every message; changes and sends none.

Recorded: prompts, updates, permission requests and their outcomes, the responses that end turns,
changes of mode and configuration, and enough of `session/new`, `load`, `resume` and `fork` to know
the session. Never recorded: credentials, the commands and environments of MCP servers, unknown
fields of the client's messages (`recorded_fields`), the agent's stderr, and the contents of files
and terminals outside of updates.

A prompt that the agent echoes is recorded as an echo, not as another message of the user. Sessions
go by the client's id here, and lines are recorded as the client sees them.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import UNSET, Raw, Struct, field

from rekindle.acp import methods, update_kinds
from rekindle.acp.jsonrpc import Envelope
from rekindle.acp.recorded_fields import (
    recorded_ending,
    recorded_outcome,
    recorded_request,
    recorded_servers,
)
from rekindle.jsonvalue import as_array, as_object, as_str, decode, decode_object, encode
from rekindle.model import (
    AgentSaved,
    Change,
    Counted,
    Entry,
    EntryBatch,
    Forgotten,
    Kind,
    Opened,
    Side,
    Titled,
    TitleSource,
)
from rekindle.proxy.chunk_fast_path import ChunkFastPath
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.echo_tracker import EchoTracker
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.peers import AGENT, Peer
from rekindle.proxy.step import Step
from rekindle.proxy.system_prompt import SYSTEM_PROMPT, recorded_prompt
from rekindle.transcript.model import HandoverReason, handover_meta
from rekindle.transcript.preface import UserWords
from rekindle.transcript.titles import title_from_agent, title_from_prompt

_REQUEST_KINDS = {
    methods.PROMPT: Kind.PROMPT,
    methods.REQUEST_PERMISSION: Kind.PERMISSION,
    **dict.fromkeys(methods.SETS_CONFIG, Kind.CONFIG),
}
_RESPONSE_KINDS = {
    methods.PROMPT: Kind.ANSWER,
    methods.REQUEST_PERMISSION: Kind.OUTCOME,
    **dict.fromkeys(methods.SETS_CONFIG, Kind.CONFIGURED),
}

_MAX_SESSIONS = 1000

_TRUNCATED_UPDATE = re.compile(
    rb'[^{]*\{[^{]*"method"\s*:\s*"session/update"[^{]*"params"\s*:\s*\{'
    rb'\s*"sessionId"\s*:\s*"([^"\\]{1,200})"'
)
# A line that repeats the same name could otherwise make the search quadratic.
_MAX_SEARCHED_BYTES = 2000

_RECORDED_RESULT_FIELDS = ("sessionId", "modes", "models", "configOptions", "availableCommands")
_RECORDED_SETUP_FIELDS = ("sessionId", "cwd", "additionalDirectories")


def side_of(peer: Peer) -> Side:
    """Return the side of the conversation that a peer is on."""
    return Side.AGENT if peer == AGENT else Side.CLIENT


# -- what the journal remembers of a session ---------------------------------------------------


class _SessionJournal(Struct):
    """The journal's memory of one session, which it needs to interpret later messages."""

    echo: EchoTracker = field(default_factory=EchoTracker)
    is_in_turn: bool = False
    is_known: bool = False
    """Whether the store knows the session."""
    last_kind: str = ""
    """The kind of the last update. A message begins where the kind changes."""
    user_words: UserWords = field(default_factory=UserWords)
    """Finds the user's own words in the chunks of a message that the agent replays."""
    terminals: dict[str, tuple[int, str | None]] = {}
    """For each terminal of a tool call: the recorded length, and the output not yet recorded."""


class RecordedChunks(Struct, frozen=True):
    """Chunks that the fast path has recorded."""

    recorded: bytes
    """As clients of the agent's version receive them."""
    fast_path: ChunkFastPath

    def translated(self, lines: bytes) -> bytes:
        """Return them as clients of the other version receive them; b"" if they receive none."""
        return self.fast_path.as_translated(lines)


class _OpenBatch(Struct):
    """A batch to which more lines can be added."""

    session_id: str
    side: Side
    kind: Kind
    protocol: int
    lines: list[bytes] = []
    count: int = 0

    def accepts(self, session_id: str, side: Side, kind: Kind, protocol: int) -> bool:
        return (
            self.session_id == session_id
            and self.side is side
            and self.kind is kind
            and self.protocol == protocol
        )

    def close(self, record_id: str, at_us: int) -> EntryBatch:
        return EntryBatch(
            session_id=record_id,
            side=self.side,
            kind=self.kind,
            at_us=at_us,
            data=b"\n".join(self.lines),
            count=self.count,
            protocol=self.protocol,
        )


# -- the journal ---------------------------------------------------------------------------------


class Journal:
    """Turns the messages of one engine into changes to the store.

    The engine sets `step` at the beginning of each event and calls `finish` at its end. `fast_path`
    recognises further chunks of the same message; any other event sets it to None.
    """

    def __init__(self, conn: ConnectionState) -> None:
        self._conn = conn
        self._sessions: dict[str, _SessionJournal] = {}
        self._max_sessions = _MAX_SESSIONS
        self.step = Step()
        self.open_batch: _OpenBatch | None = None
        self.fast_path: ChunkFastPath | None = None
        self.fast_path_session = ""
        self.client_protocol = 1
        """The protocol version of the client whose message is being recorded."""
        self._chunk_listener: Callable[[bytes], bool] | None = None

    @property
    def _is_v2_agent(self) -> bool:
        return self._conn.agent.capabilities.protocol > 1

    def finish(self) -> None:
        """Add the open batch to the step."""
        batch = self.open_batch
        if batch is not None:
            conn = self._conn
            record_id = conn.subagents.record_id(batch.session_id)
            self.step.changes.append(batch.close(record_id, conn.at_us))
            self.open_batch = None

    def record_changes(self, changes: Sequence[Change]) -> None:
        """Add changes of a flow to the step, synced."""
        self.finish()
        self.step.changes += changes
        self.step.sync = True
        for change in changes:
            if isinstance(change, Opened):
                self._remembered(change.session_id).is_known = True
            elif isinstance(change, Forgotten):
                self._sessions.pop(change.session_id, None)

    # -- updates ---------------------------------------------------------------------------

    def record_chunks(self, lines: bytes) -> RecordedChunks | None:
        """Record lines of the agent if they are further chunks of the last message.

        Return them as the clients see them, or None if they are not such chunks.
        """
        fast_path = self.fast_path
        count = fast_path.count(lines) if fast_path is not None else 0
        if fast_path is None or not count:
            return None
        recorded = fast_path.as_recorded(lines)
        self._record(self.fast_path_session, Side.AGENT, Kind.UPDATE, recorded, count)
        if self._chunk_listener is not None and self._chunk_listener(recorded):
            self.fast_path = None
        return RecordedChunks(recorded, fast_path)

    def continue_with(
        self,
        fast_path: ChunkFastPath | None,
        session_id: str,
        listener: Callable[[bytes], bool] | None,
    ) -> None:
        """Let further chunks use the fast path. `listener` receives them.

        The listener returns True if the next line must be parsed again.
        """
        self.fast_path = fast_path
        self.fast_path_session, self._chunk_listener = session_id, listener

    def update(self, session_id: str, kind: str, line: bytes, as_sent: bytes) -> None:
        """Record an update that is not an echo.

        `line` is the update as the client sees it, `as_sent` as the agent sent it.
        """
        self.fast_path = None
        known = self._remembered(session_id)
        if kind == update_kinds.SESSION_INFO_UPDATE:
            self._title_from_agent(session_id, line)
        elif kind == update_kinds.STATE_UPDATE:
            line = recorded_ending(line)
            self.step.sync = True
        elif not update_kinds.is_state(kind):
            self._introduce(session_id)
            self._count_message(session_id, known, kind)
        if update_kinds.is_user_message(kind):
            self._title_from_message(session_id, known, line)
        elif update_kinds.is_tool_call(kind) and b'"terminal"' in line:
            _note_terminals(known, line)
        elif kind and not (update_kinds.is_state(kind) or update_kinds.concerns_subagents(kind)):
            fast_path = ChunkFastPath.after(line, session_id, kind, as_sent)
            self.continue_with(fast_path, session_id, None)
        self._record(session_id, Side.AGENT, Kind.UPDATE, line)

    def record_echo(self, session_id: str, kind: str, line: bytes) -> bool:
        """Record an update as an echo if it echoes the prompt; return whether it does."""
        if not update_kinds.is_user_message(kind):
            return False
        self.fast_path = None
        echo = self._remembered(session_id).echo
        if not echo.matches(kind, update_in(line), is_v2=self._is_v2_agent):
            return False
        self._record(session_id, Side.AGENT, Kind.ECHO, line)
        return True

    def user_blocks_of_echo(self, session_id: str) -> list[Any] | None:
        """Return the user's own part of the last echo, if that holds a handover."""
        return self._remembered(session_id).echo.user_blocks

    def own_update(self, session_id: str, line: bytes) -> None:
        """Record an update that Rekindle itself sends."""
        self._record(session_id, Side.AGENT, Kind.UPDATE, line)

    def announced(self, session_id: str, update: dict[str, Any]) -> None:
        """Record the session of a sub-agent, and the title that its parent gives it."""
        self._introduce(session_id)
        title = as_str(update.get("title"))
        if title is not None:
            self._title(session_id, TitleSource.AGENT, title_from_agent(title))

    def named_message(self, session_id: str, kind: str, message_id: str) -> None:
        """Record the id that Rekindle gave to the message which the next update begins."""
        line = encode({"kind": kind, "messageId": message_id})
        self._record(session_id, Side.AGENT, Kind.NAMED, line)

    def unparsable(self, line: bytes) -> None:
        """Record a line of the agent that is not JSON if it begins as an update of a known session.

        Any other such line may hold content that must not be recorded, such as a file.
        """
        found = _TRUNCATED_UPDATE.match(line, 0, _MAX_SEARCHED_BYTES)
        if found:
            session_id = found[1].decode("utf-8", "backslashreplace")
            if session_id in self._sessions:
                self._record(session_id, Side.AGENT, Kind.OPAQUE, line)

    # -- requests, responses, notifications ------------------------------------------------

    def request(
        self,
        sender: Peer,
        sent_id: Raw,
        envelope: Envelope,
        line: bytes,
        *,
        own_id: Raw | None = None,
    ) -> OpenRequest:
        """Record a request; return it as an open one. `own_id` is the sender's id if it differs."""
        method, session_id = str(envelope.method), envelope.session_id
        params: dict[str, Any] = {}
        if method == methods.TERMINAL_OUTPUT:
            params = as_object((decode_object(line) or {}).get("params"))
        elif session_id is not None:
            kind = _REQUEST_KINDS.get(method)
            if kind is Kind.PROMPT:
                params = {"prompt": self._prompt(session_id, line)}
            elif kind is Kind.CONFIG:
                params = as_object((decode_object(line) or {}).get("params"))
                recorded = recorded_request(method, line)
                self._record(session_id, side_of(sender), kind, recorded)
            elif kind is not None:
                self._record(session_id, side_of(sender), kind, line)
        return OpenRequest(
            asked_by=sender,
            id=bytes(sent_id if own_id is None else own_id),
            method=method,
            session_id=session_id,
            params=params,
            sent_id=bytes(sent_id),
        )

    def response(
        self, sender: Peer, request_id: Raw, envelope: Envelope, line: bytes
    ) -> OpenRequest | None:
        """Record a response; return the request that it answers, if that is known."""
        request = self._conn.requests.close(sender, request_id)
        if request is None:
            return None
        session_id = request.session_id
        if request.method == methods.TERMINAL_OUTPUT:
            self._terminal_output(request, envelope)
        elif session_id is not None:
            kind = _RESPONSE_KINDS.get(request.method)
            if kind is Kind.ANSWER:
                self.end_turn(session_id, line)
            elif kind is Kind.OUTCOME:
                self.outcome(session_id, line)
            elif kind is not None:
                self._record(session_id, side_of(sender), kind, line)
        return request

    def agent_message(self, line: bytes, envelope: Envelope) -> None:
        """Record a message of the agent that is neither an update nor a request."""
        if envelope.method is not UNSET:
            self._notification(Side.AGENT, envelope.method, envelope.session_id, line)

    def client_notification(self, method: str, session_id: str | None, line: bytes) -> None:
        """Record a notification of a client."""
        self._notification(Side.CLIENT, method, session_id, line)

    def _notification(self, side: Side, method: str, session_id: str | None, line: bytes) -> None:
        """Record a notification that is not an update."""
        is_request_without_id = method in methods.LIFECYCLE
        if session_id is None or methods.is_private(method) or is_request_without_id:
            return
        if not self._remembered(session_id).is_known:
            # A notification alone does not create a session.
            return
        kind = Kind.CANCEL if method == methods.CANCEL else Kind.NOTICE
        self._record(session_id, side, kind, recorded_request(method, line))

    def outcome(self, session_id: str, line: bytes) -> None:
        """Record the response to a permission request, the client's or Rekindle's own."""
        self._record(session_id, Side.CLIENT, Kind.OUTCOME, recorded_outcome(line))

    # -- prompts and turns -----------------------------------------------------------------

    def _prompt(self, session_id: str, line: bytes) -> list[Any]:
        """Record a prompt; return its blocks."""
        known = self._introduce(session_id)
        blocks = prompt_blocks(line)
        known.echo.prompt(blocks, is_v2=self._is_v2_agent)
        known.is_in_turn = True
        known.last_kind = "user_message"
        self._record_prompt(session_id, line, blocks)
        return blocks

    def preface(
        self,
        session_id: str,
        block: dict[str, Any],
        blocks: list[Any],
        *,
        handover: HandoverReason | None,
    ) -> None:
        """Record the handover or reminder that goes before the blocks of the last prompt.

        `handover` is the reason of a handover; None for a reminder.
        """
        self._remembered(session_id).echo.add_preface(block, blocks)
        kind = Kind.REMINDER if handover is None else Kind.HANDOVER
        meta = {} if handover is None else handover_meta(handover)
        recorded = {**block, "_meta": {"rekindle": meta}} if meta else block
        self._record(session_id, Side.AGENT, kind, encode(recorded))

    def undelivered_prompt(self, session_id: str, line: bytes, response: bytes) -> None:
        """Record a prompt that no agent received, and its error response."""
        self._record_prompt(session_id, line, prompt_blocks(line))
        self._record(session_id, Side.AGENT, Kind.ANSWER, recorded_ending(response))

    def end_turn(self, session_id: str, line: bytes) -> None:
        """Record the response to a prompt, the agent's or Rekindle's own."""
        known = self._remembered(session_id)
        self._record_terminals(session_id, known)
        self._record(session_id, Side.AGENT, Kind.ANSWER, recorded_ending(line))
        self.step.sync = True
        known.echo.response(line, is_v2=self._is_v2_agent)
        if not self._is_v2_agent:
            known.is_in_turn = False

    def _record_prompt(self, session_id: str, line: bytes, blocks: list[Any]) -> None:
        self._count(session_id, turns=1)
        title = title_from_prompt(blocks)
        if title:
            self._title(session_id, TitleSource.PROMPT, title)
        recorded = recorded_request(methods.PROMPT, line)
        self._record(session_id, Side.CLIENT, Kind.PROMPT, recorded)
        self.step.sync = True

    def _count_message(self, session_id: str, known: _SessionJournal, kind: str) -> None:
        """Count a message where one begins, and a turn where a user message begins outside one."""
        base = kind.removesuffix("_chunk")
        is_new, known.last_kind = known.last_kind != base, base
        if is_new:
            self._title_from_words(session_id, [known.user_words.rest()])
            known.user_words = UserWords()
        is_users = update_kinds.is_user_message(kind)
        if is_new and (is_users or update_kinds.is_agent_message(kind)):
            self._count(session_id, turns=int(is_users and not known.is_in_turn))

    def _count(self, session_id: str, *, turns: int) -> None:
        conn = self._conn
        record_id = conn.subagents.record_id(session_id)
        self._change(Counted(session_id=record_id, at_us=conn.at_us, turns=turns, messages=1))

    # -- terminals -------------------------------------------------------------------------

    def _terminal_output(self, request: OpenRequest, envelope: Envelope) -> None:
        """Record the output of a terminal that a tool call shows.

        Agents poll the whole output again and again. So it is recorded at first, when it has
        doubled, when the command has ended, and at the end of the turn.
        """
        terminal_id = as_str(request.params.get("terminalId"))
        result = as_object(decode(envelope.result)) if envelope.result is not UNSET else {}
        output = as_str(result.get("output"))
        if request.session_id is None or terminal_id is None or output is None:
            return
        known = self._remembered(request.session_id)
        if terminal_id in known.terminals:
            recorded, _ = known.terminals[terminal_id]
            known.terminals[terminal_id] = (recorded, output)
            if len(output) >= max(2 * recorded, 1) or result.get("exitStatus") is not None:
                self._record_terminals(request.session_id, known)

    def _record_terminals(self, session_id: str, known: _SessionJournal) -> None:
        for terminal_id, (_, output) in known.terminals.items():
            if output is not None:
                known.terminals[terminal_id] = (len(output), None)
                line = encode({"terminalId": terminal_id, "output": output})
                self._record(session_id, Side.CLIENT, Kind.TERMINAL, line)

    # -- titles ----------------------------------------------------------------------------

    def _title_from_message(self, session_id: str, known: _SessionJournal, line: bytes) -> None:
        content = update_in(line).get("content")
        blocks = map(as_object, as_array(content) or [content])
        texts = (as_str(block.get("text")) or "" for block in blocks)
        self._title_from_words(session_id, map(known.user_words.add, texts))

    def _title_from_words(self, session_id: str, texts: Iterable[str]) -> None:
        title = title_from_prompt([{"type": "text", "text": text} for text in texts])
        if title:
            self._title(session_id, TitleSource.PROMPT, title)

    def _title_from_agent(self, session_id: str, line: bytes) -> None:
        update = update_in(line)
        title = as_str(update.get("title"))
        if "title" in update and (title is None or title_from_agent(title) is not None):
            self._title(session_id, TitleSource.AGENT, title)

    def _title(self, session_id: str, source: TitleSource, title: str | None) -> None:
        conn = self._conn
        record_id = conn.subagents.record_id(session_id)
        self._change(Titled(session_id=record_id, at_us=conn.at_us, source=source, title=title))

    # -- recording -------------------------------------------------------------------------

    def _remembered(self, session_id: str) -> _SessionJournal:
        known = self._sessions.get(session_id)
        if known is None:
            if len(self._sessions) >= self._max_sessions:
                self._forget_unopened()
            known = self._sessions[session_id] = _SessionJournal()
        return known

    def _forget_unopened(self) -> None:
        """Forget sessions that no client has opened: an agent may name any number of them."""
        conn = self._conn
        self._sessions = {
            it: known
            for it, known in self._sessions.items()
            if conn.sessions.get(it) or conn.subagents.get(it)
        }
        self._max_sessions = max(_MAX_SESSIONS, 2 * len(self._sessions))

    def _introduce(self, session_id: str) -> _SessionJournal:
        """Return the memory of a session, after making sure that the store knows the session."""
        known = self._remembered(session_id)
        if not known.is_known:
            known.is_known = True
            conn = self._conn
            subagent = conn.subagents.get(session_id)
            self._change(
                Opened(
                    session_id=session_id if subagent is None else subagent.record_id,
                    at_us=conn.at_us,
                    agent=conn.agent.identity,
                    agent_session_id=None if subagent is None else subagent.live.agent_id,
                    parent_id=None if subagent is None else subagent.parent_record_id,
                )
            )
        return known

    def _change(self, change: Opened | Titled | Counted) -> None:
        self.finish()
        self.step.changes.append(change)

    def _record(
        self, session_id: str, side: Side, kind: Kind, lines: bytes, count: int = 1
    ) -> None:
        batch = self.open_batch
        is_agents = side is Side.AGENT
        protocol = self._conn.agent.capabilities.protocol if is_agents else self.client_protocol
        if batch is None or not batch.accepts(session_id, side, kind, protocol):
            self._introduce(session_id)
            self.finish()
            batch = self.open_batch = _OpenBatch(session_id, side, kind, protocol)
        batch.lines.append(lines)
        batch.count += count


def _note_terminals(known: _SessionJournal, line: bytes) -> None:
    for part in map(as_object, as_array(update_in(line).get("content"))):
        terminal_id = as_str(part.get("terminalId"))
        if terminal_id is not None:
            known.terminals.setdefault(terminal_id, (0, None))


# -- parts of messages ---------------------------------------------------------------------------


def prompt_blocks(line: bytes) -> list[Any]:
    """Return the content blocks of a prompt."""
    return as_array(as_object((decode_object(line) or {}).get("params")).get("prompt"))


def update_in(line: bytes) -> dict[str, Any]:
    """Return the update of a `session/update` notification."""
    return as_object(as_object((decode_object(line) or {}).get("params")).get("update"))


# -- changes that flows record -------------------------------------------------------------------


def opening_changes(
    conn: ConnectionState, live: LiveSession, method: str, response: bytes
) -> list[Change]:
    """Return the changes that record the opening of a session."""
    return [opened_change(conn, live), *opening_entries(conn, live, method, response)]


def opening_entries(
    conn: ConnectionState, live: LiveSession, method: str, response: bytes
) -> list[EntryBatch]:
    """Return the entries of the request and the response that open a session."""
    params = setup_without_secrets(live.setup.params)
    request = {"jsonrpc": "2.0", "method": method, "params": params}
    return [
        EntryBatch(
            session_id=live.id,
            side=Side.CLIENT,
            kind=Kind.SETUP,
            at_us=conn.at_us,
            data=encode(request),
            protocol=live.setup.protocol,
        ),
        agent_entry(conn, live.id, Kind.READY, response),
    ]


def opened_change(conn: ConnectionState, live: LiveSession) -> Opened:
    """Return the change that records a session as it was opened last."""
    setup = live.setup.params
    directories = tuple(d for d in map(as_str, as_array(setup.get("additionalDirectories"))) if d)
    # An agent that has yet to receive the history does not know the session.
    is_unknown = live.handover.is_history_due
    return Opened(
        session_id=live.id,
        at_us=conn.at_us,
        agent_session_id=None if is_unknown else live.agent_id,
        agent=None if is_unknown else conn.agent.identity,
        cwd=normalize_folder(as_str(setup["cwd"]) or ""),
        directories=directories,
    )


def recorded_response(result: dict[str, Any]) -> bytes:
    """Return the part of a response that opens a session which may be recorded.

    Its fields are listed one by one, because an agent may repeat the request's secrets.
    """
    kept = {name: result[name] for name in _RECORDED_RESULT_FIELDS if name in result}
    ours = as_object(as_object(result.get("_meta")).get("rekindle"))
    return encode({"jsonrpc": "2.0", "result": {**kept, "_meta": {"rekindle": ours}}})


def setup_without_secrets(params: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the params that open a session which may be recorded.

    The fields are listed one by one, because any other field may hold a secret: the environment,
    arguments, headers and addresses of MCP servers, and `_meta`.
    """
    kept = {name: params[name] for name in _RECORDED_SETUP_FIELDS if name in params}
    if params.get(SYSTEM_PROMPT) is not None:
        kept[SYSTEM_PROMPT] = recorded_prompt(params[SYSTEM_PROMPT])
    kept["mcpServers"] = recorded_servers(as_array(params.get("mcpServers")))
    return kept


def response_entry(line: bytes, at_us: int) -> Entry:
    """Return the response that opens a session as the entry that it will become."""
    return Entry(seq=0, side=Side.AGENT, kind=Kind.READY, at_us=at_us, line=line)


def agent_entry(
    conn: ConnectionState,
    session_id: str,
    kind: Kind,
    line: bytes,
    *,
    protocol: int | None = None,
) -> EntryBatch:
    """Return one entry of the agent's side, in the agent's protocol version by default."""
    return EntryBatch(
        session_id=session_id,
        side=Side.AGENT,
        kind=kind,
        at_us=conn.at_us,
        data=line,
        protocol=conn.agent.capabilities.protocol if protocol is None else protocol,
    )


def saved_sessions(conn: ConnectionState) -> list[Change]:
    """Return the changes for an agent that exits by itself, and so has saved its sessions.

    Left out are sessions with a running turn, and those of which the agent still lacks turns. If
    the user forbids a handover, an agent that lacks turns never receives them.
    """
    if not conn.settings.may_hand_over:
        return []
    return [
        AgentSaved(session_id=live.id, at_us=conn.at_us)
        for live in conn.sessions.known_to_agent()
        if not conn.has_turn(live.id)
    ]


def normalize_folder(path: str) -> str:
    """Return a folder's path without trailing slashes."""
    return path.rstrip("/") or "/"
