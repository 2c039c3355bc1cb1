"""Shell quoting for completion: split an unfinished line, quote insertions. Pure.

Insertions are quoted without backslashes. A shell inserts the common prefix of several candidates,
and a prefix cut inside such quotes is still a valid beginning.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

_SAFE = re.compile(r"[A-Za-z0-9_.,:@%+=/-]*")
_SPECIAL_IN_DOUBLE = re.compile(r'[$`"\\!]')
_ESCAPED_IN_DOUBLE = frozenset('$`"\\')


class Word(Struct, kw_only=True):
    """A word of a command line."""

    text: str = ""
    """The word without its quotes."""
    start: int
    """The position of its first character in the line."""
    quote: str = ""
    """The quote that is still open at the end of the word."""


def split_words(line: str) -> list[Word]:
    """Return the words of a line. The last one is unfinished, and may be empty."""
    word = Word(start=0)
    words: list[Word] = []
    at = 0
    while at < len(line):
        character, following = line[at], line[at + 1 : at + 2]
        at += 1
        if character == word.quote:
            word.quote = ""
        elif character == "\\" and _is_escape(word.quote, following):
            word.text += following
            at += 1
        elif word.quote or not (character.isspace() or character in "'\""):
            word.text += character
        elif character in "'\"":
            word.quote = character
        else:
            if word.start < at - 1:
                words.append(word)
            word = Word(start=at)
    return [*words, word]


def insertions(candidates: Sequence[str], line: str, tail: str) -> list[str | None]:
    """Return for each candidate the text that replaces `tail` at the end of the line.

    A shell replaces only the last part of a word. A candidate that does not begin with the rest
    of the word yields None.
    """
    typed = line[split_words(line)[-1].start :]
    kept = split_words(typed.removesuffix(tail))[-1]
    rests = [
        candidate.removeprefix(kept.text) if candidate.startswith(kept.text) else None
        for candidate in candidates
    ]
    is_safe = all(_SAFE.fullmatch(rest) for rest in rests if rest is not None)
    return [
        rest if rest is None or (is_safe and not kept.quote) else _quoted(rest, kept.quote)
        for rest in rests
    ]


def _quoted(text: str, quote: str) -> str:
    if quote == '"':
        # An exclamation mark means history expansion there, even after a backslash.
        return _SPECIAL_IN_DOUBLE.sub(lambda match: f"\"'{match[0]}'\"", text)
    inside = text.replace("'", "'\"'\"'")
    return inside if quote else f"'{inside}'"


def _is_escape(quote: str, following: str) -> bool:
    return not quote or (quote == '"' and following in _ESCAPED_IN_DOUBLE)
