"""The command `completion`, and the hidden command `complete` that shells call."""

import argparse
import re
from collections import Counter
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rekindle.cli.arguments import CommandSpec, add_command_after_dashes
from rekindle.cli.main import ALIASES, COMMANDS, HELP, load_command, split_global_options
from rekindle.cli.shells.quoting import insertions, split_words

if TYPE_CHECKING:
    from rekindle.model import Session

_COMPLETION_HELP = """\
Print the completion script for a shell. It completes commands, options,
agents, and sessions by id or title.

Load it when your shell starts, or save it where your shell looks for it:
  bash  eval "$(rekindle completion bash)"    in ~/.bashrc
  zsh   eval "$(rekindle completion zsh)"     in ~/.zshrc, after compinit
  fish  rekindle completion fish | source     in ~/.config/fish/config.fish

example:
  rekindle completion bash > ~/.local/share/bash-completion/completions/rekindle
"""
_COMPLETE_HELP = """\
Print the completions of the last word. Shells call this command.

The first line of the output is `words`, `files`, `folders` or `command`. After
`words`, each line is a word, a tab and a description. Shells complete the other
kinds themselves.

example:
  rekindle complete -- show 3f
"""
_SHELLS = ("bash", "zsh", "fish")

Candidates = list[tuple[str, str]]
"""Candidates that can be inserted, each with its description."""

_KINDS = {
    "DIR": "folders",
    "FILE": "files",
    "STORE": "files",
    "PATH": "files",
    "COMMAND": "command",
    "AGENT": "command",
}
"""The kind of completion for an argument, by its metavar. See also `_VALUES`."""

_GLOBAL_OPTIONS = {
    "--help": "show the commands",
    "--version": "print the version",
    "--store": "use this store",
    "--no-color": "print without colours",
}
# Ids that need no quotes in any shell. Agents choose their ids freely.
_SAFE = re.compile(r"[A-Za-z0-9_.,:@%+][A-Za-z0-9_.,:@%+/-]*")
_MAX_CANDIDATES = 100
_MAX_SESSIONS_READ = 2_000
_MAX_PLACES = 9
_MAX_WIDTH = 60


def configure_completion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `completion`."""
    parser.add_argument(
        "shell", choices=_SHELLS, metavar="SHELL", help=f"one of {', '.join(_SHELLS)}"
    )


def completion(arguments: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    script = Path(__file__).parents[1] / "shells" / f"rekindle.{arguments.shell}"
    print(script.read_text(encoding="utf-8"), end="")
    return 0


def configure_complete(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `complete`."""
    parser.add_argument("--line", help="the line up to the cursor, instead of words")
    parser.add_argument("--tail", help="the end of the line that the completion replaces")
    add_command_after_dashes(parser)


def complete(arguments: argparse.Namespace) -> int:
    """Print the kind of completion, and the candidates."""
    line: str | None = arguments.line
    words = arguments.command if line is None else [word.text for word in split_words(line)][1:]
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


def candidates(before: list[str], current: str) -> tuple[str, Candidates]:
    """Return the kind of completion after the words `before`, and the candidates for `current`."""
    options, before = split_global_options(before)
    if before == ["--store"] or (not before and current.startswith("--store=")):
        return "files", []
    if before[:1] == [HELP]:
        return "words", _with_prefix(list(COMMANDS.items()), current) if len(before) == 1 else []
    if not before:
        all_words = [*COMMANDS.items(), *_GLOBAL_OPTIONS.items()]
        found = [pair for pair in all_words if pair[0].startswith("-") == current.startswith("-")]
        return "words", _with_prefix(found, current)
    command = ALIASES.get(before[0], before[0])
    if command not in COMMANDS:
        return "words", []
    cursor = _ArgumentCursor(load_command(command)[1])
    for word in [*options, *before[1:]]:
        cursor.advance(word)
    return cursor.candidates(command, current)


def _with_prefix(found: Candidates, prefix: str) -> Candidates:
    return [(word, about) for word, about in found if word.startswith(prefix)]


class _ArgumentCursor:
    """Follows the words of a command like its parser, and returns the possible next words."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        # argparse has no public access to its arguments. Other completion libraries use this too.
        actions = parser._actions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        self._options = {name: action for action in actions for name in action.option_strings}
        self._positionals = [action for action in actions if not action.option_strings]
        self._has_command = parser.get_default("command") is not None
        self._is_after_dashes = False
        self._in_command = 0
        """The number of words of an agent's command so far."""
        self._pending_option: argparse.Action | None = None
        """The option whose value comes next."""
        self._given: dict[str, str] = {}

    def advance(self, word: str) -> None:
        """Consume a word."""
        if self._is_in_command():
            self._in_command += 1
        elif self._pending_option is not None:
            self._given[self._pending_option.dest] = word
            self._pending_option = None
        elif word == "--":
            self._is_after_dashes = True
        elif word.startswith("-") and not self._is_after_dashes:
            self._consume_option(word)
        elif self._positionals and self._positionals[0].nargs == argparse.REMAINDER:
            self._in_command += 1
        elif self._positionals and self._positionals[0].nargs not in {"*", "+"}:
            self._given[self._positionals[0].dest] = word
            self._positionals = self._positionals[1:]

    def candidates(self, command: str, current: str) -> tuple[str, Candidates]:
        """Return the kind of completion at the cursor, and the candidates for `current`."""
        if self._is_in_command():
            return ("files" if self._in_command else "command"), []
        if self._pending_option is not None:
            return self._value_candidates(self._pending_option, command, current)
        if current.startswith("-") and not self._is_after_dashes:
            return self._option_candidates(command, current)
        return (
            self._value_candidates(self._positionals[0], command, current)
            if self._positionals
            else ("words", [])
        )

    def _is_in_command(self) -> bool:
        has_begun = self._in_command > 0
        may_begin = self._has_command or bool(
            self._positionals and self._positionals[0].nargs == argparse.REMAINDER
        )
        return has_begun or (self._is_after_dashes and may_begin)

    def _consume_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self._options.get(name)
        if option is None:
            return
        if equals:
            self._given[option.dest] = value
        elif option.nargs != 0:
            self._pending_option = option
        else:
            self._given[option.dest] = ""

    def _option_candidates(self, command: str, current: str) -> tuple[str, Candidates]:
        name, equals, value = current.partition("=")
        if equals and name in self._options:
            kind, found = self._value_candidates(self._options[name], command, value)
            return kind, [(f"{name}={word}", about) for word, about in found]
        found = [
            (name, _help_of(option))
            for name, option in self._options.items()
            if option.help != argparse.SUPPRESS
            and name.startswith("--")
            and option.dest not in self._given
        ]
        return "words", _with_prefix(found, current)

    def _value_candidates(
        self, argument: argparse.Action, command: str, current: str
    ) -> tuple[str, Candidates]:
        if argument.choices is not None:
            return "words", _with_prefix(
                [(str(choice), "") for choice in argument.choices], current
            )
        store = self._given.get("store")
        for option, values in _VALUES.items():
            if option in argument.option_strings:
                return "words", values(store, current)
        name = argument.metavar if isinstance(argument.metavar, str) else argument.dest.upper()
        is_chosen = "title" in self._given or ("last" in self._given and command != "show")
        if name.startswith("SESSION"):
            if is_chosen:
                return "words", []
            return "words", _sessions(command, store, current)
        words: Candidates = []
        if name == "AGENT":
            words = _agent_names(current)
        elif command == "import" and not argument.option_strings:
            words = _import_sources(current)
        return ("words", words) if words else (_KINDS.get(name, "words"), [])


def _help_of(argument: argparse.Action) -> str:
    text = argument.help or ""
    return text.partition(" (default")[0].replace("%%", "%")


def _sessions(command: str, store: str | None, typed: str) -> Candidates:
    """Return the sessions that the command accepts: places, ids, or titles if there are no ids."""
    from rekindle.cli.store_access import open_for_reading
    from rekindle.model import Page

    is_accepted = _ACCEPTED.get(command, _accept_all)
    page = Page(
        limit=_MAX_SESSIONS_READ if typed else _MAX_CANDIDATES,
        with_archived=True,
        deleted=command == "undelete",
        prompted=not typed and command != "undelete",
    )
    if typed.startswith("@"):
        return _with_prefix(_places(command, store), typed)
    with open_for_reading(store, quietly=True) as opened:
        found = [session for session in opened.sessions(page) if is_accepted(session)]
    ids = [session for session in found if session.id.startswith(typed)][:_MAX_CANDIDATES]
    by_id = [(session.id, _about(session)) for session in ids if _SAFE.fullmatch(session.id)]
    return [*by_id, *_matching_titles(found, typed)] if typed else by_id


def _places(command: str, store: str | None) -> Candidates:
    """Return the places in the list to which `@N` refers."""
    from rekindle.cli.session_choice import LISTED
    from rekindle.cli.store_access import open_for_reading
    from rekindle.model import Page

    lists = {"undelete": Page(deleted=True, with_archived=True), "unarchive": Page(archived=True)}
    with open_for_reading(store, quietly=True) as opened:
        found = opened.sessions(replace(lists.get(command, LISTED), limit=_MAX_PLACES))
    return [(f"@{number}", _about(session)) for number, session in enumerate(found, 1)]


def _titles(store: str | None, typed: str) -> Candidates:
    """Return the titles that begin with the typed text, or the only title that contains it."""
    return _matching_titles(_last_used(store), typed)


def _matching_titles(sessions: "list[Session]", typed: str) -> Candidates:
    from rekindle.cli.formatting import agent_label, format_age, title_label

    titles: dict[str, str] = {}
    for session in sessions:
        title = session.title or ""
        # A masked title would not be found.
        if title_label(session) == title_label(session, redact=False):
            about = f"{agent_label(session.agent)}, {format_age(session.updated_us)}"
            titles.setdefault(_typeable(title), about)
    titles.pop("", None)
    found = list(titles.items())
    within = [pair for pair in found if typed.casefold() in pair[0].casefold()]
    return _with_prefix(found, typed)[:_MAX_CANDIDATES] or (within if len(within) == 1 else [])


def _about(session: "Session") -> str:
    from rekindle.cli.formatting import agent_label, format_age, title_label

    about = f"{agent_label(session.agent)}, {format_age(session.updated_us)}"
    return f"{_cut(title_label(session))} ({about})"


def _agents(store: str | None, prefix: str) -> Candidates:
    """Return the agents that have sessions, with the number of sessions."""
    from rekindle.cli.formatting import plural

    names = [session.agent.name or session.agent.program for session in _last_used(store)]
    counts = Counter(name for name in names if name and name == _typeable(name))
    found = [(name, plural(number, "session")) for name, number in counts.items()]
    return _with_prefix(found, prefix)[:_MAX_CANDIDATES]


def _agent_names(prefix: str) -> Candidates:
    """Return the agents that can be started by name, with their commands."""
    from rekindle.cli.agent_lookup import named_agents
    from rekindle.text.redact.recorded_command import mask_command

    agents = named_agents().values()
    found = [(agent.name, " ".join(mask_command(agent.command))) for agent in agents]
    return _with_prefix(found, prefix)


def _import_sources(prefix: str) -> Candidates:
    """Return the tools whose sessions can be imported."""
    from rekindle.importers.registry import ALL, BUILT_IN_NAMES

    found = [*((name, "") for name in BUILT_IN_NAMES), (ALL, "all of these tools")]
    return _with_prefix(found, prefix)


_VALUES: dict[str, Callable[[str | None, str], Candidates]] = {
    "--title": _titles,
    "--agent": _agents,
}
"""Options whose values come from the store."""


def _last_used(store: str | None) -> "list[Session]":
    from rekindle.cli.store_access import open_for_reading
    from rekindle.model import Page

    with open_for_reading(store, quietly=True) as opened:
        return opened.sessions(Page(limit=_MAX_SESSIONS_READ, with_archived=True))


def _typeable(text: str) -> str:
    """Return the part of a text that is printable and does not look like an option."""
    from rekindle.cli.formatting import printable

    safe = takewhile(
        lambda character: character.isprintable() and printable(character) == character,
        text.lstrip("- "),
    )
    return "".join(safe).strip()


def _accept_all(_: "Session") -> bool:
    return True


_ACCEPTED: dict[str, Callable[["Session"], Any]] = {
    "archive": lambda session: session.archived_us is None,
    "unarchive": lambda session: session.archived_us is not None,
}
"""The sessions that a command accepts, where it does not accept all."""


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_WIDTH else f"{text[: _MAX_WIDTH - 1]}…"


SPECS = {
    "completion": CommandSpec(_COMPLETION_HELP, configure_completion, completion),
    "complete": CommandSpec(_COMPLETE_HELP, configure_complete, complete),
}
