"""Parsing of patches: hunks, positions and missing newlines."""

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
def test_missing_newline_marker_applies_to_its_line(lines: str, old: str, new: str) -> None:
    diff = f"Index: a\n===\n--- a\n+++ a\n@@ -1,2 +7,2 @@ def f\n{lines}"
    assert list(parse_unified_diff(diff)) == [DiffHunk(7, old, new)]


def test_each_hunk_has_its_line_number() -> None:
    diff = "@@ -1 +1 @@\n-a\n+b\n@@ -9,0 +9,1 @@\n+c\n"
    assert list(parse_unified_diff(diff)) == [DiffHunk(1, "a\n", "b\n"), DiffHunk(9, "", "c\n")]


@pytest.mark.parametrize("diff", ["", "--- a\n+++ a\n", "@@", "@@ -1 +1 @@\n", "no diff @@ -1"])
def test_diff_without_changes_has_no_hunks(diff: str) -> None:
    assert list(parse_unified_diff(diff)) == []


def test_lines_of_a_codex_patch_end_with_newlines() -> None:
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
    diffs = patch_edits(patch, "/p").content
    assert [(diff["oldText"], diff["newText"]) for diff in diffs] == [
        ("b\n", "c\n"),
        (None, "e\nf\n"),
    ]
