"""What looks like a key or a token in a text, and hiding it.

It is a guess, for what is shown or leaves the machine; nothing that is stored is changed. What
tells the kind of a secret stays (`ghp_***`), so that a reader knows what stood there. Each
pattern is bounded or takes what it has looked at, so the time grows with the text and no faster.
"""

import re
from collections.abc import Iterator

from rekindle.core.masking import MASK

Span = tuple[int, int]
"""Where something begins, and where it has ended."""

# Where a word begins: in the midst of one, each place would have to be tried.
_START = r"(?<![\w-])"

_KEYS = re.compile(
    rf"""{_START}(?:
        gh[opsur]_ (?P<github>[A-Za-z0-9]{{30,}})
      | github_pat_ (?P<github_pat>\w{{22,}})
      | gl(?:pat|dt|rt|cbt|ptt|ft|oas|agent)- (?P<gitlab>[\w-]{{20,}})
      | xox[abeoprs]- (?P<slack>[\w-]{{10,}})
      | xapp- (?P<slack_app>\d-[\w-]{{10,}})
      | (?:AKIA|ASIA|ABIA|ACCA) (?P<aws>[A-Z0-9]{{16}}) (?!\w)
      | AIza (?P<google>[\w-]{{35}})
      | ya29\. (?P<google_oauth>[\w-]{{20,}})
      | npm_ (?P<npm>[A-Za-z0-9]{{36}})
      | pypi- (?P<pypi>[\w-]{{50,}})
      | hf_ (?P<hugging_face>[A-Za-z0-9]{{30,}})
      | gsk_ (?P<groq>[A-Za-z0-9]{{30,}})
      | [prs]k_(?:live|test)_ (?P<stripe>[A-Za-z0-9]{{16,}})
      | SG\. (?P<sendgrid>[\w-]{{16,64}}\.[\w-]{{16,}})
      | dop_v1_ (?P<digital_ocean>[a-f0-9]{{64}})
      | hvs\. (?P<vault>[\w-]{{24,}})
      | eyJ (?P<jwt>[\w-]{{8,}}\.eyJ[\w-]{{8,}}(?:\.[\w-]*)?)
    )""",
    re.VERBOSE,
)
_OPENAI = re.compile(rf"{_START}(?:sk|xai|pplx)-([\w-]{{20,}})")
_BEARER = re.compile(r"(?i)(?<!\w)bearer[ \t]{1,3}([\w.~+/=-]{16,})")
_AUTHORIZATION = re.compile(
    r"""(?i)(?<!\w)(?:proxy-)?authorization["']?[ \t]{0,3}[:=][ \t]{0,3}["']?"""
    r"""(?:(?:bearer|basic|token)[ \t]{1,3})?([^\s"',]{12,})"""
)
_NAMED = re.compile(
    r"""(?i)(?:secret|token|passw(?:or)?d|api[_-]?key|access[_-]?key|private[_-]?key|credential)"""
    r"""s?(?:[_-][\w-]{0,30}|(?-i:[A-Z])\w{0,30})?["']?"""
    r"""[ \t]{0,3}(?:=>|:=|=|:)[ \t]{0,3}["']?([^\s"',;]{8,})"""
)
_IN_URL = re.compile(r"(?i)(?<!\w)[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:([^\s/@]{3,200})@")
_KEY_BEGINS = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = "-----END "
_LINES_OF_A_KEY = re.compile(
    r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,}+)++(?:(?:\r?\n|\\n)[A-Za-z0-9+/=]{1,15}+)?"
)

# What a program puts in a secret's place: a variable, a call, a path, a gap to be filled.
_NO_VALUE = re.compile(r"[$<{(\[~./*]|https?:|(?:process|os|env|self|config|settings)\b")
_CALLED = re.compile(r"[(\[{<]")


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
    for begin, end in sorted(_found(text)):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _found(text: str) -> Iterator[Span]:
    for match in _KEYS.finditer(text):
        yield match.span(match.lastgroup or 0)
    for pattern in (_OPENAI, _BEARER):
        yield from (it.span(1) for it in pattern.finditer(text) if _is_random(it[1]))
    for match in _AUTHORIZATION.finditer(text):
        if not _NO_VALUE.match(match[1]):
            yield match.span(1)
    for match in _NAMED.finditer(text):
        if _is_random(match[1]) and not _NO_VALUE.match(match[1]) and not _CALLED.search(match[1]):
            yield match.span(1)
    for match in _IN_URL.finditer(text):
        if not _NO_VALUE.match(match[1]):
            yield match.span(1)
    yield from _private_keys(text)


def _is_random(value: str) -> bool:
    """Whether letters and digits are mixed, as hardly any word or number does."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _private_keys(text: str) -> Iterator[Span]:
    """Find keys in armour, also those that are cut off before their end."""
    end_of_last = 0
    can_end = True
    for match in _KEY_BEGINS.finditer(text):
        begin = match.end()
        if begin < end_of_last:
            continue
        last_line = text.find(_KEY_ENDS, begin) if can_end else -1
        can_end = last_line >= 0
        lines = _LINES_OF_A_KEY.match(text, begin)
        end_of_last = max(last_line, lines.end() if lines else begin)
        if end_of_last > begin:
            yield begin, end_of_last
