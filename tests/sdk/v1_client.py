"""The whole lifecycle, driven by the official Python SDK: `v1_client.py PID_FILE COMMAND …`.

COMMAND is `rekindle run` with an agent that writes its process id to PID_FILE, and has the actions
of the example agent. All processes are killed once, and the agent alone once. Any fault ends the
script with an error. The SDK supports only version 1.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import acp
from acp import schema
from acp.client import ClientSideConnection
from acp.utils import request_model

from message_validator import ExpectedModels, Validator

PID_FILE, *COMMAND = sys.argv[1:]
TIMEOUT = 20
CWD = "/home/user/project"
FIRST = "Please think, plan, read and edit"
QUESTION = "What did I say first? How many prompts were there?"
USER = "user_message_chunk"

EXPECTED = ExpectedModels(
    requests={"session/request_permission": schema.RequestPermissionRequest},
    notifications={"session/update": schema.SessionNotification},
    results={
        "initialize": schema.InitializeResponse,
        "session/new": schema.NewSessionResponse,
        "session/load": schema.LoadSessionResponse,
        "session/list": schema.ListSessionsResponse,
        "session/resume": schema.ResumeSessionResponse,
        "session/fork": schema.ForkSessionResponse,
        "session/close": schema.CloseSessionResponse,
        "session/delete": schema.DeleteSessionResponse,
        "session/set_mode": schema.SetSessionModeResponse,
        "session/prompt": schema.PromptResponse,
    },
)

Shown = list[dict[str, Any]]
Outcome = schema.AllowedOutcome | schema.DeniedOutcome
Question = tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]


class Editor:
    """A client: the methods that the SDK calls, and the actions of a user."""

    def __init__(self) -> None:
        self.permit: Callable[[Question], Awaitable[Outcome]] | None = None
        self._updates: list[tuple[str, Any]] = []
        self._news = asyncio.Event()
        self._complaints: list[str] = []
        self._sent_updates = 0

    # -- called by the SDK --

    def on_connect(self, conn: ClientSideConnection) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: object, **_: object) -> None:
        self._updates.append((session_id, update))
        self._news.set()

    async def request_permission(
        self,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: object,
    ) -> acp.RequestPermissionResponse:
        assert self.permit, "permission was asked for unexpectedly"
        return acp.RequestPermissionResponse(outcome=await self.permit((tool_call, options)))

    # -- connection --

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connect to Rekindle, which is killed or exits normally."""
        validator = Validator(EXPECTED, self._hear)
        async with acp.spawn_agent_process(
            self,
            *COMMAND,
            observers=[validator],
            use_unstable_protocol=True,
            transport_kwargs={"stderr": None},
        ) as (_, self.process):
            await self._greet()
            yield
        assert self.process.returncode in {0, -signal.SIGKILL}
        assert not self._complaints, self._complaints
        assert self.number_of_updates == self._sent_updates, "the SDK dropped updates"

    def _hear(self, method: str | None, wrong: str | None) -> None:
        self._sent_updates += method == "session/update"
        if wrong:
            self._complaints.append(wrong)

    async def _greet(self) -> None:
        info = schema.Implementation(name="rekindle-tests", version="1")
        answer = await self.agent.initialize(acp.PROTOCOL_VERSION, client_info=info)
        assert answer.protocol_version == acp.PROTOCOL_VERSION
        assert answer.agent_capabilities
        assert answer.agent_capabilities.load_session
        own = answer.agent_capabilities.session_capabilities
        assert own
        assert all([own.list, own.resume, own.close, own.delete, own.fork])

    def kill_agent(self) -> None:
        os.kill(int(Path(PID_FILE).read_text(encoding="utf-8")), signal.SIGKILL)

    def kill_everything(self) -> None:
        self.process.kill()
        self.kill_agent()

    # -- actions of a user --

    async def prompt(self, session_id: str, words: str) -> tuple[str, list[Any]]:
        start = self.number_of_updates
        answer = await self.agent.prompt(session_id, [acp.text_block(words)])
        return answer.stop_reason, self.updates(session_id, start)

    async def be_slow(self, session_id: str) -> asyncio.Task[tuple[str, list[Any]]]:
        """Start a turn that does not end by itself."""
        start = self.number_of_updates
        turn = asyncio.create_task(self.prompt(session_id, "Be slow"))
        async with asyncio.timeout(TIMEOUT):
            while "cancel" not in said(self.updates(session_id, start)):
                self._news.clear()
                await self._news.wait()
        return turn

    async def load(self, session_id: str) -> tuple[acp.LoadSessionResponse, list[Any]]:
        start = self.number_of_updates
        answer = await self.agent.load_session(CWD, session_id)
        return answer, self.updates(session_id, start)

    async def listed(self) -> list[schema.SessionInfo]:
        return (await self.agent.list_sessions(CWD)).sessions

    async def delete(self, session_id: str) -> None:
        """Delete a session, for which the SDK has models but no method."""
        params = schema.DeleteSessionRequest(session_id=session_id)
        connection = self.agent._conn  # noqa: SLF001 - there is no other way
        await request_model(connection, "session/delete", params, schema.DeleteSessionResponse)

    async def remembers(self, session_id: str, number: int) -> None:
        """Check that the agent knows the first prompt and the number of prompts."""
        stop_reason, updates = await self.prompt(session_id, QUESTION)
        assert stop_reason == "end_turn"
        words = said(updates)
        assert FIRST in words, words
        assert f"You sent {number} prompts before" in words, words

    @property
    def number_of_updates(self) -> int:
        return len(self._updates)

    def updates(self, session_id: str, start: int) -> list[Any]:
        return [update for whose, update in self._updates[start:] if whose == session_id]


def shown(updates: Iterable[Any]) -> Shown:
    """Return the conversation: joined texts, and the final tool calls and plans."""
    items: Shown = []
    calls: dict[str, dict[str, Any]] = {}
    plan: dict[str, Any] = {}
    for update in updates:
        kind: str = update.session_update
        if kind.endswith("_chunk"):
            if not items or items[-1]["is"] != kind:
                items.append({"is": kind, "text": ""})
            items[-1]["text"] += update.content.text
        elif kind.startswith("tool_call"):
            call = calls.setdefault(update.tool_call_id, {"is": "tool_call"})
            if len(call) == 1:
                items.append(call)
            call |= update.model_dump(exclude_none=True, exclude={"session_update", "field_meta"})
        elif kind == "plan":
            if not plan:
                items.append(plan)
            plan |= {"is": kind, "entries": update.entries}
    return items


def said(updates: Iterable[Any], by: str = "agent_message_chunk") -> str:
    return "".join(it["text"] for it in shown(updates) if it["is"] == by)


async def refused(request: Awaitable[object], code: int) -> None:
    try:
        await request
    except acp.RequestError as error:
        assert error.code == code, error  # noqa: PT017 - there is no pytest here
    else:
        raise AssertionError("it should be refused")


async def begin(editor: Editor) -> tuple[str, Shown]:
    """Create a session with a turn, a mode and cancelled turns; return the conversation."""
    created = await editor.agent.new_session(CWD)
    session_id = created.session_id
    assert created.modes
    assert created.modes.current_mode_id == "ask"
    questions: list[Question] = []

    async def allow(question: Question) -> Outcome:
        questions.append(question)
        return schema.AllowedOutcome(outcome="selected", option_id=question[1][0].option_id)

    editor.permit = allow
    first = await editor.prompt(session_id, FIRST)
    assert first[0] == "end_turn"
    assert len(questions) == 1
    kinds = {it["is"] for it in shown(first[1])}
    assert kinds >= {"agent_thought_chunk", "plan", "tool_call", "agent_message_chunk"}
    await editor.agent.set_session_mode(session_id, "code")

    turn = await editor.be_slow(session_id)
    await editor.agent.cancel(session_id)
    slow = await turn
    assert slow[0] == "cancelled"

    async def cancel(_: Question) -> Outcome:
        await editor.agent.cancel(session_id)
        return schema.DeniedOutcome(outcome="cancelled")

    editor.permit = cancel
    unanswered = await editor.prompt(session_id, "Please edit")
    assert unanswered[0] == "cancelled"
    turns = {FIRST: first, "Be slow": slow, "Please edit": unanswered}
    return session_id, [
        item
        for words, (_, updates) in turns.items()
        for item in [{"is": USER, "text": words}, *shown(updates)]
    ]


async def come_back(editor: Editor, session_id: str, live: Shown) -> None:
    """Check that the whole conversation is replayed."""
    [info] = await editor.listed()
    assert (info.session_id, info.cwd, info.title) == (session_id, CWD, FIRST)
    assert info.updated_at
    assert datetime.fromisoformat(info.updated_at).tzinfo
    answer, updates = await editor.load(session_id)
    assert shown(updates) == live
    assert answer.modes
    assert answer.modes.current_mode_id == "code"
    await editor.remembers(session_id, 3)


async def fork(editor: Editor, session_id: str) -> str:
    """Check that a fork is independent; return its id."""
    answer = await editor.agent.fork_session(session_id, CWD)
    assert answer.session_id != session_id
    await editor.remembers(answer.session_id, 4)
    _, again = await editor.load(session_id)
    assert [it["is"] for it in shown(again)].count(USER) == 4
    assert len(await editor.listed()) == 2
    return answer.session_id


async def lose_the_agent(editor: Editor, session_id: str) -> None:
    """Kill the agent in a turn. The turn fails, and the next agent knows it."""
    turn = await editor.be_slow(session_id)
    editor.kill_agent()
    await refused(turn, -32603)
    await editor.remembers(session_id, 5)


async def close_and_resume(editor: Editor, session_id: str) -> None:
    """Check that a closed session refuses prompts until it is resumed without a replay."""
    await editor.agent.close_session(session_id)
    await refused(editor.prompt(session_id, "Hello?"), -32002)
    start = editor.number_of_updates
    resumed = await editor.agent.resume_session(session_id, CWD)
    assert shown(editor.updates(session_id, start)) == []
    assert resumed.modes
    assert resumed.modes.current_mode_id == "code"
    await editor.remembers(session_id, 6)


async def delete(editor: Editor, session_id: str, left: str) -> None:
    """Check that a deleted session is gone, and that a second delete succeeds."""
    await editor.delete(session_id)
    await editor.delete(session_id)
    await refused(editor.load(session_id), -32002)
    assert [it.session_id for it in await editor.listed()] == [left]


async def main() -> None:
    editor = Editor()
    async with editor.connected():
        session_id, live = await begin(editor)
        editor.kill_everything()
    async with editor.connected():
        await come_back(editor, session_id, live)
        fork_id = await fork(editor, session_id)
        await lose_the_agent(editor, session_id)
        await close_and_resume(editor, session_id)
        await delete(editor, session_id, left=fork_id)


asyncio.run(main())
