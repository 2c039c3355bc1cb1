"""What of a conversation is kept, and as what. Sees every line, changes and sends none.

Kept: prompts, updates, permission requests and their outcomes, the answers that end
turns, changes of mode and configuration, and enough of `session/new`, `load`, `resume`
and `fork` to know the session. Never kept: credentials, what MCP servers are started
with, and the contents of files and terminals outside updates.

A prompt that the agent says back is kept as an echo, not as more words of the user. Sessions
go by the client's name for them here, and lines are as the client sees them.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import UNSET, Raw, Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import Envelope
from rekindle.acp.prompt_echo import PromptEcho
from rekindle.jsonvalue import as_array, as_object, as_str, decode, decode_object, encode
from rekindle.model import (
    Change,
    Counted,
    EntryBatch,
    Kind,
    Opened,
    Side,
    Titled,
    TitleSource,
)
from rekindle.proxy.chunk_fast_path import ChunkFastPath
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.step import Step
from rekindle.transcript.titles import title_from_prompt

# What is kept of the requests that name a session, and of their answers.
_REQUESTS = {
    methods.PROMPT: Kind.PROMPT,
    methods.REQUEST_PERMISSION: Kind.PERMISSION,
    **dict.fromkeys(methods.SETS_CONFIG, Kind.CONFIG),
}
_RESPONSES = {
    methods.PROMPT: Kind.ANSWER,
    methods.REQUEST_PERMISSION: Kind.OUTCOME,
    **dict.fromkeys(methods.SETS_CONFIG, Kind.CONFIGURED),
}

_MOST_ECHOES = 4
_MOST_SESSIONS = 1000

_UPDATE_CUT_SHORT = re.compile(
    rb'[^{]*\{[^{]*"method"\s*:\s*"session/update"[^{]*"params"\s*:\s*\{'
    rb'\s*"sessionId"\s*:\s*"([^"\\]{1,200})"'
)
# What says the same name over and over would else be looked through as often.
_LONGEST_BEGINNING = 2000


class _Heard(Struct):
    """What has to be remembered of a session to understand what follows."""

    echoes: list[PromptEcho] = []
    """What the agent may say back: the prompt, and the same with what was handed over before."""
    prompt_id: str | None = None
    """The id that a version 2 agent has given to the last prompt."""
    awaits_prompt: bool = False
    """Whether it is yet to give one."""
    hides_echo: bool = False
    """Whether the client must not see it: it holds what was handed over."""
    is_in_turn: bool = False
    is_met: bool = False
    """Whether the store was told of it."""
    last_kind: str = ""
    """The kind of the last update; a message begins where it changes."""
    terminals: dict[str, tuple[int, str | None]] = {}
    """The terminals that tool calls show: how much of each is recorded, and what is not yet."""


class _OpenStretch(Struct):
    """A stretch that more lines may be added to."""

    session_id: str
    side: Side
    kind: Kind
    pieces: list[bytes] = []
    count: int = 0

    def takes(self, session_id: str, side: Side, kind: Kind) -> bool:
        return self.session_id == session_id and self.side is side and self.kind is kind

    def close(self, at_us: int, protocol: int) -> EntryBatch:
        return EntryBatch(
            session_id=self.session_id,
            side=self.side,
            kind=self.kind,
            at_us=at_us,
            data=b"\n".join(self.pieces),
            count=self.count,
            protocol=protocol,
        )


class Journal:
    """Turns what passes by into changes to the store. One instance per connection."""

    def __init__(self, conn: ConnectionState) -> None:
        self._conn = conn
        self._agent = conn.agent
        self._requests = conn.requests
        self._sessions: dict[str, _Heard] = {}
        self._most_sessions = _MOST_SESSIONS
        self._step = Step()
        self._at_us = 0
        self._open: _OpenStretch | None = None
        self._streak: ChunkFastPath | None = None
        self._streak_session = ""
        self._listener: Callable[[bytes], bool] | None = None

    def begin(self, step: Step, at_us: int) -> None:
        """Start on what one read brought."""
        self._step, self._at_us = step, at_us

    def finish(self) -> None:
        """Be done with what one read brought."""
        if self._open is not None:
            is_agents = self._open.side is Side.AGENT
            version = self._agent.own.protocol if is_agents else self._conn.client_protocol
            self._step.changes.append(self._open.close(self._at_us, version))
            self._open = None

    def learn_of(self, changes: Iterable[Change]) -> None:
        """Take notice of what others have the store told."""
        for change in changes:
            if isinstance(change, Opened):
                self._live(change.session_id).is_met = True

    # -- what passes by -----------------------------------------------------------------

    def goes_on(self, lines: bytes) -> bytes | None:
        """See lines of the agent, if they are more of the last update.

        Return them as the client sees them: b"" if it does not. None if they are not.
        """
        streak = self._streak
        count = streak.covers(lines) if streak is not None else 0
        if streak is None or not count:
            return None
        kept = streak.as_kept(lines)
        self._keep(self._streak_session, Side.AGENT, Kind.UPDATE, kept, count)
        if self._listener is not None and self._listener(kept):
            self._streak = None
        return streak.as_seen(lines)

    def go_on_as(
        self,
        streak: ChunkFastPath | None,
        session_id: str,
        listener: Callable[[bytes], bool] | None,
    ) -> None:
        """Let more of the same go this way; `listener` is told of the lines that do.

        It tells whether the next line has to be looked at again.
        """
        self._streak, self._streak_session, self._listener = streak, session_id, listener

    def end_streak(self) -> None:
        """Let the next update be looked at anew, because something else has happened."""
        self._streak = None

    def update(self, session_id: str, kind: str, line: bytes, as_said: bytes) -> bool:
        """See a `session/update` of the agent, as the client sees it and as the agent said it.

        Tell whether the client may see it.
        """
        self._streak = None
        live = self._live(session_id)
        if self.takes_echo(session_id, kind, line):
            return not live.hides_echo
        if kind == methods.SESSION_INFO_UPDATE:
            self._retitle(session_id, line)
        elif kind == methods.STATE_UPDATE:
            self._step.sync = True
        elif kind not in methods.STATE_KINDS:
            self._meet(session_id)
            self._count(session_id, live, kind)
        if kind in methods.USER_MESSAGE_KINDS:
            self._name_after(session_id, line)
        elif kind in methods.TOOL_CALL_KINDS and b'"terminal"' in line:
            self._meet_terminals(live, line)
        elif kind and kind not in methods.STATE_KINDS:
            self.go_on_as(ChunkFastPath.after(line, session_id, kind, as_said), session_id, None)
        self._keep(session_id, Side.AGENT, Kind.UPDATE, line)
        return True

    def takes_echo(self, session_id: str, kind: str, line: bytes) -> bool:
        """See an update if it is the prompt said back; tell whether it is."""
        if kind not in methods.USER_MESSAGE_KINDS:
            return False
        live = self._live(session_id)
        if not _is_echo(live.echoes, line) and not self._is_prompt(live, kind, line):
            return False
        self._keep(session_id, Side.AGENT, Kind.ECHO, line)
        return True

    def _is_prompt(self, live: _Heard, kind: str, line: bytes) -> bool:
        """Tell whether a version 2 agent tells the prompt, in whatever words."""
        if self._agent.own.protocol == 1:
            return False
        message_id = as_str(_update_in(line).get("messageId"))
        is_first = live.awaits_prompt and kind == "user_message"
        return is_first or (message_id is not None and message_id == live.prompt_id)

    def request(  # noqa: PLR0913 - what a request is
        self,
        side: Side,
        request_id: Raw,
        method: str,
        session_id: str | None,
        line: bytes,
        *,
        asked_as: Raw | None = None,
    ) -> None:
        """See a request; `asked_as` is its id where the side that asks has another."""
        params: dict[str, Any] = {}
        if method == methods.TERMINAL_OUTPUT:
            params = as_object((decode_object(line) or {}).get("params"))
        elif session_id is not None:
            kind = _REQUESTS.get(method)
            if kind is Kind.PROMPT:
                self._prompt(session_id, line)
            elif kind is not None:
                self._keep(session_id, side, kind, line)
        own_id = bytes(request_id if asked_as is None else asked_as)
        asked = OpenRequest(own_id, method, session_id, params, told_as=bytes(request_id))
        self._requests.ask(side, request_id, asked)

    def unheard(self, session_id: str, line: bytes, answer: bytes) -> None:
        """See a prompt that no agent lived to be given, and the answer that it gets."""
        self._keep_prompt(session_id, line, _blocks_in(line))
        self._keep(session_id, Side.AGENT, Kind.ANSWER, answer)

    def preface(
        self, session_id: str, block: dict[str, Any], blocks: list[Any], *, is_handover: bool
    ) -> None:
        """See what the agent is told of the session, before the blocks of the last prompt."""
        live = self._live(session_id)
        live.echoes.append(PromptEcho([block, *blocks]))
        live.hides_echo = True
        kind = Kind.HANDOVER if is_handover else Kind.REMINDER
        self._keep(session_id, Side.AGENT, kind, encode(block))

    def notification(self, side: Side, method: str, session_id: str | None, line: bytes) -> None:
        """See a notification that is no update of the agent."""
        is_request_without_id = method in methods.LIFECYCLE
        if session_id is None or methods.is_private(method) or is_request_without_id:
            return
        if not self._live(session_id).is_met:
            # A word about a session does not make one.
            return
        kind = Kind.CANCEL if method == methods.CANCEL else Kind.NOTICE
        self._keep(session_id, side, kind, line)

    def response(
        self, side: Side, request_id: Raw, message: Envelope, line: bytes
    ) -> OpenRequest | None:
        """See an answer; return what was asked."""
        asked = self._requests.answer(side, request_id)
        if asked is None:
            return None
        session_id = asked.session_id
        if asked.method == methods.TERMINAL_OUTPUT:
            self._terminal_output(asked, message)
        elif session_id is not None:
            kind = _RESPONSES.get(asked.method)
            if kind is Kind.ANSWER:
                self.end_turn(session_id, line)
            elif kind is not None:
                self._keep(session_id, side, kind, line)
        return asked

    def unreadable(self, side: Side, line: bytes) -> None:
        """See a line that is no JSON.

        It is kept if it is the beginning of an update of a session in use. Anything else
        may hold what must not be kept, such as the contents of a file.
        """
        named = _UPDATE_CUT_SHORT.match(line, 0, _LONGEST_BEGINNING)
        if named and side is Side.AGENT:
            session_id = named[1].decode("utf-8", "backslashreplace")
            if session_id in self._sessions:
                self._keep(session_id, side, Kind.OPAQUE, line)

    def named(self, session_id: str, kind: str, message_id: str) -> None:
        """See the id that was given to the message which the next update begins."""
        told = encode({"kind": kind, "messageId": message_id})
        self._keep(session_id, Side.AGENT, Kind.NAMED, told)

    def news(self, session_id: str, line: bytes) -> None:
        """See an update of ours."""
        self._keep(session_id, Side.AGENT, Kind.UPDATE, line)

    def outcome(self, session_id: str, line: bytes) -> None:
        """See an answer to a question for permission that is given in the client's place."""
        self._keep(session_id, Side.CLIENT, Kind.OUTCOME, line)

    def end_turn(self, session_id: str, line: bytes) -> None:
        """Keep the answer to a prompt, the agent's or the one given in its place."""
        self._keep_terminals(session_id, self._live(session_id))
        self._keep(session_id, Side.AGENT, Kind.ANSWER, line)
        self._step.sync = True
        live = self._live(session_id)
        if self._agent.own.protocol == 1:
            live.echoes, live.hides_echo, live.is_in_turn = [], False, False
        else:
            # From version 2 on a prompt is answered at once, and its echo may follow.
            live.prompt_id = as_str(
                as_object((decode_object(line) or {}).get("result")).get("messageId")
            )
            live.awaits_prompt = False

    # -- what it means ------------------------------------------------------------------

    def _prompt(self, session_id: str, line: bytes) -> None:
        live = self._meet(session_id)
        blocks = _blocks_in(line)
        # Version 2 lets several prompts wait, each of which is said back when its turn comes.
        waiting = live.echoes[-_MOST_ECHOES:] if self._agent.own.protocol > 1 else []
        live.echoes = [*waiting, PromptEcho(blocks)]
        live.hides_echo, live.is_in_turn = False, True
        live.prompt_id, live.awaits_prompt = None, self._agent.own.protocol > 1
        live.last_kind = "user_message"
        self._keep_prompt(session_id, line, blocks)

    def _keep_prompt(self, session_id: str, line: bytes, blocks: list[Any]) -> None:
        self._change(Counted(session_id=session_id, at_us=self._at_us, turns=1, messages=1))
        title = title_from_prompt(blocks)
        if title:
            self._title(session_id, TitleSource.PROMPT, title)
        self._keep(session_id, Side.CLIENT, Kind.PROMPT, line)
        self._step.sync = True

    def _count(self, session_id: str, live: _Heard, kind: str) -> None:
        """Count a message where one begins, and a turn where the user's does."""
        told = kind.removesuffix("_chunk")
        is_news, live.last_kind = live.last_kind != told, told
        by_user = kind in methods.USER_MESSAGE_KINDS
        if is_news and (by_user or kind in methods.AGENT_MESSAGE_KINDS):
            turns = int(by_user and not live.is_in_turn)
            at_us = self._at_us
            self._change(Counted(session_id=session_id, at_us=at_us, turns=turns, messages=1))

    def _meet_terminals(self, live: _Heard, line: bytes) -> None:
        for part in map(as_object, as_array(_update_in(line).get("content"))):
            terminal_id = as_str(part.get("terminalId"))
            if terminal_id is not None:
                live.terminals.setdefault(terminal_id, (0, None))

    def _terminal_output(self, asked: OpenRequest, message: Envelope) -> None:
        """Keep what a terminal shows, if a tool call shows the terminal.

        Agents ask for the whole of it again and again, so it is kept when it is news enough:
        at first, when it has doubled, when the command has ended, and at the turn's end.
        """
        terminal_id = as_str(asked.params.get("terminalId"))
        result = as_object(decode(message.result)) if message.result is not UNSET else {}
        output = as_str(result.get("output"))
        if asked.session_id is None or terminal_id is None or output is None:
            return
        live = self._live(asked.session_id)
        if terminal_id in live.terminals:
            kept, _ = live.terminals[terminal_id]
            live.terminals[terminal_id] = (kept, output)
            if len(output) >= max(2 * kept, 1) or result.get("exitStatus") is not None:
                self._keep_terminals(asked.session_id, live)

    def _keep_terminals(self, session_id: str, live: _Heard) -> None:
        """Record what is last known of the terminals."""
        for terminal_id, (_, output) in live.terminals.items():
            if output is not None:
                live.terminals[terminal_id] = (len(output), None)
                told = encode({"terminalId": terminal_id, "output": output})
                self._keep(session_id, Side.CLIENT, Kind.TERMINAL, told)

    def _name_after(self, session_id: str, line: bytes) -> None:
        """Name a session that the agent tells of after the first words in it."""
        content = _update_in(line).get("content")
        title = title_from_prompt(as_array(content) or [content])
        if title:
            self._title(session_id, TitleSource.PROMPT, title)

    def _retitle(self, session_id: str, line: bytes) -> None:
        update = _update_in(line)
        if "title" in update:
            self._title(session_id, TitleSource.AGENT, as_str(update["title"]))

    # -- keeping ------------------------------------------------------------------------

    def _live(self, session_id: str) -> _Heard:
        """Return what is remembered of a session."""
        heard = self._sessions.get(session_id)
        if heard is None:
            if len(self._sessions) >= self._most_sessions:
                self._forget_strays()
            heard = self._sessions[session_id] = _Heard()
        return heard

    def _forget_strays(self) -> None:
        """Forget sessions that no client has opened: an agent may make up any number of them."""
        is_open = self._conn.sessions.get
        self._sessions = {it: heard for it, heard in self._sessions.items() if is_open(it)}
        self._most_sessions = max(_MOST_SESSIONS, 2 * len(self._sessions))

    def _meet(self, session_id: str) -> _Heard:
        """Return what is remembered of a session; at first sight, tell the store of it."""
        live = self._live(session_id)
        if not live.is_met:
            live.is_met = True
            self._change(
                Opened(session_id=session_id, at_us=self._at_us, agent=self._agent.identity)
            )
        return live

    def _title(self, session_id: str, source: TitleSource, title: str | None) -> None:
        self._change(Titled(session_id=session_id, at_us=self._at_us, source=source, title=title))

    def _change(self, change: Opened | Titled | Counted) -> None:
        self.finish()
        self._step.changes.append(change)

    def _keep(self, session_id: str, side: Side, kind: Kind, lines: bytes, count: int = 1) -> None:
        open_ = self._open
        if open_ is None or not open_.takes(session_id, side, kind):
            self._meet(session_id)
            self.finish()
            open_ = self._open = _OpenStretch(session_id, side, kind)
        open_.pieces.append(lines)
        open_.count += count


def _blocks_in(line: bytes) -> list[Any]:
    return as_array(as_object((decode_object(line) or {}).get("params")).get("prompt"))


def _update_in(line: bytes) -> dict[str, Any]:
    return as_object(as_object((decode_object(line) or {}).get("params")).get("update"))


def _is_echo(echoes: list[PromptEcho], line: bytes) -> bool:
    return any(echo.consume(_update_in(line).get("content")) for echo in echoes)
