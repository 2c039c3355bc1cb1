import pytest

from rekindle.acp.translate.initialize import (
    request_to_v1,
    request_to_v2,
    response_to_v1,
    response_to_v2,
)

NEWER = {
    "archive": {},
    "title": {},
    "status": {"_meta": {}},
    "systemPrompt": {"mode": {"override": {}}},
}


def test_params_of_a_client_are_translated_both_ways() -> None:
    info = {"name": "c", "version": "1"}
    v2 = {
        "protocolVersion": 2,
        "info": info,
        "capabilities": {"auth": {"terminal": {}}, "elicitation": {"form": {}}, "other": {}},
    }
    v1 = request_to_v1(v2)
    assert v1["clientInfo"] == info
    assert v1["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
        "subagents": {},
        "elicitation": {"form": {}},
        "auth": {"terminal": True},
    }
    del v2["capabilities"]["other"]  # type: ignore[attr-defined]
    assert request_to_v2(v1) == v2
    assert request_to_v2({})["info"] == {"name": "unknown", "version": "0"}
    assert request_to_v1({})["clientInfo"]["name"] == "unknown"


def test_results_of_an_agent_are_translated_both_ways() -> None:
    v1 = {
        "protocolVersion": 1,
        "agentInfo": {"name": "a", "version": "1"},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "fork": {}} | NEWER,
            "auth": {"logout": {}, "status": {"_meta": {}}},
            "_meta": {"m": 1},
        },
        "authMethods": [{"id": "k", "name": "K"}],
        "_meta": {"n": 2},
    }
    v2 = response_to_v2(v1)
    assert v2["capabilities"] == {
        "session": {
            "prompt": {"image": {}, "embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}},
            "fork": {},
            **NEWER,
        },
        "auth": {"status": {"_meta": {}}},
        "_meta": {"m": 1},
    }
    assert v2["authMethods"] == [{"type": "agent", "methodId": "k", "name": "K"}]
    assert response_to_v1(v2) == v1
    bare = response_to_v2({})
    assert (bare["info"]["name"], bare["capabilities"]["session"]["mcp"]) == (
        "unknown",
        {"stdio": {}},
    )
    assert "auth" not in response_to_v1({})["agentCapabilities"]
    chat = response_to_v1({"authMethods": [{"type": "terminal", "methodId": "t", "name": "T"}]})
    assert chat["agentCapabilities"]["loadSession"] is False
    assert chat["agentCapabilities"]["sessionCapabilities"] == {}
    assert chat["authMethods"] == [{"type": "terminal", "id": "t", "name": "T"}]


@pytest.mark.parametrize(
    ("v1", "v2"),
    [
        ({"A": "1", "B": ""}, [{"name": "A", "value": "1"}, {"name": "B", "value": ""}]),
        ({}, []),
    ],
)
def test_environment_of_a_terminal_login_is_translated_both_ways(v1: object, v2: object) -> None:
    login = {"type": "terminal", "name": "T", "args": ["login"]}
    in_v1, in_v2 = {"id": "t", **login, "env": v1}, {"methodId": "t", **login, "env": v2}
    assert response_to_v2({"authMethods": [in_v1]})["authMethods"] == [in_v2]
    assert response_to_v1({"authMethods": [in_v2]})["authMethods"] == [in_v1]
    # A value that has the wanted form already stays unchanged.
    assert response_to_v2({"authMethods": [in_v2]})["authMethods"] == [in_v2]
    assert response_to_v1({"authMethods": [in_v1]})["authMethods"] == [in_v1]


def test_an_environment_variable_without_a_name_is_left_out() -> None:
    env = [{"value": "1"}, 7, {"name": "A"}]
    login = {"type": "terminal", "methodId": "t", "name": "T", "env": env}
    (method,) = response_to_v1({"authMethods": [login]})["authMethods"]
    assert method["env"] == {"A": ""}
