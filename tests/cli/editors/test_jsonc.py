"""Setting one value in JSON with comments keeps all other text."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rekindle.cli.editors.jsonc import parse, prepend, remove, replace_text, set_value, update
from rekindle.errors import FileUnclear

SETTINGS = """\
// Zed settings
{
  "theme": "One Dark", // dark
  /* the font */
  "buffer_font_size": 15,
  "agent_servers": {
    "Claude": {
      "type": "custom", // mine
      "command": "claude",
      "args": [],
      "env": { "KEY": "a // no comment" },
    },
    // the last word
  },
}
"""


def test_member_is_added_after_the_others() -> None:
    assert set_value(SETTINGS, ("agent_servers", "X"), {"command": "x", "args": ["a"]}) == (
        SETTINGS.replace(
            "    },\n    // the last word",
            '    },\n    "X": {\n      "command": "x",\n      "args": ["a"]\n    },\n'
            "    // the last word",
        )
    )


def test_update_keeps_other_members() -> None:
    fields = {"type": "custom", "command": "rekindle", "args": ["run", "--", "claude"]}
    assert update(SETTINGS, ("agent_servers", "Claude"), fields) == (
        SETTINGS.replace('"command": "claude"', '"command": "rekindle"').replace(
            '"args": []', '"args": ["run", "--", "claude"]'
        )
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("// hello", '// hello\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ("{ // x\n}\n", '{ // x\n  "a": {\n    "b": 1\n  }\n}\n'),
        ('{"c": 2}', '{"c": 2,\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"a": {"c": 2} }', '{"a": {"c": 2, "b": 1} }'),
        ('{"a": {"c": 2,}}', '{"a": {"c": 2, "b": 1,}}'),
        ('/*\n * x */\n{\n    "a": {}\n}', '/*\n * x */\n{\n    "a": {\n        "b": 1\n    }\n}'),
        ('{ "a": {\n\t"c": 2\n}}', '{ "a": {\n\t"c": 2,\n\t"b": 1\n}}'),
        ('{\n  "a": {\n\t\t"c": 2\n  }\n}', '{\n  "a": {\n\t\t"c": 2,\n\t\t"b": 1\n  }\n}'),
        ('{\n\t"a": {}\n}', '{\n\t"a": {\n\t\t"b": 1\n\t}\n}'),
        ('{\n    "c": 2 // two\n}', '{\n    "c": 2, // two\n    "a": {\n        "b": 1\n    }\n}'),
        ('{\n "c": 2 /* 2 */, // two\n}', '{\n "c": 2 /* 2 */, // two\n "a": {\n  "b": 1\n },\n}'),
        ('{\r\n  "c": 2\r\n}\r\n', '{\r\n  "c": 2,\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n'),
        ('\ufeff{\n  "a": {"b": 0}\n}', '\ufeff{\n  "a": {"b": 1}\n}'),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ('{"a": {"b": "/* // */"}}', '{"a": {"b": 1}}'),
    ],
)  # fmt: skip
def test_indentation_and_line_ends_are_kept(before: str, after: str) -> None:
    assert set_value(before, ("a", "b"), 1) == after
    assert set_value(after, ("a", "b"), 1) == after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "the file is not an object"),
        ('{"a": 5}', "a is not an object"),
        ('{"a": {}, "a": {}}', "has 'a' twice"),
        ('{"a": {"b": [1, // one\n2]}}', "a.b has comments in it"),
        ('{"a": {"b": 1}', "is expected in line 1"),
        ('{"a" 1}', "a colon is expected"),
        ("{a: 1}", "a key is expected"),
        ('{"a": \n01}', "a value is expected in line 2"),
        ('{"a": nope}', "a value is expected"),
        ('{"a": 1 "b": 2}', "a comma or } is expected"),
        ('{"a": "unended\n"}', "a value is expected"),
        ("{} {}", "something after the end"),
        ("{,}", "a key is expected"),
        ("[" * 500, "nested too deeply"),
        ("{} /* unended", "something after the end"),
    ],
)
def test_ambiguous_text_is_refused(text: str, why: str) -> None:
    with pytest.raises(FileUnclear, match=re.escape(why)):
        set_value(text, ("a", "b"), 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": {"b": []}}', '{"a": {"b": ["x", 1]}}'),
        ('{"a": {"b": [ ]}}', '{"a": {"b": ["x", 1 ]}}'),
        ('{"a": {"b": [2, 3]}}', '{"a": {"b": ["x", 1, 2, 3]}}'),
        ('{"a": {"b": [\n\t\t2, // two\n\t\t3,\n\t]}}',
         '{"a": {"b": [\n\t\t"x",\n\t\t1,\n\t\t2, // two\n\t\t3,\n\t]}}'),
        ('{"a": {"b": [ // mine\r\n  2\r\n]}}',
         '{"a": {"b": [ // mine\r\n  "x",\r\n  1,\r\n  2\r\n]}}'),
    ],
)  # fmt: skip
def test_prepend_keeps_the_style_and_comments_of_the_array(before: str, after: str) -> None:
    assert prepend(before, ("a", "b"), ["x", 1]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"b": 1}', "{}"),
        ('{ "b": 1 }', "{ }"),
        ('{"a": 0, "b": 1}', '{"a": 0}'),
        ('{"b": 1, "c": 2}', '{"c": 2}'),
        ('{"a": 0, "b": 1, "c": 2,}', '{"a": 0, "c": 2,}'),
        ('{\n  "a": 0,\n  "b": 1\n}', '{\n  "a": 0\n}'),
        ('{\r\n  "a": 0,\r\n  "b": {\r\n  },\r\n}', '{\r\n  "a": 0,\r\n}'),
        ('{\n  "a": 0, // zero\n  "b": 1 // one\n}', '{\n  "a": 0 // zero // one\n}'),
        ('{\n  "a": 0, // zero\n  "b": 1 }', '{\n  "a": 0 // zero\n }'),
        ('{\n  "a": 0, /* b */ "b": 1\n}', '{\n  "a": 0 /* b */\n}'),
    ],
)
def test_remove_takes_the_comma_and_the_line(before: str, after: str) -> None:
    assert remove(before, ["b"]) == after


@pytest.mark.parametrize("change", [remove, lambda *it: replace_text(*it, "0")])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": {}}', "a has no 'b'"),
        ('{"a": 5}', "a is not an object"),
        ('{"a": {"b": 1}, "a": {}}', "the file has 'a' twice"),
    ],
)
def test_change_of_a_missing_value_is_refused(
    change: Callable[..., str], text: str, why: str
) -> None:
    with pytest.raises(FileUnclear, match=re.escape(why)):
        change(text, ["a", "b"])


def test_prepend_to_another_value_is_refused() -> None:
    with pytest.raises(FileUnclear, match="a is not an array"):
        prepend('{"a": 5}', ["a"], ["x"])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.text("abc", max_size=2), json_values, max_size=4)


@st.composite
def commented(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Format an object with comments, commas and line breaks at random places."""
    data = draw(objects)
    count = 0

    def gap() -> str:
        nonlocal count
        count += 1
        kinds = ["", " ", "\n", "\n  ", f"/* remark{count} */", f"// remark{count}\n"]
        return draw(st.sampled_from(kinds))

    def write(value: Any) -> str:  # noqa: ANN401 - JSON
        if not isinstance(value, dict | list) or not value:
            return json.dumps(value)
        parts = (
            [f"{json.dumps(key)}{gap()}:{gap()}{write(it)}" for key, it in value.items()]
            if isinstance(value, dict)
            else [write(item) for item in value]
        )
        begin, end = "{}" if isinstance(value, dict) else "[]"
        comma = draw(st.sampled_from(["", ","]))
        return begin + gap() + f"{gap()},{gap()}".join(parts) + gap() + comma + gap() + end

    return gap() + write(data) + gap(), data


@given(commented(), st.lists(st.text("abc", max_size=2), min_size=1, max_size=3), json_values)
def test_set_value_changes_only_that_value(
    written: tuple[str, dict[str, Any]], path: list[str], value: object
) -> None:
    text, data = written
    assert parse(text).data == data
    try:
        changed = set_value(text, path, value)
    except FileUnclear as error:
        assert "is not an object" in str(error) or "has comments in it" in str(error)  # noqa: PT017
        return
    found = parse(changed).data
    for key in path:
        found = found[key]
    assert found == value
    assert set_value(changed, path, value) == changed
    comments = re.findall(r"remark\d+", text)
    assert [item for item in re.findall(r"remark\d+", changed) if item in comments] == comments


@given(commented(), st.data())
def test_remove_and_replace_text_change_only_that_value(
    written: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    text, members = written
    if not members:
        return
    key = data.draw(st.sampled_from(sorted(members)))
    rest = remove(text, [key])
    assert parse(rest).data == {name: it for name, it in members.items() if name != key}
    member = (parse(text).members or {})[key]
    assert remarks(rest) == remarks(text[: member.key] + text[member.comma or member.end :])
    assert parse(replace_text(text, [key], "[1]")).data == {**members, key: [1]}


@given(commented(), st.lists(json_values, max_size=3))
def test_prepend_keeps_comments(written: tuple[str, dict[str, Any]], items: list[object]) -> None:
    text, data = written
    text = f'{{"a": {text}, "b": [{"" if not data else text}]}}'
    changed = prepend(text, ["b"], items)
    assert parse(changed).data == {"a": data, "b": [*items, *([data] if data else [])]}
    assert remarks(changed) == remarks(text)


def remarks(text: str) -> list[str]:
    return re.findall(r"remark\d+", text)
