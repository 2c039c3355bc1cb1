"""`TurnEnded` is the last event of every turn, with its stop reason, usage and error."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from rekindle.acp.jsonrpc import error_response, notification, response
from rekindle.client import (
    AgentGone,
    AgentRefused,
    ClientSession,
    Event,
    MessageChunk,
    PermissionRequest,
    Turn,
    TurnEnded,
)
from rekindle.client.dispatcher import SessionDispatcher
from rekindle.client.handshake import Handshake
from rekindle.client.process import ProcessExit
from rekindle.client.session_channel import SessionChannel
from rekindle.model import AgentIdentity

USAGE = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}


class Agent:
    """The messages of an agent without a process. Requests of the client are discarded."""

    def __init__(self, protocol: int) -> None:
        self.sessions = SessionDispatcher()
        handshake = Handshake(
            protocol=protocol,
            identity=AgentIdentity(),
            capabilities={},
            offered=frozenset(),
            auth_methods=(),
        )
        context = self.sessions.context(handshake, PermissionRequest.reject)
        channel = SessionChannel("s", context)
        self.sessions.add(channel)
        self.session = ClientSession(channel, "/")

    def update(self, kind: str, **fields: object) -> None:
        update = {"sessionUpdate": kind, **fields}
        params = {"sessionId": "s", "update": update}
        self.sessions.rpc.receive(notification("session/update", params))

    def respond(self, result: dict[str, Any]) -> None:
        self.sessions.rpc.receive(response(Raw(b"1"), result))

    def refuse(self, code: int) -> None:
        self.sessions.rpc.receive(error_response(Raw(b"1"), code, "no"))


async def events_until_error(turn: Turn) -> tuple[list[Event], BaseException | None]:
    events: list[Event] = []
    try:
        async for event in turn:
            events.append(event)  # noqa: PERF401 - keeps those before the error
    except Exception as error:  # noqa: BLE001 - the test examines it
        return events, error
    return events, None


@pytest.mark.parametrize("usage", [None, USAGE])
async def test_v1_response_ends_the_turn_with_its_reason_and_usage(usage: object) -> None:
    agent = Agent(1)
    turn = agent.session.prompt("Hello")
    agent.update("agent_message_chunk", content={"type": "text", "text": "Hi"})
    agent.respond({"stopReason": "max_tokens", "usage": usage})
    ended = TurnEnded(stop_reason="max_tokens", usage=USAGE if usage else None)
    assert [event async for event in turn] == [MessageChunk(text="Hi"), ended]
    assert await turn == turn.stop_reason == "max_tokens"


async def test_v2_idle_state_ends_the_turn_with_its_reason_and_usage() -> None:
    agent = Agent(2)
    turn = agent.session.prompt("Hello")
    agent.respond({"messageId": "u"})
    agent.update("state_update", state="running")
    agent.update("state_update", state="idle", stopReason="refusal", usage=USAGE)
    assert [event async for event in turn] == [TurnEnded(stop_reason="refusal", usage=USAGE)]


async def test_v2_error_is_in_the_last_event_and_raised_after_it() -> None:
    agent = Agent(2)
    turn = agent.session.prompt("Hello")
    agent.respond({"messageId": "u"})
    agent.update("state_update", state="running")
    failure = {"code": -32603, "message": "broken"}
    agent.update("state_update", state="idle", stopReason="error", error=failure)
    (ended,), error = await events_until_error(turn)
    assert isinstance(error, AgentRefused)
    assert ended == TurnEnded(stop_reason="error", error=error)


@pytest.mark.parametrize("protocol", [1, 2])
async def test_refused_prompt_ends_with_the_error_and_no_reason(protocol: int) -> None:
    agent = Agent(protocol)
    turn = agent.session.prompt("Hello")
    agent.refuse(-32603)
    (ended,), error = await events_until_error(turn)
    assert isinstance(error, AgentRefused)
    assert ended == TurnEnded(stop_reason=None, error=error)
    with pytest.raises(AgentRefused):
        await turn


async def test_exit_of_the_agent_ends_the_turn_with_the_error() -> None:
    agent = Agent(1)
    turn = agent.session.prompt("Hello")
    agent.sessions.close(ProcessExit(3, None, ()))
    (ended,), error = await events_until_error(turn)
    assert isinstance(error, AgentGone)
    assert ended == TurnEnded(stop_reason=None, error=error)


async def test_prompt_is_accepted_by_the_response_of_version_2_and_the_update_of_version_1() -> (
    None
):
    for protocol in (1, 2):
        agent = Agent(protocol)
        turn = agent.session.prompt("Hello")
        accepted = asyncio.ensure_future(turn.accepted())
        await asyncio.sleep(0)
        assert not accepted.done()
        if protocol == 1:
            agent.update("agent_message_chunk", content={"type": "text", "text": "Hi"})
        else:
            agent.respond({"messageId": "u"})
        await accepted
        assert not turn.is_over


@pytest.mark.parametrize("protocol", [1, 2])
async def test_refused_prompt_is_not_accepted(protocol: int) -> None:
    agent = Agent(protocol)
    turn = agent.session.prompt("Hello")
    agent.refuse(-32603)
    with pytest.raises(AgentRefused):
        await turn.accepted()


async def test_reader_that_comes_late_still_receives_the_last_event() -> None:
    agent = Agent(1)
    turn = agent.session.prompt("Hello")
    waiting = asyncio.ensure_future(turn_end(turn))
    await asyncio.sleep(0)
    agent.update("agent_message_chunk", content={"type": "text", "text": "unread"})
    agent.respond({"stopReason": "end_turn"})
    assert await waiting == "end_turn"
    assert [event async for event in turn] == [TurnEnded(stop_reason="end_turn")]


async def turn_end(turn: Turn) -> str:
    return await turn
