"""Who answers when the agent asks for permission, and what becomes of it if nobody does."""

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest

from rekindle.client import (
    Asked,
    Called,
    OnPermission,
    Question,
    Session,
    ToolCall,
    connect,
)
from version_pairs import PAIRS, Start

pytestmark = pytest.mark.parametrize("pair", PAIRS[:2], ids=str)

ODD = Path(__file__).parents[1] / "agents" / "odd.py"


async def later(question: Question) -> None:
    await asyncio.sleep(0)
    question.choose("allow-always")


async def shrug(_: Question) -> None:
    pass


async def edited(session: Session) -> tuple[str, str | None]:
    """Return how an edit ends, and what was answered to the question before it."""
    calls = [it.call async for it in session.prompt("edit") if isinstance(it, Called)]
    return calls[-1].status, calls[-1].outcome


WAYS: list[tuple[OnPermission, tuple[str, str]]] = [
    (Question.allow, ("completed", "Allow once")),
    (lambda question: question.allow(always=True), ("completed", "Always allow")),
    (lambda question: question.choose(question.choices[0]), ("completed", "Allow once")),
    (later, ("completed", "Always allow")),
    (Question.reject, ("failed", "Reject")),
    (Question.cancel, ("failed", "cancelled")),
    (lambda _: None, ("failed", "Reject")),
    (shrug, ("failed", "Reject")),
]


async def test_a_function_answers(start: Start) -> None:
    ways = iter(WAYS)

    def answer(question: Question) -> Awaitable[None] | None:
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
                case Asked(question):
                    assert question.call is not None
                    assert question.call.title == "Edit /tmp/notes.txt"
                    assert "Edit /tmp/notes.txt" in question.title
                    kinds = [choice.kind for choice in question.choices]
                    assert kinds == ["allow_once", "allow_always", "reject_once"]
                    question.allow()
                    question.reject()  # too late
                case Called(call):
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
    def fail(_: Question) -> None:
        raise LookupError("no idea")

    async def fail_later(question: Question) -> None:
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

    async def think_for_ever(_: Question) -> None:
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

    async def think_for_ever(question: Question) -> None:
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
