"""Set one value in JSON with comments and trailing commas, and keep all other text. Pure.

The parser records the position of each value, and only the text of one value is replaced. The
result is parsed again and compared with the expected data. If they differ, or if the text is
ambiguous, the functions raise FileUnclear and change nothing. No files and no editors here.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from msgspec import Struct

from rekindle.errors import FileUnclear

# Possessive quantifiers (`++`, `*+`) prevent backtracking in a long file.
_BLANK = re.compile(r"(?:[\ufeff\s]++|//[^\n\r]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_COMMENT = re.compile(r"//|/\*")
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n\r]*|/\*[^\n\r]*?\*/)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*+"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_MAX_DEPTH = 100


class Value(Struct, kw_only=True):
    """A parsed value with its position in the text. The last fields are for objects only."""

    data: Any
    start: int
    end: int
    members: "dict[str, Value] | None" = None
    """The members of an object."""
    last: int = 0
    """The end of the last member."""
    comma: int | None = None
    """The end of the comma after the last member, if any."""
    duplicates: frozenset[str] = frozenset()
    """The keys that occur more than once."""


def parse(text: str) -> Value:
    """Parse a text. Raises FileUnclear."""
    return _Parser(text).read()


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
    """Set members of the object at `path`, and keep its other members. Raises FileUnclear."""
    if find(text, path) is None:
        return set_value(text, path, fields)
    for name, value in fields.items():
        text = set_value(text, (*path, name), value)
    return text


def find(text: str, path: Sequence[str]) -> Value | None:
    """Return the value at `path`, None if there is none. Raises FileUnclear."""
    value = None if _BLANK.fullmatch(text) else parse(text)
    for key in path:
        value = value.members.get(key) if value and value.members is not None else None
    return value


class _Parser:
    """A recursive parser of one text."""

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
        if depth > _MAX_DEPTH:
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
        while not self._accept("]"):
            items.append(self._value(depth + 1).data)
            self._separate("]")
        return Value(data=items, start=start, end=self._at)

    def _object(self, depth: int) -> Value:
        start = self._at
        members: dict[str, Value] = {}
        duplicates: set[str] = set()
        last, comma = start + 1, None
        self._open()
        while not self._accept("}"):
            if not self._text.startswith('"', self._at):
                self._fail("a key is expected")
            key = self._scalar(_STRING).data
            self._skip()
            if not self._accept(":"):
                self._fail("a colon is expected")
            self._skip()
            if key in members:
                duplicates.add(key)
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
            duplicates=frozenset(duplicates),
        )

    def _open(self) -> None:
        self._at += 1
        self._skip()

    def _separate(self, closing: str) -> int | None:
        """Read past a comma and blanks after a member; return the end of the comma, if any."""
        self._skip()
        comma = self._at if self._accept(",") else None
        self._skip()
        if comma is None and not self._text.startswith(closing, self._at):
            self._fail(f"a comma or {closing} is expected")
        return comma

    def _accept(self, mark: str) -> bool:
        is_accepted = self._text.startswith(mark, self._at)
        self._at += is_accepted
        return is_accepted

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
        if key in holder.duplicates:
            raise FileUnclear(f"{where} has {key!r} twice")
        if key not in holder.members:
            return _inserted(text, holder, key, _nested(path[depth + 1 :], value))
        holder = holder.members[key]
    if holder.data == value:
        return text
    if _has_comment(text[holder.start : holder.end]):
        raise FileUnclear(f"{'.'.join(path)} has comments in it")
    rendered = _formatted(text, value, _indent_of_line(text, holder.start))
    return text[: holder.start] + rendered + text[holder.end :]


def _inserted(text: str, holder: Value, key: str, value: object) -> str:
    """Add a member at the end of an object."""
    newline = _newline(text)
    outer = _indent_of_line(text, holder.start)
    inner = outer + _indent(text)
    member = f"{newline}{inner}{json.dumps(key, ensure_ascii=False)}: "
    member += _formatted(text, value, inner)
    end = newline + outer
    if not holder.members:
        # There may be comments inside.
        inside = text[holder.start + 1 : holder.end - 1].rstrip()
        return text[: holder.start + 1] + inside + member + end + text[holder.end - 1 :]
    after = holder.comma or holder.last
    line_end = _REST_OF_LINE.match(text, after)
    at = line_end.end() if line_end else after
    is_on_one_line = "\n" not in text[at : holder.end]
    return (
        text[: holder.last]
        + ("" if holder.comma else ",")
        + text[holder.last : at]
        + member
        + ("," if holder.comma else "")
        + (end + text[at:].lstrip(" \t") if is_on_one_line else text[at:])
    )


def _formatted(text: str, value: object, indent: str) -> str:
    return _render(value, _indent(text)).replace("\n", _newline(text) + indent)


def _render(value: object, indent: str = "  ") -> str:
    """Format objects on several lines, and any other value on one."""
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
