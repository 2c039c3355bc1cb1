import pytest

from rekindle.acp.terminal_output import Terminal
from rekindle.export.content import (
    Code,
    Diff,
    Note,
    call_parts,
    change_parts,
    compact,
    is_over,
    result_parts,
)
from rekindle.transcript.model import ToolCallItem


def call(**fields: object) -> ToolCallItem:
    return ToolCallItem(id="t", seq=1, at_us=1, fields=fields)


def diff(old: str, new: str) -> dict[str, str]:
    return {"type": "diff", "path": "/a", "oldText": old, "newText": new}


@pytest.mark.parametrize(
    ("status", "expected"),
    [("completed", True), ("cancelled", True), ("pending", False), (7, False)],
)
def test_final_statuses_end_a_tool_call(status: object, *, expected: bool) -> None:
    assert is_over(call(status=status)) is expected


def test_changes_are_diffs_and_notes_without_whole_files() -> None:
    long = "x\n" * 150_000
    item = call(content=[diff("a\n", "b\n"), diff("", long), {"type": "content"}])
    changes = list(change_parts(item))
    assert [type(part) for part in changes] == [Diff, Note]
    assert [type(part) for part in result_parts(item, {})][:3] == [Diff, Note, Code]
    assert changes[1] == Note("/a: 0 lines became 150000; too long to compare")


NO_NEWLINE = "No newline at end of file"


@pytest.mark.parametrize(
    ("old", "new", "notes"),
    [("a = 1", "a = 2", 0), ("a\n", "b", 1), ("a", "b\n", 1), ("", "b", 1), ("a\n", "b\n", 0)],
)
def test_missing_newline_is_noted_only_where_it_differs(old: str, new: str, notes: int) -> None:
    (part,) = change_parts(call(content=[diff(old, new)]))
    assert isinstance(part, Diff)
    assert part.text.count(NO_NEWLINE) == notes
    assert f"+{new.rstrip()}" in part.text


def test_a_diff_without_a_patch_is_a_note() -> None:
    moved = {"type": "diff", "changes": [{"operation": "move", "oldPath": "/a", "path": "/b"}]}
    bare = {"type": "diff", "changes": []}
    parts = list(change_parts(call(content=[moved, bare])))
    assert parts == [Note("move /a → /b"), Note("a change without a patch")]


def test_raw_output_is_shown_if_there_is_no_content() -> None:
    assert list(call_parts(call(rawOutput="out"), {})) == [Code("out")]
    assert list(call_parts(call(rawOutput={"a": 1}), {})) == [Code('{\n  "a": 1\n}', "json")]


def test_input_is_written_on_one_line() -> None:
    assert compact("a\n b") == "a b"
    assert compact({"a": [1]}) == '{"a": [1]}'


def test_content_that_cannot_be_shown_is_described() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "no base64!"}
    content = [{"type": "content", "content": image}, {"type": "hologram"}]
    parts = list(result_parts(call(content=content), {}))
    assert parts == [Note("image, image/png"), Code('{\n  "type": "hologram"\n}', "json")]


@pytest.mark.parametrize(
    ("raw", "terminals", "part"),
    [
        ({"output": "all done"}, {}, Code("all done")),
        ({"output": "raw"}, {"x": Terminal(output=bytearray(b"shown"))}, Code("shown")),
        ({"output": "raw"}, {"x": Terminal()}, Code("raw")),
        ({"exit_code": 0}, {"x": Terminal()}, Code("")),
        ({"exit_code": 0}, {}, Note("a terminal whose output is not recorded")),
    ],
)
def test_the_raw_output_of_a_call_replaces_a_terminal_that_is_gone(
    raw: object, terminals: dict[str, Terminal], part: object
) -> None:
    item = call(content=[{"type": "terminal", "terminalId": "x"}], rawOutput=raw)
    assert list(result_parts(item, terminals)) == [part]
