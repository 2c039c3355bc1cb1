import pytest

from rekindle.model import DocumentKind
from rekindle.transcript.model import (
    PlanItem,
    ReplayContext,
    Role,
    SearchText,
    ToolCallItem,
    TranscriptItem,
    TranscriptMessage,
    TranscriptTurn,
    outcome_label,
    reports_agent_exit,
    shorten_middle,
)

TURN = TranscriptTurn(number=1, at_us=1)
CONTEXT = ReplayContext(terminals={}, turn=TURN)


def message(role: Role = Role.AGENT, text: str = "x", **fields: str) -> TranscriptMessage:
    item = TranscriptMessage(role=role, seq=7, at_us=1, **fields)
    item.add_text(text)
    return item


def test_an_item_without_methods_of_its_own_is_invisible() -> None:
    item = TranscriptItem(seq=3, at_us=1, last_seq=5)
    assert list(item.replay_v1(CONTEXT)) == list(item.replay_v2(CONTEXT)) == []
    assert item.search_text() is None
    assert list(item.handover_lines({})) == []
    assert item.changed_seq(TURN, {}) == 5


def test_a_message_has_one_id_in_all_replays() -> None:
    assert message(id="a", made_id="b").replay_id == "a"
    assert message(made_id="b").replay_id == "b"
    assert message().replay_id == "rekindle-7"


def test_a_message_that_may_continue_is_replayed_without_a_made_up_id() -> None:
    running = ReplayContext(terminals={}, turn=TURN, is_over=False, may_continue=True)
    (update,) = message().replay_v1(running)
    assert "messageId" not in update
    (update,) = message(Role.USER).replay_v1(running)
    assert update["messageId"] == "rekindle-7"


def test_thoughts_are_not_handed_over() -> None:
    assert list(message(Role.THOUGHT).handover_lines({})) == []
    assert list(message(Role.USER, "Go").handover_lines({})) == ["User: Go"]


def test_an_unfinished_tool_call_may_change_until_its_turn_ends() -> None:
    call = ToolCallItem(id="t", seq=2, at_us=1, last_seq=4, fields={"status": "in_progress"})
    assert call.changed_seq(TURN, {}) is None
    ended = TranscriptTurn(number=1, at_us=1, ended_us=2, ended_seq=9)
    assert call.changed_seq(ended, {}) == 9
    call.fields["status"] = "completed"
    assert call.changed_seq(ended, {}) == 4


def test_a_plan_lists_its_steps_only_while_one_is_open() -> None:
    entries = [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]
    plan = PlanItem(seq=1, at_us=1, entries=entries)
    assert plan.open_steps() == ["- a (completed)", "- b (pending)"]
    plan.entries = entries[:1]
    assert plan.open_steps() == []
    assert plan.search_text() == SearchText(DocumentKind.PLAN, None, "a")


def test_only_an_exit_of_the_agent_interrupts_a_turn() -> None:
    assert reports_agent_exit({"data": {"agentEnded": {}}})
    assert not reports_agent_exit({"message": "no"})
    assert TURN.was_cut_off
    assert not TranscriptTurn(number=1, at_us=1, ended_us=2).was_cut_off


@pytest.mark.parametrize(
    ("outcome", "label"),
    [
        ({"optionId": "y"}, "Yes"),
        ({"optionId": "z"}, "z"),
        ({"outcome": "cancelled"}, "cancelled"),
        ({}, "not answered"),
    ],
)
def test_an_outcome_has_the_name_of_its_option(outcome: dict[str, str], label: str) -> None:
    assert outcome_label(outcome, [{"optionId": "y", "name": "Yes"}]) == label


def test_a_text_is_shortened_in_the_middle() -> None:
    assert shorten_middle("short", 10) == "short"
    shortened = shorten_middle("a" * 500 + "b" * 500, 100)
    assert len(shortened) <= 100
    assert shortened.startswith("a")
    assert shortened.endswith("b")
    assert "900 characters omitted" in shortened
