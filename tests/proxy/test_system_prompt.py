"""`systemPrompt`: refused, recorded, and applied again."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine_pair import EnginePair, Sent
from rekindle.proxy.journal import setup_without_secrets
from rekindle.proxy.system_prompt import recorded_prompt
from rekindle.text.redact.detect import mask

Json = dict[str, Any]
CREDENTIALS = "DB_PASSWORD=hunter2-hunter2"
TEXT = {"type": "text", "text": "Hello"}


def prompt(text: str, mode: str = "append") -> Json:
    return {"mode": mode, "content": [{"type": "text", "text": text}]}


def start(pair: EnginePair, *offered: str, mode: Json | None = None) -> None:
    """Initialize an agent that supports system prompts and has other methods."""
    session: Json = {name: {} for name in offered if name != "load"}
    session["systemPrompt"] = {} if mode is None else {"mode": mode}
    capabilities = {"loadSession": "load" in offered, "sessionCapabilities": session}
    info = {"name": "Fake", "version": "1"}
    result = {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities}
    pair.exchange("initialize", {"protocolVersion": 1}, result)


def new(pair: EnginePair, value: object = None) -> Sent:
    fields = {} if value is None else {"systemPrompt": value}
    return pair.request(1, "session/new", cwd="/p", mcpServers=[], **fields)


def recorded(text: str, *offered: str) -> EnginePair:
    """Return a restarted engine with the record of a session that had a system prompt."""
    pair = EnginePair()
    start(pair, *offered)
    assert new(pair, prompt(text)).call["params"]["systemPrompt"] == prompt(text)
    pair.reply(1, {"sessionId": "s1"})
    pair.do_said("s1 Hello | Hi")
    pair.do_killed("")
    start(pair, *offered)
    return pair


def resume(pair: EnginePair, value: object = None) -> Sent:
    fields = {} if value is None else {"systemPrompt": value}
    return pair.request(2, "session/resume", sessionId="s1", cwd="/p", **fields)


def test_the_agent_receives_a_secret_and_the_record_does_not() -> None:
    pair = recorded(f"Use {CREDENTIALS}")
    (setup, *_) = pair.record.store.read("s1")
    assert b"DB_PASSWORD=***" in setup.line
    assert b"hunter2-hunter2" not in setup.line


@given(st.lists(st.text(), min_size=1), st.sampled_from(["append", "override", "_x"]))
def test_the_recorded_prompt_has_mode_and_masked_texts_only(texts: list[str], mode: str) -> None:
    content = [{"type": "text", "text": text, "annotations": {"a": 1}} for text in texts]
    value = {"mode": mode, "content": content, "_meta": {"secret": 1}}
    kept = setup_without_secrets({"cwd": "/p", "systemPrompt": value})["systemPrompt"]
    assert kept == {"mode": mode, "content": [{"type": "text", "text": mask(it)} for it in texts]}
    assert recorded_prompt(kept) == kept


def test_an_omitted_prompt_is_not_recorded() -> None:
    assert "systemPrompt" not in setup_without_secrets({"cwd": "/p", "systemPrompt": None})


@pytest.mark.parametrize("method", ["resume", "load"])
def test_a_native_restore_sends_the_recorded_prompt(method: str) -> None:
    pair = recorded("Be brief.", method)
    call = resume(pair).call
    assert call["method"] == f"session/{method}"
    assert call["params"]["systemPrompt"] == prompt("Be brief.")


def test_a_native_restore_leaves_a_masked_prompt_to_the_agent() -> None:
    pair = recorded(CREDENTIALS, "resume")
    call = resume(pair).call
    assert (call["method"], "systemPrompt" in call["params"]) == ("session/resume", False)
    # A handover has nothing better.
    call = pair.fail(call["id"]).call
    assert call["method"] == "session/new"
    assert call["params"]["systemPrompt"] == prompt("DB_PASSWORD=***")


def test_the_clients_own_prompt_is_sent_even_with_asterisks() -> None:
    pair = recorded(CREDENTIALS, "resume")
    value = prompt("DB_PASSWORD=***")
    assert resume(pair, value).call["params"]["systemPrompt"] == value


@pytest.mark.parametrize("method", ["session/prompt", "session/resume"])
def test_a_restarted_agent_receives_the_unmasked_prompt(method: str) -> None:
    pair = EnginePair()
    start(pair, "resume")
    new(pair, prompt(CREDENTIALS))
    pair.reply(1, {"sessionId": "s1"})
    pair.do_said("s1 Hello | Hi")
    pair.do_ended("1")
    fields: Json = {"prompt": [TEXT]} if method == "session/prompt" else {"cwd": "/p"}
    pair.request(3, method, sessionId="s1", **fields)
    capabilities = {"sessionCapabilities": {"systemPrompt": {}, "resume": {}}}
    info = {"name": "Fake", "version": "1"}
    answer = {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities}
    call = pair.reply("rekindle-1", answer).call
    assert call["method"] == "session/resume"
    assert call["params"]["systemPrompt"] == prompt(CREDENTIALS)


def test_a_restarted_agent_without_system_prompts_is_reported() -> None:
    pair = EnginePair()
    start(pair)
    new(pair, prompt("Be brief."))
    pair.reply(1, {"sessionId": "s1"})
    pair.do_said("s1 Hello | Hi")
    pair.do_ended("1")
    pair.request(3, "session/prompt", sessionId="s1", prompt=[TEXT])
    answer = {"protocolVersion": 1, "agentInfo": {"name": "Fake"}, "agentCapabilities": {}}
    call = pair.reply("rekindle-1", answer).call
    assert (call["method"], "systemPrompt" in call["params"]) == ("session/new", False)
    pair.reply(call["id"], {"sessionId": "a2"})
    (report,) = pair.reports
    assert "does not support the system prompt" in report


def test_a_restarted_agent_without_system_prompts_receives_no_masked_one() -> None:
    pair = recorded(CREDENTIALS)
    pair.reply(resume(pair).call["id"], {"sessionId": "a2"})
    pair.request(3, "session/prompt", sessionId="s1", prompt=[TEXT])
    pair.reply(3, {"stopReason": "end_turn"})
    pair.do_ended("1")
    pair.request(4, "session/prompt", sessionId="s1", prompt=[TEXT])
    capabilities = {"sessionCapabilities": {"resume": {}}}
    info = {"name": "Fake", "version": "2"}
    answer = {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities}
    call = pair.reply("rekindle-2", answer).call
    assert (call["method"], "systemPrompt" in call["params"]) == ("session/resume", False)


@pytest.mark.parametrize(("text", "is_sent"), [("Be brief.", True), (CREDENTIALS, False)])
def test_a_native_fork_sends_an_exact_prompt(text: str, *, is_sent: bool) -> None:
    pair = recorded(text, "fork")
    call = pair.request(2, "session/fork", sessionId="s1", cwd="/p").call
    assert call["method"] == "session/fork"
    assert ("systemPrompt" in call["params"]) is is_sent
    pair.reply(call["id"], {"sessionId": "f1"})
    pair.do_killed("")
    start(pair)
    # The fork has the prompt of its parent in its own record.
    call = pair.request(3, "session/resume", sessionId="f1", cwd="/p").call
    assert call["params"]["systemPrompt"] == prompt(mask(text))


def test_a_fork_can_have_its_own_prompt() -> None:
    pair = recorded("Be brief.")
    refused = prompt("x", "override")
    sent = pair.request(2, "session/fork", sessionId="s1", cwd="/p", systemPrompt=refused)
    assert (sent.error["code"], sent.to_agent) == (-32602, [])
    value = prompt("Be verbose.")
    call = pair.request(3, "session/fork", sessionId="s1", cwd="/p", systemPrompt=value).call
    assert (call["method"], call["params"]["systemPrompt"]) == ("session/new", value)


def test_a_fork_at_an_agent_without_system_prompts_is_reported() -> None:
    pair = recorded("Be brief.")
    pair.do_killed("")
    pair.do_agent("Fake")
    call = pair.request(2, "session/fork", sessionId="s1", cwd="/p").call
    assert "systemPrompt" not in call["params"]
    result = pair.reply(call["id"], {"sessionId": "f1"}).result
    assert result["_meta"]["rekindle"] == {"restored": "handover", "systemPromptApplied": False}
    assert len(pair.reports) == 1


@pytest.mark.parametrize("value", [None, prompt("Be brief.")])
def test_an_open_session_keeps_its_prompt_for_the_next_restore(value: Json | None) -> None:
    pair = EnginePair()
    start(pair)
    new(pair, prompt("Be brief."))
    pair.reply(1, {"sessionId": "s1"})
    pair.do_said("s1 Hello | Hi")
    assert resume(pair, value).result["_meta"]["rekindle"] == {"restored": "live"}
    call = pair.request(3, "session/fork", sessionId="s1", cwd="/p").call
    assert call["params"]["systemPrompt"] == prompt("Be brief.")


def test_an_open_session_without_a_prompt_refuses_one() -> None:
    pair = EnginePair()
    start(pair)
    new(pair)
    pair.reply(1, {"sessionId": "s1"})
    pair.do_said("s1 Hello | Hi")
    sent = resume(pair, prompt("Be brief."))
    assert (sent.error["code"], sent.to_agent) == (-32602, [])
    # The session is still open.
    assert pair.request(4, "session/prompt", sessionId="s1", prompt=[TEXT]).to_agent


@pytest.mark.parametrize("mode", [{"override": {}}, {"override": {}, "_own": {}}])
def test_announced_modes_are_accepted(mode: Json) -> None:
    for name in mode:
        pair = EnginePair()
        start(pair, mode=mode)
        assert new(pair, prompt("x", name)).call["params"]["systemPrompt"]["mode"] == name


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_refused_prompt_loads_no_session(method: str) -> None:
    pair = recorded("Be brief.", "load", "resume")
    value = prompt("x", "override")
    sent = pair.request(2, method, sessionId="s1", cwd="/p", mcpServers=[], systemPrompt=value)
    assert (sent.error["code"], sent.to_agent, sent.recorded) == (-32602, [], [])
    assert pair.request(3, "session/status", sessionId="s1").result == {"status": "saved"}
