"""What a tool has written by itself: imported, compared with what was seen live, and gone on with.

The tool is spoken to without Rekindle, so that its files are all there is of the session. Each
agent that goes on with it has a store of its own, because it changes the session.
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
from rekindle.client import Agent, Item, RekindleError, Session, ToolCall
from rekindle.jsonvalue import as_object

Json = dict[str, Any]

_PATIENCE = 180
_WORD, _NEW_WORD = "kingfisher", "osprey"
_TASKS = ("alpha", "bravo", "charlie")
_CALLS = ["completed", "completed", "failed"]
_NEEDED = ("live", "import")
_REKINDLE = (sys.executable, "-P", "-m", "rekindle")
_STRANGER = (*_REKINDLE, "example-agent", "--offer", "none")
_COUNTED = ("found", "new", "updated", "unchanged", "branched")


class Connect(Protocol):
    """Starts an agent, as `rekindle.client.connect` does."""

    def __call__(
        self,
        command: tuple[str, ...],
        *,
        environ: dict[str, str],
        behind_rekindle: bool = True,
        store: Path | None = None,
        protocol: int = 1,
    ) -> AbstractAsyncContextManager[Agent]:
        """Return a connection that ends it."""
        ...


class ImportScenario:
    """One session of a tool's. `outcomes` and `explained` grow as it goes."""

    def __init__(
        self, tool: str, place: Workspace, connect: Connect, say: Callable[[str], None]
    ) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.explained: dict[ExplainedDifference, None] = {}
        self._tool = tool
        self._place = place
        self._project = place.project
        self._connect = connect
        self._say = say
        self._note = place.project / "note.txt"
        self._note.write_text(behaviour.note(_WORD), encoding="utf-8")
        self._id = ""
        self._seen: list[Item] = []

    def run(self, successor: Workspace | None, pause: float = 0) -> None:
        """Go through all of it; what fails does not keep the rest from being tried."""
        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "live": self._live,
            "import": lambda: self._imported("first", new=1),
            "again": lambda: self._imported("first", unchanged=1),
            "list": self._list,
            "load v1": lambda: self._load(protocol=1),
            "load v2": lambda: self._load(protocol=2),
            "stranger": self._stranger,
            "other": lambda: self._other(successor),
            "own": lambda: self._own(pause),
            "after own": self._after_own,
        }
        for step, do in steps.items():
            if not self._try(step, do) and step in _NEEDED:
                break
        for step in IMPORT_STEPS:
            self.outcomes.setdefault(step, Outcome("not reached"))

    # -- steps --------------------------------------------------------------------------

    async def _live(self) -> None:
        own = self._connect(self._place.command, environ=self._place.environ, behind_rekindle=False)
        async with own as agent:
            session = await agent.new(self._project)
            await _give(session, behaviour.task("alpha", str(self._note)))
            change = behaviour.change_task("bravo", str(self._note), _WORD, _NEW_WORD)
            await _give(session, change)
            await _give(session, behaviour.task("charlie", str(self._project / "missing.txt")))
            self._id, self._seen = session.id, session.history
        calls = [item.status for item in self._seen if isinstance(item, ToolCall)]
        if calls != _CALLS:
            raise StepFailed(f"the tool calls ended as {calls}, and not as {_CALLS}")
        if self._note.read_text(encoding="utf-8") != behaviour.note(_NEW_WORD):
            raise StepFailed("the note was not changed")

    async def _imported(self, store: str, **counts: int) -> None:
        report = self._import(store)
        wanted = {"found": 1, **counts}
        counted = {name: report[name] for name in _COUNTED if report[name]}
        if counted != wanted:
            raise StepFailed(f"it tells of {counted}, and not of {wanted}")
        if report["skipped"] or report["failed"]:
            raise StepFailed(f"passed over: {report['skipped'] or report['failed']}")

    async def _list(self) -> None:
        async with self._behind_rekindle("first") as agent:
            await self._info(agent)
            if [session async for session in agent.sessions(self._project.parent)]:
                raise StepFailed("it is in the list of another folder, too")

    async def _load(self, protocol: int) -> None:
        async with self._behind_rekindle("first", protocol=protocol) as agent:
            self._check_told(await agent.load(self._id, self._project))

    async def _stranger(self) -> str:
        """Ask an agent that has no model, and says what it was told."""
        async with self._behind_rekindle("first") as agent:
            session = await agent.load(self._id, self._project)
            said = await session.ask("What did I say first?")
        if behaviour.task("alpha", str(self._note)) not in said:
            raise StepFailed(f"it says: {said[-200:]!r}")
        return "told"

    async def _other(self, successor: Workspace | None) -> str:
        if successor is None:
            raise StepFailed("that agent is not installed")
        return await self._go_on("other", successor)

    async def _own(self, pause: float) -> str:
        await asyncio.sleep(pause)
        how = await self._go_on("own", self._place)
        if how != "native":
            raise StepFailed("it was told the record, and did not bring it back by itself")
        (listed,) = self._rekindle("list", "--json", "--store", str(self._store("own")))
        if listed["agentSessionId"] != self._id:
            raise StepFailed(f"its session is {listed['agentSessionId']} now")
        return how

    async def _after_own(self) -> None:
        await self._imported("own", unchanged=1)

    # -- what they need -----------------------------------------------------------------

    async def _go_on(self, store: str, place: Workspace) -> str:
        """Import, load and go on; say by which means the model was shown what was before."""
        await self._imported(store, new=1)
        is_own = place is self._place
        async with self._behind_rekindle(store, place) as agent:
            info = await self._info(agent)
            if info["restoresNatively"] is not is_own:
                raise StepFailed(f"restoresNatively is {info['restoresNatively']}")
            session = await agent.load(self._id, self._project)
            self._check_told(session)
            report = await _give(session, behaviour.task("delta"))
        missing = [task for task in _TASKS if task not in report.tasks]
        if missing or report.word != _WORD:
            raise StepFailed(
                f"the model was not shown {', '.join(missing) or 'what was found out'}"
            )
        # What was told stands within another message, and is no earlier one.
        return "native" if report.earlier >= len(_TASKS) else "told"

    def _behind_rekindle(
        self, store: str, place: Workspace | None = None, protocol: int = 1
    ) -> AbstractAsyncContextManager[Agent]:
        """Start an agent, or one that has no sessions."""
        command, environ = (
            (place.command, place.environ) if place else (_STRANGER, self._place.environ)
        )
        return self._connect(command, environ=environ, store=self._store(store), protocol=protocol)

    async def _info(self, agent: Agent) -> Json:
        """Return what the list says of the session. Raises Wrong if that is wrong."""
        listed = [session async for session in agent.sessions(self._project)]
        if [row.id for row in listed] != [self._id]:
            raise StepFailed(f"{len(listed)} sessions are in the list")
        meta = as_object(listed[0].meta.get("rekindle"))
        if meta.get("importedFrom") != self._tool:
            raise StepFailed(f"importedFrom is {meta.get('importedFrom')}")
        return meta

    def _check_told(self, session: Session) -> None:
        """See whether what is told is what was seen, but for what has a reason."""
        unexplained: list[str] = []
        for found in map(self._named, differences(self._seen, session.history)):
            why = known_reason(self._tool, found)
            if why is None:
                unexplained.append(f"{found.of}: {found.live!r} live, {found.later!r} imported")
            else:
                self.explained[ExplainedDifference(found, why)] = None
        if unexplained:
            raise StepFailed("; ".join(unexplained))

    def _named(self, found: Difference) -> Difference:
        """Return a difference that is the same wherever the project is."""
        here = str(self._project)
        live, later = (item.replace(here, "$PROJECT") for item in (found.live, found.later))
        return Difference(found.of, live, later)

    def _import(self, store: str) -> Json:
        told = self._rekindle("import", self._tool, "--json", "--store", str(self._store(store)))
        (report,) = told["tools"]
        return report

    def _store(self, name: str) -> Path:
        return self._project.parent / f"{name}.db"

    def _rekindle(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        done = subprocess.run(
            [*_REKINDLE, *words],
            env=self._place.environ,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
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
            outcome = Outcome("failed", f"no answer within {_PATIENCE} s")
        except (RekindleError, StepFailed) as error:
            outcome = Outcome("failed", error_text(error))
        else:
            outcome = Outcome("ok", remark if isinstance(remark, str) else "")
        self.outcomes[step] = outcome
        remark = f": {outcome.remark}" if outcome.remark else ""
        self._say(f"    {IMPORT_STEPS[step]}: {outcome.status}{remark}")
        return outcome.status == "ok"


async def _bounded(do: Callable[[], Awaitable[object]]) -> object:
    async with asyncio.timeout(_PATIENCE):
        return await do()


async def _give(session: Session, task: str) -> behaviour.Report:
    """Prompt with a task, and return what the model said that it was shown."""
    turn = session.prompt(task)
    await turn
    report = behaviour.read_report(turn.text)
    if turn.stop_reason != "end_turn" or report is None:
        raise StepFailed(f"the turn ended with {turn.stop_reason}, and: {turn.text[:200]!r}")
    return report
