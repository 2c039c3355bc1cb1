"""Starting an agent, bare or behind Rekindle, and ending it whatever happens."""

import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from rekindle.client.agent import Agent
from rekindle.client.dispatcher import Sessions
from rekindle.client.handshake import greet
from rekindle.client.permissions import OnPermission, Question
from rekindle.client.process import Process
from rekindle.errors import AgentGone, AgentNotStarted, RekindleError, UsageError
from rekindle.process import group

_logger = logging.getLogger("rekindle.client")
_OURS = "rekindle: "
_SAID_BY_REKINDLE = re.compile(r"rekindle(?: run: error)?: (.+)")
_WRONG_USAGE = 2
_NOT_STARTED = frozenset({group.NOT_EXECUTABLE, group.NOT_FOUND})
_GRACE = 5.0
# What Rekindle itself takes to end, once its agent has had its time.
_MORE_GRACE = 3.0


@asynccontextmanager
async def connect(  # noqa: PLR0913 - all but the command have a usual value
    command: Sequence[str | os.PathLike[str]],
    *,
    behind_rekindle: bool = True,
    store: str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    protocol: int = 1,
    on_permission: OnPermission | None = Question.reject,
    on_stderr: Callable[[str], None] | None = None,
    on_notice: Callable[[str], None] = _logger.warning,
    environ: Mapping[str, str] | None = None,
    grace: float = _GRACE,
    name: str = "rekindle",
) -> AsyncGenerator[Agent, None]:
    """Start an agent and get to know it; on leaving, end it and all that it has started.

    Behind Rekindle, every agent offers the whole session lifecycle, and sessions are recorded in
    `store` (see `rekindle run --help`, also for `options`). `protocol` is the version to ask
    for; the agent may speak the other. `on_permission` answers questions for permission, by
    calling one of their methods, and may be asynchronous; None leaves that to whoever iterates
    over the turn. `on_stderr` gets each line that is written there, and `on_notice` what Rekindle
    itself has to say, as that it cannot record. `environ` is added to the environment. `grace` is
    how many seconds the agent may take to end. `name` is how we introduce ourselves.

    Raises AgentNotStarted, UsageError, AgentRefused, AgentGone.
    """
    own = whole = tuple(os.fspath(word) for word in command)
    if not own:
        raise UsageError("no agent given: connect needs its command")
    if behind_rekindle:
        whole = (*_rekindle(store, grace, options), "--", *own)
        grace += _MORE_GRACE
    elif store is not None or options:
        raise UsageError("a store and options are for Rekindle: leave behind_rekindle as it is")
    sessions = Sessions()
    around = None if environ is None else {**os.environ, **environ}
    started = group.start(whole, around)
    heard = _Stderr(on_stderr, on_notice if behind_rekindle else None)
    process = Process(started, sessions.rpc.take, heard.take, sessions.end)
    sessions.rpc.write = process.write
    try:
        await process.connect()
        try:
            greeting = await greet(sessions.rpc, protocol, own, name)
        except AgentGone as gone:
            raise (_blamed(gone) if behind_rekindle else None) or gone from None
        heard.begin()
        yield Agent(sessions, greeting, on_permission, lambda: process.last_words)
    finally:
        await process.end(grace)


def _rekindle(
    store: str | os.PathLike[str] | None, grace: float, options: Sequence[str]
) -> tuple[str, ...]:
    where = () if store is None else ("--store", os.fspath(store))
    # -P: a folder that is worked in may have anything in it, and must not be imported from.
    python = (sys.executable, "-P", "-m", "rekindle", "run")
    return (*python, *where, "--grace", str(grace), *options)


class _Stderr:
    """Tells Rekindle's words from the agent's.

    They are held until the agent has started: if it does not, an exception has them.
    """

    def __init__(
        self, on_line: Callable[[str], None] | None, on_notice: Callable[[str], None] | None
    ) -> None:
        self._on_line = on_line
        self._on_notice = on_notice
        self._early: list[str] | None = []

    def take(self, line: str) -> None:
        if self._on_line is not None:
            self._on_line(line)
        if self._on_notice is None or not line.startswith(_OURS):
            return
        words = line.removeprefix(_OURS)
        if self._early is None:
            self._on_notice(words)
        else:
            self._early.append(words)

    def begin(self) -> None:
        early, self._early = self._early or [], None
        if self._on_notice is not None:
            for words in early:
                self._on_notice(words)


def _blamed(gone: AgentGone) -> RekindleError | None:
    """Return why there is no agent, if it was Rekindle that ended, and said why."""
    said = _SAID_BY_REKINDLE.fullmatch(gone.stderr[-1]) if gone.stderr else None
    if said is None or not gone.is_final:
        return None
    words = said[1]
    if gone.exit_code in _NOT_STARTED:
        return AgentNotStarted(words, gone.exit_code or 0)
    return UsageError(words) if gone.exit_code == _WRONG_USAGE else None
