"""Recognise the texts that Rekindle puts before a prompt: handovers and reminders.

The agent receives such a text as a part of the user's prompt. It may name the session after it,
replay it as the user's words, and write it to its own files. It is never the user's words, so it
must not become a title, a preview or a search hit.

A preface begins with one of `OPENINGS` and ends with `END`. The texts of earlier releases have no
end. Nothing separates them from the words that an agent has put behind them in the same block.
"""

import re
from typing import Any

from msgspec import Struct

from rekindle.jsonvalue import as_object, as_str

OPENINGS = (
    "This conversation was continued in a new process",
    "The last turn of this conversation was cut off before it ended",
    "The last turns of this conversation may not have been saved",
    "Your copy of this conversation lacks the turns below",
)
"""The first words of each text. The words of earlier releases must stay in the list."""
END = "[End of the record. The user's message follows.]"
"""The last line of each text."""
ADVICE = "Do not answer the record itself."
"""The end of the first paragraph of each text, also in earlier releases."""
_QUOTED_END = "[end of an earlier record]"
_TITLE_WORDS = 6
_MIN_TITLE = 12
"""A shorter title may begin like an opening by chance."""


def _pattern(text: str) -> str:
    """Return a pattern for a text whose white space an agent may have changed."""
    return r"\s++".join(map(re.escape, text.split()))


def _words(text: str) -> str:
    """Return the words of a text without case, punctuation and white space."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


_OPENING = re.compile("|".join(map(_pattern, OPENINGS)))
_END = re.compile(_pattern(END) + r"\s*+")
_ADVICE = re.compile(_pattern(ADVICE))
_WORD = re.compile(r"\w")
_OPENING_WORDS = tuple(map(_words, OPENINGS))
_OPENING_HEADS = tuple(" ".join(it.split()[:_TITLE_WORDS]) for it in _OPENING_WORDS)


class UserWords(Struct):
    """Removes the prefaces from a text that comes in pieces."""

    is_in_preface: bool = False
    """Whether the last piece ended before its preface did."""

    def add(self, piece: str) -> str:
        """Return the user's own words in the next piece."""
        kept: list[str] = []
        at = 0
        if self.is_in_preface:
            at = self._after_end(piece, 0)
        while opening := _OPENING.search(piece, at):
            before = piece[at : opening.start()]
            after = self._after_end(piece, opening.end())
            is_quoted = self.is_in_preface and _WORD.search(before) is not None
            if is_quoted and _ADVICE.search(piece, opening.end()) is None:
                # The user cites an opening.
                self.is_in_preface = False
                break
            kept.append(before)
            at = after
        return "".join([*kept, piece[at:]])

    def _after_end(self, piece: str, start: int) -> int:
        """Return the place behind the end of a preface, and note whether there is one."""
        end = _END.search(piece, start)
        self.is_in_preface = end is None
        return len(piece) if end is None else end.end()


def user_words(text: str) -> str:
    """Return a text without prefaces."""
    return UserWords().add(text)


def user_blocks(blocks: list[Any]) -> list[dict[str, Any]]:
    """Return content blocks without prefaces. A block that is nothing else is left out."""
    kept: list[dict[str, Any]] = []
    for block in map(as_object, blocks):
        text = as_str(block.get("text"))
        own = None if text is None else user_words(text)
        if own == text:
            kept.append(block)
        elif own:
            kept.append({**block, "text": own})
    return kept


def is_preface_title(title: str) -> bool:
    """Return whether an agent has made a title from a preface.

    Agents cut such a title anywhere, and change its case, white space and punctuation.
    """
    words = _words(title)
    is_beginning = len(words) >= _MIN_TITLE and any(it.startswith(words) for it in _OPENING_WORDS)
    return is_beginning or any(head in words for head in _OPENING_HEADS)


def without_end(text: str) -> str:
    """Return a text that a preface can contain: without the end of another preface."""
    return _END.sub(f"{_QUOTED_END}\n", text)
