"""A line that is being typed in a shell, read and continued as that shell would. Pure.

What is to be inserted is quoted without backslashes, so that wherever a shell cuts several such
words where they part, what is left can be read, and continued.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

_HARMLESS = re.compile(r"[A-Za-z0-9_.,:@%+=/-]*")
_SPECIAL_IN_DOUBLE = re.compile(r'[$`"\\!]')
_ESCAPED_IN_DOUBLE = frozenset('$`"\\')


class Word(Struct, kw_only=True):
    """A word of a line."""

    text: str = ""
    """What it says, without quotes."""
    start: int
    """Where it begins in the line."""
    quote: str = ""
    """The quote that is still open at its end."""


def words_of(line: str) -> list[Word]:
    """Return the words of a line; the last one is being typed, and may be empty."""
    word = Word(start=0)
    words: list[Word] = []
    at = 0
    while at < len(line):
        mark, following = line[at], line[at + 1 : at + 2]
        at += 1
        if mark == word.quote:
            word.quote = ""
        elif mark == "\\" and _is_escape(word.quote, following):
            word.text += following
            at += 1
        elif word.quote or not (mark.isspace() or mark in "'\""):
            word.text += mark
        elif mark in "'\"":
            word.quote = mark
        else:
            if word.start < at - 1:
                words.append(word)
            word = Word(start=at)
    return [*words, word]


def insertions(found: Sequence[str], line: str, tail: str) -> list[str | None]:
    """Return what to put in the place of `tail`, with which a line ends, so that it says each.

    A shell lets only the last part of a word be replaced. None for what cannot be had so.
    """
    typed = line[words_of(line)[-1].start :]
    kept = words_of(typed.removesuffix(tail))[-1]
    rests = [it.removeprefix(kept.text) if it.startswith(kept.text) else None for it in found]
    is_harmless = all(_HARMLESS.fullmatch(rest) for rest in rests if rest is not None)
    return [
        rest if rest is None or (is_harmless and not kept.quote) else _quoted(rest, kept.quote)
        for rest in rests
    ]


def _quoted(words: str, quote: str) -> str:
    if quote == '"':
        # An exclamation mark is history in there, whatever stands before it.
        return _SPECIAL_IN_DOUBLE.sub(lambda it: f"\"'{it[0]}'\"", words)
    inside = words.replace("'", "'\"'\"'")
    return inside if quote else f"'{inside}'"


def _is_escape(quote: str, following: str) -> bool:
    return not quote or (quote == '"' and following in _ESCAPED_IN_DOUBLE)
