"""Mask keys and tokens in a text.

Secrets are guessed by their form and name. Masking is for text that is shown or exported; stored
text is never changed. The prefix of a key stays (`ghp_***`), so that readers recognise its kind.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from rekindle.text.redact.forms import Span, find_by_form
from rekindle.text.redact.names import find_by_name
from rekindle.text.redact.recorded_command import MASK
from rekindle.text.redact.service_keys import find_service_keys

# Invisible text: colour sequences, also escaped or truncated, and characters without width.
_INVISIBLE = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)|[@-Z\\-_])"
    r"|\\(?:x1[bB]|u001[bB]|033|e)\[[0-?]*+[ -/]*+[@-~]|\[\d[\d;]*+m"
    r"|[\xad\u200b-\u200d\u2060\ufeff]"
)


def mask(text: str) -> str:
    """Return the text with its secrets masked."""
    pieces: list[str] = []
    end = 0
    for begin, after in find_secrets(text):
        pieces += (text[end:begin], MASK)
        end = after
    return "".join([*pieces, text[end:]])


def find_secrets(text: str) -> list[Span]:
    """Return the spans of the secrets in a text, in order and without overlaps."""
    found: list[Span] = []
    for begin, end in sorted([*_find(text), *_find_in_visible(text)]):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _find(text: str) -> Iterator[Span]:
    yield from find_by_form(text)
    yield from find_service_keys(text)
    yield from find_by_name(text)


def _find_in_visible(text: str) -> Iterator[Span]:
    """Find secrets in the visible text: colours neither begin nor split a word there."""
    invisible = [it.span() for it in _INVISIBLE.finditer(text)]
    if not invisible:
        return
    visible: list[str] = []
    lengths = [0]
    ends = [0]
    for begin, end in invisible:
        visible.append(text[ends[-1] : begin])
        lengths.append(lengths[-1] + len(visible[-1]))
        ends.append(end)
    visible.append(text[ends[-1] :])

    def place(at: int) -> int:
        piece = bisect_right(lengths, at) - 1
        return ends[piece] + at - lengths[piece]

    for begin, end in _find("".join(visible)):
        yield place(begin), place(end - 1) + 1
