"""Import a session of a tool, compare it with the live session, and continue it.

The tool runs without Rekindle, so that only its own files have the session. Each agent that
continues the session has a store of its own, because it changes the session.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from interop.comparison import Difference, differences, known_reason
from interop.model import behaviour
from interop.outcome import IMPORT_STEPS, ExplainedDifference, Outcome, StepFailed, error_text
from interop.workspace import Workspace
from rekindle.client import Agent, ClientSession, Item, RekindleError, ToolCall
from rekindle.jsonvalue import as_object

Json = dict[str, Any]

_TIMEOUT = 180
_WORD, _NEW_WORD = "kingfisher", "osprey"
_TASKS = ("alpha", "bravo", "charlie")
_CALLS = ["completed", "completed", "failed"]
_REQUIRED_STEPS = ("live", "import")
_REKINDLE = (sys.executable, "-P", "-m", "rekindle")
_STRANGER = (*_REKINDLE, "example-agent", "--offer", "none")
_COUNTS = ("found", "new", "updated", "unchanged", "branched")


class Connect(Protocol):
    """Starts an agent, like `rekindle.client.connect`."""

    def __call__(
        self,
        command: tuple[str, ...],
        *,
        environ: dict[str, str],
        behind_rekindle: bool = True,
        store: Path | None = None,
        protocol: int = 1,
    ) -> AbstractAsyncContextManager[Agent]:
        """Return a context manager that ends the agent."""
        ...


class ImportScenario:
    """One session of a tool. `outcomes` has the steps so far, `explained` the differences."""

    def __init__(
        self, tool: str, workspace: Workspace, connect: Connect, print_line: Callable[[str], None]
    ) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.explained: dict[ExplainedDifference, None] = {}
        self._tool = tool
        self._workspace = workspace
        self._project = workspace.project
        self._connect = connect
        self._print = print_line
        self._note = workspace.project / "note.txt"
        self._note.write_text(behaviour.note(_WORD), encoding="utf-8")
        self._id = ""
        self._seen: list[Item] = []

    def run(self, successor: Workspace | None, pause: float = 0) -> None:
        """Run all steps. A failure does not stop the later ones, except for required steps."""
        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "live": self._live,
            "import": lambda: self._check_import("first", new=1),
            "again": lambda: self._check_import("first", unchanged=1),
            "list": self._list,
            "load v1": lambda: self._load(protocol=1),
            "load v2": lambda: self._load(protocol=2),
            "stranger": self._stranger,
            "other": lambda: self._other(successor),
            "own": lambda: self._own(pause),
            "after own": self._after_own,
        }
        for step, do in steps.items():
            if not self._try(step, do) and step in _REQUIRED_STEPS:
                break
        for step in IMPORT_STEPS:
            self.outcomes.setdefault(step, Outcome("not reached"))

    # -- steps --------------------------------------------------------------------------

    async def _live(self) -> None:
        own = self._connect(
            self._workspace.command, environ=self._workspace.environ, behind_rekindle=False
        )
        async with own as agent:
            session = await agent.new(self._project)
            await _send_task(session, behaviour.task("alpha", str(self._note)))
            change = behaviour.change_task("bravo", str(self._note), _WORD, _NEW_WORD)
            await _send_task(session, change)
            await _send_task(session, behaviour.task("charlie", str(self._project / "missing.txt")))
            self._id, self._seen = session.id, session.history
        calls = [item.status for item in self._seen if isinstance(item, ToolCall)]
        if calls != _CALLS:
            raise StepFailed(f"the tool calls ended as {calls} instead of {_CALLS}")
        if self._note.read_text(encoding="utf-8") != behaviour.note(_NEW_WORD):
            raise StepFailed("the note was not changed")

    async def _check_import(self, store: str, **counts: int) -> None:
        report = self._import(store)
        expected = {"found": 1, **counts}
        counted = {name: report[name] for name in _COUNTS if report[name]}
        if counted != expected:
            raise StepFailed(f"the import reports {counted} instead of {expected}")
        if report["skipped"] or report["failed"]:
            raise StepFailed(f"skipped: {report['skipped'] or report['failed']}")

    async def _list(self) -> None:
        async with self._behind_rekindle("first") as agent:
            await self._info(agent)
            if [session async for session in agent.sessions(self._project.parent)]:
                raise StepFailed("it is also in the list of another folder")

    async def _load(self, protocol: int) -> None:
        async with self._behind_rekindle("first", protocol=protocol) as agent:
            self._check_replay(await agent.load(self._id, self._project))

    async def _stranger(self) -> str:
        """Ask an agent without a model, which repeats the history that it was sent."""
        async with self._behind_rekindle("first") as agent:
            session = await agent.load(self._id, self._project)
            answer = await session.ask("What did I say first?")
        if behaviour.task("alpha", str(self._note)) not in answer:
            raise StepFailed(f"it answers: {answer[-200:]!r}")
        return "told"

    async def _other(self, successor: Workspace | None) -> str:
        if successor is None:
            raise StepFailed("that agent is not installed")
        return await self._continue("other", successor)

    async def _own(self, pause: float) -> str:
        await asyncio.sleep(pause)
        how = await self._continue("own", self._workspace)
        if how != "native":
            raise StepFailed("it needed a handover, and did not restore the session natively")
        (listed,) = self._rekindle("list", "--json", "--store", str(self._store("own")))
        if listed["agentSessionId"] != self._id:
            raise StepFailed(f"its session is {listed['agentSessionId']} now")
        return how

    async def _after_own(self) -> None:
        await self._check_import("own", unchanged=1)

    # -- helpers ------------------------------------------------------------------------

    async def _continue(self, store: str, workspace: Workspace) -> str:
        """Import, load and continue the session; return the means of restoring."""
        await self._check_import(store, new=1)
        is_own = workspace is self._workspace
        async with self._behind_rekindle(store, workspace) as agent:
            info = await self._info(agent)
            if info["restoresNatively"] is not is_own:
                raise StepFailed(f"restoresNatively is {info['restoresNatively']}")
            session = await agent.load(self._id, self._project)
            self._check_replay(session)
            report = await _send_task(session, behaviour.task("delta"))
        missing = [task for task in _TASKS if task not in report.tasks]
        if missing or report.word != _WORD:
            raise StepFailed(
                f"the model was not shown {', '.join(missing) or 'what was found out'}"
            )
        # A handover is part of another message, so it does not count as an earlier one.
        return "native" if report.earlier >= len(_TASKS) else "told"

    def _behind_rekindle(
        self, store: str, workspace: Workspace | None = None, protocol: int = 1
    ) -> AbstractAsyncContextManager[Agent]:
        """Start the agent of a workspace; without one, an agent that has no sessions."""
        command, environ = (
            (workspace.command, workspace.environ)
            if workspace
            else (_STRANGER, self._workspace.environ)
        )
        return self._connect(command, environ=environ, store=self._store(store), protocol=protocol)

    async def _info(self, agent: Agent) -> Json:
        """Return the listed metadata of the session. Raises StepFailed if they are wrong."""
        listed = [session async for session in agent.sessions(self._project)]
        if [row.id for row in listed] != [self._id]:
            raise StepFailed(f"{len(listed)} sessions are in the list")
        meta = as_object(listed[0].meta.get("rekindle"))
        if meta.get("importedFrom") != self._tool:
            raise StepFailed(f"importedFrom is {meta.get('importedFrom')}")
        return meta

    def _check_replay(self, session: ClientSession) -> None:
        """Raise StepFailed unless all differences of a replay have known reasons."""
        unexplained: list[str] = []
        for found in map(self._normalized, differences(self._seen, session.history)):
            known = known_reason(self._tool, found)
            if known is None:
                unexplained.append(f"{found.of}: {found.live!r} live, {found.later!r} imported")
            else:
                self.explained[ExplainedDifference(found, known)] = None
        if unexplained:
            raise StepFailed("; ".join(unexplained))

    def _normalized(self, found: Difference) -> Difference:
        """Return a difference without the path of the project."""
        here = str(self._project)
        live, later = (item.replace(here, "$PROJECT") for item in (found.live, found.later))
        return Difference(found.of, live, later)

    def _import(self, store: str) -> Json:
        result = self._rekindle("import", self._tool, "--json", "--store", str(self._store(store)))
        (report,) = result["tools"]
        return report

    def _store(self, name: str) -> Path:
        return self._project.parent / f"{name}.db"

    def _rekindle(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        done = subprocess.run(
            [*_REKINDLE, *words],
            env=self._workspace.environ,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        if done.returncode != 0:
            raise StepFailed(
                f"rekindle {words[0]} ended with {done.returncode}: {done.stderr[-200:]}"
            )
        return json.loads(done.stdout)

    def _try(self, step: str, do: Callable[[], Awaitable[object]]) -> bool:
        try:
            remark = asyncio.run(_bounded(do))
        except TimeoutError:
            outcome = Outcome("failed", f"no answer within {_TIMEOUT} s")
        except (RekindleError, StepFailed) as error:
            outcome = Outcome("failed", error_text(error))
        else:
            outcome = Outcome("ok", remark if isinstance(remark, str) else "")
        self.outcomes[step] = outcome
        remark = f": {outcome.remark}" if outcome.remark else ""
        self._print(f"    {IMPORT_STEPS[step]}: {outcome.status}{remark}")
        return outcome.status == "ok"


async def _bounded(do: Callable[[], Awaitable[object]]) -> object:
    async with asyncio.timeout(_TIMEOUT):
        return await do()


async def _send_task(session: ClientSession, task: str) -> behaviour.Report:
    """Prompt with a task; return the model's report."""
    turn = session.prompt(task)
    await turn
    report = behaviour.read_report(turn.text)
    if turn.stop_reason != "end_turn" or report is None:
        raise StepFailed(f"the turn ended with {turn.stop_reason}, and: {turn.text[:200]!r}")
    return report
