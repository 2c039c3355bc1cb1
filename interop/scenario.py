"""The life of a session with one agent in one form, with two kills.

No claim of an agent counts: a step passes only if its effect is visible in the updates to the
client, or in the model's report of the messages that it was shown.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import TypeVar

from interop.model import behaviour
from interop.outcome import STEPS, Outcome, StepFailed, error_text, outcome_of
from interop.sandbox import kill_descendants
from rekindle.client import (
    Agent,
    ClientSession,
    Message,
    MessageChunk,
    NotOffered,
    RekindleError,
    Role,
    ToolCall,
)

T = TypeVar("T")
Start = Callable[[], AbstractAsyncContextManager[Agent]]

_TIMEOUT = 180
_LATE_SECONDS = 5
_EXIT_NOTICE_SECONDS = 1
_WORD = "kingfisher"
_INTERRUPTED_TASK = "mike"
_TASK = re.compile(r"\[task (\w+)\]")


class Scenario:
    """The life of a session. `outcomes` has the steps so far."""

    def __init__(
        self,
        start: Start,
        project: Path,
        print_line: Callable[[str], None],
        *,
        is_behind_rekindle: bool,
        reports_call_end: bool = True,
    ) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.says = ""
        self._start = start
        self._project = project
        self._print = print_line
        self._call_statuses = {"completed"} if reports_call_end else {"completed", "pending"}
        self._is_behind_rekindle = is_behind_rekindle
        self._note = project / "note.txt"
        self._note.write_text(behaviour.note(_WORD), encoding="utf-8")
        self._was_interrupted = False
        self._tasks: list[str] = []
        """The tasks that were sent in the session and answered, in order."""

    async def run(self, pause: float = 0) -> None:
        """Run all steps. A failure does not stop the later ones.

        `pause` is the time between the first kill and the new start.
        """
        session_ids: list[str] = []
        await self._with_agent("turn", lambda agent: self._begin(agent, session_ids))
        if session_ids:
            await asyncio.sleep(pause)
            await self._with_agent("list", lambda agent: self._load(agent, session_ids[0]))
            await self._with_agent("resume", lambda agent: self._resume(agent, session_ids[0]))
        for step in STEPS:
            self.outcomes.setdefault(step, Outcome("not reached"))

    async def _with_agent(self, first: str, live: Callable[[Agent], Awaitable[None]]) -> None:
        """Start the agent, run steps with it, and kill all its processes with SIGKILL."""
        try:
            async with self._start() as agent:
                self.says = f"{agent.info.name or '(no name)'} {agent.info.version or ''}".strip()
                await live(agent)
                kill_descendants()
        except RekindleError as error:
            self._record(first, Outcome("failed", f"did not start: {error_text(error)}"))

    # -- the three starts of the agent --------------------------------------------------

    async def _begin(self, agent: Agent, session_ids: list[str]) -> None:
        async def turn() -> str:
            session = await agent.new(self._project)
            session_ids.append(session.id)
            report = await self._send_task(session, "alpha", self._note)
            if report.word != _WORD:
                raise StepFailed("the model was not shown the result of the tool")
            calls = [item for item in session.history if isinstance(item, ToolCall)]
            if len(calls) != 1 or calls[0].status not in self._call_statuses:
                raise StepFailed(f"the client received these tool calls: {calls}")
            await self._send_task(session, "bravo")
            return ""

        await self._try("turn", turn)

    async def _load(self, agent: Agent, session_id: str) -> None:
        async def listed() -> str:
            if not await self._is_listed(agent, session_id):
                raise StepFailed("the session is not in the list")
            return ""

        async def load() -> None:
            opened.append(await agent.load(session_id, self._project))
            await self._check_replay(opened[0])

        opened: list[ClientSession] = []
        await self._try("list", listed)
        await self._try("load", load)
        if opened:
            await self._try("load memory", lambda: self._check_memory(opened[0], "charlie"))
            if self._is_behind_rekindle:
                await self._try("agent killed", lambda: self._kill_agent(opened[0]))
            await self._interrupt_turn(opened[0])

    async def _resume(self, agent: Agent, session_id: str) -> None:
        async def resume() -> None:
            session = await agent.resume(session_id, self._project)
            opened.append(session)
            if session.history:
                raise StepFailed(f"{len(session.history)} items were replayed")

        async def fork() -> None:
            forked.append(await agent.fork(session_id, self._project))
            if forked[0].id == session_id:
                raise StepFailed("it has the same id")

        opened: list[ClientSession] = []
        forked: list[ClientSession] = []
        await self._try("resume", resume)
        if opened:
            await self._try("resume memory", lambda: self._check_memory(opened[0], "delta"))
        elif agent.offers("load"):
            await self._prepare(lambda: agent.load(session_id, self._project), opened)
        if opened:
            await self._try("cut off", lambda: self._check_interrupted_turn(opened[0]))
        await self._try("fork", fork)
        if forked:
            await self._try("fork memory", lambda: self._check_fork(forked[0], opened))
        if opened:
            await self._try("close", lambda: self._close(agent, opened[0]))
        await self._try("title", lambda: self._set_title(agent, session_id))
        await self._try("archive", lambda: self._archive(agent, session_id))
        await self._rewind(agent, session_id)
        await self._try("delete", lambda: self._delete(agent, session_id))

    # -- steps --------------------------------------------------------------------------

    async def _kill_agent(self, session: ClientSession) -> str:
        kill_descendants(but_for_children=True)
        # A prompt before Rekindle has noticed the exit would fail with the agent.
        await asyncio.sleep(_EXIT_NOTICE_SECONDS)
        return await self._check_memory(session, "november")

    async def _interrupt_turn(self, session: ClientSession) -> None:
        """Start a turn, and return in the middle of its answer. All processes are killed then."""
        turn = session.prompt(behaviour.slow_task(_INTERRUPTED_TASK))
        with suppress(TimeoutError, RekindleError):
            async with asyncio.timeout(_TIMEOUT):
                async for event in turn:
                    if isinstance(event, MessageChunk):
                        self._was_interrupted = True
                        break

    async def _check_interrupted_turn(self, session: ClientSession) -> str:
        if not self._was_interrupted:
            raise StepFailed("no turn was interrupted")
        before = len(self._tasks)
        report = await self._send_task(session, "india")
        if _INTERRUPTED_TASK not in report.tasks:
            raise StepFailed("the model was not shown it")
        # A handover is part of another message, so it does not count as an earlier one.
        is_native = report.earlier > before or not self._is_behind_rekindle
        return "native" if is_native else "told"

    async def _check_fork(self, fork: ClientSession, opened: list[ClientSession]) -> str:
        tasks = list(self._tasks)
        try:
            remark = await self._check_memory(fork, "echo")
        finally:
            self._tasks = tasks
        if opened:
            report = await self._send_task(opened[0], "foxtrot")
            if "echo" in report.tasks:
                raise StepFailed("the original has a prompt of the fork")
        return remark

    async def _close(self, agent: Agent, session: ClientSession) -> None:
        await session.close()
        if agent.offers("list") and not await self._is_listed(agent, session.id):
            raise StepFailed("a closed session is not in the list")
        if agent.offers("load"):
            await self._check_replay(await agent.load(session.id, self._project))

    async def _set_title(self, agent: Agent, session_id: str) -> None:
        title = f"A session about the {_WORD}"
        stored = await agent.set_title(session_id, title)
        listed = [it.title async for it in agent.sessions(self._project) if it.id == session_id]
        if stored != title or listed != [title]:
            raise StepFailed(f"the title is {stored!r}, and {listed} in the list")

    async def _archive(self, agent: Agent, session_id: str) -> None:
        await agent.archive(session_id)
        archived = [it.id async for it in agent.sessions(self._project, archived="only")]
        if await self._is_listed(agent, session_id) or session_id not in archived:
            raise StepFailed("the archived session is in the wrong list")
        await agent.unarchive(session_id)
        if not await self._is_listed(agent, session_id):
            raise StepFailed("the session is not in the list after unarchive")

    async def _rewind(self, agent: Agent, session_id: str) -> None:
        """Go back to the answer to the second task, and check what the model is shown then."""

        async def rewind() -> None:
            if not agent.offers("rewind"):
                # The load before it may fail for reasons of its own.
                raise NotOffered(self.says, "session/rewind")
            session = await agent.load(session_id, self._project)
            await session.rewind(str(_reports(session)[1].id))
            self._tasks, self._was_interrupted = self._tasks[:2], False
            rewound.append(session)
            problem = self._replay_problem(session)
            if problem is not None:
                raise StepFailed(problem)

        rewound: list[ClientSession] = []
        await self._try("rewind", rewind)
        if rewound:
            await self._try("rewind memory", lambda: self._check_memory(rewound[0], "golf"))

    async def _delete(self, agent: Agent, session_id: str) -> None:
        await agent.delete(session_id)
        if agent.offers("list") and await self._is_listed(agent, session_id):
            raise StepFailed("the deleted session is still in the list")

    # -- helpers ------------------------------------------------------------------------

    async def _send_task(
        self, session: ClientSession, name: str, reading: Path | None = None
    ) -> behaviour.Report:
        """Prompt with a task; return the model's report."""
        turn = session.prompt(behaviour.task(name, str(reading) if reading else None))
        self._tasks.append(name)
        await turn
        report = behaviour.read_report(turn.text)
        if turn.stop_reason != "end_turn" or report is None:
            raise StepFailed(f"the turn ended with {turn.stop_reason}, and: {turn.text[:200]!r}")
        return report

    async def _check_memory(self, session: ClientSession, name: str) -> str:
        """Send a task, and check that the model was shown all earlier ones; return the means."""
        before = list(self._tasks)
        report = await self._send_task(session, name)
        missing = [task for task in before if task not in report.tasks]
        shown = f"the model was shown {report.earlier} of {len(before)} earlier prompts"
        if missing:
            raise StepFailed(f"{shown}, without {', '.join(missing)}")
        if report.word != _WORD:
            raise StepFailed(f"{shown}, but not the result of the tool")
        known = {*before, *([_INTERRUPTED_TASK] if self._was_interrupted else [])}
        foreign = [task for task in report.tasks if task not in known]
        if foreign:
            raise StepFailed(f"{shown}, and {', '.join(foreign)}, which the session does not have")
        if report.earlier > len(before) + self._was_interrupted:
            raise StepFailed(shown)
        return "native" if report.earlier >= len(before) else "told"

    async def _check_replay(self, session: ClientSession) -> None:
        """Raise StepFailed unless the whole replay came before the response, as ACP requires."""
        missing = self._replay_problem(session)
        for _ in range(_LATE_SECONDS if missing else 0):
            # Distinguish a late replay from a missing one.
            await asyncio.sleep(1)
            if self._replay_problem(session) is None:
                raise StepFailed("all was replayed, but some of it only after the answer")
        if missing:
            raise StepFailed(missing)

    def _replay_problem(self, session: ClientSession) -> str | None:
        """Return the problem of a replay: each prompt, answer and tool call must occur once."""
        messages = [item for item in session.history if isinstance(item, Message)]
        by_user = [message.text for message in messages if message.role is Role.USER]
        prompts = [name for text in by_user for name in _TASK.findall(text)]
        answers = _reports(session)
        calls = [item for item in session.history if isinstance(item, ToolCall)]
        if [name for name in prompts if name != _INTERRUPTED_TASK] != self._tasks:
            replayed = f"the prompts {', '.join(prompts)}" if prompts else "no prompt"
            return f"{replayed} replayed, of {', '.join(self._tasks)}"
        if len(answers) != len(self._tasks):
            return f"{len(answers)} of {len(self._tasks)} answers replayed"
        return f"{len(calls)} tool calls replayed instead of one" if len(calls) != 1 else None

    async def _is_listed(self, agent: Agent, session_id: str) -> bool:
        return session_id in [info.id async for info in agent.sessions(self._project)]

    async def _try(self, step: str, attempt: Callable[[], Awaitable[object]]) -> None:
        self._record(step, await outcome_of(attempt, _TIMEOUT))

    async def _prepare(self, attempt: Callable[[], Awaitable[T]], results: list[T]) -> None:
        """Prepare a later step. A failure here shows in that step."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                results.append(await attempt())
        except (RekindleError, TimeoutError) as error:
            self._print(f"    (load again: {error_text(error)})")

    def _record(self, step: str, outcome: Outcome) -> None:
        self.outcomes[step] = outcome
        remark = f": {outcome.remark}" if outcome.remark else ""
        self._print(f"    {STEPS[step]}: {outcome.status}{remark}")


def _reports(session: ClientSession) -> list[Message]:
    """Return the answers that have a report of the model."""
    return [
        item
        for item in session.history
        if isinstance(item, Message)
        and item.role is Role.AGENT
        and behaviour.read_report(item.text)
    ]
