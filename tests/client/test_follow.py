"""Clients that share a session: follow the turns of others, answer, wait for them, and leave."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import rekindle
from rekindle.client import (
    AgentGone,
    ClientSession,
    Event,
    HostError,
    Message,
    MessageChunk,
    PermissionRequest,
    PermissionRequested,
    SessionChanged,
    SessionRole,
    ToolCallUpdated,
    Turn,
    TurnEnded,
    TurnStarted,
    UserMessageChunk,
    connect_to_host,
)
from rekindle.errors import SessionNotFound, SessionNotHosted, UsageError
from rekindle.store.sqlite.store import SqliteStore
from version_pairs import PAIRS, Pair, Start

# The version of the client that prompts, and of the agent.
BEHIND = [pair for pair in PAIRS if pair.behind_rekindle]
SLOW = ("--delay", "0.02")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture(params=BEHIND, ids=str)
def pair(request: pytest.FixtureRequest) -> Pair:
    return request.param


@pytest.fixture(params=(1, 2))
def protocol(request: pytest.FixtureRequest) -> int:
    """Return the version of the client that joins."""
    return request.param


class Sharing:
    """A session in use, and clients that join it."""

    def __init__(self, stack: AsyncExitStack, session: ClientSession, store: Path) -> None:
        self._stack = stack
        self._store = store
        self.session = session
        with SqliteStore(store, create=False) as opened:
            holder = opened.lease_holder(session.id)
        assert holder is not None
        self.socket = holder.socket

    async def join(self, protocol: int, role: SessionRole = "approver") -> ClientSession:
        agent = await self._stack.enter_async_context(
            connect_to_host(self.socket, protocol=protocol)
        )
        assert agent.protocol == protocol
        return await agent.load(self.session.id, self._store.parent, role=role)

    async def ask_permission(self) -> Turn:
        """Start a turn, and return it when the agent has asked for permission."""
        turn = self.session.prompt("edit")
        async for event in turn:
            if isinstance(event, PermissionRequested):
                return turn
        raise AssertionError


@asynccontextmanager
async def sharing(start: Start, store: Path, *agent: str) -> AsyncIterator[Sharing]:
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(start(*agent, on_permission=None))
        session = await host.new(store.parent)
        await session.ask("Hello")
        yield Sharing(stack, session, store)


async def finish(turn: Turn) -> str | None:
    """Read the rest of a turn. Awaiting it would reject its requests."""
    async for _ in turn:
        pass
    return turn.stop_reason


def texts(session: ClientSession) -> list[str]:
    return [f"{it.role}: {it.text}" for it in session.history if isinstance(it, Message)]


async def until_end(events: AsyncIterator[Event]) -> list[Event]:
    """Return the events up to the end of the turn."""
    seen: list[Event] = []
    async for event in events:
        seen.append(event)
        if isinstance(event, TurnEnded):
            return seen
    raise AssertionError


async def next_request(events: AsyncIterator[Event]) -> PermissionRequest:
    async for event in events:
        if isinstance(event, PermissionRequested):
            assert event.needs_answer
            return event.request
    raise AssertionError


async def test_turns_of_others_are_followed(start: Start, store: Path, protocol: int) -> None:
    async with sharing(start, store) as shared:
        session, other = shared.session, await shared.join(protocol)
        assert texts(other) == texts(session)
        assert other.state == "idle"
        events = other.follow()
        answer = await session.ask("More")
        seen = await until_end(events)
        prompt, begin, *rest = seen
        assert isinstance(prompt, UserMessageChunk)
        assert prompt.text == "More"
        assert isinstance(begin, TurnStarted)
        assert "".join(it.text for it in rest if isinstance(it, MessageChunk)) == answer
        assert seen[-1] == TurnEnded(stop_reason="end_turn")
        assert texts(other) == texts(session)
        assert other.transcript.turns[-1].stop_reason == "end_turn"
        assert other.state == "idle"


async def test_a_client_that_comes_in_mid_turn_answers(
    start: Start, store: Path, protocol: int
) -> None:
    async with sharing(start, store) as shared:
        turn = await shared.ask_permission()
        other = await shared.join(protocol)
        assert other.state == "requires_action"
        events = other.follow()
        assert isinstance(await anext(events), TurnStarted)
        (await next_request(events)).allow()
        assert await finish(turn) == "end_turn"
        seen = await until_end(events)
        assert [it.field for it in seen if isinstance(it, SessionChanged)][:1] == ["state"]
        calls = [it.tool_call for it in seen if isinstance(it, ToolCallUpdated)]
        assert calls[-1].status == "completed"
        assert seen[-1] == TurnEnded(stop_reason="end_turn")
        assert texts(other) == texts(shared.session)


async def test_the_first_answer_counts(start: Start, store: Path, protocol: int) -> None:
    async with sharing(start, store) as shared:
        first, second = await shared.join(protocol), await shared.join(3 - protocol)
        turn = await shared.ask_permission()
        asked, too_late = await next_request(first.follow()), await next_request(second.follow())
        asked.allow()
        seen = await until_end(second.follow())
        assert too_late.is_answered
        too_late.reject()
        assert await finish(turn) == "end_turn"
        calls = [it.tool_call for it in seen if isinstance(it, ToolCallUpdated)]
        # Whether it was allowed is known from the record only.
        assert (calls[-1].status, calls[-1].outcome) == ("completed", None)


async def test_a_reader_that_leaves_answers_nothing(
    start: Start, store: Path, protocol: int
) -> None:
    async with sharing(start, store) as shared:
        turn = shared.session.prompt("edit")
        async with connect_to_host(shared.socket, protocol=protocol) as agent:
            other = await agent.load(shared.session.id, store.parent, role="approver")
            await next_request(other.follow())
        async with connect_to_host(shared.socket, protocol=protocol) as agent:
            other = await agent.load(shared.session.id, store.parent, role="approver")
            await next_request(other.follow())
            await other.close()
            assert not other.is_open
        async for event in turn:
            if isinstance(event, PermissionRequested):
                assert not event.request.is_answered
                event.request.allow()
        assert turn.stop_reason == "end_turn"
        assert shared.session.is_open


async def test_an_observer_watches_only(start: Start, store: Path, protocol: int) -> None:
    async with sharing(start, store) as shared:
        other = await shared.join(protocol, "observer")
        events = other.follow()
        turn = await shared.ask_permission()
        turn.cancel()
        assert await finish(turn) == "cancelled"
        seen = await until_end(events)
        assert not [it for it in seen if isinstance(it, PermissionRequested)]
        assert seen[-1] == TurnEnded(stop_reason="cancelled")
        with pytest.raises(rekindle.errors.AgentRefused, match="observer"):
            await other.ask("May I?")


async def test_a_prompt_waits_for_the_turn_of_another_client(
    start: Start, store: Path, protocol: int
) -> None:
    async with sharing(start, store, *SLOW) as shared:
        other = await shared.join(protocol, "client")
        events = other.follow()
        running = shared.session.prompt("count to 25")
        async for event in events:
            if isinstance(event, MessageChunk):
                break
        queued = other.prompt("And mine?")
        # Another prompt waits, too.
        third = await shared.join(3 - protocol, "client")
        last = third.prompt("Then this.")
        own = [event async for event in queued]
        assert await running == "end_turn"
        assert await last == "end_turn"
        assert queued.text.startswith("You said: And mine?")
        assert "".join(it.text for it in own if isinstance(it, MessageChunk)) == queued.text
        assert last.text.startswith("You said: Then this.")
        # The rest of the turn before is not a part of the own one.
        seen = await until_end(events)
        assert "25" in "".join(it.text for it in seen if isinstance(it, MessageChunk))
        assert seen[-1] == TurnEnded(stop_reason="end_turn")
        prompts = [it for it in texts(shared.session) if it.startswith("user")]
        assert prompts[:2] == ["user: Hello", "user: count to 25"]
        assert sorted(prompts[2:]) == ["user: And mine?", "user: Then this."]
        for session in (other, third):
            assert [it for it in texts(session) if it.startswith("user")] == prompts
        assert texts(other) == texts(third) == texts(shared.session)


async def test_cancelling_removes_only_the_prompt_that_waits(
    start: Start, store: Path, protocol: int
) -> None:
    async with sharing(start, store) as shared:
        other = await shared.join(protocol, "client")
        turn = await shared.ask_permission()
        async for event in other.follow():
            if isinstance(event, TurnStarted):
                break
        queued = other.prompt("Never sent.")
        queued.cancel()
        assert await queued == "cancelled"
        assert queued.text == ""
        assert not turn.is_over
        turn.cancel()
        assert await finish(turn) == "cancelled"
        assert "user: Never sent." not in texts(other)
        assert (await other.ask("Again")).startswith("You said: Again")


async def test_the_end_of_the_host_ends_the_events(
    start: Start, store: Path, protocol: int
) -> None:
    async with AsyncExitStack() as stack:
        async with sharing(start, store) as shared:
            connecting = connect_to_host(shared.socket, protocol=protocol)
            agent = await stack.enter_async_context(connecting)
            other = await agent.load(shared.session.id, store.parent)
            events = other.follow()
        with pytest.raises(AgentGone, match="process that has the session has ended"):
            async for _ in events:
                pass
        assert not other.is_open
        with pytest.raises(HostError, match="no connection"):
            async with connect_to_host(shared.socket):
                pass


@pytest.mark.parametrize("pair", BEHIND[:1], ids=str)
async def test_attach_finds_the_process(start: Start, store: Path) -> None:
    async with sharing(start, store) as shared:
        turn = await shared.ask_permission()
        async with rekindle.attach(shared.session.id, store=store) as session:
            (await next_request(session.follow())).allow()
        assert await finish(turn) == "end_turn"
        async with rekindle.attach(shared.session.id, store=store, role="client") as session:
            assert (await session.ask("Bye")).startswith("You said: Bye")
        with pytest.raises(SessionNotFound):
            async with rekindle.attach("unknown", store=store):
                pass
        with pytest.raises(UsageError, match="no role 'boss'"):
            await shared.join(1, "boss")  # type: ignore[arg-type]
    with pytest.raises(SessionNotHosted, match="rekindle resume"):
        async with rekindle.attach(shared.session.id, store=store):
            pass
