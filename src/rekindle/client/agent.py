"""An agent that runs: what it offers, and its sessions."""

import os
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rekindle.acp import methods
from rekindle.acp.translate.servers import servers_to_v1, servers_to_v2
from rekindle.client.dispatcher import Sessions
from rekindle.client.handshake import Greeting, Offer
from rekindle.client.models import AuthMethod, SessionInfo, as_session_info
from rekindle.client.permissions import OnPermission
from rekindle.client.rpc import Answer
from rekindle.client.session import Session
from rekindle.client.session_channel import Talk
from rekindle.errors import BadAnswer, SessionBusy, UsageError
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.model import AgentIdentity

Json = dict[str, Any]
Folder = str | os.PathLike[str]
Servers = Iterable[Mapping[str, Any]]

_REMEDY = "put it behind Rekindle, which does"


class Agent:
    """A connection to an agent. `connect` makes one."""

    def __init__(
        self,
        sessions: Sessions,
        greeting: Greeting,
        on_permission: OnPermission | None,
        last_words: Callable[[], tuple[str, ...]],
    ) -> None:
        self._last_words = last_words
        self._rpc = sessions.rpc
        self._greeting = greeting
        self._sessions = sessions
        self._context = sessions.context(greeting, on_permission)
        self._opening: set[str] = set()

    def __repr__(self) -> str:
        return f"Agent({self._greeting.name!r}, protocol={self.protocol})"

    # -- what it offers -----------------------------------------------------------------

    @property
    def info(self) -> AgentIdentity:
        """Its name and version, as it says, and the command that started it."""
        return self._greeting.identity

    @property
    def protocol(self) -> int:
        """The version of the protocol that is spoken."""
        return self._greeting.protocol

    @property
    def capabilities(self) -> Json:
        """What it says it can do, as version 2 of the protocol puts it."""
        return self._greeting.capabilities

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The ways to log in."""
        return self._greeting.auth_methods

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines that it wrote there."""
        return self._last_words()

    def offers(self, what: Offer) -> bool:
        """Tell whether the agent offers a method, or takes that in prompts or on opening."""
        return what in self._greeting.offered

    # -- sessions -----------------------------------------------------------------------

    async def sessions(self, cwd: Folder | None = None) -> AsyncIterator[SessionInfo]:
        """Yield the sessions that there are, or those of one folder, the last used first.

        More pages are asked for as they are needed. Raises NotOffered, AgentRefused, AgentGone.
        """
        self._check("list", methods.LIST)
        params: Json = {} if cwd is None else {"cwd": absolute(cwd)}
        seen: set[str] = set()
        while True:
            result = await self._rpc.call(methods.LIST, params)
            for told in as_array(result.get("sessions")):
                info = as_session_info(as_object(told))
                if info is not None:
                    yield info
            cursor = as_str(result.get("nextCursor"))
            if cursor is None or cursor in seen:
                return
            seen.add(cursor)
            params = {**params, "cursor": cursor}

    async def new(
        self, cwd: Folder, *, mcp_servers: Servers = (), directories: Iterable[Folder] = ()
    ) -> Session:
        """Make a session in a folder.

        MCP servers are as version 2 of the protocol puts them: with a `type`. `directories`
        are more folders to work in. Raises NotOffered, AuthRequired, AgentRefused, AgentGone.
        """
        return await self._make(methods.NEW, self._setup(cwd, mcp_servers, directories))

    async def load(
        self,
        session_id: str,
        cwd: Folder,
        *,
        mcp_servers: Servers = (),
        directories: Iterable[Folder] = (),
    ) -> Session:
        """Open a session, and be told all of it: the transcript is whole when this returns.

        Raises as `new`, and SessionBusy.
        """
        self._check("load", methods.LOAD)
        setup = self._setup(cwd, mcp_servers, directories)
        if self.protocol == 1:
            return await self._open(methods.LOAD, session_id, setup)
        return await self._open(
            methods.RESUME, session_id, {**setup, "replayFrom": {"type": "start"}}
        )

    async def resume(
        self,
        session_id: str,
        cwd: Folder,
        *,
        mcp_servers: Servers = (),
        directories: Iterable[Folder] = (),
    ) -> Session:
        """Open a session without being told of it: the transcript begins now. Raises as `load`."""
        self._check("resume", methods.RESUME)
        setup = self._setup(cwd, mcp_servers, directories)
        return await self._open(methods.RESUME, session_id, setup)

    async def fork(
        self,
        session_id: str,
        cwd: Folder,
        *,
        mcp_servers: Servers = (),
        directories: Iterable[Folder] = (),
    ) -> Session:
        """Make a session that goes on where another one is, and leaves that as it is.

        What it has of the other is not told: load it, to see that. Raises as `new`.
        """
        self._check("fork", methods.FORK)
        setup = self._setup(cwd, mcp_servers, directories)
        return await self._make(methods.FORK, {"sessionId": session_id, **setup})

    async def delete(self, session_id: str) -> None:
        """Delete a session. Raises NotOffered, AgentRefused, AgentGone."""
        self._check("delete", methods.DELETE)
        await self._rpc.call(methods.DELETE, {"sessionId": session_id})
        talk = self._sessions.get(session_id)
        if talk is not None:
            talk.leave()

    async def _make(self, method: str, params: Json) -> Session:
        opened: list[Session] = []
        is_wanted = True

        def open_it(answer: Answer) -> None:
            session_id = as_str(answer.result.get("sessionId"))
            if session_id is None:
                raise BadAnswer(method, "a sessionId")
            if not is_wanted:
                self._let_go(session_id)
                return
            talk = Talk(session_id, self._context)
            self._sessions.add(talk)
            talk.begin(answer)
            opened.append(Session(talk, params["cwd"]))

        try:
            with self._sessions.making():
                await self._rpc.call(method, params, open_it)
        finally:
            is_wanted = False
        return opened[0]

    def _let_go(self, session_id: str) -> None:
        """Close a session that was made too late for whoever wanted it."""
        if self.offers("close"):
            self._rpc.ask(methods.CLOSE, {"sessionId": session_id}, lambda _: None)

    async def _open(self, method: str, session_id: str, setup: Json) -> Session:
        if session_id in self._opening:
            raise SessionBusy(session_id, "is being opened already: wait for that")
        talk = Talk(session_id, self._context)
        with self._replacing(session_id, talk):
            await self._rpc.call(method, {"sessionId": session_id, **setup}, talk.begin)
        return Session(talk, setup["cwd"])

    @contextmanager
    def _replacing(self, session_id: str, talk: Talk) -> Generator[None, None, None]:
        """Let a session that is being opened have what is told of it, instead of one before."""
        before = self._sessions.get(session_id)
        if before is not None:
            before.check_free()
            before.is_being_replaced = True
        self._opening.add(session_id)
        self._sessions.add(talk)
        try:
            yield
        except BaseException:
            talk.leave()
            if before is not None:
                before.is_being_replaced = False
                self._sessions.add(before)
            raise
        finally:
            self._opening.discard(session_id)
        if before is not None:
            before.leave()

    # -- logging in ---------------------------------------------------------------------

    async def authenticate(self, method_id: str) -> None:
        """Log in, in one of the ways that the agent offers. Raises UsageError, AgentRefused."""
        known = [method.id for method in self.auth_methods]
        if method_id not in known:
            there_are = ", ".join(known) or "none"
            raise UsageError(f"no way to log in is called {method_id!r}: there are {there_are}")
        method = methods.AUTHENTICATE if self.protocol == 1 else methods.AUTH_LOGIN
        await self._rpc.call(method, {"methodId": method_id})

    async def logout(self) -> None:
        """Log out. Raises NotOffered, AgentRefused, AgentGone."""
        self._context.check("logout", "logging out")
        await self._rpc.call(methods.LOGOUT if self.protocol == 1 else methods.AUTH_LOGOUT, {})

    # -- parameters ---------------------------------------------------------------------

    def _check(self, offer: Offer, method: str) -> None:
        self._context.check(offer, method, _REMEDY)

    def _setup(self, cwd: Folder, mcp_servers: Servers, directories: Iterable[Folder]) -> Json:
        servers = [dict(server) for server in mcp_servers]
        more = [absolute(folder) for folder in directories]
        for kind in [str(server.get("type", "stdio")) for server in servers]:
            self._context.check(kind, f"MCP servers by {kind}")
        to_its_version = servers_to_v1 if self.protocol == 1 else servers_to_v2
        setup: Json = {"cwd": absolute(cwd), "mcpServers": to_its_version(servers)}
        if more:
            self._context.check("additionalDirectories", "additional directories")
            setup["additionalDirectories"] = more
        return setup


def absolute(folder: Folder) -> str:
    """Return a folder's absolute path, spelled as it was. Raises UsageError if there is none."""
    try:
        path = os.path.abspath(Path(folder).expanduser())  # noqa: PTH100 - links stay, .. goes
        path.encode()
    except (RuntimeError, OSError, UnicodeEncodeError) as error:
        raise UsageError(f"the folder {os.fspath(folder)!r} leads nowhere: {error}") from error
    if "\0" in path or not os.fspath(folder):
        raise UsageError(f"{os.fspath(folder)!r} is no folder")
    return path
