"""`ClientSession.rewind` and `edit_prompt`, behind Rekindle and with an agent of their own."""

import json
import sys
from pathlib import Path

import pytest

from rekindle.client import AgentRefused, ClientSession, Message, NotOffered, connect
from rekindle.transcript.model import Role
from stdio_client import EXAMPLE_AGENT
from version_pairs import PAIRS, Pair, Start

behind = pytest.mark.parametrize("pair", [it for it in PAIRS if it.behind_rekindle], ids=str)
bare = pytest.mark.parametrize("pair", PAIRS[:2], ids=str)


def messages(session: ClientSession, role: Role) -> list[Message]:
    return [it for it in session.history if isinstance(it, Message) and it.role is role]


def texts(session: ClientSession) -> list[str]:
    return [it.text for it in messages(session, Role.USER)]


@behind
async def test_history_follows_a_rewind_and_an_edit(start: Start) -> None:
    async with start() as agent:
        session = await agent.new("/tmp")  # noqa: S108 - a folder that exists
        for words in ("one", "two", "three"):
            await session.prompt(words)
        # A version 1 agent may give no ids. The replay has them.
        session = await agent.load(session.id, "/tmp")  # noqa: S108
        await session.rewind(str(messages(session, Role.AGENT)[1].id))
        assert texts(session) == ["one", "two"]
        turn = session.edit_prompt(str(messages(session, Role.USER)[1].id), "how many prompts?")
        assert await turn == "end_turn"
        assert turn.text.startswith("You sent 1 prompt")
        assert next(it.text for it in turn.items if isinstance(it, Message)) == "how many prompts?"
        assert texts(session) == ["one", "how many prompts?"]
        live = [(it.role, it.text) for it in session.history if isinstance(it, Message)]
        again = await agent.load(session.id, "/tmp")  # noqa: S108
        assert [(it.role, it.text) for it in again.history if isinstance(it, Message)] == live


@behind
async def test_a_refused_edit_leaves_the_history(start: Start) -> None:
    async with start() as agent:
        session = await agent.new("/tmp")  # noqa: S108
        await session.prompt("one")
        before = session.history
        with pytest.raises(AgentRefused, match="no message nobody"):
            await session.edit_prompt("nobody", "x")
        with pytest.raises(AgentRefused, match="no message nobody"):
            await session.rewind("nobody")
        assert session.history == before
        assert session.transcript.turns[-1].error is None


@bare
async def test_an_agent_without_the_methods_is_not_asked(start: Start, pair: Pair) -> None:
    del pair
    async with start() as agent:
        session = await agent.new("/tmp")  # noqa: S108
        with pytest.raises(NotOffered):
            await session.rewind("m1")
        with pytest.raises(NotOffered):
            session.edit_prompt("m1", "x")


@pytest.mark.parametrize("version", [1, 2])
async def test_an_agent_of_its_own_rewinds(version: int, tmp_path: Path) -> None:
    versions = ("--protocol", "2", "--only-v2") if version > 1 else ()
    command = (*EXAMPLE_AGENT, *versions, "--offer", "rewind", "--memory", str(tmp_path))
    async with connect(command, protocol=version, behind_rekindle=False) as agent:
        session = await agent.new("/tmp")  # noqa: S108
        await session.prompt("one")
        await session.prompt("two")
        await session.rewind(str(messages(session, Role.AGENT)[0].id))
        assert texts(session) == ["one"]
        assert (await session.ask("how many prompts?")).startswith("You sent 1 prompt")
        with pytest.raises(AgentRefused):
            await session.rewind("nobody")


EDITING_AGENT = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    def send(**fields):
        print(json.dumps({"jsonrpc": "2.0", **fields}), flush=True)
    def update(**fields):
        send(method="session/update", params={"sessionId": "s", "update": fields})
    if method == "initialize":
        session = {"rewind": {"edit_prompt": True}}
        info = {"name": "a", "version": "1"}
        send(id=message["id"], result={"protocolVersion": 2, "info": info,
                                       "capabilities": {"session": session}})
    elif method == "session/new":
        send(id=message["id"], result={"sessionId": "s"})
    elif method in ("session/prompt", "session/edit_prompt"):
        name = "u1" if method == "session/prompt" else "u2"
        send(id=message["id"], result={"messageId": name})
        if name == "u2":
            update(sessionUpdate="history_truncated", lastMessageId=None)
        blocks = params.get("prompt") or params.get("content")
        update(sessionUpdate="user_message", messageId=name, content=blocks)
        update(sessionUpdate="state_update", state="running")
        update(sessionUpdate="agent_message", messageId="a" + name,
               content=[{"type": "text", "text": "answer " + name}])
        update(sessionUpdate="state_update", state="idle", stopReason="end_turn")
"""


async def test_an_agent_may_truncate_after_its_response(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(EDITING_AGENT, encoding="utf-8")
    async with connect([sys.executable, str(script)], protocol=2, behind_rekindle=False) as agent:
        session = await agent.new("/tmp")  # noqa: S108
        await session.prompt("one")
        turn = session.edit_prompt("u1", "two")
        await turn
        shown = [(it.id, it.text) for it in session.history if isinstance(it, Message)]
        assert shown == [("u2", "two"), ("au2", "answer u2")], json.dumps(shown)
        assert turn.text == "answer u2"
