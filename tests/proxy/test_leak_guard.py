from hypothesis import given, strategies as st

from engine_pair import EnginePair
from rekindle.proxy.leak_guard import HOLD_US, LeakGuard
from rekindle.proxy.live_session import LiveSession

ONE, TWO = LiveSession(id="s1", agent_id="a1"), LiveSession(id="s2", agent_id="a2")
KIND = "agent_message_chunk"


def line(agent_id: str, text: str) -> bytes:
    return b'{"params":{"sessionId":"%s","text":"%s"}}' % (agent_id.encode(), text.encode())


def test_a_copy_differs_from_its_original_in_the_id_only() -> None:
    guard = LeakGuard()
    assert not guard.is_copy(TWO, line("a2", "x"))
    guard.note_original("a1", line("a1", "w") + b"\n" + line("a1", "x"))
    assert guard.is_copy(TWO, line("a2", "x"))
    assert not guard.is_copy(TWO, line("a2", "w"))
    assert not guard.is_copy(ONE, line("a1", "x"))


def test_a_held_update_is_dropped_or_trusted() -> None:
    guard = LeakGuard()
    guard.hold(TWO, KIND, line("a2", "x"), at_us=5)
    assert guard.deadline_us == 5 + HOLD_US
    assert not guard.is_trusted(TWO)
    guard.note_original("a1", line("a1", "x"))
    assert guard.drop_copies()
    assert guard.take_held() == []
    assert guard.deadline_us is None
    assert not guard.is_trusted(TWO)
    guard.hold(TWO, KIND, line("a2", "y"), at_us=5)
    assert not guard.drop_copies()
    assert [it.line for it in guard.take_held()] == [line("a2", "y")]
    assert guard.is_trusted(TWO)
    guard.prompted()
    assert not guard.is_trusted(TWO)


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=8)


def running(version: int) -> EnginePair:
    """Return an engine with two sessions, the first of which has a turn."""
    pair = EnginePair()
    pair.do_speaks(f"{version} {version}")
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.do_open("s2")
    prompt = [{"type": "text", "text": "Go"}]
    pair.request(1, "session/prompt", sessionId="s1", prompt=prompt)
    if version > 1:
        pair.reply(1, {"messageId": "m1"})
    return pair


def received(pair: EnginePair, updates: list[tuple[str, str]]) -> dict[str, str]:
    """Let the agent send chunks; return the text that the client received of each session."""
    texts = {"s1": "", "s2": ""}
    sent = [
        pair.update(name, KIND, messageId="a", content={"type": "text", "text": text})
        for name, text in updates
    ]
    for it in (*sent, pair.wait(1)):
        for message in it.to_client:
            params = message["params"]
            texts[params["sessionId"]] += params["update"]["content"]["text"]
    return texts


@given(WORDS, st.sampled_from([("s1", "s2"), ("s2", "s1")]), st.sampled_from([1, 2]))
def test_no_copy_is_forwarded_and_every_original_is(
    words: list[str], order: tuple[str, str], version: int
) -> None:
    updates = [(name, word) for word in words for name in order]
    assert received(running(version), updates) == {"s1": "".join(words), "s2": ""}


@given(WORDS, st.lists(st.tuples(st.sampled_from(["s1", "s2"]), st.sampled_from("abc"))))
def test_a_session_with_work_of_its_own_loses_nothing(
    words: list[str], updates: list[tuple[str, str]]
) -> None:
    own = [("s2", "own"), *(("s1", word) for word in words), *updates]
    whole = {name: "".join(text for it, text in own if it == name) for name in ("s1", "s2")}
    assert received(running(1), own) == whole
