"""The kinds of arguments that several commands take."""

import argparse
import math
import re
import time
from datetime import datetime

_LONGEST = 86_400.0
_LEAST_BUDGET = 1_000
_AGO = re.compile(r"(\d{1,6}) ?(min|h|d|w|y)")
_SECONDS = {"min": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_LONGEST_COUNT = 12
_DURATION = re.compile(r"([0-9]{1,6})\s*([hdwmy])", re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}


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


def moment(text: str) -> int:
    """Read how long ago, as `3d`, or a date and perhaps a time; return it in microseconds."""
    ago = _AGO.fullmatch(text)
    if ago:
        return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * 1_000_000)
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1_000_000)
    except (ValueError, OverflowError, OSError):
        words = f"not a time: {text}: give 30min, 12h, 3d, 2w, 1y, or a date as 2025-12-31"
        raise argparse.ArgumentTypeError(words) from None


def duration(text: str) -> int:
    """Read how long something is, in days or another unit; return it in microseconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(
            f"not a length of time: {text!r}; give hours, days, weeks, months or years, such as"
            " 36h, 90d, 12w, 6m or 1y"
        )
    return int(match[1]) * _HOURS[match[2].lower()] * 3_600_000_000


def count(text: str) -> int:
    """Read how many there are."""
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_COUNT:
        raise argparse.ArgumentTypeError(f"not a number from 0 on: {text!r}")
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
    if parser.get_default("command") is None:
        return words, None
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def some_text(words: str) -> str:
    """Read a text that is not empty."""
    if not words.strip():
        raise argparse.ArgumentTypeError("it takes some text")
    return words
