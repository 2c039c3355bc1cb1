"""The public functions that need a store: `rekindle.open_store` and `rekindle.attach`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle import composition
from rekindle.errors import HostError, SessionNotHosted, StoreMissing, UsageError
from rekindle.store.address import StoreAddress, locate
from rekindle.store.base import ReadableStore

if TYPE_CHECKING:
    from rekindle.client import ClientSession, OnPermission, SessionRole

_REMEDY = "correct the address, or create a store with open_store(…, create=True)"


def open_store(address: StoreAddress | Path | str, *, create: bool = False) -> ReadableStore:
    """Open the store at an address, a path or a URL, to read it.

    Nothing is changed, and a store that does not exist raises StoreMissing. With `create`, the
    store is created or upgraded if necessary, and the pending changes of processes that have ended
    are applied. Raises StoreUnavailable, StoreDamaged, StoreTooNew, UsageError.
    """
    try:
        return composition.open_store(address, create=create)
    except StoreMissing as error:
        raise StoreMissing(error.address, _REMEDY) from None


@asynccontextmanager
async def attach(
    session_id: str,
    *,
    store: StoreAddress | Path | str | None = None,
    role: "SessionRole" = "approver",
    on_permission: "OnPermission | None" = None,
) -> "AsyncGenerator[ClientSession, None]":
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
    from rekindle.client.host import connect_to_host  # noqa: PLC0415 - slow, for readers of stores

    address = locate(None) if store is None else store
    with composition.open_store(address, create=False) as opened:
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
