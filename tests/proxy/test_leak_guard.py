from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine_pair import EnginePair
from rekindle.jsonvalue import encode
from rekindle.proxy.leak_guard import HOLD_US, LeakGuard
from rekindle.proxy.live_session import LiveSession

ONE, TWO, THREE = (LiveSession(id=f"s{n}", agent_id=f"a{n}") for n in (1, 2, 3))
KIND = "agent_message_chunk"
LONG = "long " * 50


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
    guard.hold(TWO, KIND, line("a2", LONG), at_us=5)
    assert guard.deadline_us == 5 + HOLD_US
    assert not guard.is_trusted(TWO)
    guard.note_original("a1", line("a1", LONG))
    assert guard.drop_copies()
    assert guard.take_all() == []
    assert not guard.held
    assert not guard.is_trusted(TWO)
    guard.hold(TWO, KIND, line("a2", "y"), at_us=5)
    assert not guard.drop_copies()
    assert [it.line for it in guard.take_all()] == [line("a2", "y")]
    assert guard.is_trusted(TWO)
    guard.prompted()
    assert not guard.is_trusted(TWO)


def test_a_short_copy_is_dropped_only_after_another_one() -> None:
    guard = LeakGuard()
    guard.note_original("a1", line("a1", "x"))
    assert not guard.note_copy(TWO, line("a2", "x"))
    guard.hold(TWO, KIND, line("a2", "x"), at_us=5, is_copy=True)
    assert guard.take_unlike() == []
    assert guard.take_due(at_us=4) == []
    assert guard.note_copy(TWO, line("a2", "y"))
    assert guard.held == []
    # The agent is known to send copies now.
    assert guard.note_copy(THREE, line("a3", "z"))


def test_a_short_copy_that_is_accepted_is_no_reason_to_trust() -> None:
    guard = LeakGuard()
    guard.hold(TWO, KIND, line("a2", "x"), at_us=5)
    guard.note_original("a1", line("a1", "x"))
    assert not guard.drop_copies()
    assert [it.line for it in guard.take_due(at_us=5 + HOLD_US)] == [line("a2", "x")]
    assert not guard.is_trusted(TWO)
    assert guard.note_copy(TWO, line("a2", "y"))


def test_copies_of_a_session_with_work_of_its_own_are_not_counted_together() -> None:
    guard = LeakGuard()
    guard.note_original("a1", line("a1", "x"))
    assert not guard.note_copy(TWO, line("a2", "x"))
    guard.hold(TWO, KIND, line("a2", "y"), at_us=5)
    guard.take_all()
    guard.prompted()
    assert not guard.note_copy(TWO, line("a2", "x"))


@pytest.mark.parametrize(
    ("update", "is_certain"),
    [
        ({"sessionUpdate": KIND, "content": {"type": "text", "text": "Done."}}, False),
        (
            {
                "sessionUpdate": KIND,
                "content": {"type": "text", "text": "Run the tests, ok?"},
            },
            True,
        ),
        ({"sessionUpdate": KIND, "content": {"type": "text", "text": "Done. " * 20}}, True),
        ({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read"}, False),
        ({"sessionUpdate": "tool_call", "toolCallId": "call_4f0c1e2d", "title": "Read"}, True),
        ({"sessionUpdate": KIND, "messageId": "4f0c1e2d", "content": {}}, True),
    ],
)
def test_a_long_copy_or_one_with_an_id_is_certain(
    update: dict[str, Any], *, is_certain: bool
) -> None:
    params = {"sessionId": "a2", "update": update}
    copy = encode({"jsonrpc": "2.0", "method": "session/update", "params": params})
    assert LeakGuard().note_copy(TWO, copy) == is_certain


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


def received(pair: EnginePair, updates: list[tuple[str, str]], pause: float = 0) -> dict[str, str]:
    """Let the agent send chunks; return the text that the client received of each session."""
    texts = {"s1": "", "s2": ""}
    sent: list[Any] = []
    for name, text in updates:
        content = {"type": "text", "text": text}
        sent.append(pair.update(name, KIND, messageId="a", content=content))
        sent += [pair.wait(pause)] if pause else []
    for it in (*sent, pair.wait(1)):
        for message in it.to_client:
            params = message["params"]
            texts[params["sessionId"]] += params["update"]["content"]["text"]
    return texts


@given(WORDS, st.sampled_from([("s1", "s2"), ("s2", "s1")]), st.sampled_from([1, 2]))
def test_at_most_one_copy_is_forwarded_and_every_original_is(
    words: list[str], order: tuple[str, str], version: int
) -> None:
    updates = [(name, word) for word in words for name in order]
    leaked = words[0] if len(words) == 1 else ""
    assert received(running(version), updates) == {"s1": "".join(words), "s2": leaked}
    slowly = received(running(version), updates, pause=1)
    assert slowly["s1"] == "".join(words)
    assert len(slowly["s2"]) <= (1 if order == ("s1", "s2") else len(words))


@pytest.mark.parametrize("order", [("s1", "s2"), ("s2", "s1")])
def test_a_first_chunk_that_another_session_has_sent_too_is_kept(order: tuple[str, str]) -> None:
    updates = [(name, "Done.") for name in order]
    later = [("s1", "Bye"), ("s2", " I have"), ("s2", " finished")]
    expected = {"s1": "Done.Bye", "s2": "Done. I have finished"}
    assert received(running(1), updates + later) == expected


@given(WORDS, st.lists(st.tuples(st.sampled_from(["s1", "s2"]), st.sampled_from("abc"))))
def test_a_session_with_work_of_its_own_loses_nothing(
    words: list[str], updates: list[tuple[str, str]]
) -> None:
    own = [("s2", "own"), *(("s1", word) for word in words), *updates]
    whole = {name: "".join(text for it, text in own if it == name) for name in ("s1", "s2")}
    assert received(running(1), own) == whole
