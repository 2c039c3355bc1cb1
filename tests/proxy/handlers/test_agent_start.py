import json

import pytest

from engine_pair import EnginePair
from playbook import CLIENT
from rekindle.proxy.handlers.agent_start import pause_after


@pytest.mark.parametrize(
    ("deaths", "seconds"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (7, 30), (100, 30)]
)
def test_pauses_between_restarts_double_up_to_half_a_minute(deaths: int, seconds: int) -> None:
    assert pause_after(deaths) == seconds * 1_000_000


def test_an_agent_that_was_never_ready_is_not_started_again() -> None:
    pair = EnginePair()
    pair.exit()
    sent = pair.request(1, "session/new", cwd="/p", mcpServers=[])
    assert sent.error["message"] == "the agent exited with 1 before it was ready"


def test_a_restarted_agent_that_refuses_initialize_is_asked_again_next_time() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.exit()
    pair.request(1, "_x")
    assert pair.fail("rekindle-1", message="busy").error["message"] == "busy"
    again = pair.request(2, "_x")
    assert again.call["method"] == "initialize"
    assert pair.reply("rekindle-2", {"protocolVersion": 1}).call["method"] == "_x"


def test_a_restarted_agent_may_use_another_version() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.exit()
    pair.request(1, "_x")
    second = pair.fail("rekindle-1", code=-32022, message="too old").call
    assert second["params"]["protocolVersion"] == 2


def test_an_agent_that_cannot_be_started_counts_as_another_death() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.exit()
    pair.do_broken("gone")
    assert "gone" in pair.request(1, "_x").error["message"]
    assert pair.request(2, "_x").to_client == []
    assert "gone" in pair.wait(1).error["message"]


def test_two_prompts_in_one_read_start_the_agent_once() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.do_open("s2")
    pair.exit()
    prompts = [prompt_line(1, "s1"), prompt_line(2, "s2")]
    pair.out.clear()
    pair.receive(CLIENT, prompts)
    assert pair.out.count("*  the agent is started again") == 1
    assert pair.reply("rekindle-1", {"protocolVersion": 1}).recorded == []
    assert pair.reports == []


def prompt_line(request_id: int, session_id: str) -> str:
    params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "Hello"}]}
    return json.dumps({"id": request_id, "method": "session/prompt", "params": params})
