"""What was changed is told line by line, as Codex's agent does: a line ends, unless it does not."""

import pytest

from rekindle.importers.codex.patches import edits_of_changes, edits_of_patch
from rekindle.importers.codex.records import Change

NO_END = "\\ No newline at end of file"


@pytest.mark.parametrize(
    ("lines", "old", "new"),
    [
        (" a\n-b\n+c\n", "a\nb\n", "a\nc\n"),
        (f"-b\n{NO_END}\n+c\n{NO_END}\n", "b", "c"),
        (f"-b\n{NO_END}\n+b\n+c\n", "b", "b\nc\n"),
        (f"-b\n+c\n{NO_END}\n", "b\n", "c"),
        (f"-b\n a\n{NO_END}\n", "b\na", "a"),
        (f"{NO_END}\n+c\n", "", "c\n"),
    ],
)
def test_a_unified_diff_says_which_line_has_no_end(lines: str, old: str, new: str) -> None:
    change = Change(type="update", unified_diff=f"@@ -1,2 +1,2 @@\n{lines}")
    (told,) = edits_of_changes({"/p/a": change}, None).content
    assert (told["oldText"], told["newText"]) == (old, new)


def test_all_lines_of_a_patch_of_its_own_end() -> None:
    patch = """\
*** Begin Patch
*** Update File: a
@@
-b
+c
*** Add File: d
+e
+f
*** End Patch"""
    told = edits_of_patch(patch, "/p").content
    assert [(it["oldText"], it["newText"]) for it in told] == [("b\n", "c\n"), (None, "e\nf\n")]
