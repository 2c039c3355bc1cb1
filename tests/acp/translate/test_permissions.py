from typing import Any

import pytest

from rekindle.acp.translate.permissions import outcome_to_v1, permission_to_v1, permission_to_v2

Json = dict[str, Any]


def text_part(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def show(terminal_id: str) -> str:
    return f"output of {terminal_id}"


def test_a_request_about_a_tool_call_is_translated_both_ways() -> None:
    call = {"toolCallId": "t", "title": "Edit", "kind": "edit"}
    option = {"optionId": "o", "name": "O", "kind": "allow_once"}
    v1 = {"sessionId": "s", "toolCall": call, "options": [option]}
    v2 = permission_to_v2(v1)
    assert v2 == {
        "sessionId": "s",
        "options": [option],
        "title": "Edit",
        "subject": {"type": "tool_call", "toolCall": call},
    }
    assert permission_to_v1(v2, "made", show) == v1
    untitled = permission_to_v2({"toolCall": {"toolCallId": "t"}})
    assert untitled["title"] == "Permission"
    assert permission_to_v1(untitled, "made", show)["toolCall"]["title"] == "Permission"


def test_a_request_about_something_else_gets_a_tool_call() -> None:
    command = {"type": "command", "command": "rm", "cwd": "/p", "toolCallId": None}
    v2 = {
        "sessionId": "s",
        "title": "Run?",
        "description": "why",
        "subject": command,
        "options": [],
    }
    assert permission_to_v1(v2, "made", show)["toolCall"] == {
        "toolCallId": "made",
        "title": "Run?",
        "kind": "execute",
        "rawInput": {"command": "rm", "cwd": "/p"},
        "content": [text_part("why")],
    }
    assert permission_to_v1({"title": "Go?"}, "made", show) == {
        "options": [],
        "toolCall": {"toolCallId": "made", "title": "Go?"},
    }
    unknown = {"options": [{"optionId": "o", "kind": "allow_for_ever"}, {"optionId": "p"}]}
    kinds = [it["kind"] for it in permission_to_v1(unknown, "made", show)["options"]]
    assert kinds == ["reject_once", "reject_once"]


@pytest.mark.parametrize("outcome", ["selected", "cancelled", "_maybe"])
def test_an_unknown_outcome_is_not_consent(outcome: str) -> None:
    result = {"outcome": {"outcome": outcome, "optionId": "o"}}
    translated = outcome_to_v1(result)
    assert translated["outcome"]["outcome"] == ("cancelled" if outcome == "_maybe" else outcome)
