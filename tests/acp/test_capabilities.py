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


def test_the_archive_capability_announces_two_methods() -> None:
    own = read_capabilities({"agentCapabilities": {"sessionCapabilities": {"archive": {}}}})
    assert own.methods == {methods.ARCHIVE, methods.UNARCHIVE}
    marked = {"title": {}, "status": {}}
    own = read_capabilities({"agentCapabilities": {"sessionCapabilities": marked}})
    assert own.methods == {methods.SET_TITLE, methods.STATUS}


@pytest.mark.parametrize(
    ("marker", "offered"),
    [
        (None, set()),
        ({}, {methods.REWIND}),
        ({"edit_prompt": False}, {methods.REWIND}),
        ({"edit_prompt": True}, {methods.REWIND, methods.EDIT_PROMPT}),
    ],
)
def test_an_agent_announces_rewinds_as_the_proposal_says(marker: object, offered: set[str]) -> None:
    session = {"rewind": marker}
    v1 = {"agentCapabilities": {"sessionCapabilities": session}}
    v2 = {"protocolVersion": 2, "capabilities": {"session": session}}
    assert read_capabilities(v1).methods == offered
    assert read_capabilities(v2).methods == offered | {methods.LIST, methods.RESUME, methods.CLOSE}


def test_an_agent_behind_rekindle_announces_rewinds_in_meta() -> None:
    meta = {"rekindle": {"methods": {"rewind": "rekindle", "edit_prompt": "rekindle"}}}
    own = read_capabilities({"agentCapabilities": {"_meta": meta}})
    assert own.methods == methods.REWINDS


@pytest.mark.parametrize(
    ("announced", "modes"),
    [
        (None, set()),
        ({}, {"append"}),
        ({"mode": None}, {"append"}),
        ({"mode": {"override": {}}}, {"append", "override"}),
        ({"mode": {"override": None, "_own": {}}}, {"append", "_own"}),
    ],
)
def test_the_modes_of_system_prompts_are_read(announced: object, modes: set[str]) -> None:
    session = {"systemPrompt": announced}
    v1 = {"agentCapabilities": {"sessionCapabilities": session}}
    v2 = {"protocolVersion": 2, "capabilities": {"session": session}}
    assert read_capabilities(v1).system_prompt_modes == modes
    assert read_capabilities(v2).system_prompt_modes == modes


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
        "archive": {},
        "title": {},
        "status": {},
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
                "archive": "rekindle",
                "set_title": "rekindle",
                "status": "rekindle",
                "rewind": "rekindle",
                "edit_prompt": "rekindle",
            },
        },
    }


def test_additional_directories_are_advertised_only_if_the_agent_has_them() -> None:
    without = advertised({"agentCapabilities": {}}, "1")["agentCapabilities"]
    assert "additionalDirectories" not in without["sessionCapabilities"]
    own = {"agentCapabilities": {"sessionCapabilities": {"additionalDirectories": {}}}}
    shown = advertised(own, "1")["agentCapabilities"]
    assert shown["sessionCapabilities"]["additionalDirectories"] == {}
