"""The public `rekindle.attach`: use a session that another process has."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from rekindle.client import ClientSession, OnPermission, SessionRole, connect_to_host
from rekindle.composition import open_store
from rekindle.errors import HostError, SessionNotHosted, UsageError
from rekindle.store.address import StoreAddress, locate


@asynccontextmanager
async def attach(
    session_id: str,
    *,
    store: StoreAddress | Path | str | None = None,
    role: SessionRole = "approver",
    on_permission: OnPermission | None = None,
) -> AsyncGenerator[ClientSession, None]:
    """Use a session that another process has, together with its other clients.

    The session is opened with its history, and `ClientSession.follow` yields what happens next. On
    exit, this client leaves the session: it stays open for the others, and a turn of a detached
    host continues.

    Arguments:
        session_id: the id of the session.
        store: the store that records it, an address or a path; by default the user's own.
        role: an `approver` is asked for permission in turns of other clients, an `observer` only
            watches, and a `client` prompts and is asked in its own turns.
        on_permission: a function that answers permission requests. With None, the reader of the
            turn, or of `follow`, answers them.

    Raises SessionNotFound, SessionNotHosted if no process has the session, HostError, StoreError.

    """
    address = locate(None) if store is None else store
    with open_store(address, create=False) as opened:
        session = opened.session(session_id)
        holder = opened.lease_holder(session_id)
    if holder is None:
        raise SessionNotHosted(session_id)
    if not holder.socket:
        raise HostError(f"process {holder.pid} on {holder.machine} serves no other process")
    if session.cwd is None:
        raise UsageError(f"the folder of session {session_id} is unknown")
    async with connect_to_host(holder.socket, on_permission=on_permission) as agent:
        yield await agent.load(session_id, session.cwd, role=role)
