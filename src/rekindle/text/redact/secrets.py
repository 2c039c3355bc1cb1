"""What looks like a key or a token in a text, and hiding it.

It is a guess, for what is shown or leaves the machine; nothing that is stored is changed. What
tells the kind of a secret stays (`ghp_***`), so that a reader knows what stood there.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from rekindle.text.redact.commands import MASK
from rekindle.text.redact.forms import Span, known
from rekindle.text.redact.names import named

# What colours a terminal, also as text or with its first character lost, and what has no width.
_UNSEEN = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)|[@-Z\\-_])"
    r"|\\(?:x1[bB]|u001[bB]|033|e)\[[0-?]*+[ -/]*+[@-~]|\[\d[\d;]*+m"
    r"|[\xad\u200b-\u200d\u2060\ufeff]"
)


def mask(text: str) -> str:
    """Return the text with what looks like a secret hidden."""
    pieces: list[str] = []
    end = 0
    for begin, after in spans(text):
        pieces += (text[end:begin], MASK)
        end = after
    return "".join([*pieces, text[end:]])


def spans(text: str) -> list[Span]:
    """Return where the secrets of a text are, in order; none touches another."""
    found: list[Span] = []
    for begin, end in sorted([*_found(text), *_found_in_what_is_seen(text)]):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _found(text: str) -> Iterator[Span]:
    yield from known(text)
    yield from named(text)


def _found_in_what_is_seen(text: str) -> Iterator[Span]:
    """Look at a text as people see it, where colours neither begin nor part a word."""
    unseen = [it.span() for it in _UNSEEN.finditer(text)]
    if not unseen:
        return
    seen: list[str] = []
    lengths = [0]
    ends = [0]
    for begin, end in unseen:
        seen.append(text[ends[-1] : begin])
        lengths.append(lengths[-1] + len(seen[-1]))
        ends.append(end)
    seen.append(text[ends[-1] :])

    def place(at: int) -> int:
        piece = bisect_right(lengths, at) - 1
        return ends[piece] + at - lengths[piece]

    for begin, end in _found("".join(seen)):
        yield place(begin), place(end - 1) + 1
