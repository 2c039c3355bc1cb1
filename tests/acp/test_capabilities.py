from typing import Any

import pytest

from rekindle.acp import methods
from rekindle.acp.capabilities import Capabilities, read_capabilities
from rekindle.proxy.advertising import advertise_v1

Json = dict[str, Any]

OPENCODE = {
    "protocolVersion": 1,
    "agentInfo": {"name": "OpenCode", "version": "1.18"},
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"embeddedContext": True, "image": True},
        "sessionCapabilities": {"close": {}, "fork": {}, "list": None, "resume": {"_meta": {}}},
        "_meta": {"own": 1},
    },
    "authMethods": [{"id": "x", "name": "X"}],
}


def test_identity_and_methods_are_read() -> None:
    assert read_capabilities(OPENCODE) == Capabilities(
        name="OpenCode",
        version="1.18",
        methods=frozenset({methods.LOAD, methods.CLOSE, methods.FORK, methods.RESUME}),
    )


@pytest.mark.parametrize(
    "result", [{}, {"agentCapabilities": None}, {"agentCapabilities": {"sessionCapabilities": []}}]
)
def test_an_agent_without_capabilities_offers_nothing(result: Json) -> None:
    own = read_capabilities(result)
    assert own == Capabilities()
    assert not own.offers(methods.LOAD)


def test_version_2_is_recognised_by_the_body_not_the_number() -> None:
    session = {"delete": {}, "additionalDirectories": {}}
    body = {"info": {"name": "C", "version": "2"}, "capabilities": {"session": session}}
    own = read_capabilities({"protocolVersion": 2, **body})
    assert (own.protocol, own.name) == (2, "C")
    assert own.methods == {methods.DELETE, methods.LIST, methods.RESUME, methods.CLOSE}
    assert read_capabilities({"protocolVersion": 2, "capabilities": {}}).methods == set()
    assert read_capabilities({"protocolVersion": 2, "agentCapabilities": {}}).protocol == 1


def advertised(result: Json, version: str) -> Json:
    return advertise_v1(result, read_capabilities(result), version)


def test_the_whole_lifecycle_is_advertised_with_its_provider() -> None:
    shown = advertised(OPENCODE, "1.0")
    assert shown["authMethods"] == OPENCODE["authMethods"]
    capabilities = shown["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert capabilities["promptCapabilities"] == {"embeddedContext": True, "image": True}
    assert capabilities["sessionCapabilities"] == {
        "list": {},
        "resume": {"_meta": {}},
        "close": {},
        "delete": {},
        "fork": {},
    }
    assert capabilities["_meta"] == {
        "own": 1,
        "rekindle": {
            "version": "1.0",
            "methods": {
                "load": "agent",
                "list": "rekindle",
                "resume": "agent",
                "close": "agent",
                "delete": "rekindle",
                "fork": "agent",
            },
        },
    }


def test_additional_directories_are_advertised_only_if_the_agent_has_them() -> None:
    without = advertised({"agentCapabilities": {}}, "1")["agentCapabilities"]
    assert "additionalDirectories" not in without["sessionCapabilities"]
    own = {"agentCapabilities": {"sessionCapabilities": {"additionalDirectories": {}}}}
    shown = advertised(own, "1")["agentCapabilities"]
    assert shown["sessionCapabilities"]["additionalDirectories"] == {}
