"""Questions that are asked in odd ways, or come when nobody is there to answer them."""

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

ODD = (sys.executable, Path(__file__).parents[1] / "agents" / "agent_misbehaves_on_request.py")


async def test_choices_that_are_not_there_are_not_made() -> None:
    raised: list[str] = []

    def try_all(question: PermissionRequest) -> None:
        try:
            question.choose("nonsense")
        except UsageError as error:
            raised.append(str(error))
        question.reject()

    async with connect([*ODD, "1"], behind_rekindle=False, on_permission=try_all) as agent:
        session = await agent.new(".")
        assert '"the-reject_always"' in await session.ask("only_always")
        assert "there are the-allow_always, the-reject_always" in raised[0]
    async with connect([*ODD, "1"], behind_rekindle=False) as agent:
        session = await agent.new(".")
        said = [it.text async for it in session.prompt("no_reject") if isinstance(it, MessageChunk)]
        assert said == ['{"outcome": "cancelled"}']


async def test_who_allows_everything_allows_what_can_only_be_allowed_for_ever() -> None:
    async with connect(
        [*ODD, "1"], behind_rekindle=False, on_permission=PermissionRequest.allow
    ) as agent:
        session = await agent.new(".")
        assert '"the-allow_always"' in await session.ask("only_always")
        assert '"the-reject_once"' in await session.ask("no_allow")


async def test_choices_without_a_fit_id_are_none() -> None:
    seen: list[list[str]] = []

    def look(question: PermissionRequest) -> None:
        seen.append([choice.id for choice in question.choices])

    async with connect([*ODD, "1"], behind_rekindle=False, on_permission=look) as agent:
        session = await agent.new(".")
        assert await session.ask("odd_choices") == '{"outcome": "cancelled"}'
    assert seen == [["fit"]]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("on_permission", [None, PermissionRequest.allow])
async def test_a_question_that_crosses_with_a_cancellation_is_not_allowed(
    version: int, on_permission: OnPermission | None
) -> None:
    async with connect(
        [*ODD, str(version)], behind_rekindle=False, protocol=version, on_permission=on_permission
    ) as agent:
        session = await agent.new(".")
        turn = session.prompt("ask_when_cancelled")
        async for event in turn:
            assert not isinstance(event, PermissionRequested)
            turn.cancel()
        assert turn.text.endswith('{"outcome": "cancelled"}')


async def test_whoever_leaves_the_loop_and_waits_is_not_asked_any_more() -> None:
    async with connect([*ODD, "1"], behind_rekindle=False, on_permission=None) as agent:
        session = await agent.new(".")
        turn = session.prompt("only_always")
        async for _ in turn:
            break
        assert await turn == "end_turn"
        assert '"the-reject_always"' in turn.text


async def test_whoever_takes_only_updates_is_not_asked() -> None:
    async with connect([*ODD, "1"], behind_rekindle=False, on_permission=None) as agent:
        turn = (await agent.new(".")).prompt("only_always")
        assert [update["sessionUpdate"] async for update in turn.updates()]
        assert '"the-reject_always"' in turn.text


async def test_one_may_ask_while_another_waits() -> None:
    async with connect([*ODD, "1"], behind_rekindle=False, on_permission=None) as agent:
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
async def test_a_question_that_is_withdrawn_is_answered_as_its_version_wants(
    version: int, answer: str
) -> None:
    async with connect(
        [*ODD, str(version)], behind_rekindle=False, protocol=version, on_permission=None
    ) as agent:
        turn = (await agent.new(".")).prompt("withdrawn")
        async for _ in turn:
            pass
        assert turn.text == answer
