"""The kinds of arguments that several commands take."""

import argparse
import math

_LONGEST = 86_400.0
_LEAST_BUDGET = 1_000


def seconds(text: str) -> float:
    """Read a number of seconds, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LONGEST:
        raise argparse.ArgumentTypeError(f"not a number of seconds: {text}")
    return value


def budget(text: str) -> int:
    """Read how many characters a handover may have: enough to tell anything at all."""
    if not text.isascii() or not text.isdigit() or int(text) < _LEAST_BUDGET:
        raise argparse.ArgumentTypeError(f"not a number from {_LEAST_BUDGET} on: {text}")
    return int(text)


def add_command_after_dashes(parser: argparse.ArgumentParser) -> None:
    """Let an agent's command follow `--`, wherever the other arguments stand.

    argparse itself cannot do that: the first positional argument would take options for words.
    """
    parser.set_defaults(command=[])


def split_at_dashes(
    parser: argparse.ArgumentParser, words: list[str]
) -> tuple[list[str], list[str] | None]:
    """Cut the agent's command off, where `add_command_after_dashes` was asked for."""
    if parser.get_default("command") is None or "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]
