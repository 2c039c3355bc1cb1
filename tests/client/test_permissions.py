"""Who answers when the agent asks for permission, and what becomes of it if nobody does."""

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest

from rekindle.client import (
    ClientSession,
    OnPermission,
    PermissionRequest,
    PermissionRequested,
    ToolCall,
    ToolCallUpdated,
    connect,
)
from version_pairs import PAIRS, Start

pytestmark = pytest.mark.parametrize("pair", PAIRS[:2], ids=str)

ODD = Path(__file__).parents[1] / "agents" / "agent_misbehaves_on_request.py"


async def later(question: PermissionRequest) -> None:
    await asyncio.sleep(0)
    question.choose("allow-always")


async def shrug(_: PermissionRequest) -> None:
    pass


async def edited(session: ClientSession) -> tuple[str, str | None]:
    """Return how an edit ends, and what was answered to the question before it."""
    calls = [it.tool_call async for it in session.prompt("edit") if isinstance(it, ToolCallUpdated)]
    return calls[-1].status, calls[-1].outcome


WAYS: list[tuple[OnPermission, tuple[str, str]]] = [
    (PermissionRequest.allow, ("completed", "Allow once")),
    (lambda question: question.allow(always=True), ("completed", "Always allow")),
    (lambda question: question.choose(question.choices[0]), ("completed", "Allow once")),
    (later, ("completed", "Always allow")),
    (PermissionRequest.reject, ("failed", "Reject")),
    (PermissionRequest.cancel, ("failed", "cancelled")),
    (lambda _: None, ("failed", "Reject")),
    (shrug, ("failed", "Reject")),
]


async def test_a_function_answers(start: Start) -> None:
    ways = iter(WAYS)

    def answer(question: PermissionRequest) -> Awaitable[None] | None:
        on_permission, _ = next(ways)
        return on_permission(question)

    async with start(on_permission=answer) as agent:
        session = await agent.new(".")
        assert [await edited(session) for _ in WAYS] == [ending for _, ending in WAYS]


async def test_nothing_is_allowed_unless_somebody_says_so(start: Start) -> None:
    async with start() as agent:
        assert await edited(await agent.new(".")) == ("failed", "Reject")


async def test_the_reader_of_the_turn_answers(start: Start) -> None:
    async with start(on_permission=None) as agent:
        session = await agent.new("/tmp")  # noqa: S108 - nothing is written there
        calls = []
        async for event in session.prompt("edit"):
            match event:
                case PermissionRequested(question):
                    assert question.tool_call is not None
                    assert question.tool_call.title == "Edit /tmp/notes.txt"
                    assert "Edit /tmp/notes.txt" in question.title
                    kinds = [choice.kind for choice in question.choices]
                    assert kinds == ["allow_once", "allow_always", "reject_once"]
                    question.allow()
                    question.reject()  # too late
                case ToolCallUpdated(call):
                    calls.append(call)
                case _:
                    pass
        assert (calls[-1].status, calls[-1].outcome) == ("completed", "Allow once")


async def test_a_question_that_nobody_will_see_is_rejected(start: Start) -> None:
    async with start(on_permission=None) as agent:
        session = await agent.new(".")
        await session.ask("edit")
        (call,) = [it for it in session.history if isinstance(it, ToolCall)]
        assert call.outcome == "Reject"


async def test_a_failing_function_rejects_and_its_error_is_raised(start: Start) -> None:
    def fail(_: PermissionRequest) -> None:
        raise LookupError("no idea")

    async def fail_later(question: PermissionRequest) -> None:
        await asyncio.sleep(0)
        fail(question)

    for on_permission in (fail, fail_later):
        async with start(on_permission=on_permission) as agent:
            session = await agent.new(".")
            with pytest.raises(LookupError, match="no idea"):
                await session.ask("edit")
            assert await session.ask("Go on")


async def test_a_cancelled_turn_leaves_no_question_open(start: Start) -> None:
    thinking = asyncio.Event()
    interrupted = asyncio.Event()

    async def think_for_ever(_: PermissionRequest) -> None:
        thinking.set()
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.set()

    async with start(on_permission=think_for_ever) as agent:
        session = await agent.new(".")
        turn = session.prompt("edit")
        await thinking.wait()
        turn.cancel()
        assert await turn == "cancelled"
        await interrupted.wait()
        assert await session.ask("Go on")


async def test_a_question_that_is_withdrawn_is_thought_about_no_more(start: Start) -> None:
    del start
    thoughts: list[str] = []

    async def think_for_ever(question: PermissionRequest) -> None:
        thoughts.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            question.allow()
            thoughts.append("ended")

    odd = [sys.executable, ODD, "1"]
    async with connect(odd, behind_rekindle=False, on_permission=think_for_ever) as agent:
        session = await agent.new(".")
        assert await session.ask("withdraw") == "-32800"
        # Perhaps it was withdrawn before there was the time to think of it.
        assert thoughts in ([], ["begun", "ended"])
