"""Split text into the tokens that the search index holds. Knows no index."""

import re

GAP = "\u200b"
"""Parts words where people see no gap: it is shown as nothing."""


# Scripts that put no blanks between words, or write endings onto them.
_UNPARTED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)


_HAS_UNPARTED = re.compile(f"[{_UNPARTED}]")


_BETWEEN = re.compile(rf"(?<=[{_UNPARTED}])(?=\w)|(?<=\w)(?=[{_UNPARTED}])")


_HUMP = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")


_NAME = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{3,64}+(?![A-Za-z0-9])")


_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def parted(words: str) -> str:
    """Part what is written without blanks into single characters, so that each can be found."""
    if words.isascii() or not _HAS_UNPARTED.search(words):
        return words
    return _BETWEEN.sub(GAP, words)


def humps(words: str) -> str:
    """Return the parts of names such as `CamelCase`, which else are one word."""
    if not _HUMP.search(words):
        return ""
    names = dict.fromkeys(name for name in _NAME.findall(words) if _HUMP.search(name))
    return " ".join(part for name in names for part in _PART.findall(name))
