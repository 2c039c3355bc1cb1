"""What of a conversation is kept, and as what. Sees every line, changes and sends none.

Kept: prompts, updates, permission requests and their outcomes, the answers that end
turns, changes of mode and configuration, and enough of `session/new`, `load`, `resume`
and `fork` to know the session. Never kept: credentials, what MCP servers are started
with, and the contents of files and terminals outside updates.

Two things that an agent sends are history told again, and are not kept twice: a prompt
echoed while it is worked on, and the replay of a session that the store already has.
A replay may come late (after the answer to `session/load`), so it is over only when
the next prompt is sent.
"""

import re
from typing import Any

from msgspec import UNSET, Raw, Struct

from rekindle.core.capabilities import read_capabilities
from rekindle.core.echo import Echo
from rekindle.core.requests import OpenRequest, OpenRequests
from rekindle.core.step import Step
from rekindle.core.streak import Streak
from rekindle.core.titles import title_from_prompt
from rekindle.model import (
    AgentIdentity,
    Deleted,
    Kind,
    Opened,
    Side,
    Stretch,
    Titled,
    TitleSource,
)
from rekindle.wire import methods
from rekindle.wire.envelope import Message, encode, members, rows, table, text

# What is kept of the requests that name a session, and of their answers.
_REQUESTS = {
    methods.PROMPT: Kind.PROMPT,
    methods.REQUEST_PERMISSION: Kind.PERMISSION,
    **dict.fromkeys(methods.CONFIGURING, Kind.CONFIG),
}
_RESPONSES = {
    methods.PROMPT: Kind.ANSWER,
    methods.REQUEST_PERMISSION: Kind.OUTCOME,
    **dict.fromkeys(methods.CONFIGURING, Kind.CONFIGURED),
}

_UPDATE_CUT_SHORT = re.compile(
    rb'[^{]*\{[^{]*"method"\s*:\s*"session/update"[^{]*"params"\s*:\s*\{'
    rb'\s*"sessionId"\s*:\s*"([^"\\]{1,200})"'
)


class _Live(Struct):
    """What has to be remembered of a session while it is in use."""

    echo: Echo | None = None
    is_replaying: bool = False
    is_in_turn: bool = False
    is_met: bool = False
    """Whether the store was told of it."""


class _OpenStretch(Struct):
    """A stretch that more lines may be added to."""

    session_id: str
    side: Side
    kind: Kind
    pieces: list[bytes] = []
    count: int = 0

    def takes(self, session_id: str, side: Side, kind: Kind) -> bool:
        return self.session_id == session_id and self.side is side and self.kind is kind

    def close(self, at_us: int, protocol: int) -> Stretch:
        return Stretch(
            session_id=self.session_id,
            side=self.side,
            kind=self.kind,
            at_us=at_us,
            data=b"\n".join(self.pieces),
            count=self.count,
            protocol=protocol,
        )


class Recording:
    """Turns what passes by into changes to the store. One instance per connection."""

    def __init__(self, command: tuple[str, ...], requests: OpenRequests) -> None:
        self._agent = AgentIdentity(command=command)
        self._protocol = 1
        self._requests = requests
        self._sessions: dict[str, _Live] = {}
        self._step = Step()
        self._at_us = 0
        self._open: _OpenStretch | None = None
        self._streak: Streak | None = None
        self._streak_session = ""

    def begin(self, step: Step, at_us: int) -> None:
        """Start on what one read brought."""
        self._step, self._at_us = step, at_us

    def finish(self) -> None:
        """Be done with what one read brought."""
        if self._open is not None:
            self._step.changes.append(self._open.close(self._at_us, self._protocol))
            self._open = None

    def learn(self, session_id: str, *, is_recorded: bool) -> None:
        """Take the answer to a look-up: whether the store has this session."""
        if not is_recorded:
            self._live(session_id).is_replaying = False

    # -- what passes by -----------------------------------------------------------------

    def goes_on(self, lines: bytes) -> bool:
        """See lines of the agent, if they are more of the last update; tell whether they are."""
        count = self._streak.covers(lines) if self._streak is not None else 0
        if count:
            self._keep(self._streak_session, Side.AGENT, Kind.UPDATE, lines, count)
        return count > 0

    def end_streak(self) -> None:
        """Let the next update be looked at anew, because something else has happened."""
        self._streak = None

    def update(self, message: Message, line: bytes) -> None:
        """See a `session/update` of the agent."""
        self._streak = None
        params = message.params
        if params is UNSET or params.session_id is UNSET:
            return
        session_id = params.session_id
        live = self._live(session_id)
        kind = params.update.kind if params.update is not UNSET else UNSET
        if live.is_replaying and kind not in methods.STATE_KINDS:
            return
        if live.echo and kind in methods.USER_MESSAGE_KINDS and _is_echo(live.echo, line):
            return
        if kind == methods.SESSION_INFO_UPDATE:
            self._retitle(session_id, line)
        elif kind == methods.STATE_UPDATE:
            self._step.sync = True
        elif kind in methods.USER_MESSAGE_KINDS:
            self._name_after(session_id, line)
        elif kind is not UNSET:
            self._streak = Streak.after(line, session_id, kind)
            self._streak_session = session_id
        self._keep(session_id, Side.AGENT, Kind.UPDATE, line)

    def request(self, side: Side, request_id: Raw, message: Message, line: bytes) -> None:
        """See a request."""
        session_id = message.session_id
        method = message.method or ""
        params: dict[str, Any] = {}
        if method in methods.OPENING:
            params = _without_secrets(line)
            if method in {methods.LOAD, methods.RESUME} and session_id is not None:
                self._step.look_up.append(session_id)
                live = self._live(session_id)
                live.is_replaying = not live.is_in_turn
        elif session_id is not None:
            kind = _REQUESTS.get(method)
            if kind is Kind.PROMPT:
                self._prompt(session_id, line)
            elif kind is not None:
                self._keep(session_id, side, kind, line)
        asked = OpenRequest(bytes(request_id), method, session_id, params)
        self._requests.ask(side, request_id, asked)

    def notification(self, side: Side, method: str, message: Message, line: bytes) -> None:
        """See a notification that is no update of the agent."""
        session_id = message.session_id
        if session_id is None or methods.is_private(method):
            return
        kind = Kind.CANCEL if method == methods.CANCEL else Kind.NOTICE
        self._keep(session_id, side, kind, line)

    def response(self, side: Side, request_id: Raw, message: Message, line: bytes) -> None:
        """See an answer."""
        asked = self._requests.answer(side, request_id)
        if asked is None:
            return
        is_success = message.error is UNSET
        session_id = asked.session_id
        if asked.method in methods.OPENING:
            self._opened(asked, message, line, is_success=is_success)
        elif session_id is not None:
            kind = _RESPONSES.get(asked.method)
            if kind is Kind.ANSWER:
                self.end_turn(session_id, line)
            elif kind is not None:
                self._keep(session_id, side, kind, line)
            elif asked.method == methods.DELETE and is_success:
                self._change(Deleted(session_id=session_id, at_us=self._at_us))
                self._step.sync = True
        elif asked.method == methods.INITIALIZE and is_success:
            self._identify(message)

    def unreadable(self, side: Side, line: bytes) -> None:
        """See a line that is no JSON.

        It is kept if it is the beginning of an update of a session in use. Anything else
        may hold what must not be kept, such as the contents of a file.
        """
        named = _UPDATE_CUT_SHORT.match(line)
        if named and side is Side.AGENT:
            session_id = named[1].decode("utf-8", "backslashreplace")
            if session_id in self._sessions:
                self._keep(session_id, side, Kind.OPAQUE, line)

    def end_turn(self, session_id: str, line: bytes) -> None:
        """Keep the answer to a prompt, the agent's or the one given in its place."""
        self._keep(session_id, Side.AGENT, Kind.ANSWER, line)
        self._step.sync = True
        if self._protocol == 1:
            # From version 2 on a prompt is answered at once, and its echo may follow.
            live = self._live(session_id)
            live.echo, live.is_in_turn = None, False

    # -- what it means ------------------------------------------------------------------

    def _prompt(self, session_id: str, line: bytes) -> None:
        live = self._meet(session_id)
        blocks = rows(table((members(line) or {}).get("params")).get("prompt"))
        live.echo = Echo(blocks)
        live.is_replaying, live.is_in_turn = False, True
        title = title_from_prompt(blocks)
        if title:
            self._title(session_id, TitleSource.PROMPT, title)
        self._keep(session_id, Side.CLIENT, Kind.PROMPT, line)
        self._step.sync = True

    def _opened(
        self, asked: OpenRequest, message: Message, line: bytes, *, is_success: bool
    ) -> None:
        session_id = asked.session_id
        if asked.method in {methods.NEW, methods.FORK}:
            result = members(message.result) if message.result is not UNSET else None
            session_id = text((result or {}).get("sessionId"))
        if session_id is None:
            return
        if not is_success:
            self.learn(session_id, is_recorded=False)
            return
        self._live(session_id).is_met = True
        params = asked.params
        self._change(
            Opened(
                session_id=session_id,
                at_us=self._at_us,
                agent_session_id=session_id,
                agent=self._agent,
                cwd=text(params.get("cwd")),
                directories=tuple(
                    d for d in map(text, rows(params.get("additionalDirectories"))) if d
                ),
                parent_id=asked.session_id if asked.method == methods.FORK else None,
            )
        )
        setup = {"jsonrpc": "2.0", "method": asked.method, "params": params}
        self._keep(session_id, Side.CLIENT, Kind.SETUP, encode(setup))
        self._keep(session_id, Side.AGENT, Kind.READY, line)
        self._step.sync = True

    def _identify(self, message: Message) -> None:
        result = members(message.result) if message.result is not UNSET else None
        if result is None:
            return
        own = read_capabilities(result)
        self._protocol = own.protocol
        self._agent = AgentIdentity(name=own.name, version=own.version, command=self._agent.command)

    def _name_after(self, session_id: str, line: bytes) -> None:
        """Name a session that the agent tells of after the first words in it."""
        content = _update_in(line).get("content")
        title = title_from_prompt(rows(content) or [content])
        if title:
            self._title(session_id, TitleSource.PROMPT, title)

    def _retitle(self, session_id: str, line: bytes) -> None:
        update = _update_in(line)
        if "title" in update:
            self._title(session_id, TitleSource.AGENT, text(update["title"]))

    # -- keeping ------------------------------------------------------------------------

    def _live(self, session_id: str) -> _Live:
        """Return what is remembered of a session."""
        return self._sessions.setdefault(session_id, _Live())

    def _meet(self, session_id: str) -> _Live:
        """Return what is remembered of a session; at first sight, tell the store of it."""
        live = self._live(session_id)
        if not live.is_met:
            live.is_met = True
            self._change(Opened(session_id=session_id, at_us=self._at_us, agent=self._agent))
        return live

    def _title(self, session_id: str, source: TitleSource, title: str | None) -> None:
        self._change(Titled(session_id=session_id, at_us=self._at_us, source=source, title=title))

    def _change(self, change: Opened | Titled | Deleted) -> None:
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


def _update_in(line: bytes) -> dict[str, Any]:
    return table(table((members(line) or {}).get("params")).get("update"))


def _is_echo(echo: Echo, line: bytes) -> bool:
    return echo.takes(_update_in(line).get("content"))


def _without_secrets(line: bytes) -> dict[str, Any]:
    """Return what may be kept of the parameters of a request that opens a session.

    Named one by one, because what is not known to be harmless may be a secret: the
    environment, arguments, headers and addresses of MCP servers, and `_meta`.
    """
    params = table((members(line) or {}).get("params"))
    kept = {
        name: params[name]
        for name in ("sessionId", "cwd", "additionalDirectories")
        if name in params
    }
    if "mcpServers" in params:
        servers = [table(server) for server in rows(params["mcpServers"])]
        kept["mcpServers"] = [
            {name: server[name] for name in ("type", "name") if name in server}
            for server in servers
        ]
    return kept
