"""Parse search terms: words, "phrases", prefixes* and -excluded words.

Any other input is read as words. Only blank input and input that only excludes are errors.
"""

import re

from msgspec import Struct

from rekindle.errors import UsageError
from rekindle.text.tokens import split_unspaced

_TERM = re.compile(r'(?P<minus>-?)"(?P<phrase>[^"]*)"(?P<star>\*?)(?!\S)|(?P<plain>\S+)')
_LAST_WORD = re.compile(r"[^\W_]{2,}$")


class Term(Struct, frozen=True):
    """A word or a phrase that must, or must not, occur."""

    text: str
    is_prefix: bool = False
    """Whether the last word is only the beginning of a word."""
    is_excluded: bool = False
    is_too_short: bool = False
    """Whether a star was ignored, because too many words begin with a single letter."""


def parse(typed: str) -> list[Term]:
    """Parse input; an input without letters and digits has no terms. Raises UsageError."""
    terms = [term for match in _TERM.finditer(typed) if (term := _term(match)) is not None]
    if not typed.strip() or (terms and all(term.is_excluded for term in terms)):
        raise UsageError(
            'no words to search for; type a word, a "phrase", or the beginning of a word and *'
        )
    return terms


def _term(match: re.Match[str]) -> Term | None:
    text, minus, star = match["phrase"], match["minus"], match["star"]
    if text is None:
        text = match["plain"]
        minus = text[0] == "-" and text[1:2].isalnum()
        star = text.endswith("*")
        text = text[bool(minus) :].removesuffix("*")
    if not any(map(str.isalnum, text)):
        return None
    is_prefix = bool(star) and _LAST_WORD.search(text) is not None
    return Term(
        text=split_unspaced(text),
        is_prefix=is_prefix,
        is_excluded=bool(minus),
        is_too_short=bool(star) and not is_prefix,
    )
