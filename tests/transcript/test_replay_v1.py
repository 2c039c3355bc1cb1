import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from client_model_v1 import Editor
from playbook import CLIENT, Playbook
from rekindle.acp.jsonrpc import update_line
from rekindle.jsonvalue import encode
from rekindle.model import Entry, Kind, Opened, Side
from rekindle.proxy.peers import AGENT
from rekindle.transcript.model import (
    HandoverReason,
    handover_meta,
    handover_notice,
    read_handover_reason,
)
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2

Json = dict[str, Any]

TEXT = st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=5))
BLOCK = TEXT | st.just({"type": "resource_link", "name": "a", "uri": "file:///a"})
IDS = st.sampled_from([None, "m1", "m2"])


def chunks(kind: str) -> st.SearchStrategy[Json]:
    def build(block: Json, name: str | None) -> Json:
        update = {"sessionUpdate": kind, "content": block}
        return update if name is None else update | {"messageId": f"{kind}-{name}"}

    return st.builds(build, BLOCK, IDS)


def chunk(kind: str, text: str) -> Json:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def tool_call(kind: str, name: str, /, **fields: object) -> Json:
    replayed = {key: value for key, value in fields.items() if value != "absent"}
    return {"sessionUpdate": kind, "toolCallId": name, "title": "T", **replayed}


def plan(text: str) -> Json:
    return {"sessionUpdate": "plan", "entries": [{"content": text}]}


UPDATES = st.one_of(
    chunks("agent_message_chunk"),
    chunks("agent_thought_chunk"),
    st.builds(
        tool_call,
        st.sampled_from(["tool_call", "tool_call_update"]),
        st.sampled_from(["t1", "t2"]),
        status=st.sampled_from(["pending", "in_progress", "completed", "failed"]),
        kind=st.sampled_from(["read", None, "absent"]),
        content=st.sampled_from(["absent", [], [{"type": "diff", "path": "/a", "newText": "x"}]]),
        locations=st.sampled_from(["absent", [{"path": "/a", "line": 3}]]),
    ),
    st.builds(
        lambda text: {"sessionUpdate": "plan", "entries": [{"content": text}]},
        st.text(max_size=3),
    ),
    st.builds(
        lambda mode: {"sessionUpdate": "current_mode_update", "currentModeId": mode},
        st.sampled_from(["ask", "code"]),
    ),
    st.sampled_from(
        [
            {"sessionUpdate": "session_info_update", "title": "A"},
            {"sessionUpdate": "session_info_update", "title": None},
            {"sessionUpdate": "session_info_update", "updatedAt": "2026-01-01T00:00:00Z"},
        ]
    ),
    st.just({"sessionUpdate": "available_commands_update", "availableCommands": []}),
    st.just({"sessionUpdate": "usage_update", "used": 1, "size": 2}),
    st.just({"sessionUpdate": "notice", "severity": "info", "title": "x"}),
    st.just({"sessionUpdate": "_other", "x": 1}),
    st.just({"sessionUpdate": "_other", "content": {"type": "text", "text": "x"}}),
)
TURNS = st.lists(st.tuples(st.lists(BLOCK, min_size=1, max_size=2), st.lists(UPDATES, max_size=8)))


def record(turns: list[tuple[list[Json], list[Json]]], *, ended: bool = True) -> list[Entry]:
    """Return the entries of a session."""
    entries: list[Entry] = []

    def add(kind: Kind, message: Json) -> None:
        line = json.dumps(message).encode()
        seq = len(entries) + 1
        entries.append(Entry(seq=seq, side=Side.AGENT, kind=kind, at_us=seq, line=line))

    for prompt, updates in turns:
        add(Kind.PROMPT, {"params": {"prompt": prompt}})
        for update in updates:
            add(Kind.UPDATE, {"params": {"update": update}})
        if ended:
            add(Kind.ANSWER, {"result": {"stopReason": "end_turn"}})
    return entries


def one_turn(*updates: Json, ended: bool = True) -> Transcript:
    return fold(record([([{"type": "text", "text": "Go"}], list(updates))], ended=ended))


@pytest.mark.requirement(13, 25, 36)
@given(TURNS)
def test_replay_equals_live(turns: list[tuple[list[Json], list[Json]]]) -> None:
    live, replayed = Editor(), Editor()
    for prompt, updates in turns:
        live.prompt(prompt)
        for update in updates:
            live.apply(update)
    for update in replay_v1(fold(record(turns))):
        replayed.apply(update)
    assert replayed.shown() == live.shown()
    assert replayed.state == live.state


def received(book: Playbook, session_id: str) -> list[Json]:
    """Return the updates that the client received for a session, and clear them."""
    lines = [line[3:] for line in book.out if line.startswith("<c ")]
    book.out.clear()
    messages = [json.loads(line) for line in lines]
    replayed = [it["params"] for it in messages if it.get("method") == "session/update"]
    assert {it["sessionId"] for it in replayed} <= {session_id}
    return [it["update"] for it in replayed]


@pytest.mark.requirement(13, 15)
@given(TURNS, st.lists(st.booleans()), st.sampled_from(["s", "renamed"]))
def test_a_load_replays_what_the_client_saw(
    turns: list[tuple[list[Json], list[Json]]], together: list[bool], name: str
) -> None:
    book = Playbook()
    book.do_agent("Fake")
    if name == "renamed":
        book.record.store.write([Opened(session_id="s", at_us=1, cwd="/p")])
    request = {"id": 1, "method": "session/new", "params": {"cwd": "/p", "mcpServers": []}}
    book.receive(CLIENT, [json.dumps(request)])
    book.receive(AGENT, ['{"id":1,"result":{"sessionId":"s"}}'])
    session_id = json.loads(book.out[-1][3:])["result"]["sessionId"]
    assert (session_id == "s") is (name == "s")
    live, replayed = Editor(), Editor()
    book.out.clear()
    for prompt, updates in turns:
        live.prompt(prompt)
        params = {"sessionId": session_id, "prompt": prompt}
        request = {"id": 2, "method": "session/prompt", "params": params}
        book.receive(CLIENT, [json.dumps(request)])
        read: list[str] = []
        for number, update in enumerate(updates):
            read.append(update_line("s", update).decode())
            if number >= len(together) or not together[number]:
                book.receive(AGENT, read)
                read = []
        book.receive(AGENT, [*read, '{"id":2,"result":{"stopReason":"end_turn"}}'])
        for update in received(book, session_id):
            live.apply(update)
    params = {"sessionId": session_id, "cwd": "/p", "mcpServers": []}
    request = {"id": 3, "method": "session/load", "params": params}
    book.receive(CLIENT, [json.dumps(request)])
    for update in received(book, session_id):
        replayed.apply(update)
    assert replayed.shown() == live.shown()
    title = live.state.get("session_info_update", {}).get("title")
    if title is None and "session_info_update" in live.state:
        # The agent has removed its title. The title from the first prompt remains.
        live.state["session_info_update"].pop("title", None)
        replayed.state["session_info_update"].pop("title", None)
    assert replayed.state == live.state


@pytest.mark.requirement(35)
@given(TURNS)
def test_a_replay_is_deterministic_and_every_message_has_an_id(
    turns: list[tuple[list[Json], list[Json]]],
) -> None:
    entries = record(turns)
    first, second = list(replay_v1(fold(entries))), list(replay_v1(fold(entries)))
    assert first == second
    transcript = fold(entries)
    assert list(replay_v1(transcript, transcript.take_turns())) == first
    assert transcript.turns == []
    for update in first:
        assert update["_meta"]["rekindle"]["replayed"] is True
        assert ("messageId" in update) is update["sessionUpdate"].endswith("_chunk")


def test_chunks_are_replayed_joined() -> None:
    many = [
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    ] * 5000
    (_, message) = replay_v1(one_turn(*many))
    assert message["content"]["text"] == "x" * 5000


@pytest.mark.requirement(33)
@pytest.mark.parametrize("status", ["pending", "in_progress", None])
def test_a_tool_call_that_its_turn_left_open_is_replayed_as_the_agent_left_it(
    status: str | None,
) -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": status}
    assert list(replay_v1(one_turn(call)))[-1].get("status") == status
    assert list(replay_v1(one_turn(call, ended=False)))[-1]["status"] == "failed"


def test_an_interrupted_turn_is_marked_and_a_running_one_is_not() -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": "in_progress"}
    cut = one_turn(call, ended=False)
    *before, last = replay_v1(cut)
    assert last["_meta"]["rekindle"] == {"replayed": True, "interrupted": True}
    assert all(update["_meta"]["rekindle"] == {"replayed": True} for update in before)
    running = list(replay_v1(cut, is_running=True))[-1]
    assert (running["status"], running["_meta"]["rekindle"]) == ("in_progress", {"replayed": True})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"rawOutput": "plain"}, "plain"),
        ({"rawOutput": {"output": "nested"}}, "nested"),
        ({"rawOutput": {"stdout": "out", "stderr": "err"}}, "outerr"),
        (
            {
                "_meta": {"terminal_output": {"terminal_id": "x", "data": "told"}},
                "rawOutput": "raw",
            },
            "told",
        ),
        ({}, "[terminal output not available]"),
    ],
)
def test_a_terminal_is_replaced_by_its_known_output(fields: Json, text: str) -> None:
    content = [{"type": "terminal", "terminalId": "x"}, {"type": "diff", "path": "/a"}]
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "content": content}
    replayed = list(replay_v1(one_turn(call | fields)))[-1]["content"]
    assert replayed == [
        {"type": "content", "content": {"type": "text", "text": text}},
        {"type": "diff", "path": "/a"},
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"lostEntries":7}', "[7 entries are missing: the store could not be written]"),
        (
            b'{"lostEntries":1,"isDamage":true}',
            "[1 entry is missing: the store was damaged]",
        ),
    ],
)
def test_a_gap_is_replayed_with_its_reason(line: bytes, text: str) -> None:
    gap = Entry(seq=1, side=Side.AGENT, kind=Kind.GAP, at_us=1, line=line)
    (replayed,) = replay_v1(fold([gap]))
    assert replayed["content"]["text"] == text


def test_meta_of_the_agent_is_kept() -> None:
    chunk = {
        "sessionUpdate": "usage_update",
        "used": 1,
        "size": 2,
        "_meta": {"cost": 3},
    }
    (*_, replayed) = replay_v1(one_turn(chunk))
    assert replayed["_meta"] == {"cost": 3, "rekindle": {"replayed": True}}


def test_meta_of_rekindle_is_kept() -> None:
    # A status that version 1 does not have, and the sub-agent of an imported call.
    child = {"_meta": {"rekindle": {"childSessionId": "s.1"}}}
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "cancelled", **child}
    line = update_line("s", call)
    entry = Entry(seq=1, side=Side.AGENT, kind=Kind.UPDATE, at_us=1, line=line, protocol=2)
    (replayed,) = replay_v1(fold([entry]))
    ours = {"childSessionId": "s.1", "status": "cancelled", "replayed": True}
    assert (replayed["status"], replayed["_meta"]) == ("failed", {"rekindle": ours})
    transcript = fold([entry])
    (replayed,) = replay_v2(transcript.turns, transcript)
    assert replayed["_meta"] == {"rekindle": {"childSessionId": "s.1", "replayed": True}}


def test_an_update_is_written_as_a_notification() -> None:
    line = update_line("s", {"sessionUpdate": "plan", "entries": []})
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": []}},
    }


def test_a_long_text_is_replayed_in_pieces() -> None:
    text = "".join(chr(97 + number % 26) for number in range(200_000))
    parts = [text[start : start + 40] for start in range(0, len(text), 40)]
    answer = [chunk("agent_message_chunk", part) for part in parts]
    replayed = [
        it for it in replay_v1(one_turn(*answer)) if it["sessionUpdate"] == "agent_message_chunk"
    ]
    assert len(replayed) == 5
    assert "".join(it["content"]["text"] for it in replayed) == text
    assert len({it["messageId"] for it in replayed}) == 1
    assert max(len(encode(it)) for it in replayed) < 65536


def test_a_handover_is_replayed_like_its_live_notice() -> None:
    line = b'{"type":"text","text":"User: secret"}'
    entry = Entry(seq=1, side=Side.AGENT, kind=Kind.HANDOVER, at_us=7, line=line)
    (replayed,) = replay_v1(fold([entry]))
    live = handover_notice(7)
    assert {**replayed, "_meta": None} == {**live, "_meta": None}
    assert "secret" not in str(replayed)


@pytest.mark.parametrize("reason", HandoverReason)
def test_the_notice_of_a_handover_has_its_reason_live_and_replayed(reason: HandoverReason) -> None:
    line = encode({"type": "text", "text": "", "_meta": {"rekindle": handover_meta(reason)}})
    entry = Entry(seq=1, side=Side.AGENT, kind=Kind.HANDOVER, at_us=7, line=line)
    (replayed,) = replay_v1(fold([entry]))
    live = handover_notice(7, reason)
    assert replayed["content"] == live["content"]
    assert read_handover_reason(live["_meta"]) is reason
    assert ("had lost" in live["content"]["text"]) == (reason is HandoverReason.LOST)


def test_an_unknown_reason_of_a_handover_counts_as_a_loss() -> None:
    assert read_handover_reason({"rekindle": {"reason": "later"}}) is HandoverReason.LOST


def test_a_reminder_is_not_replayed() -> None:
    line = b'{"type":"text","text":"User: secret"}'
    entry = Entry(seq=1, side=Side.AGENT, kind=Kind.REMINDER, at_us=7, line=line)
    assert list(replay_v1(fold([entry]))) == []


def test_a_turn_without_visible_items_has_no_updates() -> None:
    line = update_line("s", chunk("agent_thought_chunk", ""))
    entry = Entry(seq=1, side=Side.AGENT, kind=Kind.UPDATE, at_us=1, line=line)
    assert list(replay_v1(fold([entry]))) == []


def test_meta_of_a_message_is_replayed() -> None:
    marked = chunk("agent_message_chunk", "Hi") | {"_meta": {"a": 1}}
    again = chunk("agent_message_chunk", " you") | {"_meta": {"b": 2}}
    empty = chunk("agent_thought_chunk", "") | {"_meta": {"usage": 3}}
    step = plan("x") | {"_meta": {"c": 4}}
    _, message, thought, planned = replay_v1(one_turn(marked, again, empty, step))
    assert message["content"]["text"] == "Hi you"
    assert message["_meta"] == {"a": 1, "b": 2, "rekindle": {"replayed": True}}
    assert thought["_meta"]["usage"] == 3
    assert planned["_meta"]["c"] == 4


def test_surrogate_halves_of_two_chunks_are_joined() -> None:
    halves = [chunk("agent_message_chunk", "a\ud83d"), chunk("agent_message_chunk", "\ude00b")]
    entries = [
        Entry(seq=seq, side=Side.AGENT, kind=Kind.UPDATE, at_us=1, line=update_line("s", half))
        for seq, half in enumerate(halves, start=1)
    ]
    (replayed,) = replay_v1(fold(entries))
    assert replayed["content"]["text"] == "a\U0001f600b"
    # A lone surrogate can still be encoded.
    (replayed,) = replay_v1(fold(entries[:1]))
    assert update_line("s", replayed).endswith(b"}")
    assert fold(entries).turns[0].items[0].text == "a\U0001f600b"  # type: ignore[union-attr]


def test_ids_used_again_after_a_handover_get_a_suffix() -> None:
    first, second = (
        [
            chunk("agent_message_chunk", text) | {"messageId": "m1"},
            {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": text},
        ]
        for text in ("first", "second")
    )
    go = [{"type": "text", "text": "Go"}]
    before, after = record([(go, first)]), record([(go, second)])
    handover = Entry(seq=0, side=Side.AGENT, kind=Kind.HANDOVER, at_us=1, line=b"{}")
    replayed = list(replay_v1(fold([*before, after[0], handover, *after[1:]])))
    calls = {it["toolCallId"]: it["title"] for it in replayed if "toolCallId" in it}
    assert calls == {"t1": "first", "t1~3": "second"}
    text = {it["messageId"]: it["content"]["text"] for it in replayed if "messageId" in it}
    assert (text["m1"], text["m1~2"]) == ("first", "second")


@pytest.mark.parametrize("line", [b"\xff\xfe not JSON", b'{"params":{"update":{"content":1}}}'])
def test_an_update_without_a_kind_is_not_replayed(line: bytes) -> None:
    entry = Entry(seq=1, side=Side.AGENT, kind=Kind.UPDATE, at_us=1, line=line)
    transcript = fold([entry])
    assert list(replay_v1(transcript)) == []
    assert list(replay_v2(transcript.turns, transcript)) == []
