from engine_pair import EnginePair


def test_a_request_without_a_session_starts_the_agent_again() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.exit()
    assert pair.request(1, "_x").call["method"] == "initialize"
    assert pair.reply("rekindle-1", {"protocolVersion": 1}).call == {
        "id": 1,
        "method": "_x",
        "params": {},
    }


def test_a_request_of_a_session_restores_it_first() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.exit()
    pair.request(1, "_x", sessionId="s1")
    assert pair.reply("rekindle-1", {"protocolVersion": 1}).call["method"] == "session/new"
    assert pair.reply("rekindle-2", {"sessionId": "a2"}).call["params"] == {"sessionId": "a2"}


def test_setting_a_mode_needs_an_open_session() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    sent = pair.request(1, "session/set_mode", sessionId="s1", modeId="m")
    assert sent.error["code"] == -32002


def test_a_method_that_version_2_lacks_is_refused() -> None:
    pair = EnginePair()
    pair.do_speaks("2 1")
    pair.do_agent("Fake")
    assert pair.request(1, "session/set_mode", sessionId="s1").error["code"] == -32601
