"""Two clients on one session of a real agent, and a turn that outlives its editor.

The agent runs behind `rekindle run --detach`. As in the other scenarios, only messages to the
clients, the record, and the model's report of its input count.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from interop.model import behaviour
from interop.outcome import SHARING_STEPS, Outcome, StepFailed, error_text, outcome_of
from interop.sandbox import children
from interop.workspace import Workspace
from rekindle.client import (
    Agent,
    AgentGone,
    ClientSession,
    Message,
    MessageChunk,
    NotOffered,
    PermissionRequest,
    PermissionRequested,
    RekindleError,
    Role,
    Turn,
    TurnEnded,
    connect_to_host,
)
from rekindle.composition import open_store
from rekindle.model import LeaseHolder
from rekindle.store.address import StoreAddress, path_address
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import fold

_TIMEOUT = 120
_END_TIMEOUT = 60
_POLL_SECONDS = 0.05
_WORD, _OTHER_WORD = "kingfisher", "nightingale"


class Connect(Protocol):
    """Starts a program as an agent, like `rekindle.client.connect`."""

    def __call__(
        self,
        command: tuple[str, ...],
        *,
        options: tuple[str, ...],
        environ: dict[str, str],
        on_permission: Callable[[PermissionRequest], Awaitable[None] | None],
    ) -> AbstractAsyncContextManager[Agent]:
        """Return a context manager that ends the program."""
        ...


class SharingScenario:
    """The session of two clients of one agent. `outcomes` has the steps so far."""

    def __init__(
        self, workspace: Workspace, start: Connect, print_line: Callable[[str], None]
    ) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._workspace = workspace
        self._start = start
        self._print = print_line
        self._note = workspace.project / "note.txt"
        self._note.write_text(behaviour.note(_WORD), encoding="utf-8")
        self._is_away = False
        """Whether the user of the first editor answers no permission request."""
        self._answered: list[str] = []
        """The tasks that the model has answered."""
        self._asked: list[PermissionRequest] = []
        """The permission requests that the first editor has received meanwhile."""

    async def run(self) -> None:
        """Run all steps. A failure does not stop the later ones, where they can run."""
        session_ids: list[str] = []
        before = children()
        try:
            async with self._connected() as agent:
                session = await agent.new(self._workspace.project)
                session_ids.append(session.id)
                await self._task(session, "alpha", behaviour.task("alpha", str(self._note)))
                await self._try("joined", lambda: self._join(session))
                await self._try("permission", lambda: self._answer_elsewhere(session))
                await self._try("detached", lambda: self._end_editor(session, before))
        except AgentGone:
            # As it should be: the editor was killed.
            pass
        except (RekindleError, StepFailed) as error:
            self._record("joined", Outcome("failed", f"the first turn failed: {error_text(error)}"))
        if session_ids:
            await self._try("loaded", lambda: self._load(session_ids[0]))
        for step in SHARING_STEPS:
            self.outcomes.setdefault(step, Outcome("not reached"))

    def _connected(self) -> AbstractAsyncContextManager[Agent]:
        return self._start(
            self._workspace.command,
            options=("--detach",),
            environ=self._workspace.environ,
            on_permission=self._answer,
        )

    async def _answer(self, request: PermissionRequest) -> None:
        if not self._is_away:
            request.allow()
            return
        self._asked.append(request)
        # Cancelled when the request is withdrawn.
        await asyncio.Event().wait()

    # -- steps --------------------------------------------------------------------------------

    async def _join(self, session: ClientSession) -> None:
        """Load the session in a second client in the middle of a turn."""
        turn = session.prompt(behaviour.pausing_task("bravo"))
        await _begin(turn)
        async with connect_to_host(self._host(session).socket) as agent:
            other = await agent.load(session.id, self._workspace.project)
            if other.state == "idle":
                raise StepFailed("the turn is not reported to the second client")
            async for event in other.follow():
                if isinstance(event, TurnEnded):
                    break
            await turn
            self._answered.append("bravo")
            if _tasks_in(other) != ["alpha", "bravo"] or _texts(other) != _texts(session):
                raise StepFailed(f"the second client has {_texts(other)}")

    async def _answer_elsewhere(self, session: ClientSession) -> str:
        """Let a second client answer the permission request of the first one's turn."""
        self._is_away = True
        try:
            async with connect_to_host(self._host(session).socket) as agent:
                other = await agent.load(session.id, self._workspace.project, role="approver")
                answered: list[PermissionRequest] = []
                answering = asyncio.ensure_future(_approve(other, answered))
                prompt = behaviour.change_task("charlie", str(self._note), _WORD, _OTHER_WORD)
                try:
                    await self._task(session, "charlie", prompt)
                finally:
                    answering.cancel()
        finally:
            self._is_away = False
        if not answered:
            raise NotOffered("the agent", "a permission request")
        if len(self._asked) != len(answered) or not all(it.is_answered for it in self._asked):
            raise StepFailed("the first client still waits for an answer")
        if _OTHER_WORD not in self._note.read_text(encoding="utf-8"):
            raise StepFailed("the note is as before")
        return f"{len(answered)} answered elsewhere" if len(answered) > 1 else ""

    async def _end_editor(self, session: ClientSession, before: set[int]) -> None:
        """Kill the process that the editor has started in mid-turn; wait for the turn's end."""
        turn = session.prompt(behaviour.pausing_task("delta"))
        await _begin(turn)
        host = self._host(session)
        for pid in children() - before - {host.pid}:
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(_END_TIMEOUT):
            # No event reports the end of a lease.
            while self._holder(session.id) is not None:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
        last = self._recorded_turns(session.id)[-1]
        text = "".join(it.text for it in last.messages if it.role is Role.AGENT)
        self._answered.append("delta")
        if last.stop_reason != "end_turn" or behaviour.answer_mark("delta") not in text:
            raise StepFailed(f"recorded is {last.stop_reason}, and: {text[-200:]!r}")

    async def _load(self, session_id: str) -> str:
        """Load the session in the next editor, and check what the model is shown."""
        async with self._connected() as agent:
            session = await agent.load(session_id, self._workspace.project)
            expected = ["alpha", "bravo", "charlie", "delta"]
            if _tasks_in(session) != expected or not all(
                any(behaviour.answer_mark(task) in text for text in _texts(session))
                for task in self._answered
            ):
                raise StepFailed(f"replayed were {_texts(session)}")
            expected = list(self._answered)
            report = await self._task(session, "echo", behaviour.task("echo"))
            missing = [task for task in expected if task not in report.tasks]
            if missing:
                raise StepFailed(f"the model was not shown {', '.join(missing)}")
            return "native" if report.earlier >= len(expected) else "told"

    # -- helpers ------------------------------------------------------------------------------

    async def _task(self, session: ClientSession, name: str, prompt: str) -> behaviour.Report:
        turn = session.prompt(prompt)
        await turn
        report = behaviour.read_report(turn.text)
        if turn.text.startswith(behaviour.NO_TOOL):
            # The fake model does not know the tools of this agent that change files.
            raise NotOffered("the agent", "a known tool")
        self._answered.append(name)
        if turn.stop_reason != "end_turn" or report is None:
            raise StepFailed(f"the turn ended with {turn.stop_reason}, and: {turn.text[:200]!r}")
        return report

    def _host(self, session: ClientSession) -> LeaseHolder:
        holder = self._holder(session.id)
        if holder is None or not holder.socket:
            raise StepFailed("no process has the session")
        return holder

    def _holder(self, session_id: str) -> LeaseHolder | None:
        with open_store(self._address, create=False) as store:
            return store.lease_holder(session_id)

    def _recorded_turns(self, session_id: str) -> list[TranscriptTurn]:
        with open_store(self._address, create=False) as store:
            return fold(store.read(session_id)).turns

    @property
    def _address(self) -> StoreAddress:
        return path_address(Path(self._workspace.environ["REKINDLE_STORE"]))

    async def _try(self, step: str, attempt: Callable[[], Awaitable[object]]) -> None:
        self._record(step, await outcome_of(attempt, _TIMEOUT))

    def _record(self, step: str, outcome: Outcome) -> None:
        self.outcomes[step] = outcome
        remark = f": {outcome.remark}" if outcome.remark else ""
        self._print(f"    {SHARING_STEPS[step]}: {outcome.status}{remark}")


async def _begin(turn: Turn) -> None:
    """Return in the middle of the answer of a turn."""
    async for event in turn:
        if isinstance(event, MessageChunk):
            return
    raise StepFailed("the turn has no answer")


async def _approve(session: ClientSession, answered: list[PermissionRequest]) -> None:
    """Allow what the agent asks for in the turns of other clients."""
    async for event in session.follow():
        if isinstance(event, PermissionRequested):
            answered.append(event.request)
            event.request.allow()


def _texts(session: ClientSession) -> list[str]:
    """Return the messages of a session, without the white space at their ends."""
    return [it.text.strip() for it in session.history if isinstance(it, Message)]


def _tasks_in(session: ClientSession) -> list[str]:
    prompts = (it for it in session.history if isinstance(it, Message) and it.role is Role.USER)
    return [task for it in prompts for task in behaviour.tasks_in(it.text)]
