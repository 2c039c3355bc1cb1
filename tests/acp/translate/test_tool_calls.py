from typing import Any

import pytest

from rekindle.acp.translate.tool_calls import call_to_v1, call_to_v2

Json = dict[str, Any]


def text_part(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def show(terminal_id: str) -> str:
    return f"output of {terminal_id}"


NEW_FILE = """\
diff --git /p/b /p/b
new file mode 100644
--- /dev/null
+++ /p/b
@@ -0,0 +1 @@
+x
\\ No newline at end of file
"""


def test_fields_are_translated_both_ways() -> None:
    v1 = {
        "title": "T",
        "kind": None,
        "status": "pending",
        "content": [text_part("x"), {"type": "diff", "path": "/p/b", "newText": "x"}],
        "locations": [{"path": "/p", "line": 0}, {"path": "/q", "line": 3}],
    }
    v2 = call_to_v2(v1)
    assert "kind" not in v2
    assert v2["content"][1]["changes"] == [{"operation": "add", "path": "/p/b"}]
    assert v2["locations"] == [{"path": "/p"}, {"path": "/q", "line": 3}]
    back = call_to_v1(v2, show)
    assert back["content"] == [text_part("x"), text_part(NEW_FILE)]
    assert call_to_v2({}) == call_to_v1({}, show) == {}


@pytest.mark.parametrize(
    ("status", "known"),
    [("cancelled", "failed"), ("paused", "in_progress"), ("new", "in_progress")],
)
def test_an_unknown_status_becomes_the_nearest_known_one(status: str, known: str) -> None:
    call = call_to_v1({"status": status, "kind": "dance", "capabilities": {}, "title": None}, show)
    assert call == {"status": known, "kind": "other", "_meta": {"rekindle": {"status": status}}}


def test_unknown_content_becomes_text() -> None:
    parts = [{"type": "terminal", "terminalId": "t"}, {"type": "hologram"}]
    assert call_to_v1({"content": parts, "locations": None}, show) == {
        "content": [text_part("output of t"), text_part("[hologram]")],
        "locations": [],
    }
