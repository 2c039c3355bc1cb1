"""What differs between two tellings of a session is seen, and whether it has a known reason."""

import re
from typing import Any

import pytest

from interop.comparing import Difference, differences
from interop.known import KNOWN, reason_of
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


def test_what_is_the_same_does_not_differ() -> None:
    # Ids, what was given to the tool, plans and lines are not what people compare.
    later = [ASKED, THOUGHT, Plan(id=None, entries=()), call("t2", rawInput={}), SAID]
    assert differences(LIVE, later) == []


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([ASKED, THOUGHT, call()], [Difference("words of the agent", "Done.", "")]),
        ([THOUGHT, call(), SAID], [Difference("words of the user", "Change it.", "")]),
        ([ASKED, THOUGHT, SAID], [Difference("a tool call", "(called)", "")]),
        ([*LIVE, call()], [Difference("a tool call", "", "(called)")]),
    ],
)
def test_what_is_missing_or_new_is_told(later: list[Item], expected: list[Difference]) -> None:
    assert differences(LIVE, later) == expected


def test_the_order_matters() -> None:
    assert differences([ASKED, call(), SAID], [ASKED, SAID, call()]) != []
    assert differences([ASKED, THOUGHT, SAID], [THOUGHT, ASKED, SAID]) != []


def test_what_is_told_otherwise_stands_beside_what_was_seen() -> None:
    other = Message(role=Role.THOUGHT, blocks=({"type": "text", "text": "Two words."},))
    found = differences([ASKED, WARNED, THOUGHT, SAID], [ASKED, other, SAID])
    assert found == [
        Difference("words of the agent", "Beware.", ""),
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
        ({"content": [*EDIT["content"], TEXT]}, "what a call shows"),
        ({"content": []}, "change by a call"),
        ({"content": [{**EDIT["content"][0], "newText": "two"}]}, "change by a call"),
        ({"content": [{**EDIT["content"][0], "path": "/p/b.txt"}]}, "change by a call"),
    ],
)
def test_each_side_of_a_call_is_compared(changed: dict[str, Any], of: str) -> None:
    assert [it.of for it in differences(LIVE, [ASKED, THOUGHT, call(**changed), SAID])] == [of]


def test_a_difference_has_a_reason_only_where_it_is_the_known_one() -> None:
    thought = Difference("a thought", "\n\nOne word.", "One word.")
    assert reason_of("codex", thought) is not None
    assert reason_of("claude", thought) is None
    assert reason_of("codex", Difference("a thought", "\n\nOne word.", "Two words.")) is None
    assert reason_of("codex", Difference("words of the user", "\n\nOne.", "One.")) is None


def test_only_the_same_change_is_excused() -> None:
    end = "\n\\ No newline at end of file\n"
    live = f"/p/a\n@@ -1 +1 @@\n-one{end}+two{end}"
    whole = f"/p/a\n@@ -1 +1 @@\n-It is one.{end}+It is two.{end}"
    assert reason_of("opencode", Difference("change by a call", live, whole)) is not None
    other = whole.replace("two", "three")
    assert reason_of("opencode", Difference("change by a call", live, other)) is None


def test_reasons_are_of_what_is_compared() -> None:
    found = differences([call()], [call(kind="", status="", title="", locations=[], content=[])])
    compared = {it.of for it in found} | {"what a call shows", "a thought", "words of the agent"}
    for known in (it for several in KNOWN.values() for it in several):
        assert known.of in compared
        assert re.compile(known.form)
