"""Which session is talked to, with which agent, and where that is started."""

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from rekindle.cli.formatting import one_line, title
from rekindle.client import Agent, AgentRefused, ClientError, ClientSession, connect
from rekindle.errors import AuthRequired, RekindleError, SessionInUse, StoreError, UsageError
from rekindle.model import Session
from rekindle.store.address import StoreAddress, locate
from rekindle.store.base import Store
from rekindle.text.redact.commands import MASK

Tell = Callable[[str], None]
"""Takes what Rekindle has to say beside the conversation."""

_GRACE = 2.0
_PATIENCE_TO_CLOSE = 2.0
_PATIENCE_TO_START = 300.0
_SLOW_START = 10.0
_IS_IT_ACP = "is its command complete? many speak ACP only with an argument, such as `acp`"


class Place(Struct, frozen=True, kw_only=True):
    """A conversation that is about to go on, or to begin if there is no session yet."""

    command: tuple[str, ...]
    cwd: str
    store: StoreAddress
    session: Session | None = None
    takeover: bool = False

    @asynccontextmanager
    async def connect(self, tell: Tell) -> AsyncGenerator[Agent, None]:
        """Start the agent, behind Rekindle; on leaving, end it.

        Questions for permission are left to whoever reads the turn. Raises AgentNotStarted,
        ClientError.
        """
        connecting = connect(
            self.command,
            store=str(self.store),
            options=("--takeover",) if self.takeover else (),
            on_permission=None,
            on_notice=lambda words: tell(one_line(words)),
            grace=_GRACE,
        )
        async with AsyncExitStack() as stack:
            with _told_if_slow(tell):
                try:
                    async with asyncio.timeout(_PATIENCE_TO_START):
                        agent = await stack.enter_async_context(connecting)
                except TimeoutError:
                    raise ClientError(
                        f"the agent has not answered for {_PATIENCE_TO_START:.0f} s: {_IS_IT_ACP}"
                    ) from None
            yield agent

    @staticmethod
    async def close(session: ClientSession) -> None:
        """Let go of a session, so that others may have it at once."""
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_TO_CLOSE):
                await session.close()

    async def open(self, agent: Agent) -> ClientSession:
        """Open the session, which the agent then remembers; or make one."""
        try:
            if self.session is None:
                return await agent.new(self.cwd)
            return await agent.resume(self.session.id, self.cwd)
        except AuthRequired as error:
            raise NotLoggedIn(agent) from error
        except AgentRefused as error:
            # Many say there what they do not say in the answer.
            last = agent.stderr[-1:]
            words = f"{error}{f'; it wrote: {last[0]}' if last else ''}"
            raise ClientError(words) from error


@contextmanager
def _told_if_slow(tell: Tell) -> Generator[None]:
    """Tell the user what may be wrong, if it takes long."""
    loop = asyncio.get_running_loop()
    words = f"the agent has not answered for {_SLOW_START:.0f} s: {_IS_IT_ACP}"
    telling = loop.call_later(_SLOW_START, tell, words)
    try:
        yield
    finally:
        telling.cancel()


class NotLoggedIn(RekindleError):
    """The agent wants the user to log in first."""

    def __init__(self, agent: Agent) -> None:
        ways = ", ".join(one_line(method.name) for method in agent.auth_methods)
        super().__init__(
            f"the agent wants you to log in first{ways and f' ({ways})'}: do that with its own"
            " command, then try again"
        )


def add_takeover(parser: argparse.ArgumentParser) -> None:
    """Let a session be taken from another process."""
    parser.add_argument(
        "--takeover", action="store_true", help="take it over if another process drives it"
    )


def place_of(arguments: argparse.Namespace, store: Store, session: Session) -> Place:
    """Return where a recorded session goes on. Raises RekindleError where it cannot."""
    _check(store, session, takeover=arguments.takeover)
    given = tuple(arguments.command)
    if not given:
        # What was recorded was mostly started there, and may be spelled from there.
        os.chdir(str(session.cwd))
    return Place(
        command=given or recorded_command(session),
        cwd=str(session.cwd),
        store=locate(arguments.store),
        session=session,
        takeover=arguments.takeover,
    )


def recorded_command(session: Session) -> tuple[str, ...]:
    """Return the command that a session was last used with. Raises UsageError if it is no more."""
    command = session.agent.command
    if not command:
        raise UsageError("this session was recorded without its agent's command: give -- COMMAND")
    if any(MASK in word for word in command):
        shown = one_line(" ".join(command))
        raise UsageError(
            f"this session's command had secrets, which are never recorded ({shown}):"
            " give the whole command after --"
        )
    return command


def _check(store: Store, session: Session, *, takeover: bool) -> None:
    own_id = one_line(session.id)
    if session.deleted_us is not None:
        remedy = f"`rekindle undelete {own_id}` brings it back"
        raise StoreError(f"session {own_id} was deleted: {remedy}")
    holder = store.lease_holder(session.id)
    if holder is not None and not takeover:
        raise SessionInUse(own_id, holder.pid, holder.machine)
    if session.cwd is None and session.is_imported and session.parent_id is None:
        remedy = f"`rekindle relocate {own_id} DIR` says which it is"
        raise StoreError(f"nobody knows the folder of session {own_id}: {remedy}")
    if session.cwd is None:
        raise StoreError(f"session {own_id} was never opened by a client: {title(session)}")
    if not Path(session.cwd).is_dir():
        where = one_line(session.cwd)
        raise StoreError(
            f"the session's folder {where} is gone: `rekindle relocate {own_id} DIR` tells"
            " where it is now"
        )
