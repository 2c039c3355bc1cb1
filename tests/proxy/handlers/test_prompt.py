import pytest

from engine_pair import EnginePair, Sent, recorded_session

TEXT = {"type": "text", "text": "Next"}


def prompt(pair: EnginePair, *blocks: object) -> Sent:
    return pair.request(5, "session/prompt", sessionId="s1", prompt=list(blocks))


def handed_over() -> EnginePair:
    pair = recorded_session()
    pair.request(1, "session/resume", sessionId="s1", cwd="/p")
    pair.reply("rekindle-1", {"sessionId": "a2"})
    return pair


def test_a_prompt_to_an_unopened_session_is_refused() -> None:
    pair = recorded_session()
    assert prompt(pair, TEXT).error["code"] == -32002


def test_the_first_prompt_after_a_handover_carries_the_history() -> None:
    sent = prompt(handed_over(), TEXT)
    history, own = sent.call["params"]["prompt"]
    assert "Hello 0" in history["text"]
    assert own == TEXT
    assert sent.response["params"]["update"]["sessionUpdate"] == "agent_message_chunk"


def test_a_deleted_session_is_refused_and_forgotten() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.do_deleted("s1")
    assert "it was deleted" in prompt(pair, TEXT).error["message"]
    assert "not open on this connection" in prompt(pair, TEXT).error["message"]


def test_without_a_store_an_open_session_continues() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.do_lost("")
    assert prompt(pair, TEXT).call["method"] == "session/prompt"


def test_a_prompt_that_no_agent_received_is_recorded_with_its_error() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.exit()
    pair.do_broken("gone")
    sent = prompt(pair, TEXT)
    assert "gone" in sent.error["message"]
    assert [
        line.split(" ")[2] for line in sent.recorded if " client " in line or " agent " in line
    ] == [
        "prompt",
        "answer",
    ]


@pytest.mark.parametrize("blocks", [None, 5, [5], [{}]])
def test_a_version_2_prompt_is_checked_before_it_is_acknowledged(blocks: object) -> None:
    pair = EnginePair()
    pair.do_speaks("2 1")
    pair.do_agent("Fake")
    pair.do_open("s1")
    sent = pair.request(5, "session/prompt", sessionId="s1", prompt=blocks)
    assert sent.error["code"] == -32602


def test_a_slash_command_carries_no_reminder() -> None:
    pair = EnginePair()
    pair.do_agent("Fake resume")
    pair.do_open("s1")
    pair.request(5, "session/prompt", sessionId="s1", prompt=[TEXT])
    pair.do_killed("")
    pair.do_agent("Fake resume")
    pair.request(1, "session/resume", sessionId="s1", cwd="/p")
    pair.reply("rekindle-1", {})
    command = {"type": "text", "text": "/compact"}
    assert prompt(pair, command).call["params"]["prompt"] == [command]
    assert len(prompt(pair, TEXT).call["params"]["prompt"]) == 2
