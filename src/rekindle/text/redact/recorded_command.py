"""Mask credentials in a command line before it is recorded."""

import re

MASK = "***"

_SENSITIVE = r"[\w-]*(?:key|token|secret|password|passwd|credential)s?"
_ASSIGNED = re.compile(rf"(?i)^(-{{0,2}}{_SENSITIVE}=).+")
_NAMED = re.compile(rf"(?i)^--?{_SENSITIVE}$")


def mask_command(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command in which the values of secrets are masked.

    A secret is recognised by its name: `API_KEY=x`, `--api-key=x` and `--api-key x`.
    """
    masked: list[str] = []
    for word in command:
        if masked and _NAMED.match(masked[-1]) and not word.startswith("-"):
            masked.append(MASK)
        else:
            masked.append(_ASSIGNED.sub(rf"\g<1>{MASK}", word))
    return tuple(masked)
