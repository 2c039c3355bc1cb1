"""Find secrets by their form: keys, and passwords in addresses.

Each pattern begins with literal letters, which are found fast, and none backtracks over text that
it has passed. The time is therefore linear in the length of the text.
"""

import re
from collections.abc import Iterator

from rekindle.text.redact.values import is_generated, is_mixed, reads_as_words, refers

Span = tuple[int, int]
"""The begin and the end of a part of a text."""


def _word_start(beginning: str) -> str:
    r"""Return a pattern for the start of a word, also after `\n`, `\u003d` or `%3D` as text."""
    escapes = (r"\\[nrtbf]", r"%[0-9A-Fa-f]{2}", r"\\u00[0-9A-Fa-f]{2}", r"\\x[0-9A-Fa-f]{2}")
    written = "|".join(rf"(?<={before}{beginning})" for before in escapes)
    return rf"{beginning}(?:(?<![A-Za-z0-9_-]{beginning})|{written})"


_KEYS = re.compile(
    rf"""
        gh[opsur]_ (?P<github>[A-Za-z0-9]{{30,}})
      | github_pat_ (?P<github_pat>\w{{22,}})
      | gl(?:pat|dt|rt|cbt|ptt|ft|oas|agent)- (?P<gitlab>[\w-]{{20,}}(?:\.[0-9a-z]{{9}})?)
      | xox[abeoprs]- (?P<slack>[\w-]{{10,}})
      | xapp- (?P<slack_app>\d-[\w-]{{10,}})
      | hooks\.slack\.com/(?:services|workflows)/ (?P<slack_hook>[\w/]{{20,}})
      | discord(?:app)?\.com/api/webhooks/ (?P<discord_hook>\d{{1,30}}/[\w-]{{30,}})
      | npm_ (?P<npm>[A-Za-z0-9]{{30,}})
      | pypi- (?P<pypi>[\w-]{{50,}})
      | hf_ (?P<hugging_face>[A-Za-z0-9]{{30,}})
      | gsk_ (?P<groq>[A-Za-z0-9]{{30,}})
      | k_(?:live|test)_ (?<=[prs]k_(?:live|test)_) (?P<stripe>[A-Za-z0-9]{{16,}})
      | whsec_ (?P<stripe_hook>[A-Za-z0-9+/=]{{20,}})
      | dop_v1_ (?P<digital_ocean>[a-f0-9]{{30,}})
      | shp(?:at|ca|pa|ss)_ (?P<shopify>[a-fA-F0-9]{{30,}})
      | hvs\. (?P<vault>[\w-]{{24,}})
      | ya29\. (?P<google_oauth>[\w-]{{20,}})
      | GOCSPX- (?P<google_client>[\w-]{{20,}})
      | AGE-SECRET-KEY-1 (?P<age>[A-Z0-9]{{30,}})
      | {_word_start("AIza")} (?P<google>[\w-]{{35}})
      | SG\. (?P<sendgrid>[\w-]{{16,64}}\.[\w-]{{16,}})
      | {_word_start("eyJ")} (?P<jwt>[\w-]{{8,}}+\.eyJ[\w-]{{8,}}(?:\.[\w-]*)?)
      | :AA (?<=\d{{8}}:AA) (?P<telegram>[\w-]{{32,33}}) (?![\w-])
    """,
    re.VERBOSE,
)
# In the credentials that can be downloaded, the secret stands beside the id.
_AWS = re.compile(
    rf"(?:{_word_start('AKIA')}|{_word_start('ASIA')}|{_word_start('ABIA')}|{_word_start('ACCA')})"
    r"([A-Z0-9]{16})(?![A-Z0-9_]{2})(?:[\"']?[,;:|\s]{1,5}[\"']?([A-Za-z0-9/+]{40})(?![\w/+]))?"
)
# Class names in style sheets also begin like this.
_GENERATED = re.compile(
    rf"(?:{_word_start('sk-')}|{_word_start('xai-')}|{_word_start('pplx-')})([\w-]{{20,}})"
)
_LONG_RUN = re.compile(r"[A-Za-z0-9]{16,}")
_BEARER = re.compile(r"[Bb](?<!\w[Bb])(?i:earer)[ \t]{1,3}([\w.~+/=-]{16,})")
_LETTERS = re.compile(r"[a-z]{20,}|[A-Z]{20,}")
_COOKIE = re.compile(r"[Cc]ookie[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?=[\w.-]{1,100}=)")
_COOKIES = re.compile(r"[^\r\n\"']{1,4000}")
_COOKIE_VALUE = re.compile(r"=([^;\s=,]{16,})")
_CURL_USER = re.compile(
    r"curl\b[^\n]{0,200}?[ \t](?:-u|--user)[ \t=]{1,3}[\"']?[^\s:\"']{1,100}:([^\s\"']{6,200})"
)

_NO_DELIMITER = r"[^\s/?#\"'`<>\\@]"
_IN_URL = re.compile(
    rf"://(?<=\w://)[^\s/:@?#\"'`<>\\,]{{0,100}}+:"
    rf"({_NO_DELIMITER}{{1,200}}+(?:@(?:(?!,){_NO_DELIMITER}){{1,100}}+){{0,3}})@(?=[\w\[$])"
)
# A slash in a password looks like the beginning of a path, unless the text before it cannot be a
# port. In addresses of web pages it cannot be recognised at all.
_IN_URL_WITH_SLASHES = re.compile(
    r"://(?<=\w://)(?<!http://)(?<!https://)[^\s/:@?#\"'`<>\\,.]{1,100}+:"
    r"(?!\d{1,5}/)([^\s?#\"'`<>\\@]{3,200}+)@(?=[\w\[$])"
)
_MIN_IN_URL = 3

_KEY_BEGINS = re.compile(r"-----BEGIN ((?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?)-----")
# The text between the lines of a key: line breaks, also escaped or between joined strings, and the
# prefixes of tools that number, quote or compare lines.
_GAP = (
    r"(?:\s|\\+[nrt](?:[\"'][\s+,.]{0,40}[\"'])?+|(?<=[\s+>|-])\d{1,6}(?=[\t:|→│])"
    r"|(?<=[\d\n])[:|→│]|(?<=\n)[+>|-](?!-))*+"
)
_HEADERS = rf"(?:{_GAP}[A-Z][\w-]{{2,20}}:[ ][^\r\n\\]{{0,200}}+)*+"
_WHOLE_KEY = re.compile(
    rf"{_HEADERS}(?:{_GAP}[A-Za-z0-9+/=]++)++(?={_GAP}-----END (.{{1,60}}?)-----)"
)
_CUT_KEY = re.compile(
    rf"{_HEADERS}(?:{_GAP}[A-Za-z0-9+/=]{{16,}}+)++"
    rf"(?:(?:\r?\n|\\n){_GAP}[A-Za-z0-9+/=]{{1,15}}+)?"
)


def find_by_form(text: str) -> Iterator[Span]:
    """Yield the spans of secrets that have a known form."""
    for match in _KEYS.finditer(text):
        yield match.span(match.lastgroup or 0)
    for match in _AWS.finditer(text):
        yield match.span(1)
        if match[2]:
            yield match.span(2)
    for match in _GENERATED.finditer(text):
        if _is_key(match[1]):
            yield match.span(1)
    for match in _BEARER.finditer(text):
        if _is_credential(match[1]):
            yield match.span(1)
    yield from _cookies(text)
    yield from _passwords(text)
    yield from _private_keys(text)


def _is_key(value: str) -> bool:
    """Return whether a value is random: names do not mix both cases and digits."""
    has_cases = value != value.lower() and value != value.upper()
    return is_mixed(value) and (has_cases or any(map(is_mixed, _LONG_RUN.findall(value))))


def _is_credential(value: str) -> bool:
    is_prose = refers(value) or reads_as_words(value)
    return not is_prose and (is_mixed(value) or bool(_LETTERS.match(value)))


def _cookies(text: str) -> Iterator[Span]:
    end = 0
    for match in _COOKIE.finditer(text):
        line = _COOKIES.match(text, max(match.end(), end))
        if line:
            end = line.end()
            for value in _COOKIE_VALUE.finditer(text, *line.span()):
                if is_generated(value[1]):
                    yield value.span(1)


def _passwords(text: str) -> Iterator[Span]:
    for pattern in (_IN_URL, _IN_URL_WITH_SLASHES):
        for match in pattern.finditer(text):
            if len(match[1]) >= _MIN_IN_URL and not refers(match[1]):
                yield match.span(1)
    for match in _CURL_USER.finditer(text):
        if not match[1].isdigit() and not refers(match[1]):
            yield match.span(1)


def _private_keys(text: str) -> Iterator[Span]:
    """Yield the spans of private keys in PEM form, also of truncated ones."""
    for match in _KEY_BEGINS.finditer(text):
        whole = _WHOLE_KEY.match(text, match.end())
        if whole and whole[1] == match[1]:
            yield whole.span()
        elif cut := _CUT_KEY.match(text, match.end()):
            yield cut.span()
