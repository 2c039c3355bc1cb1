"""The session lifecycle with agents of both versions, bare and behind Rekindle."""

from itertools import groupby
from typing import Any

import pytest

from rekindle.client import (
    AgentRefused,
    ClientSession,
    Message,
    MessageChunk,
    NotOffered,
    PermissionRequest,
    PermissionRequested,
    Plan,
    PlanUpdated,
    SessionBusy,
    SessionChanged,
    SessionClosed,
    TerminalOutput,
    ThoughtChunk,
    ToolCall,
    ToolCallUpdated,
    TurnEnded,
)
from version_pairs import PAIRS, Pair, Start

EVERYTHING = "think, plan, edit, run, title, usage"


v1_and_rekindle = pytest.mark.parametrize("pair", [PAIRS[0], PAIRS[2]], ids=str)
bare = pytest.mark.parametrize("pair", PAIRS[:2], ids=str)


def shape(session: ClientSession) -> list[Any]:
    """Return the history of a session in a form that can be compared."""
    shown: list[Any] = []
    for item in session.history:
        match item:
            case Message():
                shown.append((item.role, item.text))
            case ToolCall():
                shown.append((item.id, item.title, item.kind, item.status))
            case Plan():
                shown.append(item.entries)
            case _:
                shown.append(item)
    return shown


def terminals(session: ClientSession) -> str:
    return "".join(terminal.text for terminal in session.transcript.terminals.values())


async def test_events_are_in_order_and_load_returns_the_same_history(
    start: Start, pair: Pair
) -> None:
    async with start(on_permission=PermissionRequest.allow) as agent:
        assert agent.protocol == pair.client
        assert agent.info.name == "example-agent"
        session = await agent.new("/tmp")  # noqa: S108 - nothing is written there
        turn = session.prompt(EVERYTHING)
        events = [event async for event in turn]
        assert await turn == turn.stop_reason == "end_turn"
        await session.ask("count to 500")
        await session.set_mode("code")
    # The position of the commands and the borders of chunks depend on timing.
    kinds = [
        type(it)
        for it in events
        if it != SessionChanged("commands") and type(it) is not TerminalOutput
    ]
    order = [
        ThoughtChunk,
        PlanUpdated,
        ToolCallUpdated,
        PermissionRequested,
        ToolCallUpdated,
        SessionChanged,
        MessageChunk,
        TurnEnded,
    ]
    assert [kind for kind, _ in groupby(kinds)] == order
    assert "".join(it.text for it in events if isinstance(it, MessageChunk)) == turn.text
    assert turn.text == f"You said: {EVERYTHING}. That makes 1 message so far."
    plans = [it.plan for it in events if isinstance(it, PlanUpdated)]
    assert [entry.status for entry in plans[0].entries] == ["in_progress", "pending", "pending"]
    assert [entry.status for entry in plans[-1].entries] == ["completed"] * 3
    calls = [it.tool_call for it in events if isinstance(it, ToolCallUpdated)]
    edits = [call for call in calls if call.kind == "edit"]
    assert [call.status for call in edits] == ["pending", "in_progress", "completed"]
    assert edits[0].title == "Edit /tmp/notes.txt"
    assert edits[-1].outcome == "Allow once"
    assert "+the oat milk" in str(edits[-1].content)
    assert "hello" in str(calls[-1].content) or "hello" in terminals(session)
    assert {SessionChanged("title"), SessionChanged("usage")} <= {
        it for it in events if type(it) is SessionChanged
    }
    assert session.title == EVERYTHING
    assert session.usage
    assert session.usage["used"] == 50

    async with start() as agent:
        loaded = await agent.load(session.id, session.cwd)
        assert shape(loaded) == shape(session)
        assert loaded.mode == session.mode == "code"
        assert loaded.title in {EVERYTHING, None}
        assert "first: think" in await loaded.ask("what did I say first?")


@v1_and_rekindle
async def test_resume_replays_nothing_and_keeps_the_memory(start: Start) -> None:
    async with start() as agent:
        session = await agent.new(".")
        await session.ask("My name is Ada.")
    async with start() as agent:
        resumed = await agent.resume(session.id, session.cwd)
        assert shape(resumed) == []
        assert await resumed.ask("what did I say first?") == "You said first: My name is Ada."


async def test_list_fork_close_and_delete(start: Start) -> None:
    async with start() as agent:
        first = await agent.new("/tmp/one")  # noqa: S108 - nothing is written there
        await first.ask("My name is Ada. title")
        second = await agent.new("/tmp/two")  # noqa: S108 - as above
        await second.ask("Hello")
        assert {it.id async for it in agent.sessions()} == {first.id, second.id}
        (info,) = [it async for it in agent.sessions("/tmp/one")]  # noqa: S108 - as above
        assert (info.id, info.cwd) == (first.id, first.cwd)
        assert info.title == "My name is Ada. title"
        assert info.updated_at is not None
        assert info.updated_at.tzinfo is not None

        fork = await agent.fork(first.id, first.cwd)
        assert fork.id != first.id
        assert "first: My name is Ada" in await fork.ask("what did I say first?")
        assert "You sent 1 prompt before" in await first.ask("how many prompts?")

        await first.close()
        assert not first.is_open
        with pytest.raises(SessionClosed, match=first.id):
            first.prompt("Are you there?")
        again = await agent.load(first.id, first.cwd)
        assert "You sent 2 prompts before" in await again.ask("how many prompts?")

        await agent.delete(first.id)
        assert not again.is_open
        assert {it.id async for it in agent.sessions()} == {second.id, fork.id}


@bare
async def test_cancelled_turn_leaves_the_session_usable(start: Start) -> None:
    async with start() as agent:
        session = await agent.new(".")
        turn = session.prompt("slow")
        async for event in turn:
            if isinstance(event, MessageChunk) and "cancel." in turn.text:
                with pytest.raises(SessionBusy):
                    session.prompt("Hurry up")
                turn.cancel()
        assert turn.stop_reason == "cancelled"
        turn.cancel()  # has no effect any more
        assert session.turn is None
        assert "2 messages so far" in await session.ask("Go on")


@bare
async def test_close_ends_the_running_turn(start: Start) -> None:
    async with start() as agent:
        session = await agent.new(".")
        turn = session.prompt("slow")
        await anext(aiter(turn))
        await session.close()
        assert await turn == "cancelled"


@bare
async def test_failed_turn_raises_and_leaves_the_session_usable(start: Start) -> None:
    async with start() as agent:
        session = await agent.new(".")
        with pytest.raises(AgentRefused, match="failed, as the prompt asked") as caught:
            await session.ask("error")
        assert (caught.value.method, caught.value.code) == ("session/prompt", -32603)
        turn = session.prompt("error")
        with pytest.raises(AgentRefused, match="failed, as the prompt asked"):
            _ = [event async for event in turn]
        assert turn.is_over
        assert await session.ask("Go on")


@bare
async def test_unknown_session_is_refused_with_its_id(start: Start) -> None:
    async with start() as agent:
        for opening in (agent.load, agent.resume, agent.fork):
            with pytest.raises(AgentRefused, match="no session") as caught:
                await opening("nonsense", ".")
            assert caught.value.code == -32002
            assert caught.value.data["sessionId"] == "nonsense"
        assert await (await agent.new(".")).ask("Still there?")


@bare
async def test_modes_options_and_commands(start: Start) -> None:
    async with start("--early-updates") as agent:
        session = await agent.new(".")
        assert {it.name: it.hint for it in session.commands} == {"plan": None, "count": "to 10"}
        assert [it.id for it in session.modes] == ["ask", "code"]
        assert session.mode == "ask"
        await session.set_mode("code")
        assert session.mode == "code"
        (option,) = session.options
        assert (option.category, option.value) == ("mode", "code")
        await session.set_option(option.id, "ask")
        assert session.mode == "ask"
        with pytest.raises(AgentRefused, match="is no mode"):
            await session.set_mode("nonsense")
        assert session.mode == "ask"


@bare
async def test_updates_are_in_the_version_of_the_agent(start: Start, pair: Pair) -> None:
    async with start() as agent:
        session = await agent.new(".")
        updates = [it["sessionUpdate"] async for it in session.prompt("read").updates()]
    assert "agent_message_chunk" in updates
    assert ("tool_call" in updates) == (pair.client == 1)
    assert ("state_update" in updates) == (pair.client == 2)


@pytest.mark.parametrize("pair", [it for it in PAIRS if it.behind_rekindle], ids=str)
async def test_title_status_and_archive(start: Start) -> None:
    async with start() as agent:
        session = await agent.new("/tmp")  # noqa: S108
        await session.prompt("hello")
        assert await agent.set_title(session.id, " A  title ") == "A title"
        assert await agent.status(session.id) == "open"
        await agent.archive(session.id)
        assert not session.is_open
        assert await agent.status(session.id) == "saved"
        assert [it.id async for it in agent.sessions()] == []
        (archived,) = [it async for it in agent.sessions(archived="only")]
        assert (archived.id, archived.title, archived.is_archived) == (session.id, "A title", True)
        await agent.unarchive(session.id)
        (listed,) = [it async for it in agent.sessions(archived="include")]
        assert (listed.id, listed.is_archived) == (session.id, False)
        with pytest.raises(AgentRefused):
            await agent.set_title(session.id, "  ")


@bare
async def test_newer_methods_of_an_agent_without_them_are_not_sent(start: Start) -> None:
    async with start() as agent:
        with pytest.raises(NotOffered, match="session/archive; run it behind Rekindle"):
            await agent.archive("s")
        with pytest.raises(NotOffered, match="session/set_title"):
            await agent.set_title("s", "x")
        with pytest.raises(NotOffered, match="session/status"):
            await agent.status("s")
        with pytest.raises(NotOffered, match="archived sessions"):
            _ = [it async for it in agent.sessions(archived="only")]
