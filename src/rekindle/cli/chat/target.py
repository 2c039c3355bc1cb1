"""The session, agent and folder of a conversation."""

import argparse
import asyncio
import shlex
import shutil
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from rekindle.cli.agent_command import folder_dependence
from rekindle.cli.agent_lookup import (
    ChosenAgent,
    installed_agent,
    named_agents,
    offer_installed,
)
from rekindle.cli.formatting import one_line, title_label
from rekindle.cli.known_agents import KnownAgent, agent_of_identity, agent_of_tool
from rekindle.cli.messages import print_note
from rekindle.cli.project import folder_spellings
from rekindle.cli.store_access import open_for_reading
from rekindle.client import Agent, AgentRefused, ClientError, ClientSession, connect
from rekindle.errors import (
    AgentNotStarted,
    AuthRequired,
    RekindleError,
    SessionDeleted,
    SessionInUse,
    StoreError,
    UsageError,
)
from rekindle.model import Page, Session
from rekindle.process.group import NOT_FOUND
from rekindle.store.address import StoreAddress, locate
from rekindle.store.base import Store
from rekindle.text.redact.recorded_command import MASK

ReportNotice = Callable[[str], None]
"""Shows a notice of Rekindle to the user."""

_GRACE = 2.0
_CLOSE_TIMEOUT = 2.0
_START_TIMEOUT = 300.0
_SLOW_START = 10.0
_ACP_HINT = (
    "is its command complete? many speak ACP only with an argument, such as `acp`;"
    " `rekindle agents` lists the commands of known agents"
)
_NO_AGENT = (
    "no agent was used here before: name one, as in `{example}`; `rekindle agents` lists them"
)


class ChatTarget(Struct, frozen=True, kw_only=True):
    """A recorded session to continue. If `session` is None, a session is created."""

    agent: ChosenAgent
    cwd: str
    store: StoreAddress
    session: Session | None = None
    takeover: bool = False
    is_shared: bool = False
    """Whether another process has the session, and its clients share it."""

    @asynccontextmanager
    async def connect(
        self, report: ReportNotice, *, detach: bool = False
    ) -> AsyncGenerator[Agent, None]:
        """Start the agent behind Rekindle, and end it on leaving.

        With `detach`, a turn that is running then continues.
        The reader of a turn must answer its permission requests. Raises AgentNotStarted,
        ClientError.
        """
        takeover = ("--takeover",) if self.takeover else ()
        # The name decides which variables of the configuration file the agent gets.
        name = () if self.agent.name is None else ("--agent", self.agent.name)
        # Only version 2 reports that a prompt was accepted.
        protocol = 2 if detach else 1
        connecting = connect(
            self.agent.command,
            store=self.store.as_option,
            options=(*takeover, *name, *(("--detach",) if detach else ())),
            protocol=protocol,
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
        """Resume the recorded session, or create a new one.

        A session that is shared is loaded: the turn that is running there is a part of it.
        """
        try:
            if self.session is None:
                return await agent.new(self.cwd)
            if self.is_shared:
                return await agent.load(self.session.id, self.cwd)
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
            f"the agent requires a login{ways and f' ({ways})'}: log in with its own command,"
            " then try again"
        )


def add_takeover(parser: argparse.ArgumentParser) -> None:
    """Add the option `--takeover`."""
    parser.add_argument(
        "--takeover", action="store_true", help="take it over if another process uses it"
    )


def chat_target(arguments: argparse.Namespace, store: Store, session: Session) -> ChatTarget:
    """Return the target for a recorded session. Raises RekindleError if it cannot be continued."""
    _check_usable(store, session, takeover=arguments.takeover)
    # The agent starts in the current folder and learns the session's folder by the protocol. The
    # author of a bundle chooses that folder, and must not choose the code that runs.
    return ChatTarget(
        agent=given_agent(arguments.command) or session_agent(store, session),
        cwd=str(session.cwd),
        store=locate(arguments.store),
        session=session,
        takeover=arguments.takeover,
        is_shared=not arguments.takeover and store.lease_holder(session.id) is not None,
    )


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add the option `--cwd`, the folder of a new session."""
    parser.add_argument(
        "--cwd", default=".", metavar="DIR", help="the folder of a new session (default: this one)"
    )


def new_target(
    arguments: argparse.Namespace,
    words: Sequence[str],
    *,
    is_command: bool | None = None,
    example: str,
) -> ChatTarget:
    """Return the target for a new session in the folder `--cwd`.

    The words name the agent as for `given_agent`. Without words, it is the agent used last.
    `example` is a command line with an agent, for an error. Raises UsageError, AgentNotStarted.
    """
    cwd = Path(arguments.cwd).expanduser().absolute()
    if not cwd.is_dir():
        raise UsageError(f"there is no folder {cwd}: name an existing one with --cwd")
    agent = given_agent(words, is_command=is_command)
    if agent is None:
        with open_for_reading(arguments.store) as store:
            agent = _last_agent(store, example)
    return ChatTarget(agent=agent, cwd=str(cwd), store=locate(arguments.store))


# -- the agent ----------------------------------------------------------------------------


def given_agent(words: Sequence[str], *, is_command: bool | None = None) -> ChosenAgent | None:
    """Return the agent that the user's words name; None without words.

    Unless `is_command` is given, a single word counts as a name even if a program has that name.
    Raises AgentNotStarted if the program is not installed.
    """
    if not words:
        return None
    return installed_agent(words, is_command=len(words) > 1 if is_command is None else is_command)


def _last_agent(store: Store, example: str) -> ChosenAgent:
    """Return the agent used last in this folder, otherwise anywhere.

    Raises UsageError if no agent can be started again.
    """
    problem: RekindleError | None = None
    for page in (Page(folders=folder_spellings(".")), Page()):
        for session in store.sessions(page):
            try:
                return session_agent(store, session)
            except RekindleError as error:
                problem = problem or error
    text = _NO_AGENT.format(example=example)
    raise UsageError(f"{text} ({problem})" if problem else text)


def session_agent(store: Store, session: Session) -> ChosenAgent:
    """Return the agent that continues a session.

    It is the one with the recorded command. A session without one, such as an imported session, is
    continued with the agent that this store has used under the same name, or with the known agent
    of its tool.
    Raises UsageError, AgentNotStarted.
    """
    if session.agent.command:
        return ChosenAgent(recorded_command(session))
    known = _known_agent(session)
    names = (session.agent.identity, *(known.identities if known else ()))
    for command in store.agent_commands(names):
        if _command_problem(command) is None and shutil.which(command[0]):
            return ChosenAgent(command)
    if known is None:
        raise UsageError(
            "this session was recorded without its agent's command: name an agent, as in"
            " `-- claude`; `rekindle agents` lists them"
        )
    return _installed_agent(known)


def _known_agent(session: Session) -> KnownAgent | None:
    origin = session.origin
    return (agent_of_tool(origin.tool) if origin else None) or agent_of_identity(
        session.agent.identity
    )


def _installed_agent(known: KnownAgent) -> ChosenAgent:
    """Return a known agent by its name. Raises AgentNotStarted if it is not installed."""
    agent = named_agents()[known.name]
    if agent.path is None:
        others = offer_installed(agent.name) or "`-- COMMAND`"
        raise AgentNotStarted(
            f"this session is one of {known.title}, whose agent {agent.command[0]} is not"
            f" installed: {agent.remedy}; or continue with another agent: {others}",
            NOT_FOUND,
        )
    problem = _command_problem(agent.command)
    if problem is not None:
        raise UsageError(problem)
    print_note(f"continuing with {one_line(shlex.join(agent.command))}")
    return ChosenAgent(agent.command, agent.name)


def recorded_command(session: Session) -> tuple[str, ...]:
    """Return the recorded agent command of a session.

    Raises UsageError if a part of it was masked, or if its code depends on the folder.
    """
    command = session.agent.command
    problem = _command_problem(command)
    if problem is not None:
        raise UsageError(problem)
    return command


def _command_problem(command: tuple[str, ...]) -> str | None:
    """Return why a command that the user has not typed must not be started, if so."""
    if any(MASK in word for word in command):
        shown = one_line(" ".join(command))
        return (
            f"this session's command had secrets, which are never recorded ({shown}):"
            " give the whole command after --"
        )
    problem = folder_dependence(command)
    if problem is None:
        return None
    return (
        f"this session's command depends on the folder in which it runs, because"
        f" {one_line(problem)}: give the whole command after --"
    )


def _check_usable(store: Store, session: Session, *, takeover: bool) -> None:
    own_id = one_line(session.id)
    if session.deleted_us is not None:
        raise SessionDeleted(own_id)
    holder = store.lease_holder(session.id)
    # A process with a socket shares the session: `rekindle run` attaches to it.
    if holder is not None and not holder.socket and not takeover:
        raise SessionInUse(own_id, holder.pid, holder.machine, can_take_over=True)
    if session.cwd is None and session.is_imported and session.parent_id is None:
        remedy = f"`rekindle relocate {own_id} DIR` sets it"
        raise StoreError(f"the folder of session {own_id} is unknown: {remedy}")
    if session.cwd is None:
        raise StoreError(f"session {own_id} was never opened by a client: {title_label(session)}")
    if not Path(session.cwd).is_dir():
        where = one_line(session.cwd)
        raise StoreError(
            f"the session's folder {where} is gone: `rekindle relocate {own_id} DIR` sets"
            " the new one"
        )
