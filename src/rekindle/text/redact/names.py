"""Find secrets by their names, as people and programs write them in a text."""

import re
from collections.abc import Callable, Iterator

from rekindle.text.redact.forms import Span
from rekindle.text.redact.values import (
    is_bare_secret,
    is_chosen,
    is_literal_secret,
    is_mixed,
)

_MAX_NAME = 100
_MAX_LITERAL = 1_000
_LINE = 60

# Each alternative begins with a literal letter, which makes the search ten times as fast.
_WORDS = (
    "secret|Secret|SECRET|token|Token|TOKEN|passw(?:or)?d|Passw(?:or)?d|PASSW(?:OR)?D|passphrase"
    "|Passphrase|PASSPHRASE|credential|Credential|CREDENTIAL|authorization|Authorization"
    "|AUTHORIZATION"
    # PWD alone is the current folder.
    "|pwd(?<![A-Za-z]pwd)|Pwd(?<![A-Z]Pwd)|PWD(?<=_PWD)"
    + "".join(
        f"|{word}[_-]?(?:key|Key|KEY)"
        for kind in ("api", "access", "private", "account", "signing", "encryption", "license")
        for word in (kind, kind.title(), kind.upper())
    )
)
_NAME = (
    rf"(?:{_WORDS})[sS]?"
    r"(?P<tail>[_-][\w-]{0,30}|(?<=[a-z])[A-Z]\w{0,30}|\d{1,3})?(?!\w)"
)
# Endings of names whose value is not the secret, but something about it.
_ABOUT = re.compile(
    r"(?i)[_-]?(?:names?|files?|filename|path|dir|folder|types?|kind|count|len|length|limit|size|max"
    r"|min|ur[li]|endpoint|fields?|label|policy|format|expir\w*|ttl|age|per|usage|used|ref|manager"
    r"|provider|store|env|regex|pattern|version|status|error|index|class|budget|arn|description"
    r"|hint|prompt|placeholder|title|help)(?-i:(?![a-z]))"
)
_WHOLE_NAME = re.compile(rf"[\w\s./:-]*?{_NAME}")
_OPTION = re.compile(rf"--?[\w-]*?{_NAME}")

_NAMED = re.compile(
    rf"(?P<name>{_NAME})(?P<close>\\{{0,3}}[\"'`]\]?)?(?:"
    # with a type: name: str = "value"
    r"\??:[ \t]{0,3}[A-Za-z][\w.\[\]|? ]{0,40}=[ \t]{0,3}(?=[\"'])"
    # NAME=value, "name": "value", name => value, **Name:** value
    r"|(?P<before>[ \t]{0,3})[*_]{0,2}(?P<sign>===?|!==?|=>|:=|=|:(?!:))[*_]{0,2}"
    r"(?P<after>[ \t]{0,3})"
    # {"name": "NAME", "value": "value"}, <add key="NAME" value="value">
    r"|\s{0,3},?\s{0,40}\\{0,3}[\"']?value\\{0,3}[\"']?[ \t]{0,3}[:=][ \t]{0,3}"
    # | NAME | value |
    r"|[ \t]{1,30}\|[ \t]{1,3}"
    # <name>value</name>
    r"|>(?=[^<>\s]{1,200}</)"
    r")"
)
# --name value, "--name", "value"
_AFTER_OPTION = re.compile(
    rf"-(?<![\w-]-)-?[\w-]{{0,40}}?(?P<name>{_NAME})"
    r"(?:\\{0,3}[\"'],\s{0,40}(?=\\{0,3}[\"'])|[ \t]{1,3}(?![-|]))"
)
# name:
#   value
_ON_NEXT_LINE = re.compile(
    rf"(?P<name>{_NAME})[\"']?:[ \t]{{0,3}}\r?\n[ \t]{{1,40}}(?=[^\s\"':]{{16,}}+[ \t]*+\r?+$)",
    re.MULTILINE,
)
# As in netrc and `aws configure set`, and in sentences.
_SPOKEN = re.compile(rf"(?P<name>{_NAME})(?:[ \t]is)?[ \t]{{1,3}}(?=[^\s\"':=|]{{8}})")

_QUOTE = re.compile(r"(?:[rbfuRBFU]{0,2}(\\{0,3}(?:\"\"\"|'''|[\"']))|`)?")
_SCHEME = re.compile(r"(?:(?i:bearer|basic|token|digest|negotiate)[ \t]{1,3})?")
_BARE = re.compile(r"[^\s\"'`,;<>&|\\]{1,200}+")
_REST = re.compile(r"[^\s\"'`,;<>&|\\]*+")
_AFTER_A_VALUE = ".:)]}"
_BEGINS_LINE = re.compile(r"(?:^|\n|\\n)[ \t]*(?:- |export )?[\w.-]*$")
_ENDS_LINE = re.compile(r"[ \t]*(?:#|\r|\n|\\n|$)")


def is_secret_name(name: str) -> bool:
    """Return whether a value with this name is a secret."""
    found = _WHOLE_NAME.fullmatch(name) if len(name) <= _MAX_NAME else None
    return bool(found) and not _ABOUT.match(found["tail"] or "")


def is_about_a_secret(tail: str) -> bool:
    """Return whether the end of a secret's name makes it the name of something else."""
    return _ABOUT.match(tail) is not None


def is_secret_option(word: str) -> bool:
    """Return whether the word after this one in a command is a secret."""
    return len(word) <= _MAX_NAME and bool(_OPTION.fullmatch(word)) and is_secret_name(word)


def find_by_name(text: str) -> Iterator[Span]:
    """Yield the spans of secrets that follow a name of a secret."""
    yield from _after(_NAMED, text, _assigned)
    yield from _after(_AFTER_OPTION, text, _option_value)
    yield from _after(_ON_NEXT_LINE, text, _option_value)
    yield from _after(_SPOKEN, text, _spoken)


_Judge = Callable[[str, re.Match[str]], Span | None]


def _after(pattern: re.Pattern[str], text: str, judge: _Judge) -> Iterator[Span]:
    """Yield the secrets after the matches of a pattern. A value that is not one may contain one."""
    at = 0
    while match := pattern.search(text, at):
        at = match.end()
        if not _ABOUT.match(match["tail"] or "") and (span := judge(text, match)):
            yield span
            at = max(at, span[1])


def _assigned(text: str, match: re.Match[str]) -> Span | None:
    sign = match["sign"] or ""
    is_compared = len(sign) > 1 and sign.endswith("=") and sign != ":="
    if literal := _literal(text, match.end()):
        value = text[slice(*literal)]
        is_secret = is_literal_secret(match["name"], value)
        return literal if is_secret and (is_mixed(value) or not is_compared) else None
    if is_compared:
        return None
    bare = _bare(text, match.end())
    name, value = match["name"], text[slice(*bare)]
    is_spaced = bool(match["before"] or match["after"])
    follows = text[bare[1] : bare[1] + 1]
    is_code = follows in {",", ")"} or (
        is_spaced and (follows == ";" or (sign in {"=", ":="} and not is_chosen(name)))
    )
    is_setting = (
        name.isupper() and sign == "=" and not is_spaced and not match["close"]
    ) or _is_line(text, match, bare)
    return (
        _whole(text, bare)
        if is_bare_secret(name, value, is_setting=is_setting, is_code=is_code)
        else None
    )


def _is_line(text: str, match: re.Match[str], bare: Span) -> bool:
    """Return whether a line has a password and nothing else, as in YAML."""
    begin = match.start()
    return (
        "pass" in match["name"].lower()
        and text[slice(*bare)].isalpha()
        and text[slice(*bare)].islower()
        and bool(_ENDS_LINE.match(text, bare[1]))
        and bool(_BEGINS_LINE.search(text[max(0, begin - _LINE) : begin]))
    )


def _option_value(text: str, match: re.Match[str]) -> Span | None:
    if literal := _literal(text, match.end()):
        return literal if is_literal_secret(match["name"], text[slice(*literal)]) else None
    return _spoken(text, match)


def _spoken(text: str, match: re.Match[str]) -> Span | None:
    bare = _bare(text, match.end())
    name, value = match["name"], text[slice(*bare)]
    is_secret = is_bare_secret(name, value, is_setting=False, is_code=not is_chosen(name))
    return _whole(text, bare) if is_secret else None


def _literal(text: str, at: int) -> Span | None:
    """Return the span of the string that begins here and ends on this line, if any."""
    quote = _QUOTE.match(text, at)
    if quote is None or not quote[1]:
        return None
    begin = quote.end()
    most = begin + _MAX_LITERAL
    end = text.find(quote[1], begin, most)
    while end > 0 and text[end - 1] == "\\":
        end = text.find(quote[1], end + 1, most)
    if end < 0 or "\n" in text[begin:end]:
        return None
    scheme = _SCHEME.match(text, begin, end)
    return (scheme.end() if scheme else begin), end


def _bare(text: str, at: int) -> Span:
    """Return the span of the word that begins here, limited to the length needed to judge it."""
    for skipped in (_QUOTE, _SCHEME):
        found = skipped.match(text, at)
        at = found.end() if found else at
    found = _BARE.match(text, at)
    return at, at + len(found[0].rstrip(_AFTER_A_VALUE)) if found else at


def _whole(text: str, bare: Span) -> Span:
    rest = _REST.match(text, bare[1])
    end = rest.end() if rest else bare[1]
    return bare[0], bare[0] + len(text[bare[0] : end].rstrip(_AFTER_A_VALUE))
