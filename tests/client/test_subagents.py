"""Sub-agents: their events, their permission requests, their history."""

from pathlib import Path

import pytest

from rekindle.client import (
    MessageChunk,
    NotOffered,
    PermissionRequested,
    SessionMessage,
    Subagent,
    SubagentEvent,
    SubagentUpdated,
    ToolCall,
)
from version_pairs import PAIRS, Start

BEHIND_REKINDLE = [pair for pair in PAIRS if pair.behind_rekindle]


@pytest.mark.parametrize("pair", BEHIND_REKINDLE, ids=str)
async def test_sub_agents_are_followed_and_loaded(start: Start, tmp_path: Path) -> None:
    async with start(on_permission=None) as agent:
        session = await agent.new(tmp_path)
        texts: list[str] = []
        states: list[str | None] = []
        async for event in session.prompt("delegate"):
            match event:
                case PermissionRequested(request):
                    assert request.tool_call is not None
                    assert request.tool_call.title == f"Edit {tmp_path}/notes.txt"
                    request.allow()
                case SubagentUpdated(subagent):
                    states.append(subagent.state)
                case SubagentEvent(session_id, MessageChunk(text=text)):
                    texts.append(text)
                    assert session_id != session.id
                case _:
                    pass
        assert "".join(texts) == "I am on it.It is done."
        assert states[0] is None
        assert states[-1] == "idle"
        (live,) = session.subagents
        with pytest.raises(NotOffered, match="cancel the sub-agent"):
            session.cancel_subagent(live.id)
    async with start() as agent:
        loaded = await agent.load(session.id, tmp_path)
        (subagent,) = loaded.subagents
        assert (subagent.id, subagent.title) == (live.id, "Editor")
        assert (subagent.state, subagent.stop_reason) == ("idle", "end_turn")
        (call,) = [it for it in subagent.history if isinstance(it, ToolCall)]
        assert call.status == "completed"
        assert [it.id for it in loaded.history if isinstance(it, Subagent)] == [subagent.id]
        messages = [it for it in loaded.history if isinstance(it, SessionMessage)]
        assert [it.text for it in messages] == ["Buy oat milk instead.", "I have edited the notes."]
        assert [it.recipient for it in messages] == [subagent.id, session.id]
