"""Keeping credentials out of what is recorded of a command line."""

import re

MASK = "***"

_SENSITIVE = r"[\w-]*(?:key|token|secret|password|passwd|credential)s?"
_ASSIGNED = re.compile(rf"(?i)^(-{{0,2}}{_SENSITIVE}=).+")
_NAMED = re.compile(rf"(?i)^--?{_SENSITIVE}$")


def mask_command(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command with the values masked of what by its name is a secret.

    `API_KEY=x`, `--api-key=x` and `--api-key x` are; what bears no such name cannot be known.
    """
    masked: list[str] = []
    for word in command:
        if masked and _NAMED.match(masked[-1]) and not word.startswith("-"):
            masked.append(MASK)
        else:
            masked.append(_ASSIGNED.sub(rf"\g<1>{MASK}", word))
    return tuple(masked)
