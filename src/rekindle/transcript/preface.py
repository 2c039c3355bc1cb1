"""Recognise the texts that Rekindle puts before a prompt: handovers and reminders.

The agent receives such a text as a part of the user's prompt. It may name the session after it,
replay it as the user's words, and write it to its own files. It is never the user's words, so it
must not become a title, a preview or a search hit.

A preface begins with one of `OPENINGS`, has one of `ADVICE_TEXTS` soon after it, then the history,
and ends with one of `ENDS`. Every part is required, because users write about their sessions and
quote these texts. Only the texts of release 0.1 have no end. Nothing separates them from the words
that an agent has put behind them in the same block.

The first texts of each table are the present ones. Agents keep the others in their files, and
stores keep them in records, so none is ever removed. `tests/transcript/test_preface.py` has every
earlier form as a whole.
"""

import re
from typing import Any

from msgspec import Struct

from rekindle.jsonvalue import as_object, as_str

OPENINGS = (
    "This conversation continues in a new process",
    "The last turn of this conversation was interrupted",
    "The last turns of this conversation may not have been saved",
    "Some turns of this conversation are missing from your memory",
    # Release 0.1.
    "This conversation was continued in a new process",
    "The last turn of this conversation was cut off before it ended",
    # Before release 0.2.
    "Your copy of this conversation lacks the turns below",
)
"""The first words of each text."""
ADVICE_TEXTS = (
    "Use the history as context. Do not reply to it.",
    "Do not answer the record itself.",
)
"""The end of the first paragraph of each text."""
ENDS = (
    "[End of the history. The user's message follows.]",
    "[End of the record. The user's message follows.]",
)
"""The last line of each text."""
ADVICE, END = ADVICE_TEXTS[0], ENDS[0]
_MAX_TO_ADVICE = 400
"""More characters than any release has written between an opening and the end of the advice."""
_RECORD_HEADS = ("User:", "You:", "You used", "Current plan", "The plan", "[")
"""The first words of a history."""
_QUOTED_END = "[end of an earlier history]"
_TITLE_WORDS = 6
_MIN_TITLE = 12
"""A shorter title may begin like an opening by chance."""


def _pattern(text: str) -> str:
    """Return a pattern for a text whose white space an agent may have changed."""
    return r"\s++".join(map(re.escape, text.split()))


def _pattern_of_head(head: str) -> str:
    """Return a pattern for a text that may be cut off at the end of a piece."""
    cut = (rf"{re.escape(head[:length])}\Z" for length in range(1, len(head)))
    return "|".join([re.escape(head), *cut])


def _words(text: str) -> str:
    """Return the words of a text without case, punctuation and white space."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


_OPENING = re.compile("|".join(map(_pattern, OPENINGS)))
_END = re.compile(rf"(?:{'|'.join(map(_pattern, ENDS))})\s*+")
_ADVICE = re.compile("|".join(map(_pattern, ADVICE_TEXTS)))
_RECORD = re.compile(rf"\s*+(?:\Z|{'|'.join(map(_pattern_of_head, _RECORD_HEADS))})")
_OPENING_WORDS = tuple(map(_words, OPENINGS))
_OPENING_HEADS = tuple(" ".join(it.split()[:_TITLE_WORDS]) for it in _OPENING_WORDS)


class UserWords(Struct):
    """Removes the prefaces from a text that comes in pieces."""

    is_in_preface: bool = False
    """Whether the last piece ended before its preface did."""
    undecided: str = ""
    """The end of the last piece, if it has an opening and is too short to have the advice."""

    def add(self, piece: str) -> str:
        """Return the user's own words in the next piece, and in the undecided text before it."""
        text, self.undecided = self.undecided + piece, ""
        kept: list[str] = []
        at = self._after_end(text, 0) if self.is_in_preface else 0
        last_end = max((it.end() for it in _END.finditer(text)), default=0)
        while opening := _OPENING.search(text, at):
            another = _OPENING.search(text, opening.end())
            limit = opening.end() + _MAX_TO_ADVICE
            if another is not None:
                limit = min(limit, another.start())
            advice = _ADVICE.search(text, opening.end(), limit)
            if advice is None and len(text) < limit:
                self.undecided = text[opening.start() :]
                kept.append(text[at : opening.start()])
                at = len(text)
            elif advice is not None and _is_record(text, advice.end(), last_end):
                kept.append(text[at : opening.start()])
                at = self._after_end(text, advice.end())
            else:
                kept.append(text[at : opening.end()])
                at = opening.end()
        return "".join([*kept, text[at:]])

    def rest(self) -> str:
        """Return the undecided text at the end of all pieces: the user quotes an opening."""
        text, self.undecided = self.undecided, ""
        return text

    def _after_end(self, text: str, start: int) -> int:
        """Return the place behind the end of a preface, and note whether there is one."""
        end = _END.search(text, start)
        self.is_in_preface = end is None
        return len(text) if end is None else end.end()


def _is_record(text: str, start: int, last_end: int) -> bool:
    """Return whether a history follows an advice: it has an end, or begins like a history."""
    return last_end > start or _RECORD.match(text, start) is not None


def user_words(text: str) -> str:
    """Return a text without prefaces."""
    words = UserWords()
    return words.add(text) + words.rest()


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
