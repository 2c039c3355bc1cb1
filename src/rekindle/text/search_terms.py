"""What a person looks for: words, "phrases", beginnings* of words, and -words that must not be.

Whatever else is typed is taken for words: nothing that can be typed is wrong, unless it is blank
or says only what must not be.
"""

import re

from msgspec import Struct

from rekindle.errors import UsageError
from rekindle.text.tokens import parted

_TERM = re.compile(r'(?P<minus>-?)"(?P<phrase>[^"]*)"(?P<star>\*?)(?!\S)|(?P<plain>\S+)')
_LAST_WORD = re.compile(r"[^\W_]{2,}$")


class Term(Struct, frozen=True):
    """Words that must, or must not, follow each other."""

    words: str
    is_beginning: bool = False
    """The last word may go on."""
    is_excluded: bool = False
    is_too_short: bool = False
    """A beginning was meant, but with a single letter too many words begin."""


def parse(typed: str) -> list[Term]:
    """Read what was typed; no terms if it has neither letters nor digits. Raises UsageError."""
    terms = [term for match in _TERM.finditer(typed) if (term := _term(match)) is not None]
    if not typed.strip() or (terms and all(term.is_excluded for term in terms)):
        raise UsageError(
            'nothing to look for: give a word, a "phrase", or the beginning of a word and a star'
        )
    return terms


def _term(match: re.Match[str]) -> Term | None:
    words, minus, star = match["phrase"], match["minus"], match["star"]
    if words is None:
        words = match["plain"]
        minus = words[0] == "-" and words[1:2].isalnum()
        star = words.endswith("*")
        words = words[bool(minus) :].removesuffix("*")
    if not any(map(str.isalnum, words)):
        return None
    is_beginning = bool(star) and _LAST_WORD.search(words) is not None
    return Term(
        words=parted(words),
        is_beginning=is_beginning,
        is_excluded=bool(minus),
        is_too_short=bool(star) and not is_beginning,
    )
