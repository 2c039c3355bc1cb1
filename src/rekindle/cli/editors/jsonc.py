"""Change one value in JSON with comments and trailing commas, and keep all other text. Pure.

The parser records the position of each value, and only the text of one value is replaced. The
result is parsed again and compared with the expected data. If they differ, or if the text is
ambiguous, the functions raise FileUnclear. No files and no editors here.
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
_TO_LINE_END = re.compile(r"[ \t]*(?://[^\n\r]*)?(?=[\n\r]|\Z)")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*+"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
_DEFAULT_INDENT = "  "
_MAX_DEPTH = 100


class Value(Struct, kw_only=True):
    """A parsed value with its position in the text."""

    data: Any
    start: int
    end: int
    key: int = 0
    """The start of its key, if it is a member of an object."""
    comma: int | None = None
    """The end of the comma after it, if any."""
    members: "dict[str, Value] | None" = None
    """The members of an object."""
    duplicates: frozenset[str] = frozenset()
    """The keys of an object that occur more than once."""
    first: int | None = None
    """The start of the first item of an array that is not empty."""

    @property
    def last_member(self) -> "Value | None":
        """The last member of an object that is not empty."""
        return next(reversed(self.members.values())) if self.members else None


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
    _check(changed, _with_value(root.data, path, value))
    return changed


def update(text: str, path: Sequence[str], fields: Mapping[str, object]) -> str:
    """Set members of the object at `path`, and keep its other members. Raises FileUnclear."""
    if find(text, path) is None:
        return set_value(text, path, fields)
    for name, value in fields.items():
        text = set_value(text, (*path, name), value)
    return text


def prepend(text: str, path: Sequence[str], items: Sequence[object]) -> str:
    """Insert items at the start of the array at `path`, which has to exist. Raises FileUnclear."""
    root = parse(text)
    array = _existing(root, path)
    data: object = array.data
    if not isinstance(data, list):
        raise FileUnclear(f"{'.'.join(path)} is not an array")
    rendered = [json.dumps(item, ensure_ascii=False) for item in items]
    if array.first is None:
        at, inserted = array.start + 1, ", ".join(rendered)
    else:
        at = array.first
        is_on_own_line = _is_first_on_line(text, at)
        separator = _newline(text) + _indent_of_line(text, at) if is_on_own_line else " "
        inserted = "".join(f"{item},{separator}" for item in rendered)
    changed = text[:at] + inserted + text[at:]
    _check(changed, _with_value(root.data, path, [*items, *cast("list[object]", data)]))
    return changed


def replace_text(text: str, path: Sequence[str], value: str) -> str:
    """Replace the text of the value at `path`, which has to exist. Raises FileUnclear."""
    root = parse(text)
    old = _existing(root, path)
    changed = text[: old.start] + value + text[old.end :]
    _check(changed, _with_value(root.data, path, parse(value).data))
    return changed


def remove(text: str, path: Sequence[str]) -> str:
    """Remove the member at `path`, which has to exist. Comments beside it stay.

    Raises FileUnclear.
    """
    root = parse(text)
    *outer, key = path
    holder, member = _existing(root, outer), _existing(root, path)
    start, end = member.key, member.comma or member.end
    if _is_first_on_line(text, start) and _TO_LINE_END.match(text, end):
        changed = text[: text.rfind("\n", 0, start)].removesuffix("\r") + text[end:]
    elif member.comma or len(holder.data) == 1:
        # On one line, the space after the comma belongs to the member that follows.
        changed = text[:start] + text[end:].lstrip(" \t")
    else:
        changed = text[:start].rstrip(" \t") + text[end:]
    before = _member_before(holder, key)
    if before is not None and before.comma and not member.comma:
        # The member before it is the last one now, and the last one had no comma.
        changed = changed[: before.comma - 1] + changed[before.comma :]
    _check(changed, _without_value(root.data, path))
    return changed


def find(text: str, path: Sequence[str]) -> Value | None:
    """Return the value at `path`, None if it does not exist. Raises FileUnclear."""
    value = None if _BLANK.fullmatch(text) else parse(text)
    for key in path:
        value = value.members.get(key) if value and value.members is not None else None
    return value


def _existing(root: Value, path: Sequence[str]) -> Value:
    value, depth = _deepest(root, path)
    if depth < len(path):
        raise FileUnclear(f"{_place(path, depth)} has no {path[depth]!r}")
    return value


def _deepest(root: Value, path: Sequence[str]) -> tuple[Value, int]:
    """Return the last existing value on a path, and the number of keys that lead to it.

    Raises FileUnclear if a value on the way has no unique member.
    """
    value = root
    for depth, key in enumerate(path):
        if value.members is None:
            raise FileUnclear(f"{_place(path, depth)} is not an object")
        if key in value.duplicates:
            raise FileUnclear(f"{_place(path, depth)} has {key!r} twice")
        if key not in value.members:
            return value, depth
        value = value.members[key]
    return value, len(path)


def _place(path: Sequence[str], depth: int) -> str:
    return ".".join(path[:depth]) or "the file"


def _member_before(holder: Value, key: str) -> Value | None:
    keys = list(holder.members or {})
    at = keys.index(key)
    return (holder.members or {})[keys[at - 1]] if at else None


def _check(changed: str, expected: object) -> None:
    if parse(changed).data != expected:
        raise FileUnclear("the file cannot be changed without changing more than that")


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
        items: list[Value] = []
        self._open()
        while not self._accept("]"):
            items.append(self._value(depth + 1))
            self._separate("]")
        return Value(
            data=[item.data for item in items],
            start=start,
            end=self._at,
            first=items[0].start if items else None,
        )

    def _object(self, depth: int) -> Value:
        start = self._at
        members: dict[str, Value] = {}
        duplicates: set[str] = set()
        self._open()
        while not self._accept("}"):
            if not self._text.startswith('"', self._at):
                self._fail("a key is expected")
            key_start = self._at
            key = self._scalar(_STRING).data
            self._skip()
            if not self._accept(":"):
                self._fail("a colon is expected")
            self._skip()
            if key in members:
                duplicates.add(key)
            members[key] = value = self._value(depth + 1)
            value.key = key_start
            value.comma = self._separate("}")
        return Value(
            data={key: value.data for key, value in members.items()},
            start=start,
            end=self._at,
            members=members,
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
        raise FileUnclear(f"the file is not valid JSON: {what} in line {line}")


def _changed(text: str, root: Value, path: Sequence[str], value: object) -> str:
    holder, depth = _deepest(root, path)
    if depth < len(path):
        unit = _indent_unit(text, root)
        return _inserted(text, holder, path[depth], _nested(path[depth + 1 :], value), unit)
    if holder.data == value:
        return text
    if _has_comment(text[holder.start : holder.end]):
        raise FileUnclear(f"{'.'.join(path)} has comments in it")
    rendered = _formatted(text, value, _indent_of_line(text, holder.start), root)
    return text[: holder.start] + rendered + text[holder.end :]


def _inserted(text: str, holder: Value, key: str, value: object, unit: str) -> str:
    """Add a member at the end of an object."""
    newline = _newline(text)
    outer = _indent_of_line(text, holder.start)
    inner = _inner_indent(text, holder) or outer + unit
    rendered = _render(value, unit).replace("\n", newline + inner)
    member = f"{json.dumps(key, ensure_ascii=False)}: {rendered}"
    end = newline + outer
    last = holder.last_member
    if last is None:
        # There may be comments inside.
        inside = text[holder.start + 1 : holder.end - 1].rstrip()
        member = newline + inner + member + end
        return text[: holder.start + 1] + inside + member + text[holder.end - 1 :]
    after = last.comma or last.end
    is_whole_on_one_line = "\n" not in text[holder.start : holder.end]
    if is_whole_on_one_line and "\n" not in member:
        separator = " " if last.comma else ", "
        return text[:after] + separator + member + ("," if last.comma else "") + text[after:]
    line_end = _REST_OF_LINE.match(text, after)
    at = line_end.end() if line_end else after
    is_on_one_line = "\n" not in text[at : holder.end]
    return (
        text[: last.end]
        + ("" if last.comma else ",")
        + text[last.end : at]
        + newline
        + inner
        + member
        + ("," if last.comma else "")
        + (end + text[at:].lstrip(" \t") if is_on_one_line else text[at:])
    )


def _formatted(text: str, value: object, indent: str, root: Value) -> str:
    unit = _indent_unit(text, root)
    return _render(value, unit).replace("\n", _newline(text) + indent)


def _render(value: object, indent: str = _DEFAULT_INDENT) -> str:
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


def _without_value(data: Any, path: Sequence[str]) -> object:  # noqa: ANN401 - JSON
    key, *rest = path
    others = {name: value for name, value in data.items() if rest or name != key}
    return {**others, key: _without_value(data[key], rest)} if rest else others


def _has_comment(piece: str) -> bool:
    return _COMMENT.search(_STRING.sub("", piece)) is not None


def _is_first_on_line(text: str, position: int) -> bool:
    line = text.rfind("\n", 0, position)
    return line >= 0 and not text[line + 1 : position].strip(" \t")


def _indent_of_line(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _inner_indent(text: str, holder: Value) -> str | None:
    """Return the indentation of an object's members, None if none has a line of its own."""
    starts = [member.key for member in (holder.members or {}).values()]
    own = next((start for start in starts if _is_first_on_line(text, start)), None)
    return None if own is None else _indent_of_line(text, own)


def _indent_unit(text: str, root: Value) -> str:
    """Return the indentation of one level: by the outermost object that shows it."""
    values = [root]
    for value in values:
        outer, inner = _indent_of_line(text, value.start), _inner_indent(text, value)
        if inner and inner.startswith(outer) and inner != outer:
            return inner.removeprefix(outer)
        values += (value.members or {}).values()
    return _DEFAULT_INDENT


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
