"""The part of a text that is worth showing: where most of what was looked for stands together."""

import re
from collections.abc import Iterator, Sequence

from rekindle.text.redact.commands import MASK
from rekindle.text.redact.secrets import Span

Piece = tuple[str, bool]
"""Words, and whether they are what was looked for."""

_BLANKS = re.compile(r"\s+")
_BEFORE = 40
_LONGEST_WORD = 30
_ENOUGH = 200
_ELLIPSIS = "…"


def snippet(text: str, matches: Sequence[Span], hidden: Sequence[Span], width: int) -> list[Piece]:
    """Cut a text to about `width` characters, on one line, with what is `hidden` masked."""
    begin, end = _window(text, matches[:_ENOUGH], width)
    cut = _pieces(text, begin, end, matches, hidden)
    pieces = [(_BLANKS.sub(" ", words), is_match) for words, is_match in cut]
    before = [(_ELLIPSIS, False)] if text[:begin].strip() else []
    after = [(_ELLIPSIS, False)] if text[end:].strip() else []
    return [*before, *pieces, *after]


def _window(text: str, matches: Sequence[Span], width: int) -> Span:
    """Return where to cut: around as many matches as fit, at blanks if there are any."""
    first = max(
        range(len(matches)),
        key=lambda n: sum(it[1] <= matches[n][0] + width - _BEFORE for it in matches[n:]),
        default=None,
    )
    middle = matches[first][0] if first is not None else 0
    begin = max(0, min(middle - _BEFORE, len(text) - width))
    if begin > 0:
        found = _BLANKS.search(text, begin, min(begin + _LONGEST_WORD, middle))
        begin = found.end() if found else begin
    end = min(len(text), begin + width)
    if end < len(text):
        blank = text.rfind(" ", max(begin, end - _LONGEST_WORD), end)
        end = blank if blank > begin else end
    return begin, end


def _pieces(
    text: str, begin: int, end: int, matches: Sequence[Span], hidden: Sequence[Span]
) -> Iterator[Piece]:
    """Yield a stretch of a text piece by piece; what is hidden hides what it covers."""
    shown = [(start, stop, False) for start, stop in hidden if start < end and stop > begin]
    free = [it for it in matches if not any(a < it[1] and it[0] < b for a, b, _ in shown)]
    shown += [(start, stop, True) for start, stop in free if start < end and stop > begin]
    at = begin
    for start, stop, is_match in sorted(shown):
        if start > at:
            yield text[at:start], False
        yield (text[max(start, at) : min(stop, end)], True) if is_match else (MASK, False)
        at = max(at, stop)
    if at < end:
        yield text[at:end], False
