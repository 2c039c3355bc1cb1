import json

import pytest

from engine_pair import EnginePair, Sent, recorded_session
from rekindle.proxy.peers import AGENT

TEXT = {"type": "text", "text": "Hello"}


def pair(client: int = 1, agent: int = 1) -> EnginePair:
    made = EnginePair()
    made.do_speaks(f"{client} {agent}")
    made.do_agent("Fake")
    made.do_open("s1")
    return made


def chunk(made: EnginePair, session_id: str = "s1") -> Sent:
    return made.update(session_id, "agent_message_chunk", content=TEXT)


def test_an_update_is_forwarded_unchanged() -> None:
    made = pair()
    sent = chunk(made)
    assert sent.response["params"]["update"]["content"] == TEXT
    assert "s1 agent update" in sent.recorded


def test_an_update_of_an_unopened_session_is_recorded_and_forwarded() -> None:
    sent = chunk(pair(), "sub")
    assert sent.to_client
    assert "sub agent update" in sent.recorded


def test_a_restored_session_discards_the_agents_replay_until_the_next_prompt() -> None:
    made = recorded_session("resume")
    made.request(1, "session/resume", sessionId="s1", cwd="/p")
    made.reply("rekindle-1", {})
    assert chunk(made).to_client == []
    made.request(2, "session/prompt", sessionId="s1", prompt=[TEXT])
    assert chunk(made).to_client


def test_a_new_id_of_the_agent_is_replaced_by_the_clients() -> None:
    made = recorded_session()
    made.request(1, "session/resume", sessionId="s1", cwd="/p")
    made.reply("rekindle-1", {"sessionId": "a2"})
    made.request(2, "session/prompt", sessionId="s1", prompt=[TEXT])
    assert chunk(made, "a2").response["params"]["sessionId"] == "s1"


def test_a_permission_request_for_a_closed_session_is_cancelled() -> None:
    made = pair()
    made.request(5, "session/close", sessionId="s1")
    params = {"sessionId": "s1", "options": []}
    asked = made.from_agent({"id": 1, "method": "session/request_permission", "params": params})
    assert asked.call["result"] == {"outcome": {"outcome": "cancelled"}}
    assert asked.to_client == []


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create"])
def test_a_version_2_client_offers_neither_files_nor_terminals(method: str) -> None:
    made = pair(2, 1)
    asked = made.from_agent({"id": 1, "method": method, "params": {"sessionId": "s1"}})
    assert asked.call["error"]["code"] == -32601


def test_requests_of_a_restarted_agent_get_unique_ids() -> None:
    made = pair()
    made.exit()
    made.request(5, "session/prompt", sessionId="s1", prompt=[TEXT])
    made.reply("rekindle-1", {"protocolVersion": 1})
    made.reply("rekindle-2", {"sessionId": "a2"})
    params = {"sessionId": "a2", "options": []}
    asked = made.from_agent({"id": 1, "method": "session/request_permission", "params": params})
    assert asked.response["id"] == "rekindle-1-1"
    assert made.from_client({"id": "rekindle-1-1", "result": {}}).call["id"] == 1
    withdrawn = made.from_agent({"method": "$/cancel_request", "params": {"requestId": 1}})
    assert withdrawn.response["params"]["requestId"] == "rekindle-1-1"


def test_the_end_of_a_turn_inside_a_batch_is_noticed() -> None:
    made = pair(2, 2)
    sent = made.request(5, "session/prompt", sessionId="s1", prompt=[TEXT])
    made.out.clear()
    answer = {"id": sent.call["id"], "result": {"messageId": "m"}}
    state = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    update = {"method": "session/update", "params": {"sessionId": "s1", "update": state}}
    made.receive(AGENT, [json.dumps([answer, update])])
    titles = [
        it.get("params", {}).get("update", {}).get("title") for it in Sent(made.out).to_client
    ]
    assert "Hello" in titles


def test_a_user_title_is_not_replaced_by_the_agents() -> None:
    made = recorded_session("resume")
    made.do_titled("s1 Mine")
    made.request(1, "session/resume", sessionId="s1", cwd="/p")
    made.reply("rekindle-1", {})
    sent = made.update("s1", "session_info_update", title="Yours", updatedAt="now")
    assert sent.response["params"]["update"] == {
        "sessionUpdate": "session_info_update",
        "updatedAt": "now",
    }


def test_further_output_of_a_terminal_is_recorded_and_hidden_from_a_version_1_client() -> None:
    made = pair(1, 2)
    content = [{"type": "terminal", "terminalId": "t1"}]
    made.update("s1", "tool_call_update", toolCallId="c1", title="Run", content=content)
    made.update("s1", "terminal_output_chunk", terminalId="t1", data="YWFhYWFhYWFhYQ==")
    sent = [
        made.update("s1", "terminal_output_chunk", terminalId="t1", data="Yg==") for _ in range(3)
    ]
    assert [it.to_client for it in sent] == [[], [], []]
    assert all("s1 agent update v2" in it.recorded for it in sent)
