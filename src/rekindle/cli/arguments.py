"""The shape of a command, and parsers for argument values that several commands accept."""

import argparse
import math
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

_MAX_SECONDS = 86_400.0
_MIN_BUDGET = 1_000
_AGO = re.compile(r"(\d{1,6}) ?(min|h|d|w|y)")
_SECONDS = {"min": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_MAX_COUNT_DIGITS = 12
_DURATION = re.compile(r"([0-9]{1,6})\s*([hdwmy])", re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}


class CommandSpec(NamedTuple):
    """A command: its help text, its arguments, and the function that runs it."""

    description: str | None
    configure: Callable[[argparse.ArgumentParser], None]
    main: Callable[[argparse.Namespace], int]


def seconds(text: str) -> float:
    """Parse a number of seconds, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"not a number of seconds, at most a day: {text}")
    return value


def budget(text: str) -> int:
    """Parse the maximum length of a handover in characters, at least 1000."""
    if not text.isascii() or not text.isdigit() or int(text) < _MIN_BUDGET:
        raise argparse.ArgumentTypeError(f"not a number of at least {_MIN_BUDGET}: {text}")
    return int(text)


def past_time(text: str) -> int:
    """Parse an age such as `3d`, or a date with an optional time; return microseconds."""
    ago = _AGO.fullmatch(text)
    if ago:
        return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * 1_000_000)
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1_000_000)
    except (ValueError, OverflowError, OSError):
        problem = f"not a time: {text}; use 30min, 12h, 3d, 2w, 1y, or a date such as 2025-12-31"
        raise argparse.ArgumentTypeError(problem) from None


def duration(text: str) -> int:
    """Parse a duration such as `90d`; return microseconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(
            f"not a duration: {text!r}; use hours, days, weeks, months or years, such as 36h, 90d,"
            " 12w, 6m or 1y"
        )
    return int(match[1]) * _HOURS[match[2].lower()] * 3_600_000_000


def waiting_time(text: str) -> float:
    """Parse a short duration such as `4h`; return seconds."""
    from rekindle.configuration.keys import parse_wait

    try:
        return parse_wait(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"not a duration: {text!r}; use seconds, minutes, hours or days, such as 90s, 30min,"
            " 4h or 2d"
        ) from None


def count(text: str) -> int:
    """Parse a number that is not negative."""
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_COUNT_DIGITS:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}")
    return int(text)


def add_agent(parser: argparse.ArgumentParser, text: str) -> None:
    """Accept an agent as the last argument: its name, or its command after `--`."""
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="AGENT", help=text)


def agent_words(command: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the words that `add_agent` has accepted, and whether `--` stood before them."""
    is_command = tuple(command[:1]) == ("--",)
    return tuple(command[is_command:]), is_command


def add_command_after_dashes(parser: argparse.ArgumentParser) -> None:
    """Accept an agent's command after `--`; `split_command` then takes it off.

    argparse cannot parse the command itself: the first positional argument would consume its
    options.
    """
    parser.set_defaults(command=[])


def split_command(
    parser: argparse.ArgumentParser, argv: list[str]
) -> tuple[list[str], list[str] | None]:
    """Return the arguments before an agent's command, and the command.

    The command is None if the parser does not accept one.
    """
    if parser.get_default("command") is None:
        return argv, None
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]


def restore_dashes(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Set the value of an option that was given as `--OPTION=--`.

    argparse before Python 3.13 removes the dashes and leaves an empty list.
    """
    for action in _options(parser).values():
        is_repeatable = action.default == []
        if is_repeatable or action.nargs is not None:
            continue
        if getattr(arguments, action.dest, None) == []:
            if action.type is not None:
                parser.error(f"argument {action.option_strings[-1]}: invalid value: '--'")
            setattr(arguments, action.dest, "--")


def with_optional_values(parser: argparse.ArgumentParser, argv: list[str]) -> list[str]:
    """Return arguments in which options with an optional value have it after `=`.

    Otherwise argparse would take the next word, the agent, for the value.
    """
    options, given = _options(parser), list(argv)
    at = 0
    while at < len(given) and given[at].startswith("-") and given[at] != "--":
        option = options.get(given[at])
        if option is not None and option.nargs == "?":
            given[at] += f"={option.const}"
        elif option is not None and option.nargs is None:
            at += 1
        at += 1
    return given


def has_option(parser: argparse.ArgumentParser, name: str) -> bool:
    """Return whether a parser has an option."""
    return name in _options(parser)


def usage_of(parser: argparse.ArgumentParser) -> str:
    """Return a short usage line: argparse would repeat all options."""
    places = [_place(action) for action in _actions(parser) if not action.option_strings]
    return " ".join([parser.prog, "[OPTIONS]", *places])


def _place(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    match action.nargs:
        case "?":
            return f"[{name}]"
        case "*":
            return f"[{name} …]"
        case "+":
            return f"{name} …"
        case _:
            return name


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {name: action for action in _actions(parser) for name in action.option_strings}


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    # argparse has no public access to its arguments. Completion libraries use this too.
    return parser._actions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def nonempty_text(text: str) -> str:
    """Accept a text that is not blank."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the text is empty")
    return text
