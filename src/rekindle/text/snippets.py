"""Cut the part of a text that has the most matches of a search."""

import re
from collections.abc import Iterator, Sequence

from rekindle.text.redact.detect import Span
from rekindle.text.redact.recorded_command import MASK

Fragment = tuple[str, bool]
"""A text, and whether it is a match."""

_BLANKS = re.compile(r"\s+")
_CONTEXT = 40
"""The number of characters before the first match."""
_MAX_WORD = 30
_MAX_MATCHES = 200
_ELLIPSIS = "…"


def snippet(
    text: str, matches: Sequence[Span], hidden: Sequence[Span], width: int
) -> list[Fragment]:
    """Return about `width` characters of a text on one line, with the `hidden` spans masked."""
    begin, end = _window(text, matches[:_MAX_MATCHES], width)
    cut = _fragments(text, begin, end, matches, hidden)
    fragments = [(_BLANKS.sub(" ", part), is_match) for part, is_match in cut]
    before = [(_ELLIPSIS, False)] if text[:begin].strip() else []
    after = [(_ELLIPSIS, False)] if text[end:].strip() else []
    return [*before, *fragments, *after]


def _window(text: str, matches: Sequence[Span], width: int) -> Span:
    """Return the span that has the most matches, cut at blanks if possible."""
    first = max(
        range(len(matches)),
        key=lambda n: sum(it[1] <= matches[n][0] + width - _CONTEXT for it in matches[n:]),
        default=None,
    )
    middle = matches[first][0] if first is not None else 0
    begin = max(0, min(middle - _CONTEXT, len(text) - width))
    if begin > 0:
        found = _BLANKS.search(text, begin, min(begin + _MAX_WORD, middle))
        begin = found.end() if found else begin
    end = min(len(text), begin + width)
    if end < len(text):
        blank = text.rfind(" ", max(begin, end - _MAX_WORD), end)
        end = blank if blank > begin else end
    return begin, end


def _fragments(
    text: str, begin: int, end: int, matches: Sequence[Span], hidden: Sequence[Span]
) -> Iterator[Fragment]:
    """Yield the fragments of a span. A hidden span also hides the matches that it overlaps."""
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
