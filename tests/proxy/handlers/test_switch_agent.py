"""Switching the agent: when it is refused, and its result."""

import pytest

from engine_pair import EnginePair
from rekindle.proxy.agent_choice import OPTION_ID


def offering(*flags: str, version: int = 1) -> EnginePair:
    pair = EnginePair()
    pair.do_speaks(f"{version} {version}")
    pair.do_with(" ".join(["agents", *flags]))
    pair.do_agent("First")
    pair.do_open("s1")
    return pair


CHOOSE = {"sessionId": "s1", "configId": OPTION_ID, "value": "second"}


def test_the_switch_is_refused_while_the_agent_works_in_another_session() -> None:
    pair = offering()
    pair.do_open("s2")
    pair.request(7, "session/prompt", sessionId="s2", prompt=[{"type": "text", "text": "Hi"}])
    refused = pair.request(8, "session/set_config_option", **CHOOSE)
    assert refused.error["message"].endswith("wait for the end of that: s2")
    assert refused.to_agent == []
    pair.reply(7, {"stopReason": "end_turn"})
    switched = pair.request(9, "session/set_config_option", **CHOOSE)
    assert switched.to_client[-1]["result"]["configOptions"][-1]["currentValue"] == "second"


@pytest.mark.parametrize("version", [1, 2])
def test_the_client_learns_of_the_new_agent_in_every_open_session(version: int) -> None:
    pair = offering(version=version)
    for session_id in ("s2", "s3"):
        pair.do_open(session_id)
    closing = pair.request(7, "session/close", sessionId="s3")
    if version == 2:
        pair.reply(closing.call["id"], {})
    switched = pair.request(8, "session/set_config_option", **CHOOSE)
    update, answer = switched.to_client
    assert update["params"]["sessionId"] == "s2"
    assert update["params"]["update"]["sessionUpdate"] == "config_option_update"
    for options in (update["params"]["update"], answer["result"]):
        (option,) = options["configOptions"]
        assert option["currentValue"] == "second"
        assert option["id" if version == 1 else "configId"] == OPTION_ID


def test_the_switch_needs_a_handover() -> None:
    pair = offering("no-handover")
    params = {"sessionId": "s1", "configId": OPTION_ID, "value": "second"}
    refused = pair.request(7, "session/set_config_option", **params)
    assert "--no-handover forbids" in refused.error["message"]


def test_an_agent_that_cannot_be_started_is_not_chosen() -> None:
    pair = offering()
    pair.start_error = "command not found: second"
    params = {"sessionId": "s1", "configId": OPTION_ID, "value": "second"}
    refused = pair.request(7, "session/set_config_option", **params)
    assert refused.error["message"] == "cannot switch to second: command not found: second"
    pair.start_error = None
    params["value"] = "first"
    assert pair.request(8, "session/set_config_option", **params).result["configOptions"]


def test_options_of_a_version_2_agent_are_shown_as_version_1_has_them() -> None:
    pair = offering()
    option = {"configId": "model", "name": "M", "type": "select", "currentValue": "m"}
    pair.update("s1", "config_option_update", configOptions=[{**option, "options": []}])
    loaded = pair.request(7, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    options = loaded.to_client[-1]["result"]["configOptions"]
    assert [it["id"] for it in options] == ["model", OPTION_ID]
