"""The session, agent and folder of a conversation."""

import argparse
import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from rekindle.cli.agent_command import folder_dependence
from rekindle.cli.formatting import one_line, title_label
from rekindle.client import Agent, AgentRefused, ClientError, ClientSession, connect
from rekindle.errors import AuthRequired, RekindleError, SessionInUse, StoreError, UsageError
from rekindle.model import Session
from rekindle.store.address import StoreAddress, locate
from rekindle.store.base import Store
from rekindle.text.redact.recorded_command import MASK

ReportNotice = Callable[[str], None]
"""Shows a notice of Rekindle to the user."""

_GRACE = 2.0
_CLOSE_TIMEOUT = 2.0
_START_TIMEOUT = 300.0
_SLOW_START = 10.0
_ACP_HINT = "is its command complete? many speak ACP only with an argument, such as `acp`"


class ChatTarget(Struct, frozen=True, kw_only=True):
    """A recorded session to continue, or a new one to start if `session` is None."""

    command: tuple[str, ...]
    cwd: str
    store: StoreAddress
    session: Session | None = None
    takeover: bool = False

    @asynccontextmanager
    async def connect(self, report: ReportNotice) -> AsyncGenerator[Agent, None]:
        """Start the agent behind Rekindle, and end it on leaving.

        The reader of a turn must answer its permission requests. Raises AgentNotStarted,
        ClientError.
        """
        connecting = connect(
            self.command,
            store=self.store.as_option,
            options=("--takeover",) if self.takeover else (),
            on_permission=None,
            on_notice=lambda notice: report(one_line(notice)),
            grace=_GRACE,
        )
        async with AsyncExitStack() as stack:
            with _reporting_slow_start(report):
                try:
                    async with asyncio.timeout(_START_TIMEOUT):
                        agent = await stack.enter_async_context(connecting)
                except TimeoutError:
                    raise ClientError(
                        f"the agent has not answered for {_START_TIMEOUT:.0f} s: {_ACP_HINT}"
                    ) from None
            yield agent

    @staticmethod
    async def close(session: ClientSession) -> None:
        """Close a session, so that another process can use it at once."""
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await session.close()

    async def open(self, agent: Agent) -> ClientSession:
        """Resume the recorded session, or create a new one."""
        try:
            if self.session is None:
                return await agent.new(self.cwd)
            return await agent.resume(self.session.id, self.cwd)
        except AuthRequired as error:
            raise NotLoggedIn(agent) from error
        except AgentRefused as error:
            # Many agents write the reason to stderr instead of the error response.
            last = agent.stderr[-1:]
            reason = f"{error}{f'; it wrote: {last[0]}' if last else ''}"
            raise ClientError(reason) from error


@contextmanager
def _reporting_slow_start(report: ReportNotice) -> Generator[None]:
    """Report a likely cause if the agent's start takes long."""
    loop = asyncio.get_running_loop()
    notice = f"the agent has not answered for {_SLOW_START:.0f} s: {_ACP_HINT}"
    timer = loop.call_later(_SLOW_START, report, notice)
    try:
        yield
    finally:
        timer.cancel()


class NotLoggedIn(RekindleError):
    """The agent requires a login."""

    def __init__(self, agent: Agent) -> None:
        ways = ", ".join(one_line(method.name) for method in agent.auth_methods)
        super().__init__(
            f"the agent wants you to log in first{ways and f' ({ways})'}: do that with its own"
            " command, then try again"
        )


def add_takeover(parser: argparse.ArgumentParser) -> None:
    """Add the option `--takeover`."""
    parser.add_argument(
        "--takeover", action="store_true", help="take it over if another process drives it"
    )


def chat_target(arguments: argparse.Namespace, store: Store, session: Session) -> ChatTarget:
    """Return the target for a recorded session. Raises RekindleError if it cannot be continued."""
    _check_usable(store, session, takeover=arguments.takeover)
    # The agent starts in the current folder and learns the session's folder by the protocol. The
    # author of a bundle chooses that folder, and must not choose the code that runs.
    return ChatTarget(
        command=tuple(arguments.command) or recorded_command(session),
        cwd=str(session.cwd),
        store=locate(arguments.store),
        session=session,
        takeover=arguments.takeover,
    )


def recorded_command(session: Session) -> tuple[str, ...]:
    """Return the agent command of a session.

    Raises UsageError if it is not fully recorded, or if a folder would decide what it runs.
    """
    command = session.agent.command
    if not command:
        raise UsageError("this session was recorded without its agent's command: give -- COMMAND")
    if any(MASK in word for word in command):
        shown = one_line(" ".join(command))
        raise UsageError(
            f"this session's command had secrets, which are never recorded ({shown}):"
            " give the whole command after --"
        )
    problem = folder_dependence(command)
    if problem is not None:
        raise UsageError(
            f"this session's command depends on the folder in which it runs, because"
            f" {one_line(problem)}: give the whole command after --"
        )
    return command


def _check_usable(store: Store, session: Session, *, takeover: bool) -> None:
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
        raise StoreError(f"session {own_id} was never opened by a client: {title_label(session)}")
    if not Path(session.cwd).is_dir():
        where = one_line(session.cwd)
        raise StoreError(
            f"the session's folder {where} is gone: `rekindle relocate {own_id} DIR` tells"
            " where it is now"
        )
