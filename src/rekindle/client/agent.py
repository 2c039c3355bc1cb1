"""A connection to a running agent: its capabilities and its sessions."""

import os
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from rekindle.acp import methods
from rekindle.acp.translate.mcp_servers import servers_to_v1, servers_to_v2
from rekindle.client.dispatcher import SessionDispatcher
from rekindle.client.handshake import Capability, Handshake
from rekindle.client.models import AuthMethod, OnPermission, SessionInfo, as_session_info
from rekindle.client.rpc import RpcResponse
from rekindle.client.session import ClientSession
from rekindle.client.session_channel import SessionChannel
from rekindle.errors import BadAnswer, SessionBusy, UsageError
from rekindle.jsonvalue import Json, as_array, as_object, as_str
from rekindle.model import AgentIdentity

Folder = str | os.PathLike[str]
Servers = Iterable[Mapping[str, Any]]
ArchivedFilter = Literal["exclude", "include", "only"]
SessionRole = Literal["client", "approver", "observer"]
"""How a client shares a session with others of Rekindle: see `Agent.load`."""

_ROLES: dict[str, Json] = {
    "client": {},
    "approver": {"permissions": True},
    "observer": {"role": "observer"},
}

_REMEDY = "run it behind Rekindle, which offers it"


class Agent:
    """A connection to a running agent. `connect` returns one."""

    def __init__(
        self,
        sessions: SessionDispatcher,
        handshake: Handshake,
        on_permission: OnPermission | None,
        stderr_tail: Callable[[], tuple[str, ...]],
    ) -> None:
        self._stderr_tail = stderr_tail
        self._rpc = sessions.rpc
        self._handshake = handshake
        self._sessions = sessions
        self._context = sessions.context(handshake, on_permission)
        self._opening: set[str] = set()

    def __repr__(self) -> str:
        return f"Agent({self._handshake.name!r}, protocol={self.protocol})"

    # -- capabilities -------------------------------------------------------------------

    @property
    def info(self) -> AgentIdentity:
        """The agent's name and version, and the command that started it."""
        return self._handshake.identity

    @property
    def protocol(self) -> int:
        """The version of the protocol that the connection uses."""
        return self._handshake.protocol

    @property
    def capabilities(self) -> Json:
        """The capabilities that the agent advertises, in the form of version 2."""
        return self._handshake.capabilities

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The ways to log in."""
        return self._handshake.auth_methods

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines of the agent's stderr."""
        return self._stderr_tail()

    def offers(self, capability: Capability) -> bool:
        """Return whether the agent advertises a capability."""
        return capability in self._handshake.offered

    # -- sessions -----------------------------------------------------------------------

    async def sessions(
        self, cwd: Folder | None = None, *, archived: ArchivedFilter = "exclude"
    ) -> AsyncIterator[SessionInfo]:
        """Yield the sessions of the agent, or of one folder; the last used one comes first.

        Further pages are requested when they are needed. Raises NotOffered, AgentRefused,
        AgentGone.
        """
        self._require("list", methods.LIST)
        params: Json = {} if cwd is None else {"cwd": absolute(cwd)}
        if archived != "exclude":
            self._require("archive", "a list with archived sessions")
            params["archived"] = archived
        seen: set[str] = set()
        while True:
            result = await self._rpc.call(methods.LIST, params)
            for entry in as_array(result.get("sessions")):
                info = as_session_info(as_object(entry))
                if info is not None:
                    yield info
            cursor = as_str(result.get("nextCursor"))
            if cursor is None or cursor in seen:
                return
            seen.add(cursor)
            params = {**params, "cursor": cursor}

    async def new(
        self, cwd: Folder, *, mcp_servers: Servers = (), directories: Iterable[Folder] = ()
    ) -> ClientSession:
        """Create a session in a folder.

        `mcp_servers` have the form of version 2: each has a `type`. `directories` are additional
        folders. Raises NotOffered, AuthRequired, AgentRefused, AgentGone.
        """
        return await self._create(methods.NEW, self._setup(cwd, mcp_servers, directories))

    async def load(
        self,
        session_id: str,
        cwd: Folder,
        *,
        mcp_servers: Servers = (),
        directories: Iterable[Folder] = (),
        role: SessionRole = "client",
    ) -> ClientSession:
        """Open a session with its history: the transcript is complete when this returns.

        Other clients of Rekindle may use the session, too: `ClientSession.follow` yields the events
        of their turns. An `approver` is asked for permission in these turns. An `observer` only
        watches: it is never asked, and does not keep the session open.

        Raises what `new` raises, and SessionBusy.
        """
        self._require("load", methods.LOAD)
        setup = self._setup(cwd, mcp_servers, directories)
        if self.protocol == 1:
            return await self._open(methods.LOAD, session_id, setup | _role_params(role))
        setup["replayFrom"] = {"type": "start"}
        return await self._open(methods.RESUME, session_id, setup | _role_params(role))

    async def resume(
        self,
        session_id: str,
        cwd: Folder,
        *,
        mcp_servers: Servers = (),
        directories: Iterable[Folder] = (),
        role: SessionRole = "client",
    ) -> ClientSession:
        """Open a session without its history: the transcript starts empty.

        `role` is that of `load`. Raises what `load` raises.
        """
        self._require("resume", methods.RESUME)
        setup = self._setup(cwd, mcp_servers, directories)
        return await self._open(methods.RESUME, session_id, setup | _role_params(role))

    async def fork(
        self,
        session_id: str,
        cwd: Folder,
        *,
        mcp_servers: Servers = (),
        directories: Iterable[Folder] = (),
    ) -> ClientSession:
        """Create a copy of a session. The copy continues from there; the source is unchanged.

        The transcript of the copy starts empty; load the copy to see its history. Raises what
        `new` raises.
        """
        self._require("fork", methods.FORK)
        setup = self._setup(cwd, mcp_servers, directories)
        return await self._create(methods.FORK, {"sessionId": session_id, **setup})

    async def delete(self, session_id: str) -> None:
        """Delete a session. Raises NotOffered, AgentRefused, AgentGone."""
        self._require("delete", methods.DELETE)
        await self._rpc.call(methods.DELETE, {"sessionId": session_id})
        channel = self._sessions.get(session_id)
        if channel is not None:
            channel.close()

    async def archive(self, session_id: str) -> None:
        """Hide a session from the list. A running turn is cancelled, and the session is closed.

        Raises NotOffered, AgentRefused, AgentGone.
        """
        self._require("archive", methods.ARCHIVE)
        await self._rpc.call(methods.ARCHIVE, {"sessionId": session_id})
        channel = self._sessions.get(session_id)
        if channel is not None:
            channel.close()

    async def unarchive(self, session_id: str) -> None:
        """Show an archived session in the list again. Raises what `archive` raises."""
        self._require("archive", methods.UNARCHIVE)
        await self._rpc.call(methods.UNARCHIVE, {"sessionId": session_id})

    async def set_title(self, session_id: str, title: str) -> str:
        """Name a session; return the title as the agent has stored it.

        Raises NotOffered, AgentRefused, AgentGone, BadAnswer.
        """
        self._require("set_title", methods.SET_TITLE)
        params = {"sessionId": session_id, "title": title}
        stored = as_str((await self._rpc.call(methods.SET_TITLE, params)).get("title"))
        if stored is None:
            raise BadAnswer(methods.SET_TITLE, "a title")
        return stored

    async def status(self, session_id: str) -> str:
        """Return `open` or `saved`, without opening the session. Raises what `set_title` raises."""
        self._require("status", methods.STATUS)
        result = await self._rpc.call(methods.STATUS, {"sessionId": session_id})
        status = as_str(result.get("status"))
        if status is None:
            raise BadAnswer(methods.STATUS, "a status")
        return status

    async def _create(self, method: str, params: Json) -> ClientSession:
        created: list[ClientSession] = []
        is_awaited = True

        def add_session(response: RpcResponse) -> None:
            session_id = as_str(response.result.get("sessionId"))
            if session_id is None:
                raise BadAnswer(method, "a sessionId")
            if not is_awaited:
                self._close_unwanted(session_id)
                return
            channel = SessionChannel(session_id, self._context)
            self._sessions.add(channel)
            channel.opened(response)
            created.append(ClientSession(channel, params["cwd"]))

        try:
            with self._sessions.keep_early_updates():
                await self._rpc.call(method, params, add_session)
        finally:
            is_awaited = False
        return created[0]

    def _close_unwanted(self, session_id: str) -> None:
        """Close a session that was created after its caller was cancelled."""
        if self.offers("close"):
            self._rpc.send_request(methods.CLOSE, {"sessionId": session_id}, lambda _: None)

    async def _open(self, method: str, session_id: str, setup: Json) -> ClientSession:
        if session_id in self._opening:
            raise SessionBusy(session_id, "is being opened already; wait until that is done")
        channel = SessionChannel(session_id, self._context)
        with self._replacing(session_id, channel):
            await self._rpc.call(method, {"sessionId": session_id, **setup}, channel.opened)
        return ClientSession(channel, setup["cwd"])

    @contextmanager
    def _replacing(self, session_id: str, channel: SessionChannel) -> Generator[None, None, None]:
        """Pass the lines of a session to a new channel; restore the old one after an error."""
        previous = self._sessions.get(session_id)
        if previous is not None:
            previous.check_idle()
            previous.is_being_replaced = True
        self._opening.add(session_id)
        self._sessions.add(channel)
        try:
            yield
        except BaseException:
            channel.close()
            if previous is not None:
                previous.is_being_replaced = False
                self._sessions.add(previous)
            raise
        finally:
            self._opening.discard(session_id)
        if previous is not None:
            previous.close()

    # -- logging in ---------------------------------------------------------------------

    async def authenticate(self, method_id: str) -> None:
        """Log in with one of the `auth_methods`. Raises UsageError, AgentRefused, AgentGone."""
        known = [method.id for method in self.auth_methods]
        if method_id not in known:
            there_are = ", ".join(known) or "none"
            raise UsageError(
                f"unknown authentication method {method_id!r}; the agent has {there_are}"
            )
        method = methods.AUTHENTICATE if self.protocol == 1 else methods.AUTH_LOGIN
        await self._rpc.call(method, {"methodId": method_id})

    async def logout(self) -> None:
        """Log out. Raises NotOffered, AgentRefused, AgentGone."""
        self._context.require("logout", "logging out")
        await self._rpc.call(methods.LOGOUT if self.protocol == 1 else methods.AUTH_LOGOUT, {})

    # -- parameters ---------------------------------------------------------------------

    def _require(self, capability: Capability, method: str) -> None:
        self._context.require(capability, method, _REMEDY)

    def _setup(self, cwd: Folder, mcp_servers: Servers, directories: Iterable[Folder]) -> Json:
        servers = [dict(server) for server in mcp_servers]
        more = [absolute(folder) for folder in directories]
        for kind in [str(server.get("type", "stdio")) for server in servers]:
            self._context.require(kind, f"MCP servers by {kind}")
        translate = servers_to_v1 if self.protocol == 1 else servers_to_v2
        setup: Json = {"cwd": absolute(cwd), "mcpServers": translate(servers)}
        if more:
            self._context.require("additionalDirectories", "additional directories")
            setup["additionalDirectories"] = more
        return setup


def _role_params(role: SessionRole) -> Json:
    """Return the params by which Rekindle knows how this client shares a session."""
    if role not in _ROLES:
        raise UsageError(f"there is no role {role!r}; use {', '.join(_ROLES)}")
    ours = _ROLES[role]
    return {"_meta": {"rekindle": ours}} if ours else {}


def absolute(folder: Folder) -> str:
    """Return the absolute path of a folder, without resolving links. Raises UsageError."""
    try:
        path = os.path.abspath(Path(folder).expanduser())  # noqa: PTH100 - keeps links
        path.encode()
    except (RuntimeError, OSError, UnicodeEncodeError) as error:
        raise UsageError(f"the folder {os.fspath(folder)!r} is not valid: {error}") from error
    if "\0" in path or not os.fspath(folder):
        raise UsageError(f"{os.fspath(folder)!r} is not a folder")
    return path
