"""Each thing from version 1 to version 2 and back: tables of what becomes of what."""

import time
from difflib import unified_diff
from typing import Any

import pytest

from rekindle.acp.translate.commands import commands_to_v1, commands_to_v2
from rekindle.acp.translate.config import (
    config_id,
    mode_option,
    modes_to_v1,
    options_to_v1,
    options_to_v2,
    setting_to_v1,
    setting_to_v2,
)
from rekindle.acp.translate.content import block_to_v1
from rekindle.acp.translate.diff import diff_to_v1, diff_to_v2, git_patch
from rekindle.acp.translate.endings import ending_to_v1, ending_to_v2
from rekindle.acp.translate.initialize import (
    request_to_v1,
    request_to_v2,
    response_to_v1,
    response_to_v2,
)
from rekindle.acp.translate.permissions import outcome_to_v1, permission_to_v1, permission_to_v2
from rekindle.acp.translate.plans import plan_to_v1, plan_to_v2
from rekindle.acp.translate.servers import servers_to_v1, servers_to_v2
from rekindle.acp.translate.tool_calls import call_to_v1, call_to_v2, part_to_v1

Json = dict[str, Any]

MODES = {
    "currentModeId": "ask",
    "availableModes": [
        {"id": "ask", "name": "Ask", "description": "d"},
        {"id": "code", "name": "C"},
    ],
}
MODE_OPTION = {
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [
        {"value": "ask", "name": "Ask", "description": "d"},
        {"value": "code", "name": "C"},
    ],
}
MODEL_V1 = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "m",
    "options": [{"group": "g", "name": "G", "options": [{"value": "m", "name": "M"}]}],
}
MODEL_V2 = {
    "configId": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "m",
    "options": [{"groupId": "g", "name": "G", "options": [{"value": "m", "name": "M"}]}],
}
SWITCH_V1 = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True}
SWITCH_V2 = {"configId": "fast", "name": "Fast", "type": "boolean", "currentValue": True}


def text(words: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": words}}


def show(terminal_id: str) -> str:
    return f"output of {terminal_id}"


def test_options_go_there_and_back() -> None:
    both = options_to_v2([MODEL_V1, SWITCH_V1], MODES)
    assert both == [MODE_OPTION, MODEL_V2, SWITCH_V2]
    assert options_to_v1(both[1:], with_booleans=True) == [MODEL_V1, SWITCH_V1]
    assert modes_to_v1(both) == MODES
    assert [config_id(option) for option in (MODEL_V1, MODEL_V2, {})] == ["model", "model", None]


def test_a_switch_is_told_only_to_who_can_show_it() -> None:
    odd = {"configId": "x", "name": "X", "type": "slider"}
    told = options_to_v1([SWITCH_V2, odd, MODEL_V2], with_booleans=False)
    assert [option["id"] for option in told] == ["model"]


def test_an_option_that_is_the_mode_already_is_not_doubled() -> None:
    own = {**MODEL_V1, "category": "mode"}
    assert len(options_to_v2([own], MODES)) == 1
    assert options_to_v2([], {}) == []
    assert mode_option([SWITCH_V2]) is None
    assert modes_to_v1([SWITCH_V2]) is None


def test_modes_in_groups_are_told_in_a_row() -> None:
    grouped = {**MODEL_V2, "category": "mode"}
    assert modes_to_v1([grouped]) == {
        "currentModeId": "m",
        "availableModes": [{"id": "m", "name": "M"}],
    }


def test_settings() -> None:
    chosen = {"sessionId": "s", "configId": "model", "value": "m"}
    assert setting_to_v2(chosen) == {**chosen, "type": "id"}
    assert setting_to_v1({**chosen, "type": "id"}) == chosen
    switched = {"sessionId": "s", "configId": "fast", "type": "boolean", "value": True}
    assert setting_to_v1(switched) == setting_to_v2(switched) == switched


PATCH = """\
diff --git /p/a /p/a
--- /p/a
+++ /p/a
@@ -1,2 +1,2 @@
 one
-two
+three
"""
NEW_FILE = """\
diff --git /p/b /p/b
new file mode 100644
--- /dev/null
+++ /p/b
@@ -0,0 +1 @@
+x
\\ No newline at end of file
"""


@pytest.mark.parametrize(
    ("path", "old", "new", "patch"),
    [
        ("/p/a", "one\ntwo\n", "one\nthree\n", PATCH),
        ("/p/b", None, "x", NEW_FILE),
        (
            "/p/a b",
            "",
            "x\n",
            "diff --git /p/a b /p/a b\n--- /p/a b\t\n+++ /p/a b\t\n@@ -0,0 +1 @@\n+x\n",
        ),
        ('/p/"ü', "", "", 'diff --git "/p/\\"\\303\\274" "/p/\\"\\303\\274"\n'),
    ],
)
def test_patches_are_as_git_writes_them(path: str, old: str | None, new: str, patch: str) -> None:
    assert git_patch(path, old, new) == patch


def test_a_diff_becomes_a_patch_and_a_patch_text() -> None:
    v1 = {"type": "diff", "path": "/p/a", "oldText": "one\ntwo\n", "newText": "one\nthree\n"}
    v2 = diff_to_v2({**v1, "_meta": {"x": 1}})
    assert v2 == {
        "type": "diff",
        "_meta": {"x": 1},
        "changes": [{"operation": "modify", "path": "/p/a"}],
        "patch": {"format": "git_patch", "text": PATCH},
    }
    assert diff_to_v2(v2) is v2
    assert diff_to_v1(v1) is v1
    assert diff_to_v1(v2) == text(PATCH)
    move = {"type": "diff", "changes": [{"operation": "move", "oldPath": "/a", "path": "/b"}]}
    assert diff_to_v1(move) == text("move /a → /b")


def test_tool_calls() -> None:
    v1 = {
        "title": "T",
        "kind": None,
        "status": "pending",
        "content": [text("x"), {"type": "diff", "path": "/p/b", "newText": "x"}],
        "locations": [{"path": "/p", "line": 0}, {"path": "/q", "line": 3}],
    }
    v2 = call_to_v2(v1)
    assert "kind" not in v2
    assert v2["content"][1]["changes"] == [{"operation": "add", "path": "/p/b"}]
    assert v2["locations"] == [{"path": "/p"}, {"path": "/q", "line": 3}]
    back = call_to_v1(v2, show)
    assert back["content"] == [text("x"), text(NEW_FILE)]
    assert call_to_v2({}) == call_to_v1({}, show) == {}


@pytest.mark.parametrize(
    ("told", "known"), [("cancelled", "failed"), ("paused", "in_progress"), ("new", "in_progress")]
)
def test_a_status_that_version_1_does_not_know(told: str, known: str) -> None:
    call = call_to_v1({"status": told, "kind": "dance", "capabilities": {}, "title": None}, show)
    assert call == {"status": known, "kind": "other", "_meta": {"rekindle": {"status": told}}}


def test_content_that_version_1_does_not_know() -> None:
    parts = [{"type": "terminal", "terminalId": "t"}, {"type": "hologram"}]
    assert call_to_v1({"content": parts, "locations": None}, show) == {
        "content": [text("output of t"), text("[hologram]")],
        "locations": [],
    }


def test_plans() -> None:
    entry = {"content": "x", "priority": "high", "status": "completed"}
    plan = plan_to_v2([entry, {"content": "y"}])
    assert plan["planId"] == "main"
    assert plan["entries"][1] == {"content": "y", "priority": "medium", "status": "pending"}
    assert plan_to_v2([], "p")["planId"] == "p"
    assert plan_to_v1(plan) == plan["entries"]
    assert plan_to_v1({"type": "markdown"}) is None
    urgent = {"type": "items", "entries": [{"content": "y", "priority": "urgent"}]}
    assert plan_to_v1(urgent) == [{"content": "y", "priority": "medium"}]
    cancelled = {**plan, "entries": [{**entry, "status": "cancelled"}, {"content": "z"}]}
    assert plan_to_v1(cancelled) == [
        {**entry, "_meta": {"rekindle": {"status": "cancelled"}}},
        {"content": "z"},
    ]


def test_commands() -> None:
    v1 = [
        {"name": "a", "description": "A", "input": {"hint": "h"}},
        {"name": "b", "description": "B", "input": None},
    ]
    v2 = [
        {
            "type": "command",
            "name": "a",
            "description": "A",
            "input": {"type": "text", "hint": "h"},
        },
        {"type": "command", "name": "b", "description": "B"},
    ]
    assert commands_to_v2(v1) == v2
    assert commands_to_v1(v2) == [v1[0], {"name": "b", "description": "B"}]
    odd = [{"type": "skill", "name": "s"}, {**v2[0], "input": {"type": "form"}}]
    assert commands_to_v1(odd) == [{"name": "a", "description": "A"}]


def test_questions_about_a_tool_call() -> None:
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


def test_questions_about_something_else() -> None:
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
        "content": [text("why")],
    }
    assert permission_to_v1({"title": "Go?"}, "made", show) == {
        "options": [],
        "toolCall": {"toolCallId": "made", "title": "Go?"},
    }
    odd = {"options": [{"optionId": "o", "kind": "allow_for_ever"}, {"optionId": "p"}]}
    kinds = [it["kind"] for it in permission_to_v1(odd, "made", show)["options"]]
    assert kinds == ["reject_once", "reject_once"]


def test_blocks() -> None:
    image = {"type": "image", "data": ""}
    assert block_to_v1(image) is image
    assert block_to_v1({"type": "video"}) == {"type": "text", "text": "[video]"}
    assert block_to_v1({"type": []}) == {"type": "text", "text": "[content]"}
    part = {"type": "content", "content": {"type": "video"}, "x": 1}
    assert part_to_v1(part, show) == {
        "type": "content",
        "content": {"type": "text", "text": "[video]"},
        "x": 1,
    }


@pytest.mark.parametrize("outcome", ["selected", "cancelled", "_maybe"])
def test_an_outcome_that_is_not_known_is_no_consent(outcome: str) -> None:
    result = {"outcome": {"outcome": outcome, "optionId": "o"}}
    told = outcome_to_v1(result)
    assert told["outcome"]["outcome"] == ("cancelled" if outcome == "_maybe" else outcome)


def test_servers() -> None:
    stdio = {"name": "a", "command": "/a", "args": [], "env": []}
    http = {"type": "http", "name": "b", "url": "u", "headers": []}
    assert servers_to_v2([stdio, http]) == [{"type": "stdio", **stdio}, http]
    bare = [
        {"type": "stdio", "name": "a", "command": "/a"},
        {"type": "http", "name": "b", "url": "u"},
    ]
    assert servers_to_v1(bare) == [stdio, http]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"result": {"stopReason": "refusal"}}, {"state": "idle", "stopReason": "refusal"}),
        ({"result": {}}, {"state": "idle", "stopReason": "end_turn"}),
        (
            {"error": {"code": -1, "message": "no"}},
            {"state": "idle", "stopReason": "error", "error": {"code": -1, "message": "no"}},
        ),
    ],
)
def test_endings(answer: Json, state: Json) -> None:
    assert ending_to_v2(answer) == state


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ({"state": "idle"}, {"result": {"stopReason": "end_turn"}}),
        ({"stopReason": "cancelled"}, {"result": {"stopReason": "cancelled"}}),
        ({"stopReason": "_odd"}, {"result": {"stopReason": "end_turn"}}),
        ({"stopReason": "error"}, {"error": {"code": -32603, "message": "the agent failed"}}),
    ],
)
def test_endings_back(state: Json, answer: Json) -> None:
    assert ending_to_v1(state) == answer


def test_greetings_of_clients() -> None:
    info = {"name": "c", "version": "1"}
    v2 = {
        "protocolVersion": 2,
        "info": info,
        "capabilities": {"auth": {"terminal": {}}, "elicitation": {"form": {}}, "other": {}},
    }
    v1 = request_to_v1(v2)
    assert v1["clientInfo"] == info
    assert v1["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "elicitation": {"form": {}},
        "auth": {"terminal": True},
    }
    del v2["capabilities"]["other"]  # type: ignore[attr-defined]
    assert request_to_v2(v1) == v2
    assert request_to_v2({})["info"] == {"name": "unknown", "version": "0"}
    assert request_to_v1({})["clientInfo"]["name"] == "unknown"


def test_answers_of_agents() -> None:
    v1 = {
        "protocolVersion": 1,
        "agentInfo": {"name": "a", "version": "1"},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "fork": {}},
            "_meta": {"m": 1},
        },
        "authMethods": [{"id": "k", "name": "K"}],
        "_meta": {"n": 2},
    }
    v2 = response_to_v2(v1)
    assert v2["capabilities"] == {
        "session": {
            "prompt": {"image": {}, "embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}},
            "fork": {},
        },
        "_meta": {"m": 1},
    }
    assert v2["authMethods"] == [{"type": "agent", "methodId": "k", "name": "K"}]
    assert response_to_v1(v2) == v1
    bare = response_to_v2({})
    assert (bare["info"]["name"], bare["capabilities"]["session"]["mcp"]) == (
        "unknown",
        {"stdio": {}},
    )
    chat = response_to_v1({"authMethods": [{"type": "terminal", "methodId": "t", "name": "T"}]})
    assert chat["agentCapabilities"]["loadSession"] is False
    assert chat["agentCapabilities"]["sessionCapabilities"] == {}
    assert chat["authMethods"] == [{"type": "terminal", "id": "t", "name": "T"}]


def test_options_whose_type_is_no_name_are_not_known() -> None:
    assert options_to_v1([{"configId": "o", "type": []}], with_booleans=True) == []


def test_a_patch_has_a_hunk_for_each_place() -> None:
    old = "".join(f"{number}\n" for number in range(40))
    new = old.replace("3\n4\n", "3\n").replace("30\n", "x\n")
    expected = unified_diff(old.splitlines(True), new.splitlines(True), "/a", "/a")  # noqa: FBT003
    assert git_patch("/a", old, new) == f"diff --git /a /a\n{''.join(expected)}"
    assert git_patch("/a", old, new).count("\n@@ ") == 2


def test_texts_that_are_too_alike_to_compare_are_replaced() -> None:
    old = [f"{number % 100}" for number in range(8_000)]
    new = [f"{number * 7 % 101}" for number in range(8_000)]
    before = time.process_time()
    patch = git_patch("/a", "\n".join(old) + "\n", "\n".join(new) + "\n").splitlines()[3:]
    # In seconds of the processor: it would else take minutes, and with more lines never end.
    assert time.process_time() - before < 10
    said = [line for line in patch if line[:1] in {"-", " ", "+"}]
    assert [line[1:] for line in said if line[0] != "+"] == old
    assert [line[1:] for line in said if line[0] != "-"] == new
