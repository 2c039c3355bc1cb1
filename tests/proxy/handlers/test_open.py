import pytest

from engine_pair import EnginePair, recorded_session


def load(pair: EnginePair, **params: object) -> None:
    pair.request(1, "session/load", **{"sessionId": "s1", "cwd": "/p", "mcpServers": [], **params})


def test_new_gives_a_repeated_id_of_the_agent_a_suffix() -> None:
    pair = recorded_session()
    pair.request(1, "session/new", cwd="/p", mcpServers=[])
    session_id = pair.reply(1, {"sessionId": "s1"}).result["sessionId"]
    assert session_id.startswith("s1-")


def test_new_forwards_the_agents_refusal() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.request(1, "session/new", cwd="/p", mcpServers=[])
    assert pair.fail(1, message="no room").error["message"] == "no room"


def test_load_replays_before_it_responds() -> None:
    pair = recorded_session()
    load(pair)
    sent = pair.reply("rekindle-1", {"sessionId": "a2"}).to_client
    kinds = [it["params"]["update"]["sessionUpdate"] for it in sent[:-1]]
    assert kinds[:2] == ["user_message_chunk", "agent_message_chunk"]
    assert sent[-1]["id"] == 1
    assert sent[-1]["result"]["_meta"]["rekindle"]["restored"] == "handover"


def test_load_of_a_live_session_asks_the_agent_nothing() -> None:
    pair = EnginePair()
    pair.do_agent("Fake load")
    pair.do_open("s1")
    pair.out.clear()
    load(pair)
    assert not [line for line in pair.out if line.startswith("<a")]


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda pair: pair.do_deleted("s1"), "it was deleted"),
        (lambda pair: pair.do_held("s1"), "in use by process 7"),
    ],
)
def test_a_session_that_cannot_be_opened_is_refused(prepare: object, message: str) -> None:
    pair = recorded_session()
    prepare(pair)  # type: ignore[operator]
    sent = pair.request(1, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    assert message in sent.error["message"]


def test_another_folder_than_the_sessions_is_refused() -> None:
    pair = recorded_session()
    sent = pair.request(1, "session/load", sessionId="s1", cwd="/other", mcpServers=[])
    assert sent.error["data"]["expected"] == "/p"


def test_a_failed_opening_releases_the_lease() -> None:
    pair = recorded_session()
    load(pair)
    pair.fail("rekindle-1")
    assert pair.record.store.lease_holder("s1") is None
    assert pair.request(2, "session/prompt", sessionId="s1", prompt=[]).error["code"] == -32002


def test_version_2_resumes_from_a_cursor_and_sends_the_state() -> None:
    pair = EnginePair()
    pair.do_speaks("2 2")
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.out.clear()
    params = {"sessionId": "s1", "cwd": "/p", "replayFrom": {"type": "start"}}
    sent = pair.request(1, "session/resume", **params).to_client
    assert sent[-2]["params"]["update"] == {"sessionUpdate": "state_update", "state": "idle"}
    assert sent[-1]["result"]["_meta"]["rekindle"]["seq"] > 0


def test_a_request_with_an_id_that_is_open_is_refused() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.request(5, "session/new", cwd="/p", mcpServers=[])
    assert pair.request(5, "session/new", cwd="/p", mcpServers=[]).error["code"] == -32600
    assert pair.reply(5, {"sessionId": "s1"}).result == {"sessionId": "s1"}
    assert not pair.engine.is_waiting_for_agent
