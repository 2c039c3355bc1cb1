"""Setting one value in JSON with comments and trailing commas, and leaving all else as it was.

The text is read into values that know where they stand, and only the place of the one value is
written to. What comes out is read again, and must be what was there with that value set; if it is
not, or the text has several meanings, nothing is changed. Pure: knows no files and no editors.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from msgspec import Struct

from rekindle.errors import FileUnclear

# Nothing here is tried twice (`++`, `*+`), however long the file is.
_BLANK = re.compile(r"(?:[\ufeff\s]++|//[^\n\r]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_COMMENT = re.compile(r"//|/\*")
_ON_THE_LINE = re.compile(r"[ \t]*(?://[^\n\r]*|/\*[^\n\r]*?\*/)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*+"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_DEEPEST = 100


class Value(Struct, kw_only=True):
    """A value, and from where to where it stands in the text."""

    data: Any
    start: int
    end: int
    members: "dict[str, Value] | None" = None
    """Of an object."""
    last: int = 0
    """Of an object: where its last member ends."""
    comma: int | None = None
    """Of an object: the end of the comma after the last member, if there is one."""
    doubles: frozenset[str] = frozenset()
    """Of an object: the keys that it has twice."""


def parse(text: str) -> Value:
    """Read a text. Raises FileUnclear."""
    return _Reader(text).read()


def set_value(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with the value at `path` set. Raises FileUnclear."""
    if _BLANK.fullmatch(text):
        before = text.rstrip()
        return (before and before + "\n") + _render(_nested(path, value)) + "\n"
    root = parse(text)
    changed = _changed(text, root, path, value)
    if parse(changed).data != _with_value(root.data, path, value):
        raise FileUnclear("the file cannot be changed without changing more than that")
    return changed


def update(text: str, path: Sequence[str], fields: Mapping[str, object]) -> str:
    """Set members of the object at `path`, and leave its others. Raises FileUnclear."""
    if find(text, path) is None:
        return set_value(text, path, fields)
    for name, value in fields.items():
        text = set_value(text, (*path, name), value)
    return text


def find(text: str, path: Sequence[str]) -> Value | None:
    """Return what is at `path`, if anything is. Raises FileUnclear."""
    value = None if _BLANK.fullmatch(text) else parse(text)
    for key in path:
        value = value.members.get(key) if value and value.members is not None else None
    return value


class _Reader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> Value:
        self._skip()
        value = self._value(0)
        self._skip()
        if self._at < len(self._text):
            self._fail("there is something after the end")
        return value

    def _value(self, depth: int) -> Value:
        if depth > _DEEPEST:
            self._fail("it is nested too deeply")
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                return self._scalar(_STRING)
            case _:
                return self._scalar(_SCALAR)

    def _scalar(self, pattern: re.Pattern[str]) -> Value:
        match = pattern.match(self._text, self._at)
        if match is None:
            self._fail("a value is expected")
        try:
            data = json.loads(match[0])
        except ValueError:
            self._fail("a value is expected")
        self._at = match.end()
        return Value(data=data, start=match.start(), end=match.end())

    def _array(self, depth: int) -> Value:
        start = self._at
        items: list[Any] = []
        self._open()
        while not self._takes("]"):
            items.append(self._value(depth + 1).data)
            self._separate("]")
        return Value(data=items, start=start, end=self._at)

    def _object(self, depth: int) -> Value:
        start = self._at
        members: dict[str, Value] = {}
        doubles: set[str] = set()
        last, comma = start + 1, None
        self._open()
        while not self._takes("}"):
            if not self._text.startswith('"', self._at):
                self._fail("a key is expected")
            key = self._scalar(_STRING).data
            self._skip()
            if not self._takes(":"):
                self._fail("a colon is expected")
            self._skip()
            if key in members:
                doubles.add(key)
            members[key] = self._value(depth + 1)
            last = members[key].end
            comma = self._separate("}")
        return Value(
            data={key: value.data for key, value in members.items()},
            start=start,
            end=self._at,
            members=members,
            last=last,
            comma=comma,
            doubles=frozenset(doubles),
        )

    def _open(self) -> None:
        self._at += 1
        self._skip()

    def _separate(self, closing: str) -> int | None:
        """Read what stands between two members; return where a comma ends."""
        self._skip()
        comma = self._at if self._takes(",") else None
        self._skip()
        if comma is None and not self._text.startswith(closing, self._at):
            self._fail(f"a comma or {closing} is expected")
        return comma

    def _takes(self, mark: str) -> bool:
        is_there = self._text.startswith(mark, self._at)
        self._at += is_there
        return is_there

    def _skip(self) -> None:
        match = _BLANK.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _fail(self, what: str) -> NoReturn:
        line = self._text.count("\n", 0, self._at) + 1
        raise FileUnclear(f"the file is no valid JSON: {what} in line {line}")


def _changed(text: str, root: Value, path: Sequence[str], value: object) -> str:
    holder = root
    for depth, key in enumerate(path):
        where = ".".join(path[:depth]) or "the file"
        if holder.members is None:
            raise FileUnclear(f"{where} is no object")
        if key in holder.doubles:
            raise FileUnclear(f"{where} has {key!r} twice")
        if key not in holder.members:
            return _inserted(text, holder, key, _nested(path[depth + 1 :], value))
        holder = holder.members[key]
    if holder.data == value:
        return text
    if _has_comment(text[holder.start : holder.end]):
        raise FileUnclear(f"{'.'.join(path)} has comments in it")
    rendered = _laid_out(text, value, _indent_of_line(text, holder.start))
    return text[: holder.start] + rendered + text[holder.end :]


def _inserted(text: str, holder: Value, key: str, value: object) -> str:
    """Add a member to an object, as the last one."""
    newline = _newline(text)
    outer = _indent_of_line(text, holder.start)
    inner = outer + _indent(text)
    member = f"{newline}{inner}{json.dumps(key, ensure_ascii=False)}: "
    member += _laid_out(text, value, inner)
    end = newline + outer
    if not holder.members:
        # What may stand here are comments.
        inside = text[holder.start + 1 : holder.end - 1].rstrip()
        return text[: holder.start + 1] + inside + member + end + text[holder.end - 1 :]
    after = holder.comma or holder.last
    line_end = _ON_THE_LINE.match(text, after)
    place = line_end.end() if line_end else after
    is_on_one_line = "\n" not in text[place : holder.end]
    return (
        text[: holder.last]
        + ("" if holder.comma else ",")
        + text[holder.last : place]
        + member
        + ("," if holder.comma else "")
        + (end + text[place:].lstrip(" \t") if is_on_one_line else text[place:])
    )


def _laid_out(text: str, value: object, indent: str) -> str:
    return _render(value, _indent(text)).replace("\n", _newline(text) + indent)


def _render(value: object, indent: str = "  ") -> str:
    """Write objects over several lines and everything else on one."""
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False)
    members = cast("Mapping[str, object]", value)
    lines = [
        f"{indent}{json.dumps(key, ensure_ascii=False)}: "
        + _render(member, indent).replace("\n", f"\n{indent}")
        for key, member in members.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def _nested(path: Sequence[str], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def _with_value(data: Any, path: Sequence[str], value: object) -> object:  # noqa: ANN401 - JSON
    if not path:
        return value
    return {**data, path[0]: _with_value(data.get(path[0], {}), path[1:], value)}


def _has_comment(piece: str) -> bool:
    return _COMMENT.search(_STRING.sub("", piece)) is not None


def _indent_of_line(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent(text: str) -> str:
    first = _INDENT.search(text)
    return first[1] if first else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
