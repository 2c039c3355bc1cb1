import pytest

from engine_pair import EnginePair

OPTION = {
    "configId": "m",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]}


def pair(client: int, agent: int, result: object) -> EnginePair:
    made = EnginePair()
    made.do_speaks(f"{client} {agent}")
    made.do_agent("Fake")
    made.exchange("session/new", {"cwd": "/p", "mcpServers": []}, result)
    return made


def test_a_mode_set_by_a_version_1_client_is_an_option_for_a_version_2_agent() -> None:
    made = pair(1, 2, {"sessionId": "s1", "configOptions": [OPTION]})
    sent = made.request(5, "session/set_mode", sessionId="s1", modeId="code").call
    assert sent["method"] == "session/set_config_option"
    assert sent["params"] == {"sessionId": "s1", "configId": "m", "type": "id", "value": "code"}
    options = [{**OPTION, "currentValue": "code"}]
    assert made.reply(sent["id"], {"configOptions": options}).result == {}


def test_an_option_set_by_a_version_2_client_is_a_mode_for_a_version_1_agent() -> None:
    made = pair(2, 1, {"sessionId": "s1", "modes": MODES})
    params = {"sessionId": "s1", "configId": "mode", "type": "id", "value": "code"}
    sent = made.request(5, "session/set_config_option", **params).call
    assert (sent["method"], sent["params"]["modeId"]) == ("session/set_mode", "code")
    (option,) = made.reply(sent["id"], {}).result["configOptions"]
    assert option["currentValue"] == "code"


@pytest.mark.parametrize(("client", "agent"), [(1, 2), (2, 1)])
def test_a_server_type_that_the_other_version_lacks_is_refused(client: int, agent: int) -> None:
    made = pair(client, agent, {"sessionId": "s1"})
    servers = [{"type": "carrier-pigeon", "name": "x"}]
    error = made.request(5, "session/new", cwd="/p", mcpServers=servers).error
    assert (error["code"], error["data"]["value"]) == (-32602, "carrier-pigeon")


def test_logging_in_has_another_name_in_version_2() -> None:
    made = pair(1, 2, {"sessionId": "s1"})
    assert made.request(5, "authenticate", methodId="x").call["method"] == "auth/login"
    made = pair(2, 1, {"sessionId": "s1"})
    assert made.request(5, "auth/logout").call["method"] == "logout"


def test_a_permission_request_is_translated_both_ways() -> None:
    made = pair(2, 1, {"sessionId": "s1"})
    made.request(5, "session/prompt", sessionId="s1", prompt=[])
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "c", "title": "T"}, "options": options}
    asked = made.from_agent({"id": 9, "method": "session/request_permission", "params": params})
    state, request = asked.to_client
    assert state["params"]["update"]["state"] == "requires_action"
    assert request["params"]["subject"]["toolCall"]["toolCallId"] == "c"
    outcome = {"outcome": {"outcome": "selected", "optionId": "y"}}
    answered = made.from_client({"id": 9, "result": outcome})
    assert answered.call["result"] == outcome
    assert answered.response["params"]["update"]["state"] == "running"
