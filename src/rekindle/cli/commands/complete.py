"""Say what may stand in the place of the last word. Called by shells, not by people.

The first line of the answer is what is wanted: `words`, which then follow, each with a tab and a
description, or `files`, `folders`, `command`, which shells find better themselves.

example:
  rekindle complete -- show 3f
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.main import COMMANDS, parser_of
from rekindle.cli.shells.quoting import insertions, words_of

if TYPE_CHECKING:
    from rekindle.model import Session

Words = list[tuple[str, str]]
"""Each with its description."""

_KINDS = {
    "DIR": "folders",
    "FILE": "files",
    "STORE": "files",
    "PATH": "files",
    "COMMAND": "command",
}
"""What an argument takes, by what its help calls it. `SESSION` is a session; see also `_VALUES`."""

_TOP = {"--help": "show the commands", "--version": "show the version", "--no-color": "no colours"}
# What needs no quotes in any shell. An agent chooses its ids, and may choose others.
_HARMLESS = re.compile(r"[A-Za-z0-9_.,:@%+][A-Za-z0-9_.,:@%+/-]*")
_MOST_OFFERED = 100
_MOST_LOOKED_AT = 2_000
_WIDEST = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--line", help="the line up to the cursor, in the place of words")
    parser.add_argument(
        "--tail", help="the end of the line that what is offered replaces: it is quoted so"
    )
    add_command_after_dashes(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print what may stand there."""
    line: str | None = arguments.line
    words = arguments.command if line is None else [it.text for it in words_of(line)][1:]
    *before, current = words or [""]
    kind, found = candidates(before, current)
    print(kind)
    texts: list[str | None] = [word for word, _ in found]
    if line is not None and arguments.tail is not None:
        texts = insertions([word for word, _ in found], line, arguments.tail)
    for text, (_, about) in zip(texts, found, strict=True):
        if text is not None:
            print(f"{text}\t{' '.join(about.split())}")
    return 0


def candidates(before: list[str], current: str) -> tuple[str, Words]:
    """Return what is wanted after those words, and what of it begins as `current` does."""
    if before[:1] == ["--no-color"]:
        before = before[1:]
    if not before:
        found = [*COMMANDS.items(), *_TOP.items()]
        found = [it for it in found if it[0].startswith("-") == current.startswith("-")]
        return "words", _beginning(found, current)
    if before[0] not in COMMANDS:
        return "words", []
    walk = _Walk(parser_of(before[0])[1])
    for word in before[1:]:
        walk.take(word)
    return walk.next(before[0], current)


def _beginning(found: Words, begin: str) -> Words:
    return [(word, about) for word, about in found if word.startswith(begin)]


class _Walk:
    """Goes along the words of a command as its parser would, and knows what may come next."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        # argparse shows its arguments to nobody else; this is what all that complete with it use.
        actions = parser._actions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        self._options = {name: it for it in actions for name in it.option_strings}
        self._places = [it for it in actions if not it.option_strings]
        self._has_command = parser.get_default("command") is not None
        self._is_after_dashes = False
        self._in_command = 0
        """How many words of an agent's command there were."""
        self._wanting: argparse.Action | None = None
        """The option whose value comes next."""
        self._given: dict[str, str] = {}

    def take(self, word: str) -> None:
        """Go past a word."""
        if self._is_in_command():
            self._in_command += 1
        elif self._wanting is not None:
            self._given[self._wanting.dest] = word
            self._wanting = None
        elif word == "--":
            self._is_after_dashes = True
        elif word.startswith("-") and not self._is_after_dashes:
            self._take_option(word)
        elif self._places and self._places[0].nargs == argparse.REMAINDER:
            self._in_command += 1
        elif self._places and self._places[0].nargs not in {"*", "+"}:
            self._given[self._places[0].dest] = word
            self._places = self._places[1:]

    def next(self, command: str, current: str) -> tuple[str, Words]:
        """Return what may come now."""
        if self._is_in_command():
            return ("files" if self._in_command else "command"), []
        if self._wanting is not None:
            return self._values(self._wanting, command, current)
        if current.startswith("-") and not self._is_after_dashes:
            return self._option(command, current)
        return self._values(self._places[0], command, current) if self._places else ("words", [])

    def _is_in_command(self) -> bool:
        has_begun = self._in_command > 0
        may_begin = self._has_command or bool(
            self._places and self._places[0].nargs == argparse.REMAINDER
        )
        return has_begun or (self._is_after_dashes and may_begin)

    def _take_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self._options.get(name)
        if option is None:
            return
        if equals:
            self._given[option.dest] = value
        elif option.nargs != 0:
            self._wanting = option
        else:
            self._given[option.dest] = ""

    def _option(self, command: str, current: str) -> tuple[str, Words]:
        name, equals, value = current.partition("=")
        if equals and name in self._options:
            kind, found = self._values(self._options[name], command, value)
            return kind, [(f"{name}={word}", about) for word, about in found]
        found = [
            (name, _help_of(option))
            for name, option in self._options.items()
            if name.startswith("--") and option.dest not in self._given
        ]
        return "words", _beginning(found, current)

    def _values(self, argument: argparse.Action, command: str, current: str) -> tuple[str, Words]:
        if argument.choices is not None:
            return "words", _beginning([(str(it), "") for it in argument.choices], current)
        store = self._given.get("store")
        for option, values in _VALUES.items():
            if option in argument.option_strings:
                return "words", values(store, current)
        name = argument.metavar if isinstance(argument.metavar, str) else argument.dest.upper()
        is_chosen = "title" in self._given or ("last" in self._given and command != "show")
        if name.startswith("SESSION"):
            if is_chosen:
                return "words", []
            return "words", list(_sessions(command, store, current))
        tools = _tools(current) if command == "import" and not argument.option_strings else []
        return ("words", tools) if tools else (_KINDS.get(name, "words"), [])


def _help_of(argument: argparse.Action) -> str:
    words = argument.help or ""
    return words.partition(" (default")[0].replace("%%", "%")


def _sessions(command: str, store: str | None, begin: str) -> Iterator[tuple[str, str]]:
    """Yield the sessions whose ids begin so, the last used first."""
    from rekindle.cli.formatting import age, agent_name, title
    from rekindle.cli.store_access import open_for_reading
    from rekindle.model import Page

    fits = _FITTING.get(command, _is_any)
    page = Page(
        limit=_MOST_LOOKED_AT if begin else _MOST_OFFERED,
        with_archived=True,
        deleted=command == "undelete",
    )
    with open_for_reading(store, quietly=True) as opened:
        found = [it for it in opened.sessions(page) if it.id.startswith(begin) and fits(it)]
    for session in found[:_MOST_OFFERED]:
        if _HARMLESS.fullmatch(session.id):
            about = f"{agent_name(session.agent)}, {age(session.updated_us)}"
            yield session.id, f"{_cut(title(session))} ({about})"


def _titles(store: str | None, typed: str) -> Words:
    """Return what of titles can be typed: those that begin so, or the only one with that in it."""
    from rekindle.cli.formatting import age, agent_name

    titles: dict[str, str] = {}
    for session in _last_used(store):
        about = f"{agent_name(session.agent)}, {age(session.updated_us)}"
        titles.setdefault(_typeable(session.title or ""), about)
    titles.pop("", None)
    found = list(titles.items())
    within = [it for it in found if typed.casefold() in it[0].casefold()]
    return _beginning(found, typed)[:_MOST_OFFERED] or (within if len(within) == 1 else [])


def _agents(store: str | None, begin: str) -> Words:
    """Return the agents that have sessions."""
    from rekindle.cli.formatting import several

    names = [it.agent.name or it.agent.program for it in _last_used(store)]
    counts = Counter(name for name in names if name and name == _typeable(name))
    found = [(name, several(number, "session")) for name, number in counts.items()]
    return _beginning(found, begin)[:_MOST_OFFERED]


def _tools(begin: str) -> Words:
    """Return the tools whose sessions can be imported."""
    from rekindle.importers.registry import ALL, BUILT_IN_NAMES

    return _beginning([*((it, "") for it in BUILT_IN_NAMES), (ALL, "what each of them has")], begin)


_VALUES: dict[str, Callable[[str | None, str], Words]] = {"--title": _titles, "--agent": _agents}
"""What options take that only the store knows."""


def _last_used(store: str | None) -> "list[Session]":
    from rekindle.cli.store_access import open_for_reading
    from rekindle.model import Page

    with open_for_reading(store, quietly=True) as opened:
        return opened.sessions(Page(limit=_MOST_LOOKED_AT, with_archived=True))


def _typeable(words: str) -> str:
    """Return the beginning of a text that can stand on a line, and is not taken for an option."""
    from rekindle.cli.formatting import printable

    safe = takewhile(lambda it: it.isprintable() and printable(it) == it, words.lstrip("- "))
    return "".join(safe).strip()


def _is_any(_: "Session") -> bool:
    return True


_FITTING: dict[str, Callable[["Session"], Any]] = {
    "archive": lambda session: session.archived_us is None,
    "unarchive": lambda session: session.archived_us is not None,
}
"""Which sessions a command is for, where it is not for all."""


def _cut(words: str) -> str:
    return words if len(words) <= _WIDEST else f"{words[: _WIDEST - 1]}…"
