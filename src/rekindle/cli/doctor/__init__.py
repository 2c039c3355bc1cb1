"""What `rekindle doctor` looks at. Each check is a function that yields what it found."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    FIXED = "fixed"
    WARNING = "warning"
    """Nothing fails for it."""
    PROBLEM = "problem"
    """Something fails, or can be read by others, or is lost."""


class Finding(Struct, frozen=True, kw_only=True):
    """What a check has found: of what, how bad, what it is, and what to do about it."""

    check: str
    what: str
    level: Level = Level.OK
    remedy: str = ""
    facts: dict[str, Any] = {}
    """The same for programs."""
    mend: Callable[[], object] | None = None
    """Repairs it, and may say what came of it. Loses nothing."""
    is_damage: bool = False
    """Something in the store makes no sense: writing to it might lose more."""


SAVE = "rekindle doctor --fix sets the damaged store aside, and saves what can be read in a new one"
"""What to do about damage."""


def some(number: int, noun: str) -> str:
    """Say how many."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
