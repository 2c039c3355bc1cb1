"""Unusual permission requests, and requests without a reader."""

import asyncio
import sys
from pathlib import Path

import pytest

from rekindle.client import (
    MessageChunk,
    OnPermission,
    PermissionRequest,
    PermissionRequested,
    UsageError,
    connect,
)

MISBEHAVING_AGENT = (
    sys.executable,
    Path(__file__).parents[1] / "agents" / "agent_misbehaves_on_request.py",
)


async def test_choose_raises_for_an_unknown_choice() -> None:
    raised: list[str] = []

    def choose_unknown(request: PermissionRequest) -> None:
        try:
            request.choose("nonsense")
        except UsageError as error:
            raised.append(str(error))
        request.reject()

    async with connect(
        [*MISBEHAVING_AGENT, "1"], behind_rekindle=False, on_permission=choose_unknown
    ) as agent:
        session = await agent.new(".")
        assert '"the-reject_always"' in await session.ask("only_always")
        assert "the choices are the-allow_always, the-reject_always" in raised[0]
    async with connect([*MISBEHAVING_AGENT, "1"], behind_rekindle=False) as agent:
        session = await agent.new(".")
        texts = [
            it.text async for it in session.prompt("no_reject") if isinstance(it, MessageChunk)
        ]
        assert texts == ['{"outcome": "cancelled"}']


async def test_allow_falls_back_to_always_and_then_to_reject() -> None:
    async with connect(
        [*MISBEHAVING_AGENT, "1"], behind_rekindle=False, on_permission=PermissionRequest.allow
    ) as agent:
        session = await agent.new(".")
        assert '"the-allow_always"' in await session.ask("only_always")
        assert '"the-reject_once"' in await session.ask("no_allow")


async def test_choices_without_a_valid_id_are_left_out() -> None:
    seen: list[list[str]] = []

    def note_choices(request: PermissionRequest) -> None:
        seen.append([choice.id for choice in request.choices])

    async with connect(
        [*MISBEHAVING_AGENT, "1"], behind_rekindle=False, on_permission=note_choices
    ) as agent:
        session = await agent.new(".")
        assert await session.ask("odd_choices") == '{"outcome": "cancelled"}'
    assert seen == [["fit"]]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("on_permission", [None, PermissionRequest.allow])
async def test_request_that_crosses_with_cancel_is_answered_as_cancelled(
    version: int, on_permission: OnPermission | None
) -> None:
    async with connect(
        [*MISBEHAVING_AGENT, str(version)],
        behind_rekindle=False,
        protocol=version,
        on_permission=on_permission,
    ) as agent:
        session = await agent.new(".")
        turn = session.prompt("ask_when_cancelled")
        async for event in turn:
            assert not isinstance(event, PermissionRequested)
            turn.cancel()
        assert turn.text.endswith('{"outcome": "cancelled"}')


async def test_await_after_leaving_the_loop_rejects_requests() -> None:
    async with connect(
        [*MISBEHAVING_AGENT, "1"], behind_rekindle=False, on_permission=None
    ) as agent:
        session = await agent.new(".")
        turn = session.prompt("only_always")
        async for _ in turn:
            break
        assert await turn == "end_turn"
        assert '"the-reject_always"' in turn.text


async def test_requests_are_rejected_if_only_updates_are_read() -> None:
    async with connect(
        [*MISBEHAVING_AGENT, "1"], behind_rekindle=False, on_permission=None
    ) as agent:
        turn = (await agent.new(".")).prompt("only_always")
        assert [update["sessionUpdate"] async for update in turn.updates()]
        assert '"the-reject_always"' in turn.text


async def test_one_task_answers_while_another_awaits() -> None:
    async with connect(
        [*MISBEHAVING_AGENT, "1"], behind_rekindle=False, on_permission=None
    ) as agent:
        turn = (await agent.new(".")).prompt("only_always")

        async def answer() -> None:
            async for event in turn:
                if isinstance(event, PermissionRequested):
                    event.request.allow()

        answering = asyncio.create_task(answer())
        await asyncio.sleep(0)
        assert await turn == "end_turn"
        await answering
        assert '"the-allow_always"' in turn.text


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        (1, '{"error": {"code": -32800, "message": "withdrawn"}}'),
        (2, '{"result": {"outcome": {"outcome": "cancelled"}}}'),
    ],
)
async def test_withdrawn_request_is_answered_in_its_version(version: int, answer: str) -> None:
    async with connect(
        [*MISBEHAVING_AGENT, str(version)],
        behind_rekindle=False,
        protocol=version,
        on_permission=None,
    ) as agent:
        turn = (await agent.new(".")).prompt("withdrawn")
        async for _ in turn:
            pass
        assert turn.text == answer
