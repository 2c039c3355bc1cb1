"""One agent in one form, through the whole life of a session, killed twice on the way.

Nothing is believed: a step is ok if what it should bring about is seen, in what is told to the
client, or in what the model says that it was shown.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import TypeVar

from interop.model import behaviour
from interop.outcome import STEPS, Outcome, StepFailed, error_text
from interop.sandbox import kill_descendants
from rekindle.client import Agent, Message, NotOffered, RekindleError, Role, Said, Session, ToolCall

T = TypeVar("T")
Start = Callable[[], AbstractAsyncContextManager[Agent]]

_PATIENCE = 180
_LATE = 5
_UNTIL_NOTICED = 1
_WORD = "kingfisher"
_CUT_OFF = "mike"
_TASK = re.compile(r"\[task (\w+)\]")


class Scenario:
    """A session's life. `outcomes` grows as it goes."""

    def __init__(
        self,
        start: Start,
        project: Path,
        say: Callable[[str], None],
        *,
        is_behind_rekindle: bool,
        pause: float = 0,
    ) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.says = ""
        self._start = start
        self._project = project
        self._say = say
        self._pause = pause
        self._is_behind_rekindle = is_behind_rekindle
        self._note = project / "note.txt"
        self._note.write_text(behaviour.note(_WORD), encoding="utf-8")
        self._was_cut_off = False
        self._tasks: list[str] = []
        """Those that were given in the session and answered, in order."""

    async def run(self) -> None:
        """Go through all of it; what fails does not keep the rest from being tried."""
        session_ids: list[str] = []
        await self._life("turn", lambda agent: self._begin(agent, session_ids))
        if session_ids:
            await asyncio.sleep(self._pause)
            await self._life("list", lambda agent: self._load(agent, session_ids[0]))
            await self._life("resume", lambda agent: self._resume(agent, session_ids[0]))
        for step in STEPS:
            self.outcomes.setdefault(step, Outcome("not reached"))

    async def _life(self, first: str, live: Callable[[Agent], Awaitable[None]]) -> None:
        """Start the agent, do something with it, and kill all of it with SIGKILL."""
        try:
            async with self._start() as agent:
                self.says = f"{agent.info.name or '(no name)'} {agent.info.version or ''}".strip()
                await live(agent)
                kill_descendants()
        except RekindleError as error:
            self._note_down(first, Outcome("failed", f"did not start: {error_text(error)}"))

    # -- the three lives of the agent ---------------------------------------------------

    async def _begin(self, agent: Agent, session_ids: list[str]) -> None:
        async def turn() -> str:
            session = await agent.new(self._project)
            session_ids.append(session.id)
            report = await self._give(session, "alpha", self._note)
            if report.word != _WORD:
                raise StepFailed("the model was not shown what the tool brought")
            calls = [item for item in session.history if isinstance(item, ToolCall)]
            if [call.status for call in calls] != ["completed"]:
                raise StepFailed(f"the client was told of these tool calls: {calls}")
            await self._give(session, "bravo")
            return ""

        await self._try("turn", turn)

    async def _load(self, agent: Agent, session_id: str) -> None:
        async def listed() -> str:
            if not await self._is_listed(agent, session_id):
                raise StepFailed("the session is not in the list")
            return ""

        async def load() -> None:
            opened.append(await agent.load(session_id, self._project))
            await self._check_told(opened[0])

        opened: list[Session] = []
        await self._try("list", listed)
        await self._try("load", load)
        if opened:
            await self._try("load memory", lambda: self._check_memory(opened[0], "charlie"))
            if self._is_behind_rekindle:
                await self._try("agent killed", lambda: self._kill_agent(opened[0]))
            await self._cut_off(opened[0])

    async def _resume(self, agent: Agent, session_id: str) -> None:
        async def resume() -> None:
            session = await agent.resume(session_id, self._project)
            opened.append(session)
            if session.history:
                raise StepFailed(f"{len(session.history)} things were told")

        async def fork() -> None:
            forked.append(await agent.fork(session_id, self._project))
            if forked[0].id == session_id:
                raise StepFailed("it has the same id")

        opened: list[Session] = []
        forked: list[Session] = []
        await self._try("resume", resume)
        if opened:
            await self._try("resume memory", lambda: self._check_memory(opened[0], "delta"))
        elif agent.offers("load"):
            await self._quietly(lambda: agent.load(session_id, self._project), opened)
        if opened:
            await self._try("cut off", lambda: self._check_cut_off(opened[0]))
        await self._try("fork", fork)
        if forked:
            await self._try("fork memory", lambda: self._check_fork(forked[0], opened))
        if opened:
            await self._try("close", lambda: self._close(agent, opened[0]))
        await self._try("delete", lambda: self._delete(agent, session_id))

    # -- steps --------------------------------------------------------------------------

    async def _kill_agent(self, session: Session) -> str:
        kill_descendants(but_for_children=True)
        # What is sent to an agent whose end was not noticed yet is lost with it, and refused.
        await asyncio.sleep(_UNTIL_NOTICED)
        return await self._check_memory(session, "november")

    async def _cut_off(self, session: Session) -> None:
        """Leave a turn in the middle of its answer: all is killed after that."""
        turn = session.prompt(behaviour.slow_task(_CUT_OFF))
        with suppress(TimeoutError, RekindleError):
            async with asyncio.timeout(_PATIENCE):
                async for event in turn:
                    if isinstance(event, Said):
                        self._was_cut_off = True
                        break

    async def _check_cut_off(self, session: Session) -> str:
        if not self._was_cut_off:
            raise StepFailed("no turn was cut off")
        before = len(self._tasks)
        report = await self._give(session, "india")
        if _CUT_OFF not in report.tasks:
            raise StepFailed("the model never heard of it")
        # What was told stands within another message, and is no earlier one.
        return "native" if report.earlier > before else "told"

    async def _check_fork(self, fork: Session, opened: list[Session]) -> str:
        tasks = list(self._tasks)
        try:
            remark = await self._check_memory(fork, "echo")
        finally:
            self._tasks = tasks
        if opened:
            report = await self._give(opened[0], "foxtrot")
            if "echo" in report.tasks:
                raise StepFailed("what was said in the fork is in the original, too")
        return remark

    async def _close(self, agent: Agent, session: Session) -> None:
        await session.close()
        if agent.offers("list") and not await self._is_listed(agent, session.id):
            raise StepFailed("a closed session is not in the list")
        if agent.offers("load"):
            await self._check_told(await agent.load(session.id, self._project))

    async def _delete(self, agent: Agent, session_id: str) -> None:
        await agent.delete(session_id)
        if agent.offers("list") and await self._is_listed(agent, session_id):
            raise StepFailed("the deleted session is still in the list")

    # -- what they need -----------------------------------------------------------------

    async def _give(
        self, session: Session, name: str, reading: Path | None = None
    ) -> behaviour.Report:
        """Prompt with a task, and return what the model said that it was shown."""
        turn = session.prompt(behaviour.task(name, str(reading) if reading else None))
        self._tasks.append(name)
        await turn
        report = behaviour.read_report(turn.text)
        if turn.stop_reason != "end_turn" or report is None:
            raise StepFailed(f"the turn ended with {turn.stop_reason}, and: {turn.text[:200]!r}")
        return report

    async def _check_memory(self, session: Session, name: str) -> str:
        """Give a task, and see whether the model was shown all before it; say by which means."""
        before = list(self._tasks)
        report = await self._give(session, name)
        missing = [task for task in before if task not in report.tasks]
        shown = f"the model was shown {report.earlier} of {len(before)} earlier prompts"
        if missing:
            raise StepFailed(f"{shown}, and never heard of {', '.join(missing)}")
        if report.word != _WORD:
            raise StepFailed(f"{shown}, but not what was found out")
        if report.earlier > len(before) + self._was_cut_off:
            raise StepFailed(shown)
        return "native" if report.earlier >= len(before) else "told"

    async def _check_told(self, session: Session) -> None:
        """See whether the client was told all of it by now, as the protocol demands."""
        missing = self._untold(session)
        for _ in range(_LATE if missing else 0):
            # An agent that tells it too late is to be told from one that does not.
            await asyncio.sleep(1)
            if self._untold(session) is None:
                raise StepFailed("all was told, but some of it only after the answer")
        if missing:
            raise StepFailed(missing)

    def _untold(self, session: Session) -> str | None:
        """Return what is wrong with what was told: each prompt, answer and tool call, once."""
        said = [item for item in session.history if isinstance(item, Message)]
        by_user = [value.text for value in said if value.role is Role.USER]
        prompts = [name for words in by_user for name in _TASK.findall(words)]
        answers = [
            value
            for value in said
            if value.role is Role.AGENT and behaviour.read_report(value.text)
        ]
        calls = [item for item in session.history if isinstance(item, ToolCall)]
        if [name for name in prompts if name != _CUT_OFF] != self._tasks:
            told = f"the prompts {', '.join(prompts)}" if prompts else "no prompt"
            return f"{told} told, of {', '.join(self._tasks)}"
        if len(answers) != len(self._tasks):
            return f"{len(answers)} of {len(self._tasks)} answers told"
        return f"{len(calls)} tool calls told, where there was one" if len(calls) != 1 else None

    async def _is_listed(self, agent: Agent, session_id: str) -> bool:
        return session_id in [info.id async for info in agent.sessions(self._project)]

    async def _try(self, step: str, attempt: Callable[[], Awaitable[object]]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                remark = await attempt()
        except NotOffered:
            outcome = Outcome("not offered")
        except TimeoutError:
            outcome = Outcome("failed", f"no answer within {_PATIENCE} s")
        except (RekindleError, StepFailed) as error:
            outcome = Outcome("failed", error_text(error))
        else:
            outcome = Outcome("ok", remark if isinstance(remark, str) else "")
        self._note_down(step, outcome)

    async def _quietly(self, attempt: Callable[[], Awaitable[T]], got: list[T]) -> None:
        """Do what a later step needs; if that fails, the later step will show it."""
        try:
            async with asyncio.timeout(_PATIENCE):
                got.append(await attempt())
        except (RekindleError, TimeoutError) as error:
            self._say(f"    (load again: {error_text(error)})")

    def _note_down(self, step: str, outcome: Outcome) -> None:
        self.outcomes[step] = outcome
        remark = f": {outcome.remark}" if outcome.remark else ""
        self._say(f"    {STEPS[step]}: {outcome.status}{remark}")
