"""The kinds of arguments that several commands take."""

import argparse
import math
import re

_LONGEST = 86_400.0
_LEAST_BUDGET = 1_000
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
