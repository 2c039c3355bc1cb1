"""What was changed is told line by line: a line ends, unless it is said not to."""

import pytest

from rekindle.importers.codex.tool_calls import patch_edits
from rekindle.importers.patches import DiffHunk, parse_unified_diff

NO_END = "\\ No newline at end of file"


@pytest.mark.parametrize(
    ("lines", "old", "new"),
    [
        (" a\n-b\n+c\n", "a\nb\n", "a\nc\n"),
        (" a\n\n-b\n+c", "a\n\nb\n", "a\n\nc\n"),
        ("+c\n", "", "c\n"),
        (f"-b\n{NO_END}\n+c\n{NO_END}\n", "b", "c"),
        (f"-b\n{NO_END}\n+b\n+c\n", "b", "b\nc\n"),
        (f"-b\n+c\n{NO_END}\n", "b\n", "c"),
        (f"-b\n a\n{NO_END}\n", "b\na", "a"),
        (f"{NO_END}\n+c\n", "", "c\n"),
    ],
)
def test_a_unified_diff_says_which_line_has_no_end(lines: str, old: str, new: str) -> None:
    diff = f"Index: a\n===\n--- a\n+++ a\n@@ -1,2 +7,2 @@ def f\n{lines}"
    assert list(parse_unified_diff(diff)) == [DiffHunk(7, old, new)]


def test_each_part_of_a_file_is_told_where_it_is() -> None:
    diff = "@@ -1 +1 @@\n-a\n+b\n@@ -9,0 +9,1 @@\n+c\n"
    assert list(parse_unified_diff(diff)) == [DiffHunk(1, "a\n", "b\n"), DiffHunk(9, "", "c\n")]


@pytest.mark.parametrize("diff", ["", "--- a\n+++ a\n", "@@", "@@ -1 +1 @@\n", "no diff @@ -1"])
def test_a_diff_that_changes_nothing_tells_nothing(diff: str) -> None:
    assert list(parse_unified_diff(diff)) == []


def test_all_lines_of_a_patch_of_codex_end() -> None:
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
    told = patch_edits(patch, "/p").content
    assert [(it["oldText"], it["newText"]) for it in told] == [("b\n", "c\n"), (None, "e\nf\n")]
