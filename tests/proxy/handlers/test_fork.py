from engine_pair import EnginePair, Sent, recorded_session


def fork(pair: EnginePair, **params: object) -> Sent:
    return pair.request(1, "session/fork", sessionId="s1", cwd="/p", **params)


def test_an_agent_that_can_fork_is_asked_to() -> None:
    pair = recorded_session("fork")
    assert fork(pair).call["method"] == "session/fork"
    result = pair.reply("rekindle-1", {"sessionId": "f1"}).result
    assert (result["sessionId"], result["_meta"]["rekindle"]["restored"]) == ("f1", "native")
    forked = pair.record.store.session("f1")
    assert (forked.parent_id, forked.turns, forked.title) == ("s1", 1, "Hello 0 (fork)")


def test_an_agent_that_returns_the_same_id_has_not_forked() -> None:
    pair = recorded_session("fork")
    fork(pair)
    assert pair.reply("rekindle-1", {"sessionId": "s1"}).call["method"] == "session/new"


def test_a_fork_at_a_message_is_handed_over() -> None:
    pair = recorded_session("fork", turns=2)
    loaded = pair.request(9, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    loaded = pair.reply(loaded.call["id"], {"sessionId": "a2"})
    update = loaded.to_client[1]["params"]["update"]
    assert update["sessionUpdate"] == "agent_message_chunk"
    sent = fork(pair, _meta={"rekindle": {"messageId": update["messageId"]}})
    pair.reply(sent.call["id"], {"sessionId": "f1"})
    assert pair.record.store.session("f1").turns == 1


def test_an_unknown_message_is_refused() -> None:
    sent = fork(recorded_session(), _meta={"rekindle": {"messageId": "none"}})
    assert sent.error["data"]["field"] == "_meta.rekindle.messageId"


def test_a_fork_without_handover_is_refused_if_the_user_forbids_it() -> None:
    pair = EnginePair()
    pair.do_with("no-handover")
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.do_said("s1 Hello | Hi")
    assert "--no-handover" in fork(pair).error["message"]


def test_a_deleted_session_cannot_be_forked() -> None:
    pair = recorded_session()
    pair.do_deleted("s1")
    assert "it was deleted" in fork(pair).error["message"]
