"""Unexpected values for every place in a JSON message, and ways to corrupt a line."""

from random import Random
from typing import Any

from msgspec import Raw

from rekindle.jsonvalue import encode

PATHS = [
    "../../x", "/etc/passwd", "..", ".", "a/../../b", "C:\\x", "a\x00b", "/" * 300, "~", "-rf",
    "$(id)", "`id`", "a;b", "con", "s" * 5000, "\u202egnp.exe", "é\u0301", "\U0001f600",
]  # fmt: skip
"""Hostile ids and file names."""

TEXTS = [
    "\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x9b31m", "\x9d0;x\x9c", "\x1bP+q\x1b\\", "\x07", "\r",
    "\x1b]8;;http://e.example\x1b\\x\x1b]8;;\x1b\\", "\x1b[6n", "\x08\x08", "\x00", "\x7f", "\x85",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</style><script>x</script>",
    '" onload="x', "[a](javascript:alert(1))", "![a](http://e.example/p.png)", "&#27;[2J", "]]>",
    "\u202e", "\u2028", "```\n", "{{7*7}}", "%s%n", "' or 1=1 --", "\n\n# x\n", "x" * 70_000,
]  # fmt: skip
"""Hostile texts and titles."""

NUMBERS = [
    0, -1, 1.5, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**300, 1e308, -1e308,
    Raw(b"1e999"), Raw(b"-0"), Raw(b"1e-400"), Raw(b"9" * 5000),
]  # fmt: skip

_DEEP = [
    Raw(b"[" * depth + b"]" * depth) for depth in (70, 600, 980, 3000)
] + [Raw(b'{"a":' * depth + b"1" + b"}" * depth) for depth in (70, 600, 980, 3000)]  # fmt: skip
_BROKEN = [
    Raw(b'"\\ud83d"'), Raw(b'"\\udc00\\ud800"'), Raw(b'"\xff\xfe"'), Raw(b'"\xc3"'), Raw(b"NaN"),
    Raw(b"-Infinity"), Raw(b"1."), Raw(b"'a'"), Raw(b'"\x01"'), Raw(b"[1,]"), Raw(b'{"a":1,"a":2}'),
]  # fmt: skip
_ODD = [None, True, False, [], {}, [[]], [{}], {"a": []}, "", [None], {"": ""}]

_LONG = [Raw(b"[" + b",".join([item] * 100_000) + b"]") for item in (b"0", b"{}", b'"a"', b"[]")]
_WIDE = Raw(b"{" + b",".join(b'"%d":0' % number for number in range(20_000)) + b"}")


def value(choices: Random) -> Any:  # noqa: ANN401 - JSON
    """Return any value. msgspec writes all of them, also those that are not valid JSON."""
    if choices.random() < 0.01:
        return choices.choice([*_LONG, _WIDE])
    return choices.choice(choices.choice([_ODD, NUMBERS, PATHS, TEXTS, _DEEP, _BROKEN]))


def written(message: object) -> bytes:
    """Write a message as one line."""
    return encode(message)


def is_deep(line: bytes) -> bool:
    """Return whether a line is nested so deeply that the stack of the caller decides on it."""
    return b"[" * 500 in line or b'{"a":' * 500 in line


def places(message: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside a JSON value."""
    inner: list[tuple[Any, ...]] = []
    if isinstance(message, dict):
        inner = [it for name, part in message.items() for it in places(part, (*path, name))]
    elif isinstance(message, list):
        inner = [it for index, part in enumerate(message) for it in places(part, (*path, index))]
    return [*([path] if path else []), *inner]


def mutated(choices: Random, message: object) -> object:
    """Change a message in one place: remove, repeat, add or replace a value."""
    where = places(message)
    if not where:
        return value(choices)
    *path, last = choices.choice(where)
    place: Any = message
    for step in path:
        place = place[step]
    match choices.randrange(4):
        case 0 if isinstance(place, dict):
            del place[last]
        case 1 if isinstance(place, list):
            place[last : last + 1] = [place[last]] * choices.randrange(4)
        case 2 if isinstance(place, dict):
            place[choices.choice(["sessionId", "_meta", "id", "x", "content", "type"])] = value(
                choices
            )
        case _:
            place[last] = value(choices)
    return message


def corrupted(choices: Random, line: bytes) -> bytes:  # noqa: PLR0911 - one for each way
    """Return a damaged line: cut, doubled, wrapped, or with another byte."""
    at = choices.randrange(len(line) + 1)
    match choices.randrange(7):
        case 0:
            return line[:at]
        case 1:
            return line[:at] + bytes([choices.getrandbits(8)]).replace(b"\n", b"") + line[at + 1 :]
        case 2:
            return b"[" + line + b"]"
        case 3:
            return b"[" + b",".join([line, b"3", line]) + b"]"
        case 4:
            return b" \t" + line + b"\r"
        case 5:
            return line + line
        case _:
            return b"[[" + line + b"]," + line + b"]"
