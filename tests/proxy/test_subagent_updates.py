"""Sub-agents of a session that is restored or closed."""

from engine_pair import EnginePair, recorded_session

CHUNK = {"content": {"type": "text", "text": "x"}}


def restoring() -> EnginePair:
    """Return an engine whose agent is asked to load the session again."""
    pair = recorded_session("load")
    pair.client_capabilities = {"subagents": {}}
    params = {"protocolVersion": 1, "clientCapabilities": pair.client_capabilities}
    pair.request(50, "initialize", **params)
    pair.reply(50, pair.initialize_result_v1("Fake load"))
    pair.request(1, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    return pair


def test_sub_agents_in_a_replay_of_the_agent_are_neither_recorded_nor_forwarded() -> None:
    pair = restoring()
    for sent in (
        pair.update("s1", "user_message_chunk", content={"type": "text", "text": "Hello 0"}),
        pair.update("s1", "subagent_update", sessionId="c", state={"state": "running"}),
        pair.update("c", "agent_message_chunk", **CHUNK),
        pair.update("c", "subagent_update", sessionId="d"),
        pair.update("d", "agent_message_chunk", **CHUNK),
        pair.update("s1", "agent_message_chunk", content={"type": "text", "text": "Hi"}),
    ):
        assert sent.to_client == []
        assert sent.recorded == []
    opened = pair.reply("rekindle-1", {})
    assert opened.to_client[-1]["id"] == 1
    assert "c" not in [it["params"]["sessionId"] for it in opened.to_client[:-1]]
    # Still a part of the replay, until the agent announces the sub-agent again.
    assert pair.update("c", "agent_message_chunk", **CHUNK).to_client == []
    assert pair.update("s1", "subagent_update", sessionId="c").to_client != []
    assert pair.update("c", "agent_message_chunk", **CHUNK).to_client != []


def test_messages_of_a_sub_agent_of_a_closed_session_are_dropped() -> None:
    pair = recorded_session()
    pair.request(1, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    pair.reply("rekindle-1", {"sessionId": "a1"})
    assert pair.update("a1", "subagent_update", sessionId="c").to_client != []
    pair.request(2, "session/close", sessionId="s1")
    assert pair.update("c", "agent_message_chunk", **CHUNK).to_client == []
    params = {"sessionId": "c", "toolCall": {"toolCallId": "t"}, "options": []}
    asked = pair.from_agent({"id": 9, "method": "session/request_permission", "params": params})
    assert asked.to_client == []
    assert asked.call["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_request_about_a_sub_agent_goes_to_the_agent() -> None:
    pair = recorded_session()
    pair.request(1, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    pair.reply("rekindle-1", {"sessionId": "a1"})
    pair.update("a1", "subagent_update", sessionId="c")
    assert pair.request(2, "session/status", sessionId="c").call["method"] == "session/status"
    pair.exit()
    error = pair.request(3, "session/load", sessionId="c", cwd="/p", mcpServers=[])
    assert error.to_agent == [] or error.to_agent[0]["method"] == "initialize"


def test_an_announcement_without_a_session_is_forwarded() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.do_open("s1")
    sent = pair.update("s1", "subagent_update", title="nobody")
    assert [it["params"]["update"]["title"] for it in sent.to_client] == ["nobody"]


def test_an_agent_that_closes_the_session_is_asked_no_more() -> None:
    pair = recorded_session("close")
    pair.request(1, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    pair.reply("rekindle-1", {"sessionId": "a1"})
    pair.update("a1", "subagent_update", sessionId="c")
    closing = pair.request(2, "session/close", sessionId="s1")
    pair.reply(closing.call["id"], {})
    late = pair.update("c", "agent_message_chunk", **CHUNK)
    assert late.to_client == late.recorded == []
