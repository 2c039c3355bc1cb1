import pytest

from engine_pair import EnginePair

V1 = {"protocolVersion": 1, "agentCapabilities": {}}
V2 = {"protocolVersion": 2, "info": {"name": "A", "version": "1"}, "capabilities": {"session": {}}}


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_before_the_first_is_refused(version: int) -> None:
    error = EnginePair().request(1, "initialize", protocolVersion=version).error
    assert (error["code"], error["data"]["supported"]) == (-32022, [1, 2])


@pytest.mark.parametrize("version", [True, "1", 1.5])
def test_a_version_must_be_a_whole_number(version: object) -> None:
    assert EnginePair().request(1, "initialize", protocolVersion=version).error["code"] == -32602


def test_a_newer_version_is_answered_with_the_newest_known() -> None:
    pair = EnginePair()
    assert pair.request(1, "initialize", protocolVersion=9).call["params"]["protocolVersion"] == 2
    assert pair.reply(1, V2).result["protocolVersion"] == 2


def test_an_agent_that_refuses_version_2_is_asked_for_version_1() -> None:
    pair = EnginePair()
    pair.request(1, "initialize", protocolVersion=2, info={"name": "c", "version": "1"})
    again = pair.fail(1).call
    assert again["params"]["protocolVersion"] == 1
    assert pair.reply(again["id"], V1).result["protocolVersion"] == 2


def test_an_agent_that_refuses_both_versions_gives_its_first_error() -> None:
    pair = EnginePair()
    pair.request(1, "initialize", protocolVersion=2)
    pair.fail(1, message="first")
    assert pair.fail("rekindle-1", message="second").error["message"] == "first"


def test_initialize_is_refused_while_sessions_are_open() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.do_open("s1")
    assert pair.request(1, "initialize", protocolVersion=1).error["code"] == -32600


def test_messages_of_sessions_wait_for_initialize() -> None:
    pair = EnginePair()
    pair.request(1, "initialize", protocolVersion=1)
    assert pair.request(2, "session/new", cwd="/p").to_agent == []
    answered = pair.reply(1, V1)
    assert answered.response["id"] == 1
    assert answered.call["method"] == "session/new"


def test_a_second_initialize_succeeds_after_the_first_was_refused() -> None:
    pair = EnginePair()
    pair.request(1, "initialize", protocolVersion=1)
    pair.request(2, "initialize", protocolVersion=1)
    assert pair.fail(1).error["message"] == "no"
    assert pair.reply(2, V1).result["protocolVersion"] == 1
    assert pair.request(3, "session/new", cwd="/p").call["method"] == "session/new"


def test_initialize_is_answered_if_the_agent_answers_the_other_version_with_null() -> None:
    pair = EnginePair()
    pair.request(1, "initialize", protocolVersion=2)
    pair.fail(1)
    answered = pair.reply("rekindle-1", None).response
    assert (answered["id"], "error" in answered) == (1, True)
