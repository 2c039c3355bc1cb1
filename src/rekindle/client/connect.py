"""Start an agent, bare or behind Rekindle, and end it in every case."""

import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from rekindle.client.agent import Agent
from rekindle.client.dispatcher import SessionDispatcher
from rekindle.client.handshake import initialize
from rekindle.client.models import OnPermission, PermissionRequest
from rekindle.client.process import ChildProcess
from rekindle.errors import AgentGone, AgentNotStarted, RekindleError, UsageError
from rekindle.process import group

_logger = logging.getLogger("rekindle.client")
_NOTICE_PREFIX = "rekindle: "
_REKINDLE_LINE = re.compile(r"rekindle: error: (.+)")
_WRONG_USAGE = 2
_NOT_STARTED = frozenset({group.NOT_EXECUTABLE, group.NOT_FOUND})
_GRACE = 5.0
# The time that Rekindle itself needs to exit after its agent.
_REKINDLE_GRACE = 3.0


@asynccontextmanager
async def connect(  # noqa: PLR0913 - all but the command have a default
    command: Sequence[str | os.PathLike[str]],
    *,
    behind_rekindle: bool = True,
    store: str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    protocol: int = 1,
    on_permission: OnPermission | None = PermissionRequest.reject,
    on_stderr: Callable[[str], None] | None = None,
    on_notice: Callable[[str], None] = _logger.warning,
    environ: Mapping[str, str] | None = None,
    grace: float = _GRACE,
    name: str = "rekindle",
) -> AsyncGenerator[Agent, None]:
    """Start an agent and initialize it. On exit, end it and its child processes.

    Arguments:
        command: the command line of the agent.
        behind_rekindle: run the agent behind `rekindle run`. Every agent then offers the whole
            session lifecycle, and its sessions are recorded.
        store: the store of `rekindle run`.
        options: further options of `rekindle run`; see its `--help`.
        protocol: the version to ask for. The agent may answer with the other one.
        on_permission: a function, possibly asynchronous, that answers permission requests. With
            None, the reader of the turn answers them.
        on_stderr: receives each line that the agent writes to stderr.
        on_notice: receives messages of Rekindle itself, for example that it cannot record.
        environ: variables to add to the environment.
        grace: the seconds that the agent may take to exit.
        name: the name of this client for the agent.

    Raises AgentNotStarted, UsageError, AgentRefused, AgentGone.

    """
    agent_command = whole_command = tuple(os.fspath(word) for word in command)
    if not agent_command:
        raise UsageError("no agent given; connect needs its command")
    if behind_rekindle:
        whole_command = (*_rekindle_command(store, grace, options), "--", *agent_command)
        grace += _REKINDLE_GRACE
    elif store is not None or options:
        raise UsageError(
            "a store and options need behind_rekindle=True; leave them out, or leave it unset"
        )
    sessions = SessionDispatcher()
    environment = None if environ is None else {**os.environ, **environ}
    started = group.start(whole_command, environment)
    stderr = _StderrSplitter(on_stderr, on_notice if behind_rekindle else None)
    process = ChildProcess(started, sessions.rpc.receive, stderr.receive, sessions.close)
    sessions.rpc.write = process.write
    try:
        await process.connect()
        try:
            handshake = await initialize(sessions.rpc, protocol, agent_command, name)
        except AgentGone as gone:
            raise (_start_error(gone) if behind_rekindle else None) or gone from None
        stderr.release()
        yield Agent(sessions, handshake, on_permission, lambda: process.stderr_tail)
    finally:
        await process.end(grace)


def _rekindle_command(
    store: str | os.PathLike[str] | None, grace: float, options: Sequence[str]
) -> tuple[str, ...]:
    store_options = () if store is None else ("--store", os.fspath(store))
    # -P: Python must not import modules from the current folder.
    python = (sys.executable, "-P", "-m", "rekindle", "run")
    return (*python, *store_options, "--grace", str(grace), *options)


class _StderrSplitter:
    """Separates the notices of Rekindle from the agent's stderr.

    Notices are held back until the agent has started. If it does not, they are in the exception.
    """

    def __init__(
        self, on_line: Callable[[str], None] | None, on_notice: Callable[[str], None] | None
    ) -> None:
        self._on_line = on_line
        self._on_notice = on_notice
        self._held: list[str] | None = []

    def receive(self, line: str) -> None:
        if self._on_line is not None:
            self._on_line(line)
        if self._on_notice is None or not line.startswith(_NOTICE_PREFIX):
            return
        notice = line.removeprefix(_NOTICE_PREFIX)
        if self._held is None:
            self._on_notice(notice)
        else:
            self._held.append(notice)

    def release(self) -> None:
        """Pass on the notices that were held back, and later ones at once."""
        held, self._held = self._held or [], None
        if self._on_notice is not None:
            for notice in held:
                self._on_notice(notice)


def _start_error(gone: AgentGone) -> RekindleError | None:
    """Return the error with which Rekindle itself exited, if it did and reported one."""
    reported = _REKINDLE_LINE.fullmatch(gone.stderr[-1]) if gone.stderr else None
    if reported is None or not gone.is_final:
        return None
    message = reported[1]
    if gone.exit_code in _NOT_STARTED:
        return AgentNotStarted(message, gone.exit_code or 0)
    return UsageError(message) if gone.exit_code == _WRONG_USAGE else None
