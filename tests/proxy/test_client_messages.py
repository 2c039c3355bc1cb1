from engine_pair import EnginePair, Sent

TEXT = [{"type": "text", "text": "Hello"}]


def pair(client: int = 1, agent: int = 1, *methods: str) -> EnginePair:
    made = EnginePair()
    made.do_speaks(f"{client} {agent}")
    made.do_agent(" ".join(["Fake", *methods]))
    made.do_open("s1")
    return made


def prompt(made: EnginePair, request_id: int) -> Sent:
    return made.request(request_id, "session/prompt", sessionId="s1", prompt=TEXT)


def test_between_versions_a_second_prompt_waits_for_the_first() -> None:
    made = pair(1, 2)
    first = prompt(made, 5).call
    assert prompt(made, 6).to_agent == []
    made.reply(first["id"], {"messageId": "m"})
    ended = made.update("s1", "state_update", state="idle", stopReason="end_turn")
    assert ended.to_client[-1]["id"] == 5
    assert ended.call["method"] == "session/prompt"


def test_in_the_same_version_a_second_prompt_is_forwarded_at_once() -> None:
    made = pair()
    assert prompt(made, 5).call["id"] == 5
    assert prompt(made, 6).call["id"] == 6


def test_a_queued_prompt_can_be_cancelled_by_its_id() -> None:
    made = pair(1, 2)
    prompt(made, 5)
    prompt(made, 6)
    cancelled = made.from_client({"method": "$/cancel_request", "params": {"requestId": 6}})
    assert cancelled.result == {"stopReason": "cancelled"}
    assert cancelled.to_agent == []


def test_cancelling_the_held_prompt_cancels_the_turn() -> None:
    made = pair(1, 2)
    prompt(made, 5)
    cancelled = made.from_client({"method": "$/cancel_request", "params": {"requestId": 5}})
    assert cancelled.call["method"] == "session/cancel"


def test_cancelling_the_turn_answers_queued_prompts() -> None:
    made = pair(2, 1)
    prompt(made, 5)
    prompt(made, 6)
    cancelled = made.from_client({"method": "session/cancel", "params": {"sessionId": "s1"}})
    assert (cancelled.response["id"], cancelled.error["code"]) == (6, -32800)
    assert cancelled.call["method"] == "session/cancel"


def test_messages_of_a_session_wait_for_its_flow_in_order() -> None:
    made = pair(1, 1, "load")
    made.exit()
    started = prompt(made, 5)
    assert started.call["method"] == "initialize"
    assert made.from_client({"method": "_x", "params": {"sessionId": "s1"}}).to_agent == []
    made.reply(started.call["id"], {"protocolVersion": 1, "agentCapabilities": {}})
    restored = made.reply("rekindle-2", {"sessionId": "a2"})
    assert [it["method"] for it in restored.to_agent] == ["session/prompt", "_x"]


def test_requests_wait_for_an_agent_that_closed_its_output() -> None:
    made = pair()
    made.do_silent("")
    assert prompt(made, 5).to_agent == []
    assert made.request(6, "session/list").result == {"sessions": []}
    assert made.exit().call["method"] == "initialize"


def test_a_late_answer_to_a_former_agent_is_dropped() -> None:
    made = pair()
    params = {"sessionId": "s1", "options": []}
    made.from_agent({"id": 1, "method": "session/request_permission", "params": params})
    made.exit()
    assert made.from_client({"id": 1, "result": {}}).to_agent == []


def test_a_response_to_no_known_request_is_forwarded() -> None:
    made = pair()
    assert made.from_client({"id": 77, "result": {}}).call == {"id": 77, "result": {}}
