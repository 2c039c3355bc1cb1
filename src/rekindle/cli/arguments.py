"""The kinds of arguments that several commands take."""

import argparse
import math

_LONGEST = 86_400.0


def seconds(text: str) -> float:
    """Read a number of seconds, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LONGEST:
        raise argparse.ArgumentTypeError(f"not a number of seconds: {text}")
    return value


def characters(text: str) -> int:
    """Read a number of characters."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"not a number of characters: {text}")
    return int(text)
