"""Agents with unusual behaviour, and calls that an agent does not support."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rekindle.client import (
    AgentRefused,
    AuthRequired,
    BadAnswer,
    ClientSession,
    Message,
    MessageChunk,
    NotOffered,
    OtherUpdate,
    PermissionRequest,
    Role,
    SessionBusy,
    TurnEnded,
    UsageError,
    connect,
)
from rekindle.model import Counted, Opened, Page, Side
from rekindle.store.sqlite.store import SqliteStore
from schema import ConnectionValidator
from stdio_client import EXAMPLE_AGENT

AGENTS = Path(__file__).parents[1] / "agents"
MISBEHAVING_AGENT = [sys.executable, AGENTS / "agent_misbehaves_on_request.py"]
IMITATIONS = [sys.executable, AGENTS / "agent_imitations.py"]
STDIO = {"type": "stdio", "name": "s", "command": "true"}
HTTP = {"type": "http", "name": "h", "url": "http://localhost"}
IMAGE = {"type": "image", "mimeType": "image/png", "data": ""}


def messages_in(trace: Path) -> list[tuple[Side, Any]]:
    """Return the messages that a tap has written."""
    lines = trace.read_text(encoding="utf-8").splitlines()
    return [(Side(side), message) for side, message in map(json.loads, lines)]


# -- missing capabilities ---------------------------------------------------------------


async def test_calls_without_the_capability_are_not_sent(tmp_path: Path) -> None:
    trace = tmp_path / "heard"
    command = [sys.executable, AGENTS / "message_tap.py", trace, *EXAMPLE_AGENT, "--offer", "none"]
    async with connect(command, behind_rekindle=False) as agent:
        assert not any(map(agent.offers, ("list", "load", "resume", "fork", "close", "delete")))
        assert agent.offers("embeddedContext")
        session = await agent.new(".")
        for opening in (agent.load, agent.resume, agent.fork):
            with pytest.raises(NotOffered, match="example-agent does not offer session/") as caught:
                await opening(session.id, ".")
            assert caught.value.what.startswith("session/")
            assert "behind Rekindle" in str(caught.value)
        with pytest.raises(NotOffered, match="session/delete"):
            await agent.delete(session.id)
        with pytest.raises(NotOffered, match="session/list"):
            await anext(agent.sessions())
        with pytest.raises(NotOffered, match="session/close"):
            await session.close()
        with pytest.raises(NotOffered, match="image"):
            session.prompt(["Look!", IMAGE])
        with pytest.raises(NotOffered, match="http"):
            await agent.new(".", mcp_servers=[HTTP])
        with pytest.raises(NotOffered, match="additional directories"):
            await agent.new(".", directories=["/"])
        with pytest.raises(NotOffered, match="the option model"):
            await session.set_option("model", "large")
        with pytest.raises(
            UsageError, match="unknown authentication method 'sso'; the agent has none"
        ):
            await agent.authenticate("sso")
        with pytest.raises(UsageError, match="the prompt is empty"):
            session.prompt([])
        assert await session.ask("Hello")
    methods = [message.get("method") for side, message in messages_in(trace) if side is Side.CLIENT]
    assert methods == ["initialize", "session/new", "session/prompt"]


@pytest.mark.parametrize("cwd", ["", "/home/\0p", "/home/\ud800", "~nobody-at-all/x"])
async def test_invalid_folder_raises_usage_error(cwd: str) -> None:
    async with connect(EXAMPLE_AGENT, behind_rekindle=False) as agent:
        with pytest.raises(UsageError, match=r"not a folder|is not valid"):
            await agent.new(cwd)


async def test_folder_is_made_absolute(tmp_path: Path) -> None:
    async with connect(EXAMPLE_AGENT, store=tmp_path / "s.db") as agent:
        for cwd, path in ((".", Path.cwd()), ("~/x", Path.home() / "x"), (tmp_path, tmp_path)):
            session = await agent.new(cwd)
            assert session.cwd == str(path)
            await session.ask("Hello")
            assert session.id in [it.id async for it in agent.sessions(path)]


async def test_new_requires_a_folder() -> None:
    async with connect(EXAMPLE_AGENT, behind_rekindle=False) as agent:
        with pytest.raises(TypeError, match="cwd"):
            await agent.new()  # type: ignore[call-arg]


# -- sent messages ----------------------------------------------------------------------


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("version", [1, 2])
async def test_messages_conform_to_the_schemas(tmp_path: Path, version: int) -> None:
    trace = tmp_path / "heard"
    example = [*EXAMPLE_AGENT, "--protocol", str(version), "--offer", "all"]
    command = [sys.executable, AGENTS / "message_tap.py", trace, *example]
    async with connect(
        command, behind_rekindle=False, protocol=version, on_permission=PermissionRequest.allow
    ) as agent:
        session = await agent.new(".", mcp_servers=[STDIO] if version == 1 else [])
        await session.ask(["Look:", {"type": "resource_link", "uri": "file:///a", "name": "a"}])
        await session.ask("edit")
        await session.set_mode("code")
        turn = session.prompt("slow")
        await anext(aiter(turn))
        turn.cancel()
        await turn
        fork = await agent.fork(session.id, session.cwd)
        await fork.close()
        await agent.load(session.id, session.cwd)
        await agent.resume(session.id, session.cwd)
        _ = [it async for it in agent.sessions(session.cwd)]
        await agent.delete(fork.id)
    validator = ConnectionValidator()
    messages = messages_in(trace)
    wrong = [(validator.problems(side, message), message) for side, message in messages]
    assert [it for it in wrong if it[0]] == []
    assert [side for side, _ in messages].count(Side.CLIENT) > 10


# -- behaviour of agents ----------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
async def test_unusual_messages_do_not_break_the_session(version: int) -> None:
    command = [*MISBEHAVING_AGENT, str(version)]
    async with connect(command, behind_rekindle=False, protocol=version) as agent:
        session = await agent.new(".")
        event, ended = [event async for event in session.prompt("made_up")]
        assert event == OtherUpdate({"sessionUpdate": "_made_up", "anything": [1, 2]})
        assert ended == TurnEnded(stop_reason="end_turn")
        assert session.history[-1] == event
        assert await session.ask("files") == "-32601"
        assert await session.ask("batch") == "one two"
        assert await session.ask("junk") == "done"
        assert await session.ask("stranger") == "cancelled"


@pytest.mark.parametrize("version", [1, 2])
async def test_options_are_set_in_the_form_of_each_version(version: int) -> None:
    command = [*MISBEHAVING_AGENT, str(version)]
    async with connect(command, behind_rekindle=False, protocol=version) as agent:
        session = await agent.new(".")
        flag, model = session.options
        assert (flag.id, flag.type, flag.value) == ("flag", "boolean", False)
        assert (model.id, model.value) == ("model", "small")
        assert [choice.id for choice in model.choices] == ["small", "large"]
        await session.set_option("flag", value=True)
        sent = {"sessionId": "odd", "configId": "flag", "type": "boolean", "value": True}
        assert json.loads(await session.ask("settings")) == sent
        await session.set_option("model", "large")
        sent = {"sessionId": "odd", "configId": "model", "value": "large"}
        by_id = {"type": "id"} if version == 2 else {}
        assert json.loads(await session.ask("settings")) == sent | by_id
        assert [option.value for option in session.options] == [True, "large"]
        with pytest.raises(NotOffered, match="modes"):
            await session.set_mode("ask")


async def test_prompt_refused_with_request_cancelled_ends_as_cancelled() -> None:
    async with connect([*MISBEHAVING_AGENT, "1"], behind_rekindle=False) as agent:
        session = await agent.new(".")
        turn = session.prompt("give_up")
        events = []
        async for event in turn:
            events.append(event)
            turn.cancel()
        waiting = MessageChunk(text="waiting", message_id="m1")
        assert events == [waiting, TurnEnded(stop_reason="cancelled")]
        assert turn.stop_reason == "cancelled"


async def test_close_succeeds_if_the_agent_does_not_know_the_session() -> None:
    async with connect([*MISBEHAVING_AGENT, "2"], behind_rekindle=False, protocol=2) as agent:
        session = await agent.new(".")
        await session.close()
        assert not session.is_open


async def test_failed_load_keeps_the_open_session() -> None:
    command = [*EXAMPLE_AGENT, "--offer", "all"]
    async with connect(command, behind_rekindle=False) as agent:
        session = await agent.new(".")
        await session.ask("Hello")
        with pytest.raises(AgentRefused, match="must be"):
            await agent._open("session/load", session.id, {"cwd": "nonsense"})  # noqa: SLF001 - the only way to fail
        assert session.is_open
        assert "2 messages so far" in await session.ask("Go on")


async def test_split_surrogate_pairs_are_joined() -> None:
    async with connect([*MISBEHAVING_AGENT, "1"], behind_rekindle=False) as agent:
        session = await agent.new(".")
        turn = session.prompt("emoji")
        chunks = [it.text async for it in turn if isinstance(it, MessageChunk)]
        assert "".join(chunks) == turn.text == "a😀b😀"
        assert "".join(chunks).encode()


async def test_messages_may_be_very_long() -> None:
    size = 30_000_000
    async with connect([*MISBEHAVING_AGENT, "1"], behind_rekindle=False) as agent:
        session = await agent.new(".")
        event, _ = [event async for event in session.prompt(f"big {size}")]
        assert isinstance(event, MessageChunk)
        assert event.text == "x" * size
    async with connect(EXAMPLE_AGENT, behind_rekindle=False) as agent:
        text = "y" * (size // 10)
        session = await agent.new(".")
        assert f"You said: {text}." in await session.ask(text)


async def test_whole_message_replaces_its_chunks() -> None:
    async with connect([*MISBEHAVING_AGENT, "2"], behind_rekindle=False, protocol=2) as agent:
        session = await agent.new(".")
        turn = session.prompt("rewrite")
        # Chunks may be joined, except with a replacement.
        events = [(it.text, it.replaces) async for it in turn if isinstance(it, MessageChunk)]
        assert events[-1] == ("Good morning", True)
        assert "".join(text for text, anew in events if not anew) == "Hello world"
        assert turn.text == "Good morning"


async def test_state_that_crosses_with_the_prompt_does_not_end_the_turn() -> None:
    async with connect([*MISBEHAVING_AGENT, "2"], behind_rekindle=False, protocol=2) as agent:
        session = await agent.new(".")
        assert await session.ask("crossing") == "on time"


async def test_connect_uses_the_version_of_the_agent() -> None:
    for version, asked in ((1, 2), (2, 1)):
        only = ["--only-v2"] if version > 1 else []
        command = [*EXAMPLE_AGENT, "--protocol", str(version), *only]
        async with connect(command, behind_rekindle=False, protocol=asked) as agent:
            assert agent.protocol == version
            assert await (await agent.new(".")).ask("Hello")


@pytest.mark.parametrize(
    "name", ["agentao", "bare-sdk", "banner", "early-updates", "echo", "fast-agent"]
)
async def test_behaviour_of_real_agents_is_supported(name: str, tmp_path: Path) -> None:
    """Ask for version 2, which none of them supports, though one claims it."""
    command = [*IMITATIONS, name, tmp_path]
    async with connect(command, behind_rekindle=False, protocol=2) as agent:
        assert agent.protocol == 1
        session = await agent.new(".")
        assert await session.ask("Hello") == "Heard: Hello"
        expected = [(Role.USER, "Hello"), (Role.AGENT, "Heard: Hello")]
        assert messages_of(session) == expected
        if agent.offers("load"):
            assert messages_of(await agent.load(session.id, session.cwd)) == expected


def messages_of(session: ClientSession) -> list[tuple[Role, str]]:
    return [(it.role, it.text) for it in session.history if isinstance(it, Message)]


async def test_refused_initialize_raises_the_reason() -> None:
    code = (
        "import sys, json\nfor line in sys.stdin:"
        "\n error = {'code': -32603, 'message': 'no licence ' + str(json.loads(line)['id'])}"
        "\n print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'error': error}))"
        "\n sys.stdout.flush()"
    )
    with pytest.raises(AgentRefused, match="refused initialize: no licence 1"):
        async with connect([sys.executable, "-c", code], behind_rekindle=False):
            pass


async def test_directories_and_servers_are_sent(tmp_path: Path) -> None:
    trace = tmp_path / "heard"
    command = [sys.executable, AGENTS / "message_tap.py", trace, *IMITATIONS, "claude", tmp_path]
    async with connect(command, behind_rekindle=False) as agent:
        assert agent.capabilities["session"]["additionalDirectories"] == {}
        await agent.new(tmp_path, directories=["."], mcp_servers=[STDIO])
    (new,) = [it["params"] for _, it in messages_in(trace) if it.get("method") == "session/new"]
    server = {"name": "s", "command": "true", "args": [], "env": []}
    assert new["mcpServers"] == [server]
    assert new["additionalDirectories"] == [str(Path.cwd())]


async def test_login(tmp_path: Path) -> None:
    async with connect([*IMITATIONS, "auth", tmp_path], behind_rekindle=False) as agent:
        with pytest.raises(AuthRequired, match="Authentication required"):
            await agent.new(".")
        (method,) = agent.auth_methods
        assert (method.id, method.name, method.type) == ("login", "Log in", "agent")
        await agent.authenticate(method.id)
        assert await agent.new(".")
        with pytest.raises(NotOffered, match="logging out"):
            await agent.logout()


async def test_list_reads_all_pages_and_stops_at_a_repeated_cursor(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        ids = [f"s{number}" for number in range(120)]
        for at, session_id in enumerate(ids):
            store.write([Opened(session_id=session_id, at_us=at, cwd="/p")])
            store.write([Counted(session_id=session_id, at_us=at, turns=1)])
    async with connect(EXAMPLE_AGENT, store=path) as agent:
        assert [it.id async for it in agent.sessions("/p")] == ids[::-1]
    async with connect([*MISBEHAVING_AGENT, "2"], behind_rekindle=False, protocol=2) as agent:
        assert [it.id async for it in agent.sessions()] == ["odd", "odd"]


async def test_response_without_session_id_raises_bad_answer() -> None:
    code = (
        "import sys, json\nfor line in sys.stdin:"
        "\n print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': None}))"
        "\n sys.stdout.flush()"
    )
    async with connect([sys.executable, "-c", code], behind_rekindle=False) as agent:
        assert agent.protocol == 1
        with pytest.raises(BadAnswer, match="answered session/new without a sessionId"):
            await agent.new(".")


async def test_prompt_handled_within_running_work_ends_with_it() -> None:
    async with connect([*MISBEHAVING_AGENT, "2"], behind_rekindle=False, protocol=2) as agent:
        session = await agent.new(".")
        await session.ask("already_at_work")
        await session.ask("taken_in")
        assert session.transcript.turns[-1].ended_us


async def test_response_may_have_result_and_null_error() -> None:
    async with connect([*MISBEHAVING_AGENT, "1"], behind_rekindle=False) as agent:
        assert await (await agent.new(".")).prompt("both_names") == "end_turn"


async def test_session_created_after_cancellation_is_closed(tmp_path: Path) -> None:
    async with connect([*EXAMPLE_AGENT], store=tmp_path / "s.db") as agent:
        making = asyncio.create_task(agent.new("."))
        await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        with SqliteStore(tmp_path / "s.db") as store:
            # A session that was never used is forgotten when it is closed.
            while not store._query("select * from forgotten"):  # noqa: SLF001 - it has no name
                assert [it async for it in agent.sessions(".")] == []
            assert store.sessions(Page()) == []


async def test_second_load_of_the_same_session_is_busy(tmp_path: Path) -> None:
    async with connect([*EXAMPLE_AGENT], store=tmp_path / "s.db") as agent:
        session = await agent.new(".")
        await session.ask("Hello")
        first, second = await asyncio.gather(
            agent.load(session.id, "."), agent.load(session.id, "."), return_exceptions=True
        )
        assert isinstance(second, SessionBusy)
        assert "is being opened already" in str(second)
        assert isinstance(first, ClientSession)
        assert first.is_open
        assert len(messages_of(first)) == len(messages_of(session))


@pytest.mark.parametrize("prompt", [{"type": "text", "text": "x"}, b"x", [5], [], [b"x"]])
async def test_invalid_prompt_raises_usage_error(prompt: Any) -> None:  # noqa: ANN401 - invalid on purpose
    async with connect([*MISBEHAVING_AGENT, "1"], behind_rekindle=False) as agent:
        session = await agent.new(".")
        with pytest.raises(UsageError):
            session.prompt(prompt)
        assert session.history == []


@pytest.mark.parametrize(("version", "kind"), [(1, "http"), (1, "sse"), (2, "stdio"), (2, "http")])
async def test_servers_without_the_capability_are_not_sent(version: int, kind: str) -> None:
    server = {"type": kind, "name": "x", "command": "x", "url": "x"}
    async with connect(
        [*MISBEHAVING_AGENT, str(version)], behind_rekindle=False, protocol=version
    ) as agent:
        with pytest.raises(NotOffered, match=f"MCP servers by {kind}"):
            await agent.new(".", mcp_servers=[server])


async def test_relative_folder_is_normalized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    async with connect([*EXAMPLE_AGENT], store=tmp_path / "s.db") as agent:
        session = await agent.new("..")
        assert session.cwd == str(tmp_path)


async def test_notices_of_rekindle_are_reported_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    notices: list[str] = []
    async with connect([*EXAMPLE_AGENT], store="/dev/null/s.db", on_notice=notices.append) as agent:
        await (await agent.new(".")).ask("Hello")
    assert any("/dev/null/s.db" in text for text in notices)
    assert caplog.records == []
    async with connect([*EXAMPLE_AGENT], store="/dev/null/s.db") as agent:
        await (await agent.new(".")).ask("Hello")
    assert any("/dev/null/s.db" in record.getMessage() for record in caplog.records)
