"""Switching the agent: when it is refused, and its result."""

from engine_pair import EnginePair
from rekindle.proxy.agent_choice import OPTION_ID


def offering(*flags: str) -> EnginePair:
    pair = EnginePair()
    pair.do_with(" ".join(["agents", *flags]))
    pair.do_agent("First")
    pair.do_open("s1")
    return pair


def test_the_switch_is_refused_while_another_session_is_open() -> None:
    pair = offering()
    pair.do_open("s2")
    params = {"sessionId": "s1", "configId": OPTION_ID, "value": "second"}
    refused = pair.request(7, "session/set_config_option", **params)
    assert refused.error["message"].endswith("close them first: s2")
    assert refused.to_agent == []
    pair.request(8, "session/close", sessionId="s2")
    switched = pair.request(9, "session/set_config_option", **params)
    assert switched.result["configOptions"][-1]["currentValue"] == "second"


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
