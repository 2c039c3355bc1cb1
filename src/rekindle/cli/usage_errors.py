"""Plain texts for the errors of argparse.

Unknown messages are returned unchanged, because other versions of Python may have other messages.
"""

import re
from collections.abc import Callable, Iterable

_UNKNOWN = re.compile(r"unrecognized arguments: (?P<words>.*)", re.DOTALL)
_TEXTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"the following arguments are required: (?P<names>.+)"),
        lambda found: _missing(found["names"].split(", ")),
    ),
    (
        re.compile(r"(?P<name>\S+): expected (?:one|at least one) argument"),
        lambda found: f"{found['name']} needs a value",
    ),
    (
        re.compile(r"(?P<name>\S+): invalid int value: (?P<value>.+)", re.DOTALL),
        lambda found: f"{found['name']} needs a number, and {found['value']} is not one",
    ),
    (
        re.compile(r"(?P<name>\S+): invalid choice: (?P<value>.+) \(choose from (?P<all>.+)\)"),
        lambda found: (
            f"{found['name']} cannot be {found['value']};"
            f" use {_either(found['all'].replace(chr(39), '').split(', '))}"
        ),
    ),
    (
        re.compile(r"(?P<name>\S+): ignored explicit argument .*", re.DOTALL),
        lambda found: f"{found['name']} takes no value; leave out the part from = on",
    ),
    (
        re.compile(r"(?P<one>\S+): not allowed with argument (?P<other>\S+)"),
        lambda found: f"{found['one']} and {found['other']} exclude each other; use one of them",
    ),
)


def plain_text(message: str) -> str:
    """Return an error of argparse in plain English. It may lack the remedy."""
    message = message.removeprefix("argument ")
    for pattern, text in _TEXTS:
        if found := pattern.fullmatch(message):
            return text(found)
    if words := unknown_words(message):
        kind = "option" if words.startswith("-") else "argument"
        return f"unknown {kind} {words.partition(' ')[0] if kind == 'option' else words}"
    return message


def unknown_words(message: str) -> str:
    """Return the words that argparse does not know; "" if the error is another one."""
    found = _UNKNOWN.fullmatch(message)
    return found["words"] if found else ""


def _missing(names: list[str]) -> str:
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing"


def _either(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
