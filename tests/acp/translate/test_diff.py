import time
from difflib import unified_diff
from typing import Any

import pytest

from rekindle.acp.translate.diff import diff_to_v1, diff_to_v2, git_patch

Json = dict[str, Any]


def text_part(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


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
def test_patches_have_the_format_of_git(path: str, old: str | None, new: str, patch: str) -> None:
    assert git_patch(path, old, new) == patch


def test_a_diff_becomes_a_patch_and_a_patch_becomes_text() -> None:
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
    assert diff_to_v1(v2) == text_part(PATCH)
    move = {"type": "diff", "changes": [{"operation": "move", "oldPath": "/a", "path": "/b"}]}
    assert diff_to_v1(move) == text_part("move /a → /b")


def test_distant_changes_have_separate_hunks() -> None:
    old = "".join(f"{number}\n" for number in range(40))
    new = old.replace("3\n4\n", "3\n").replace("30\n", "x\n")
    expected = unified_diff(old.splitlines(True), new.splitlines(True), "/a", "/a")  # noqa: FBT003
    assert git_patch("/a", old, new) == f"diff --git /a /a\n{''.join(expected)}"
    assert git_patch("/a", old, new).count("\n@@ ") == 2


def test_texts_that_take_too_long_to_compare_are_replaced() -> None:
    old = [f"{number % 100}" for number in range(8_000)]
    new = [f"{number * 7 % 101}" for number in range(8_000)]
    before = time.process_time()
    patch = git_patch("/a", "\n".join(old) + "\n", "\n".join(new) + "\n").splitlines()[3:]
    # CPU seconds. Without a limit it takes minutes.
    assert time.process_time() - before < 10
    changed = [line for line in patch if line[:1] in {"-", " ", "+"}]
    assert [line[1:] for line in changed if line[0] != "+"] == old
    assert [line[1:] for line in changed if line[0] != "-"] == new
