"""Fuzzy matching: a typed word matches a text that has its letters in the same order.

The cost of a match orders the results. A word as a whole costs least; every letter that is skipped
inside a word costs more. Matches whose letters are far apart are refused, because they would be
accidents. All texts are casefolded by the caller.
"""

import re
from typing import NamedTuple

_WORD = re.compile(r"[^\W_]+")
_MAX_TEXT = 300
"""Only the beginning of a longer text is matched letter by letter."""
_MAX_COST_PER_LETTER = 3
_INSIDE_WORD = 1
"""The cost of a match that begins inside a word."""
_SKIP = 1
"""The cost of continuing at the start of one of the next words, or later in the same word."""
_SKIP_WORD = 1
"""The cost of each whole word that is skipped, after the first one, such as "the"."""
_SKIP_INTO_WORD = 3
"""The cost of continuing inside another word."""


def match_cost(word: str, text: str) -> int | None:
    """Return the cost of a match, 0 for the best one; None if the text does not match."""
    cost = substring_cost(word, text)
    if cost is not None:
        return cost
    text = text[:_MAX_TEXT]
    if not _has_in_order(word, text):
        return None
    cost = _scattered_cost(word, text)
    return cost if cost <= _MAX_COST_PER_LETTER * len(word) else None


def substring_cost(word: str, text: str) -> int | None:
    """Return the cost of a word that is a part of a text; None if it is not."""
    at = text.find(word)
    if at < 0:
        return None
    while at >= 0:
        if at == 0 or not text[at - 1].isalnum():
            return 0
        at = text.find(word, at + 1)
    return _INSIDE_WORD


def _has_in_order(word: str, text: str) -> bool:
    at = -1
    for letter in word:
        at = text.find(letter, at + 1)
        if at < 0:
            return False
    return True


def _scattered_cost(word: str, text: str) -> int:
    """Return the lowest cost of all ways to find the letters in the text. There must be one."""
    words = _words(text)
    costs: dict[int, int] = {}
    """The lowest cost of the letters so far, by the place of the last one."""
    for number, letter in enumerate(word):
        earlier, costs = costs, {}
        at = text.find(letter)
        while at >= 0:
            if number == 0:
                costs[at] = 0 if words[at].start == at else _INSIDE_WORD
            else:
                ways = [
                    cost + _step(before, at, words)
                    for before, cost in earlier.items()
                    if before < at
                ]
                if ways:
                    costs[at] = min(ways)
            at = text.find(letter, at + 1)
    return min(costs.values())


class _Word(NamedTuple):
    start: int
    number: int


def _step(before: int, at: int, words: list[_Word]) -> int:
    """Return the cost of continuing at a place after the place of the letter before."""
    skipped = at - before - 1
    if not skipped:
        return 0
    if words[at].start == at:
        return _SKIP + _SKIP_WORD * max(0, words[at].number - words[before].number - 2)
    is_same = words[at].start == words[before].start
    return skipped + (_SKIP if is_same else _SKIP_INTO_WORD)


def _words(text: str) -> list[_Word]:
    """Return the word at each place in a text. A place between words counts as a start."""
    words: list[_Word] = []
    number = 0
    for number, word in enumerate(_WORD.finditer(text), 1):
        words += [_Word(place, number - 1) for place in range(len(words), word.start())]
        words += [_Word(word.start(), number)] * (word.end() - word.start())
    return words + [_Word(place, number) for place in range(len(words), len(text))]
