"""Permission requests: answered by a function, by the reader, or rejected."""

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

MISBEHAVING_AGENT = Path(__file__).parents[1] / "agents" / "agent_misbehaves_on_request.py"


async def allow_always_later(request: PermissionRequest) -> None:
    await asyncio.sleep(0)
    request.choose("allow-always")


async def do_nothing(_: PermissionRequest) -> None:
    pass


async def run_edit(session: ClientSession) -> tuple[str, str | None]:
    """Run an edit; return its final status and the outcome of its permission request."""
    calls = [it.tool_call async for it in session.prompt("edit") if isinstance(it, ToolCallUpdated)]
    return calls[-1].status, calls[-1].outcome


ANSWERS: list[tuple[OnPermission, tuple[str, str]]] = [
    (PermissionRequest.allow, ("completed", "Allow once")),
    (lambda request: request.allow(always=True), ("completed", "Always allow")),
    (lambda request: request.choose(request.choices[0]), ("completed", "Allow once")),
    (allow_always_later, ("completed", "Always allow")),
    (PermissionRequest.reject, ("failed", "Reject")),
    (PermissionRequest.cancel, ("failed", "cancelled")),
    (lambda _: None, ("failed", "Reject")),
    (do_nothing, ("failed", "Reject")),
]


async def test_on_permission_answers_requests(start: Start) -> None:
    answers = iter(ANSWERS)

    def answer(request: PermissionRequest) -> Awaitable[None] | None:
        on_permission, _ = next(answers)
        return on_permission(request)

    async with start(on_permission=answer) as agent:
        session = await agent.new(".")
        assert [await run_edit(session) for _ in ANSWERS] == [ending for _, ending in ANSWERS]


async def test_requests_are_rejected_by_default(start: Start) -> None:
    async with start() as agent:
        assert await run_edit(await agent.new(".")) == ("failed", "Reject")


async def test_reader_of_the_turn_answers_without_on_permission(start: Start) -> None:
    async with start(on_permission=None) as agent:
        session = await agent.new("/tmp")  # noqa: S108 - nothing is written there
        calls = []
        async for event in session.prompt("edit"):
            match event:
                case PermissionRequested(request):
                    assert request.tool_call is not None
                    assert request.tool_call.title == "Edit /tmp/notes.txt"
                    assert "Edit /tmp/notes.txt" in request.title
                    kinds = [choice.kind for choice in request.choices]
                    assert kinds == ["allow_once", "allow_always", "reject_once"]
                    request.allow()
                    request.reject()  # too late
                case ToolCallUpdated(call):
                    calls.append(call)
                case _:
                    pass
        assert (calls[-1].status, calls[-1].outcome) == ("completed", "Allow once")


async def test_request_without_a_reader_is_rejected(start: Start) -> None:
    async with start(on_permission=None) as agent:
        session = await agent.new(".")
        await session.ask("edit")
        (call,) = [it for it in session.history if isinstance(it, ToolCall)]
        assert call.outcome == "Reject"


async def test_exception_of_on_permission_rejects_and_is_raised_by_the_turn(start: Start) -> None:
    def fail(_: PermissionRequest) -> None:
        raise LookupError("no idea")

    async def fail_later(request: PermissionRequest) -> None:
        await asyncio.sleep(0)
        fail(request)

    for on_permission in (fail, fail_later):
        async with start(on_permission=on_permission) as agent:
            session = await agent.new(".")
            with pytest.raises(LookupError, match="no idea"):
                await session.ask("edit")
            assert await session.ask("Go on")


async def test_cancel_stops_on_permission(start: Start) -> None:
    started = asyncio.Event()
    stopped = asyncio.Event()

    async def wait_forever(_: PermissionRequest) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with start(on_permission=wait_forever) as agent:
        session = await agent.new(".")
        turn = session.prompt("edit")
        await started.wait()
        turn.cancel()
        assert await turn == "cancelled"
        await stopped.wait()
        assert await session.ask("Go on")


async def test_withdrawn_request_stops_on_permission(start: Start) -> None:
    del start
    calls_seen: list[str] = []

    async def wait_forever(request: PermissionRequest) -> None:
        calls_seen.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            request.allow()
            calls_seen.append("ended")

    command = [sys.executable, MISBEHAVING_AGENT, "1"]
    async with connect(command, behind_rekindle=False, on_permission=wait_forever) as agent:
        session = await agent.new(".")
        assert await session.ask("withdraw") == "-32800"
        # The request may have been withdrawn before the function was started.
        assert calls_seen in ([], ["begun", "ended"])
