import json
from itertools import count
from typing import Any

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.model import (
    GapItem,
    OtherItem,
    PlanItem,
    Role,
    ToolCallItem,
    TranscriptMessage,
)
from rekindle.transcript.reducer import Transcript, fold, turn_has_ended

SEQ = count(1)


def entry(kind: Kind, message: object, protocol: int = 1) -> Entry:
    seq = next(SEQ)
    line = json.dumps(message).encode()
    return Entry(seq=seq, side=Side.AGENT, kind=kind, at_us=seq, line=line, protocol=protocol)


def update(kind: str, protocol: int = 1, /, **fields: object) -> Entry:
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **fields}}
    return entry(Kind.UPDATE, {"method": "session/update", "params": params}, protocol)


def chunk(text: str, role: str = "agent_message", **fields: object) -> Entry:
    return update(f"{role}_chunk", content={"type": "text", "text": text}, **fields)


def prompt(text: str, protocol: int = 1) -> Entry:
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    return entry(Kind.PROMPT, {"id": 1, "params": params}, protocol)


def answer(protocol: int = 1, **result: object) -> Entry:
    return entry(Kind.ANSWER, {"id": 1, "result": result}, protocol)


def messages(transcript: Transcript) -> list[list[tuple[str, str | None, str]]]:
    return [
        [
            (item.role.value, item.id, item.text)
            for item in turn.items
            if isinstance(item, TranscriptMessage)
        ]
        for turn in transcript.turns
    ]


def only_item(transcript: Transcript) -> Any:  # noqa: ANN401 - each test knows which
    ((item,),) = [turn.items for turn in transcript.turns]
    return item


def test_chunks_without_ids_join_until_another_item_begins() -> None:
    transcript = fold(
        [
            prompt("Go"),
            chunk("Let me "),
            chunk("see."),
            chunk("Hm.", "agent_thought"),
            chunk("Done."),
            answer(stopReason="end_turn"),
        ]
    )
    assert messages(transcript) == [
        [
            ("user", None, "Go"),
            ("agent", None, "Let me see."),
            ("thought", None, "Hm."),
            ("agent", None, "Done."),
        ]
    ]
    (turn,) = transcript.turns
    assert (turn.number, turn.stop_reason, turn.error) == (1, "end_turn", None)
    assert turn.ended_us is not None


def test_chunks_with_an_id_join_their_message_anywhere() -> None:
    transcript = fold(
        [
            prompt("Go"),
            chunk("A1", messageId="a"),
            chunk("B1", messageId="b"),
            chunk("A2", messageId="a"),
            chunk("?"),
            chunk("T", "agent_thought", messageId="a"),
        ]
    )
    assert messages(transcript)[0][1:] == [
        ("agent", "a", "A1A2"),
        ("agent", "b", "B1"),
        ("agent", None, "?"),
        ("thought", "a", "T"),
    ]


def test_a_message_of_many_chunks_is_complete() -> None:
    transcript = fold([prompt("Count"), *(chunk(f"{n} ") for n in range(2000))])
    assert messages(transcript)[0][1][2] == "".join(f"{n} " for n in range(2000))


def test_other_content_blocks_keep_their_place() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    noted = {"type": "text", "text": "!", "annotations": {"priority": 1}}
    transcript = fold(
        [
            chunk("see "),
            chunk("this"),
            update("agent_message_chunk", content=link),
            update("agent_message_chunk", content=noted),
            chunk("ok"),
        ]
    )
    message = only_item(transcript)
    assert message.blocks == [
        {"type": "text", "text": "see this"},
        link,
        noted,
        {"type": "text", "text": "ok"},
    ]
    assert message.text == "see this!ok"


def test_a_history_replayed_by_the_agent_has_turns() -> None:
    transcript = fold(
        [
            chunk("One", "user_message"),
            chunk("1"),
            chunk("Two", "user_message"),
            chunk("2"),
        ]
    )
    assert messages(transcript) == [
        [("user", None, "One"), ("agent", None, "1")],
        [("user", None, "Two"), ("agent", None, "2")],
    ]


def test_a_tool_call_is_folded_to_its_latest_state() -> None:
    transcript = fold(
        [
            update("tool_call", toolCallId="t", title="Read", kind="read", status="pending"),
            update("tool_call_update", toolCallId="t", status="completed", title=None),
        ]
    )
    call = only_item(transcript)
    assert isinstance(call, ToolCallItem)
    assert call.fields == {"title": "Read", "kind": "read", "status": "completed"}


def test_an_update_of_an_unknown_tool_call_adds_it() -> None:
    call = only_item(fold([update("tool_call_update", toolCallId="t", status="completed")]))
    assert call.id == "t"


def test_a_tool_call_has_the_outcome_of_its_permission_request() -> None:
    options = [{"optionId": "y", "name": "Allow"}, {"optionId": "n", "name": "Reject"}]
    ask = {
        "id": 7,
        "params": {"toolCall": {"toolCallId": "t", "title": "Edit"}, "options": options},
    }
    chosen = {"id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "n"}}}
    call = only_item(fold([entry(Kind.PERMISSION, ask), entry(Kind.OUTCOME, chosen)]))
    assert (call.fields["title"], call.outcome) == ("Edit", "Reject")


def test_outcomes_of_every_form_are_described() -> None:
    ask = entry(Kind.PERMISSION, {"id": 7, "params": {"toolCall": {"toolCallId": "t"}}})
    outcomes = {
        '{"outcome":{"outcome":"cancelled"}}': "cancelled",
        '{"outcome":{"outcome":"selected","optionId":"zzz"}}': "zzz",
        "null": "not answered",
    }
    for result, described in outcomes.items():
        outcome = entry(Kind.OUTCOME, {"id": 7, "result": json.loads(result)})
        assert only_item(fold([ask, outcome])).outcome == described


def test_an_outcome_without_a_request_changes_nothing() -> None:
    nobody = entry(Kind.OUTCOME, {"id": 9, "result": {}})
    nameless = entry(Kind.OUTCOME, {"result": {}})
    unasked = entry(Kind.PERMISSION, {"params": {"toolCall": {"toolCallId": "t"}}})
    assert fold([nobody, nameless]).turns == []
    assert only_item(fold([unasked])).outcome is None


def test_a_plan_replaces_the_turns_earlier_plan() -> None:
    first, second = [{"content": "a", "status": "pending"}], [{"content": "b"}]
    transcript = fold([update("plan", entries=first), update("plan", entries=second)])
    plan = only_item(transcript)
    assert isinstance(plan, PlanItem)
    assert plan.entries == second


def test_the_last_update_of_each_state_counts() -> None:
    transcript = fold(
        [
            update("current_mode_update", currentModeId="a"),
            update("current_mode_update", currentModeId="b"),
            update("state_update", state="idle"),
            update("notice", severity="info", title="Passing by"),
        ]
    )
    assert transcript.state["current_mode_update"]["currentModeId"] == "b"
    assert transcript.turns == []


def test_modes_and_options_in_responses_are_folded() -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
    ready = entry(Kind.READY, {"id": 1, "result": {"modes": modes, "configOptions": [{"id": "m"}]}})
    transcript = fold([ready])
    assert transcript.offered == {"modes": modes}
    assert transcript.state["current_mode_update"] == {"currentModeId": "ask"}
    assert transcript.state["config_option_update"] == {"configOptions": [{"id": "m"}]}

    ask = entry(Kind.CONFIG, {"id": 2, "params": {"modeId": "code"}})
    done = entry(Kind.CONFIGURED, {"id": 2, "result": {}})
    refused = entry(Kind.CONFIGURED, {"id": 2, "error": {}})
    assert fold([ready, ask, done]).state["current_mode_update"] == {"currentModeId": "code"}
    assert fold([ready, ask, refused]).state["current_mode_update"] == {"currentModeId": "ask"}
    assert fold([done]).state == {}


def test_the_last_system_prompt_of_an_opening_counts() -> None:
    one, other = ({"mode": "append", "content": [{"type": "text", "text": it}]} for it in "ab")
    setups = [{"params": {"systemPrompt": it}} for it in (None, one, other)]
    assert fold([entry(Kind.SETUP, setups[0])]).system_prompt is None
    entries = [entry(Kind.SETUP, it) for it in (*setups, {"params": {"cwd": "/p"}})]
    assert fold(entries).system_prompt == other
    assert fold(entries).turns == []


def test_an_update_of_another_kind_is_kept_as_it_came() -> None:
    other = only_item(fold([update("_unheard_of", x=1)]))
    assert isinstance(other, OtherItem)
    assert other.update == {"sessionUpdate": "_unheard_of", "x": 1}


def test_an_error_response_ends_the_turn() -> None:
    failed = entry(Kind.ANSWER, {"id": 1, "error": {"code": -32603, "message": "no"}})
    (turn,) = fold([prompt("Go"), failed]).turns
    assert turn.error == {"code": -32603, "message": "no"}
    assert turn.ended_us is not None


def test_a_turn_without_a_response_has_no_end() -> None:
    (turn,) = fold([prompt("Go"), chunk("I")]).turns
    assert (turn.ended_us, turn.stop_reason) == (None, None)


def test_in_version_2_the_state_ends_the_turn_and_the_response_has_the_prompt_id() -> None:
    opened = [prompt("Go", 2), answer(2, messageId="u1")]
    (turn,) = fold(opened).turns
    assert turn.ended_us is None
    whole = [{"type": "text", "text": "All of it"}]
    transcript = fold(
        [
            *opened,
            update("agent_message", 2, messageId="m", content=[]),
            update("agent_message", 2, messageId="m", content=whole),
            update("agent_message", 2, messageId="m"),
            update("state_update", 2, state="running"),
            update("state_update", 2, state="idle", stopReason="end_turn"),
        ]
    )
    assert messages(transcript) == [[("user", "u1", "Go"), ("agent", "m", "All of it")]]
    assert transcript.turns[0].stop_reason == "end_turn"


def test_a_prompt_without_an_id_stays_without() -> None:
    (turn,) = fold([prompt("Go", 2), answer(2)]).turns
    assert isinstance(turn.items[0], TranscriptMessage)
    assert turn.items[0].id is None
    assert fold([answer(2, messageId="u1")]).turns[0].items == []


def test_a_gap_is_an_item_of_its_turn() -> None:
    transcript = fold([prompt("Go"), entry(Kind.GAP, {"lostEntries": 3})])
    assert transcript.turns[0].items[1] == GapItem(
        seq=transcript.turns[0].items[1].seq, at_us=transcript.turns[0].items[1].at_us, lost=3
    )


def test_other_entries_are_not_part_of_the_transcript() -> None:
    assert fold([entry(kind, {}) for kind in (Kind.SETUP, Kind.READY, Kind.OPAQUE)]).turns == []


def test_only_a_running_turn_is_ended_by_the_state() -> None:
    ended = [prompt("Go", 2), update("state_update", 2, state="idle", stopReason="cancelled")]
    (turn,) = fold([*ended, update("state_update", 2, state="idle")]).turns
    assert (turn.stop_reason, turn.ended_us) == ("cancelled", fold(ended).turns[0].ended_us)


def test_a_message_can_be_read_before_it_is_complete() -> None:
    transcript = Transcript()
    for text in ("One", " two"):
        transcript.add(chunk(text))
        assert only_item(transcript).text.endswith(text)
    assert only_item(transcript).blocks == [{"type": "text", "text": "One two"}]


def test_an_empty_message_has_no_blocks() -> None:
    assert TranscriptMessage(role=Role.AGENT, seq=1, at_us=0).blocks == []
    assert TranscriptMessage(role=Role.AGENT, seq=1, at_us=0).text == ""


def test_meta_of_a_tool_call_is_merged() -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "_meta": {"a": 1}}
    more = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "_meta": {"b": 2}}
    delta = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "_meta": {"terminal_output_delta": {"terminal_id": "x", "data": "out"}},
    }
    transcript = fold(
        [entry(Kind.UPDATE, {"params": {"update": it}}) for it in (call, more, delta)]
    )
    (item,) = transcript.turns[0].items
    assert isinstance(item, ToolCallItem)
    assert item.fields["_meta"].keys() == {"a", "b", "terminal_output_delta"}
    assert transcript.terminals["x"].text == "out"


def made_id(message_id: str) -> Entry:
    values = {"kind": "agent_message_chunk", "messageId": message_id}
    return entry(Kind.NAMED, values)


def test_made_ids_separate_messages_as_the_client_saw_them() -> None:
    call = update("tool_call", toolCallId="t")
    transcript = fold(
        [
            prompt("Go"),
            *(made_id("x-1"), chunk("a"), call, chunk("b")),
            *(made_id("x-2"), chunk("c")),
            prompt("On"),
            *(chunk("d"), call, chunk("e")),
        ]
    )
    texts = [
        [(it.made_id, it.text) for it in turn.items if isinstance(it, TranscriptMessage)]
        for turn in transcript.turns
    ]
    assert texts == [
        [(None, "Go"), ("x-1", "ab"), ("x-2", "c")],
        [(None, "On"), (None, "de")],
    ]


def test_from_version_2_on_null_removes_meta() -> None:
    def meta(protocol: int, *values: object) -> object:
        entries = [update("agent_message", protocol, messageId="m", _meta=it) for it in values]
        return only_item(fold(entries)).meta

    assert meta(2, {"a": 1, "b": 2}, {"a": None}) == {"b": 2}
    assert meta(2, {"a": 1}, None) == {}
    assert meta(1, {"a": 1}, {"a": None}) == {"a": None}
    assert meta(1, {"a": 1}, None) == {"a": 1}


def test_a_waiting_prompt_begins_its_turn_when_it_is_echoed() -> None:
    def asked(number: int, text: str) -> Entry:
        params = {"prompt": [{"type": "text", "text": text}]}
        return entry(Kind.PROMPT, {"id": number, "params": params}, 2)

    echo = {"sessionUpdate": "user_message", "messageId": "u2", "content": []}
    echo["content"] = [{"type": "text", "text": "B"}]
    transcript = Transcript()
    for it in (asked(1, "A"), asked(2, "B"), update("agent_message", 2, messageId="m")):
        transcript.add(it)
    assert [len(turn.items) for turn in transcript.turns] == [2]
    transcript.add(entry(Kind.ECHO, {"params": {"update": echo}}, 2))
    assert messages(transcript)[1:] == [[("user", "u2", "B")]]


def test_a_message_is_found_by_its_id() -> None:
    transcript = fold([prompt("Go"), chunk("One", messageId="m"), chunk("Two", messageId="n")])
    message = transcript.message(Role.AGENT, "n")
    assert message is not None
    assert message.text == "Two"
    assert transcript.message(Role.THOUGHT, "n") is None
    assert transcript.message(Role.AGENT, None) is None


def test_latest_is_the_tool_call_or_plan_that_changed_last() -> None:
    transcript = Transcript()
    transcript.add(update("tool_call", toolCallId="t", title="One"))
    call = transcript.latest
    assert isinstance(call, ToolCallItem)
    transcript.add(update("plan", entries=[]))
    assert isinstance(transcript.latest, PlanItem)
    transcript.add(update("tool_call_update", toolCallId="t", title="Two"))
    assert transcript.latest is call


def test_a_response_with_result_and_null_error_is_successful() -> None:
    both = {"id": 1, "error": None, "result": {"stopReason": "end_turn"}}
    (turn,) = fold([prompt("Go"), entry(Kind.ANSWER, both)]).turns
    assert (turn.stop_reason, turn.error) == ("end_turn", None)


def test_waiting_prompts_become_turns_when_the_agent_exits() -> None:
    def asked(number: int) -> Entry:
        params = {"sessionId": "s", "prompt": [{"type": "text", "text": f"prompt {number}"}]}
        return entry(Kind.PROMPT, {"id": number, "params": params}, 2)

    def failed(number: int, **data: object) -> Entry:
        return entry(Kind.ANSWER, {"id": number, "error": {"code": -1, "data": data}}, 2)

    def values(turns: list[Any]) -> list[str]:
        return [turn.items[0].text for turn in turns]

    prompts = [asked(1), asked(2), asked(3)]
    ended = [failed(number, agentEnded=True) for number in (1, 2, 3)]
    turns = fold([*prompts, *ended]).turns
    assert values(turns) == ["prompt 1", "prompt 2", "prompt 3"]
    assert all(turn.was_cut_off for turn in turns)
    refused = [failed(number) for number in (1, 2, 3)]
    assert values(fold([*prompts, *refused]).turns) == ["prompt 1"]


def test_a_turn_has_ended_with_its_answer() -> None:
    assert not turn_has_ended([])
    assert not turn_has_ended([chunk("a")])
    assert turn_has_ended([chunk("a"), answer(stopReason="end_turn")])


def test_a_plan_of_another_form_is_kept_as_it_came() -> None:
    plan = {"type": "markdown", "planId": "p", "content": "# Plan"}
    [only] = fold([update("plan_update", 2, plan=plan)]).turns[0].items
    assert isinstance(only, OtherItem)
    assert only.update == {"sessionUpdate": "plan_update", "plan": plan}
