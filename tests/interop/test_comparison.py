"""The comparison of a live session with its replay, and the known reasons for differences."""

import re
from typing import Any

import pytest

from interop.comparison import KNOWN_DIFFERENCES, Difference, differences, known_reason
from rekindle.client import Item, Message, Plan, Role, ToolCall

ASKED = Message(role=Role.USER, blocks=({"type": "text", "text": "Change it."},))
THOUGHT = Message(role=Role.THOUGHT, blocks=({"type": "text", "text": "One word."},))
SAID = Message(role=Role.AGENT, blocks=({"type": "text", "text": "Done."},))
WARNED = Message(role=Role.AGENT, blocks=({"type": "text", "text": "Beware."},))
EDIT = {
    "title": "Edit a.txt",
    "kind": "edit",
    "status": "completed",
    "locations": [{"path": "/p/a.txt", "line": 3}],
    "content": [{"type": "diff", "path": "/p/a.txt", "oldText": "one\n", "newText": "two\n"}],
}


def call(call_id: str = "t1", **changed: object) -> ToolCall:
    return ToolCall(id=call_id, fields={**EDIT, **changed})


LIVE: list[Item] = [ASKED, THOUGHT, call(), SAID]


def test_equal_records_have_no_differences() -> None:
    # Ids, raw input, plans and line numbers are not compared.
    later = [ASKED, THOUGHT, Plan(id=None, entries=()), call("t2", rawInput={}), SAID]
    assert differences(LIVE, later) == []


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([ASKED, THOUGHT, call()], [Difference("text of the agent", "Done.", "")]),
        ([THOUGHT, call(), SAID], [Difference("text of the user", "Change it.", "")]),
        ([ASKED, THOUGHT, SAID], [Difference("a tool call", "(called)", "")]),
        ([*LIVE, call()], [Difference("a tool call", "", "(called)")]),
    ],
)
def test_missing_and_added_items_are_differences(
    later: list[Item], expected: list[Difference]
) -> None:
    assert differences(LIVE, later) == expected


def test_order_is_compared() -> None:
    assert differences([ASKED, call(), SAID], [ASKED, SAID, call()]) != []
    assert differences([ASKED, THOUGHT, SAID], [THOUGHT, ASKED, SAID]) != []


def test_changed_text_is_shown_with_the_original() -> None:
    other = Message(role=Role.THOUGHT, blocks=({"type": "text", "text": "Two words."},))
    found = differences([ASKED, WARNED, THOUGHT, SAID], [ASKED, other, SAID])
    assert found == [
        Difference("text of the agent", "Beware.", ""),
        Difference("a thought", "One word.", "Two words."),
    ]


TEXT = {"type": "content", "content": {"type": "text", "text": "Applied."}}


@pytest.mark.parametrize(
    ("changed", "of"),
    [
        ({"kind": "read"}, "kind of a call"),
        ({"status": "failed"}, "status of a call"),
        ({"title": "Edit"}, "title of a call"),
        ({"locations": []}, "files of a call"),
        ({"content": [*EDIT["content"], TEXT]}, "text of a call"),
        ({"content": []}, "change by a call"),
        ({"content": [{**EDIT["content"][0], "newText": "two"}]}, "change by a call"),
        ({"content": [{**EDIT["content"][0], "path": "/p/b.txt"}]}, "change by a call"),
    ],
)
def test_all_parts_of_a_call_are_compared(changed: dict[str, Any], of: str) -> None:
    assert [
        difference.of for difference in differences(LIVE, [ASKED, THOUGHT, call(**changed), SAID])
    ] == [of]


def test_only_known_differences_have_reasons() -> None:
    thought = Difference("a thought", "\n\nOne word.", "One word.")
    assert known_reason("codex", thought) is not None
    assert known_reason("claude", thought) is None
    assert known_reason("codex", Difference("a thought", "\n\nOne word.", "Two words.")) is None
    assert known_reason("codex", Difference("text of the user", "\n\nOne.", "One.")) is None


def test_reason_applies_only_to_the_same_change() -> None:
    end = "\n\\ No newline at end of file\n"
    live = f"/p/a\n@@ -1 +1 @@\n-one{end}+two{end}"
    whole = f"/p/a\n@@ -1 +1 @@\n-It is one.{end}+It is two.{end}"
    assert known_reason("opencode", Difference("change by a call", live, whole)) is not None
    other = whole.replace("two", "three")
    assert known_reason("opencode", Difference("change by a call", live, other)) is None


def test_every_reason_names_a_compared_field() -> None:
    found = differences([call()], [call(kind="", status="", title="", locations=[], content=[])])
    compared = {item.of for item in found} | {
        "text of a call",
        "a thought",
        "text of the agent",
    }
    for known in (it for several in KNOWN_DIFFERENCES.values() for it in several):
        assert known.of in compared
        assert re.compile(known.form)
