"""Mask short texts fast: a cheap test first, the patterns of `detect` only where it is positive.

A list shows many titles, and hardly any has a secret. The test takes a hundredth of the time, and
the patterns are compiled only when they are needed.
"""

import re

_SIGN = re.compile(
    # A long word may be a key, and these names may precede a secret.
    r"\S{14}|secret|token|passw|passphrase|credential|authoriz|pwd|key|://|curl"
    # Invisible text may split a word.
    r"|[\x1b\xad\u200b-\u200d\u2060\ufeff]|\[\d|\\(?:x1b|u001b|033|e)\[",
    re.IGNORECASE,
)


def may_have_secret(text: str) -> bool:
    """Return whether a text may have a secret. False is certain."""
    return _SIGN.search(text) is not None


def mask_short(text: str) -> str:
    """Return the text with its secrets masked."""
    if not may_have_secret(text):
        return text
    from rekindle.text.redact.detect import mask  # noqa: PLC0415 - takes long, seldom needed

    return mask(text)
