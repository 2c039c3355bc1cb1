"""Kill an agent at five moments, restore its session, and count the turns that the model is shown.

In the worst case, the agent has saved a part of the turns: it restores its session with success, and
lacks the others. So each session has two turns, a clean restart, and two more turns before the
kill. Only the request that the model receives with the next prompt counts: it must have the prompt
and the answer of each completed turn once, in the agent's own history or in a text of Rekindle.

The home of the agent is copied before each kill and after it, so that every moment starts from the
same state, and a load and a resume follow the same kill.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from interop import tap
from interop.model import behaviour
from interop.model.dialect import ModelRequest
from interop.outcome import METHODS, MOMENTS, MemoryOutcome, Method, StepFailed, error_text
from interop.sandbox import descendants, kill_descendants, reap
from interop.workspace import Workspace
from rekindle.client import Agent, ClientSession, MessageChunk, RekindleError
from rekindle.jsonvalue import as_object

Json = dict[str, Any]

_TIMEOUT = 240
_GRACE = 5.0
_EARLY, _LATE = ("alpha", "bravo"), ("charlie", "delta")
_TURNS = (*_EARLY, *_LATE)
_INTERRUPTED, _PROBE = "mike", "golf"
_REKINDLE = (sys.executable, "-P", "-m", "rekindle", "run", "--grace", str(_GRACE), "--")


class Connect(Protocol):
    """Starts a program as an agent, like `rekindle.client.connect`."""

    def __call__(
        self, command: tuple[str, ...], *, behind_rekindle: bool, environ: dict[str, str]
    ) -> AbstractAsyncContextManager[Agent]:
        """Return a context manager that ends the program."""
        ...


class MemoryScenario:
    """The sessions of one agent. `outcomes` has the results so far.

    `requests` receives the requests to the model. `traffic` is a folder for the messages on both
    sides of Rekindle, and for the requests that were judged.
    """

    def __init__(
        self,
        workspace: Workspace,
        connect: Connect,
        requests: list[ModelRequest],
        traffic: Path,
        print_line: Callable[[str], None],
    ) -> None:
        self.outcomes: list[MemoryOutcome] = []
        self._workspace = workspace
        self._project = workspace.project
        self._home = workspace.project.parent
        self._connect = connect
        self._traffic = traffic
        self._print = print_line
        self._requests = requests
        self._session_id = ""
        shutil.rmtree(traffic, ignore_errors=True)
        traffic.mkdir(parents=True)

    def run(self, moments: Iterable[str] = tuple(MOMENTS), pause: float = 0) -> None:
        """Run all moments. A failure does not stop the later ones.

        `pause` is the time before the clean restart.
        """
        begun, killed = self._home.with_name("begun"), self._home.with_name("killed")
        try:
            self._with_agent("begin", partial(self._begin, pause))
        except (RekindleError, StepFailed, TimeoutError) as error:
            self._fail(moments, METHODS, error)
            return
        self._save(begun)
        for moment in moments:
            self._restore(begun)
            try:
                self._with_agent(f"{moment}-kill", partial(self._kill_at, moment))
            except (RekindleError, StepFailed, TimeoutError) as error:
                self._fail([moment], METHODS, error)
                continue
            self._save(killed)
            for method in METHODS:
                self._restore(killed)
                try:
                    self._record(self._restored(moment, method))
                except (RekindleError, StepFailed, TimeoutError) as error:
                    self._fail([moment], [method], error)

    # -- the three starts of the agent --------------------------------------------------

    async def _begin(self, pause: float, agent: Agent) -> None:
        """Run the first two turns. The agent exits cleanly afterwards."""
        session = await agent.new(self._project)
        self._session_id = session.id
        for name in _EARLY:
            await _send_task(session, name)
        await asyncio.sleep(pause)

    async def _kill_at(self, moment: str, agent: Agent) -> None:
        """Run two more turns, and kill all processes."""
        session = await agent.load(self._session_id, self._project)
        running = descendants()
        for name in _LATE:
            await _send_task(session, name)
        if moment == "turn":
            await _start_turn(session)
        elif moment != "answer":
            await asyncio.sleep(float(moment))
        kill_descendants(first=running)

    def _restored(self, moment: str, method: Method) -> MemoryOutcome:
        """Restore the session, send a prompt, and judge the request to the model."""
        phase = f"{moment}-{method}"

        async def restore(agent: Agent) -> None:
            opening = agent.load if method == "load" else agent.resume
            session = await opening(self._session_id, self._project)
            await _send_task(session, _PROBE)
            kill_descendants()

        self._requests.clear()
        self._with_agent(phase, restore)
        shown = [it for it in self._requests if behaviour.current_task(it) == _PROBE]
        if not shown:
            raise StepFailed("the model received no request with the prompt")
        requests = msgspec.json.format(msgspec.json.encode([it.messages for it in shown]))
        (self._traffic / f"{phase}-model.json").write_bytes(requests)
        return judge(shown[-1], moment, method, _restored_meta(self._log(phase, "client")))

    def _with_agent(self, phase: str, live: Callable[[Agent], Awaitable[None]]) -> None:
        """Start Rekindle with the agent, with a tap on both sides, and end them."""
        try:
            asyncio.run(self._live(phase, live))
        finally:
            kill_descendants()
            reap()

    async def _live(self, phase: str, live: Callable[[Agent], Awaitable[None]]) -> None:
        inner = (*_tap(self._log(phase, "agent")), *self._workspace.command)
        command = (*_tap(self._log(phase, "client")), *_REKINDLE, *inner)
        start = self._connect(command, behind_rekindle=False, environ=self._workspace.environ)
        async with asyncio.timeout(_TIMEOUT), start as agent:
            await live(agent)

    # -- files --------------------------------------------------------------------------

    def _log(self, phase: str, side: str) -> Path:
        return self._traffic / f"{phase}-{side}.jsonl"

    def _save(self, copy: Path) -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self._home, copy, symlinks=True, ignore=_not_copied)

    def _restore(self, copy: Path) -> None:
        shutil.rmtree(self._home)
        shutil.copytree(copy, self._home, symlinks=True)
        # The current folder was removed with the home.
        os.chdir(self._project)

    # -- results ------------------------------------------------------------------------

    def _fail(self, moments: Iterable[str], methods: Iterable[Method], error: Exception) -> None:
        reason = f"no answer within {_TIMEOUT} s" if isinstance(error, TimeoutError) else ""
        for moment in moments:
            for method in methods:
                self._record(
                    MemoryOutcome(moment=moment, method=method, error=reason or error_text(error))
                )

    def _record(self, outcome: MemoryOutcome) -> None:
        self.outcomes.append(outcome)
        self._print(f"    {MOMENTS[outcome.moment]}, {outcome.method}: {describe(outcome)}")


def judge(
    shown: ModelRequest, moment: str, method: Method, meta: Json | None = None
) -> MemoryOutcome:
    """Count the turns in a request to the model."""
    text = "\n".join(message.text for message in shown.messages)
    counts = {
        name: (
            text.count(behaviour.prompt_mark(name)),
            text.count(behaviour.answer_mark(name)),
        )
        for name in _TURNS
    }
    meta = meta or {}
    return MemoryOutcome(
        moment=moment,
        method=method,
        missing=tuple(name for name, count in counts.items() if 0 in count),
        doubled=tuple(name for name, count in counts.items() if max(count) > 1),
        interrupted=text.count(behaviour.prompt_mark(_INTERRUPTED)) if moment == "turn" else None,
        restored=str(meta.get("restored", "")),
        missing_turns=int(meta.get("missingTurns", 0)),
    )


def describe(outcome: MemoryOutcome) -> str:
    """Return an outcome in one line."""
    if outcome.error:
        return f"failed: {outcome.error}"
    parts = ["ok"] if outcome.is_ok else []
    parts += [f"missing: {', '.join(outcome.missing)}"] if outcome.missing else []
    parts += [f"doubled: {', '.join(outcome.doubled)}"] if outcome.doubled else []
    parts.append(f"restored: {outcome.restored}, missingTurns: {outcome.missing_turns}")
    if outcome.interrupted is not None:
        parts.append(f"interrupted prompt: {outcome.interrupted} times")
    return "; ".join(parts)


async def _send_task(session: ClientSession, name: str) -> None:
    turn = session.prompt(behaviour.task(name))
    await turn
    if turn.stop_reason != "end_turn" or behaviour.answer_mark(name) not in turn.text:
        raise StepFailed(f"{name} ended with {turn.stop_reason}, and: {turn.text[:200]!r}")


async def _start_turn(session: ClientSession) -> None:
    """Start a turn, and return in the middle of its answer."""
    async for event in session.prompt(behaviour.slow_task(_INTERRUPTED)):
        if isinstance(event, MessageChunk):
            return
    raise StepFailed("the turn ended before it could be interrupted")


def _tap(log: Path) -> tuple[str, ...]:
    return (sys.executable, "-I", str(Path(tap.__file__)), str(log))


def _restored_meta(log: Path) -> Json:
    """Return the `_meta.rekindle` of the response that restored the session."""
    for line in log.read_text(encoding="utf-8").splitlines():
        direction, _, content = line.partition(" ")
        result = as_object(json.loads(content).get("result")) if direction == "<" else {}
        meta = as_object(as_object(result.get("_meta")).get("rekindle"))
        if "restored" in meta:
            return meta
    return {}


def _not_copied(folder: str, names: list[str]) -> list[str]:
    """Return the names of sockets and pipes, which cannot be copied."""
    paths = [Path(folder) / name for name in names]
    return [
        path.name for path in paths if not (path.is_symlink() or path.is_file() or path.is_dir())
    ]
