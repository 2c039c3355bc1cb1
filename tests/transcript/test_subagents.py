"""Sub-agents in a transcript: folded, attached, described."""

import json

import pytest

from rekindle.model import DocumentKind, Entry, Kind, Side
from rekindle.transcript.model import ReplayContext
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.subagents import (
    SessionMessageItem,
    SubagentItem,
    attach,
    subagents_in,
)

Json = dict[str, object]


def entry(seq: int, update: Json, *, protocol: int = 2) -> Entry:
    line = json.dumps({"params": {"update": update}}).encode()
    return Entry(
        seq=seq, side=Side.AGENT, kind=Kind.UPDATE, at_us=seq, line=line, protocol=protocol
    )


def folded(*updates: Json, protocol: int = 2) -> Transcript:
    return fold(entry(seq, it, protocol=protocol) for seq, it in enumerate(updates, 1))


def announced(**fields: object) -> Json:
    return {"sessionUpdate": "subagent_update", "sessionId": "c", **fields}


def message(kind: str = "session_message", **fields: object) -> Json:
    return {"sessionUpdate": kind, "messageId": "m", **fields}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def said(words: str) -> Json:
    return {"sessionUpdate": "agent_message_chunk", "messageId": "a", "content": text(words)}


def only_subagent(transcript: Transcript) -> SubagentItem:
    (item,) = subagents_in(transcript.turns)
    return item


def test_a_party_of_a_message_that_is_no_id_is_kept() -> None:
    transcript = folded(message(senderSessionId=["s"], recipientSessionId="s", content=[]))
    attach(transcript, "s", lambda _: None)
    (item,) = transcript.turns[0].items
    assert isinstance(item, SessionMessageItem)
    assert item.fields["senderSessionId"] == ["s"]


# -- folding ------------------------------------------------------------------------------


def test_null_removes_a_field_and_other_values_replace_it() -> None:
    item = only_subagent(
        folded(
            announced(title="A", description="D", capabilities={"cancel": {}}),
            announced(title="B", capabilities=None),
        )
    )
    assert item.fields == {"title": "B", "description": "D"}
    assert (item.title, item.description, item.last_seq) == ("B", "D", 2)


def test_meta_is_merged_from_version_2_on() -> None:
    updates = (announced(_meta={"a": 1, "b": 2}), announced(_meta={"a": None, "c": 3}))
    assert only_subagent(folded(*updates)).fields["_meta"] == {"b": 2, "c": 3}
    assert only_subagent(folded(*updates, protocol=1)).fields["_meta"] == {"a": None, "c": 3}


def test_an_announcement_without_a_session_is_kept_as_it_came() -> None:
    update: Json = {"sessionUpdate": "subagent_update", "x": 1}
    assert list(subagents_in(folded(update).turns)) == []
    assert len(folded(update).turns[0].items) == 1


def test_a_message_between_sessions_is_joined_from_its_parts() -> None:
    transcript = folded(
        message(senderSessionId="s", recipientSessionId="c"),
        message("session_message_chunk", content=text("a")),
        message("session_message_chunk", content=text("b")),
        message(content=[text("new")], senderMessageId="x"),
        message("session_message_chunk", content=text("er")),
    )
    (item,) = transcript.turns[0].items
    assert isinstance(item, SessionMessageItem)
    assert item.blocks == [text("newer")]
    assert item.route == "from s to c"
    assert item.search_text().text == "newer"
    assert list(item.handover_lines({})) == ["Message from s to c: newer"]


def test_a_message_without_parties_has_no_route() -> None:
    (item,) = folded(message("session_message_chunk", content=text("a"))).turns[0].items
    assert list(item.handover_lines({})) == ["Message: a"]


def test_a_long_message_is_replayed_in_chunks_of_the_clients_version() -> None:
    new = {"type": "new"}
    (item,) = folded(message(content=[text("x" * 50_000), new])).turns[0].items
    context = ReplayContext(terminals={}, turn=folded(said("x")).turns[0])
    first, *chunks = item.replay_v2(context)
    assert first["sessionUpdate"] == "session_message"
    assert {it["sessionUpdate"] for it in chunks} == {"session_message_chunk"}
    assert chunks[-1]["content"] == new
    assert list(item.replay_v1(context))[-1]["content"] == text("[new]")
    (of_v1,) = folded(message(content=[new]), protocol=1).turns[0].items
    assert next(iter(of_v1.replay_v1(context)))["content"] == [new]


def test_an_id_that_was_used_before_a_handover_names_another_sub_agent() -> None:
    handover = Entry(seq=2, side=Side.AGENT, kind=Kind.HANDOVER, at_us=2, line=b"{}")
    transcript = fold([entry(1, announced()), handover, entry(3, announced())])
    first, second = subagents_in(transcript.turns)
    assert first.id == "c"
    assert second.id == "c~3"
    assert "c" in transcript.ids


# -- conversations ------------------------------------------------------------------------


def attached(parent: Transcript, **children: Transcript) -> SubagentItem:
    asked: list[str] = []

    def read(record_id: str) -> Transcript | None:
        asked.append(record_id)
        return children.get(record_id.replace(".", "_"))

    attach(parent, "s", read)
    assert asked[0] == "s.c"
    return only_subagent(parent)


def test_conversations_are_attached_at_any_depth() -> None:
    nested = {"sessionUpdate": "subagent_update", "sessionId": "d"}
    item = attached(folded(announced()), s_c=folded(nested), s_c_d=folded(said("deep")))
    assert item.child is not None
    inner = only_subagent(item.child)
    assert inner.child is not None
    assert next(inner.child.turns[0].messages).text == "deep"
    assert list(inner.handover_lines({})) == ["You started a sub-agent, d", "d ended with: deep"]


def test_a_sub_agent_without_a_record_has_no_conversation() -> None:
    item = attached(folded(announced(title="T", description="D")))
    assert item.child is None
    assert item.search_text() == item.search_text().__class__(DocumentKind.TOOL_CALL, None, "T\nD")
    assert list(item.handover_lines({})) == ["You started a sub-agent, T: D"]
    turn = folded(said("x")).turns[0]
    assert item.changed_seq(turn, {}) == 1


def test_a_sub_agent_with_a_conversation_may_change_at_any_time() -> None:
    parent = folded(announced())
    item = attached(parent, s_c=folded(said("x")))
    assert item.changed_seq(parent.turns[0], {}) is None


def test_the_last_turn_ends_as_the_state_reports() -> None:
    for state, ended, reason in (
        ({"state": "idle", "stopReason": "cancelled"}, True, "cancelled"),
        ({"state": "running"}, False, None),
        (None, True, None),
    ):
        item = attached(folded(announced(state=state)), s_c=folded(said("x")))
        assert item.child is not None
        (turn,) = item.child.turns
        assert (turn.ended_us is not None, turn.stop_reason) == (ended, reason)


def test_work_of_an_interrupted_turn_without_a_state_was_interrupted() -> None:
    prompt = Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, line=b'{"id":1}')
    parent = fold([prompt, entry(2, announced())])
    item = attached(parent, s_c=folded(said("x")))
    assert item.child is not None
    assert item.child.turns[0].ended_us is None
    empty = attached(fold([prompt, entry(2, announced())]), s_c=Transcript())
    assert empty.past_state is None


def test_the_own_report_of_a_sub_agent_decides_on_its_state() -> None:
    idle: Json = {"sessionUpdate": "state_update", "state": "idle", "background": []}
    item = attached(folded(announced(state={"state": "running"})), s_c=folded(said("x"), idle))
    assert item.is_idle
    assert item.past_state == {"state": "idle"}
    running = only_subagent(folded(announced(state={"state": "requires_action"})))
    assert running.past_state == {"state": "unknown"}


def test_a_sub_agent_is_found_by_the_agents_id() -> None:
    transcript = folded(announced(title="Tester"))
    assert transcript.subagent("c") is only_subagent(transcript)
    assert transcript.subagent("unknown") is None


# -- forks --------------------------------------------------------------------------------


def of_session(session_id: str, *updates: Json, after: int = 0) -> list[Entry]:
    lines = [json.dumps({"params": {"sessionId": session_id, "update": it}}) for it in updates]
    return [
        Entry(seq=seq, side=Side.AGENT, kind=Kind.UPDATE, at_us=seq, line=line.encode(), protocol=2)
        for seq, line in enumerate(lines, after + 1)
    ]


def test_a_fork_has_copies_with_other_ids_and_may_use_the_old_ones_again() -> None:
    sent = message(senderSessionId="s", recipientSessionId="c")
    answered = {**sent, "senderSessionId": "c", "recipientSessionId": "s"}
    before = of_session("s", announced(title="Old"), sent)
    again = {**sent, "messageId": "n", "senderSessionId": "f"}
    after = of_session("f", announced(title="New"), again, after=2)
    nested = {"sessionUpdate": "subagent_update", "sessionId": "d"}
    records = {
        "f.s.c": fold(of_session("c", nested, answered)),
        "f.s.c.c.d": fold(of_session("d", said("deep"))),
        "f.c": fold(of_session("c", said("new"))),
    }
    transcript = fold([*before, *after])
    attach(transcript, "f", records.get)
    old, new = subagents_in(transcript.turns)
    assert [(it.title, it.id, it.record_id) for it in (old, new)] == [
        ("Old", "f.s.c", "f.s.c"),
        ("New", "c", "f.c"),
    ]
    assert old.child is records["f.s.c"]
    inner = only_subagent(records["f.s.c"])
    assert (inner.id, inner.child) == ("f.s.c.c.d", records["f.s.c.c.d"])
    routes = [
        item.route
        for turns in (transcript.turns, records["f.s.c"].turns)
        for turn in turns
        for item in turn.items
        if isinstance(item, SessionMessageItem)
    ]
    assert routes == ["from f to f.s.c", "from f to c", "from f.s.c to f"]
    # A fork of the fork has copies of both.
    assert [it.copy_id("g") for it in (old, new)] == ["g.s.c", "g.f.c"]


@pytest.mark.parametrize(("own_us", "reported_us", "expected"), [(1, 2, "idle"), (3, 2, "running")])
def test_the_later_report_of_a_subagents_state_counts(
    own_us: int, reported_us: int, expected: str
) -> None:
    child = Transcript()
    child.state["state_update"] = {"sessionUpdate": "state_update", "state": "running"}
    child.worked_us = own_us
    item = SubagentItem(id="c1", seq=1, at_us=1, fields={"state": {"state": "idle"}})
    assert item.state == {"state": "idle"}
    item.child, item.worked_us = child, reported_us
    assert item.state["state"] == expected
