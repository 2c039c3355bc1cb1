"""Connect to a host: a process of this user that runs an agent behind Rekindle already."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rekindle.client.agent import Agent
from rekindle.client.dispatcher import SessionDispatcher
from rekindle.client.handshake import initialize
from rekindle.client.models import OnPermission
from rekindle.client.process import LineProtocol, ProcessExit
from rekindle.errors import HostError
from rekindle.process.peers import peer_of

_CONNECT_TIMEOUT = 5.0
_START_TIMEOUT = 1.0
_POLL_SECONDS = 0.02


@asynccontextmanager
async def connect_to_host(
    socket: str | os.PathLike[str],
    *,
    protocol: int = 2,
    on_permission: OnPermission | None = None,
    name: str = "rekindle",
) -> AsyncGenerator[Agent, None]:
    """Connect to the process that has a session, and initialize the connection.

    The lease of a session names the `socket`; `rekindle.attach` finds it. On exit, the connection
    is closed: sessions that other clients use stay open for them, and so does a turn that a
    detached host runs. The arguments are those of `connect`.

    Raises HostError if no process listens, if it does not answer, or if it belongs to another user.
    If it ends later, calls raise AgentGone.
    """
    sessions = SessionDispatcher()
    # The lease names a link if the path of the socket is long.
    path = os.path.realpath(socket)  # noqa: ASYNC240 - a local link
    end = ProcessExit(None, None, ("the process that has the session has ended",))
    try:
        transport = await _connect(
            path, lambda: LineProtocol(sessions.rpc.receive, lambda: sessions.close(end))
        )
    except (OSError, TimeoutError) as error:
        raise HostError(f"no connection to the process that has the session: {error}") from error
    try:
        if peer_of(transport.get_extra_info("socket")).uid != os.getuid():
            raise HostError("the process that has the session belongs to another user")

        def write(line: bytes) -> None:
            if not transport.is_closing():
                transport.write(line + b"\n")

        sessions.rpc.write = write
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                handshake = await initialize(sessions.rpc, protocol, (), name)
        except TimeoutError as error:
            text = f"the process that has the session has not answered for {_CONNECT_TIMEOUT:.0f} s"
            raise HostError(text) from error
        yield Agent(sessions, handshake, on_permission, tuple)
    finally:
        transport.close()


async def _connect(path: str, protocol: Callable[[], LineProtocol]) -> asyncio.Transport:
    """Connect to a socket. A process that has just started makes its socket a moment later."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + _START_TIMEOUT
    async with asyncio.timeout(_CONNECT_TIMEOUT):
        while True:
            try:
                transport, _ = await loop.create_unix_connection(protocol, path)
            except (FileNotFoundError, ConnectionRefusedError):
                if loop.time() > give_up_at:
                    raise
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return transport
