"""Split text into the tokens that the search index holds. Knows no index."""

import re

GAP = "\u200b"
"""A zero-width space: it separates tokens and is invisible."""

# Scripts that put no blanks between words, or add endings to them.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_BETWEEN = re.compile(rf"(?<=[{_UNSPACED}])(?=\w)|(?<=\w)(?=[{_UNSPACED}])")
_CASE_CHANGE = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_NAME = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{3,64}+(?![A-Za-z0-9])")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def split_unspaced(text: str) -> str:
    """Separate the characters of scripts without blanks, so that each can be found."""
    if text.isascii() or not _HAS_UNSPACED.search(text):
        return text
    return _BETWEEN.sub(GAP, text)


def camel_case_parts(text: str) -> str:
    """Return the parts of names such as `CamelCase`, which are otherwise one token."""
    if not _CASE_CHANGE.search(text):
        return ""
    names = dict.fromkeys(name for name in _NAME.findall(text) if _CASE_CHANGE.search(name))
    return " ".join(part for name in names for part in _PART.findall(name))
