"""Mask credentials in a command line before it is recorded.

A command is recorded only to run it again. A mask too many costs the user a command to type; a
secret too many is in the store for good. So names decide more strictly here than in a text: the
value of a name that sounds like a secret is masked, whatever it looks like. Everything else goes
through the detector of `export`. Every start of an agent comes through here, so the detector is
imported only for words that can hold a secret.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, cast

MASK = "***"

_MAX_DEPTH = 6
_MAX_NAME = 100

_BEFORE = r"(?:.*[a-z0-9](?=[A-Z])|.*[^A-Za-z]|)"
_SENSITIVE = re.compile(
    r"(?:[\w.-]*(?i:key|token|secret|passw(?:or)?d|passphrase|passcode|credential|authorization|bearer"
    r"|cookie)"
    r"|(?i:db|ftp|redis|root|smtp|sql|ssh|user)(?i:pass)"
    # These are part of many other words, so they must be a whole part of the name.
    rf"|{_BEFORE}(?i:pat|pass|pwd|pw|creds?|jwt|psk|otp|(?P<unclear>auth)))s?"
    r"(?P<tail>[_.-][\w.-]*|\d*)"
)
_ABOUT = re.compile(r"(?i)[_.-](?:sock|socket|stdin|command|cmd|helper|id|ids|mode|method)$")
# The value of `auth` may be a way to log in, such as `oauth` or `api-key`.
_WAY = re.compile(
    r"(?i:(?:^|[-_])(?:api|key|apikey|oauth2?|oidc|saml|sso|jwt|basic|bearer|digest|ntlm|negotiate"
    r"|kerberos|token|password|pat|login|device|browser|code|web|console|cli|env|file|auto|default"
    r"|any|iam|aws|azure|gcp|google|vertex|bedrock|gemini|github|openai|chatgpt|anthropic|claude"
    r"|personal|subscription|enterprise))+"
)
_OPTION = re.compile(r"--?[\w.-]+")
_ASSIGNED = re.compile(
    r"(?P<name>-{0,2}[A-Za-z_][\w.-]{0,100})(?P<sign>=|:[ \t]+)(?P<value>.+)", re.DOTALL
)
# The next option instead of a value that begins with a dash.
_NEXT_OPTION = re.compile(r"-[A-Za-z]|--[A-Za-z]+(?:-[A-Za-z]+)*(?:=.*)?", re.DOTALL)
_USER_OPTION = frozenset({"-u", "--user", "--username", "--login", "--proxy-user"})
_USER = re.compile(r"[^:\s]{1,100}:(?P<password>.+)", re.DOTALL)
_HEADER_OPTION = frozenset({"-H", "--header", "--headers"})
_HEADER = re.compile(r"(?P<name>[\w-]{1,100}):(?P<value>\S.*)", re.DOTALL)
# A command may contain the secret itself, unless it reads a file.
_REFERENCE = re.compile(
    r"\$(?:\w+|\{\w+\}|\((?:cat |< ?)[\w./~-]+\))|%\w+%"
    r"|(?i:true|false|yes|no|on|off|none|null)|-"
)
_COUNT = re.compile(r"\d{1,9}")
_SHELL_WORD = re.compile(
    r"""(?P<word>(?:\$\([^()]*\)|`[^`]*`|[^\s"'\\;&|()]|\\."""
    r"""|"(?:\$\([^()]*\)|[^"\\]|\\.)*+"|'[^']*')+)|.""",
    re.DOTALL,
)
_QUOTES = ('"', "'")
# A key is a long run of letters and digits, or has one of these signs before or around it.
_RUN = re.compile(r"[\w-]+")
_SIGN = re.compile(r"[=:\s]")
_MIN_KEY = 20


def mask_command(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command in which secrets are masked.

    It recognises `API_KEY=x`, `--api-key=x`, `--api-key x`, `--env=API_KEY=x`, headers such as
    `Authorization: Bearer x`, JSON, the words of a shell's command line, and every key that the
    detector finds.
    """
    return tuple(_mask_words(command, 0))


def _mask_words(words: Iterable[str], depth: int) -> list[str]:
    masked: list[str] = []
    option = ""
    for word in words:
        masked.append(_mask_value(option, word, depth))
        option = word if _OPTION.fullmatch(word) else ""
    return masked


def _mask_value(option: str, word: str, depth: int) -> str:
    """Mask a word that follows an option, or "" for any other word."""
    if option in _USER_OPTION and (found := _USER.fullmatch(word)):
        password = found["password"]
        return word if _is_harmless("", password) else word.removesuffix(password) + MASK
    if option in _HEADER_OPTION and (found := _HEADER.fullmatch(word)):
        return f"{found['name']}:{_mask_value(found['name'], found['value'], depth)}"
    if _is_secret(option, word) and not _NEXT_OPTION.fullmatch(word):
        return MASK
    return _mask_word(word, depth)


def _mask_word(word: str, depth: int) -> str:
    if depth >= _MAX_DEPTH:
        return _detect(word)
    if found := _ASSIGNED.fullmatch(word):
        name, sign, value = found.groups()
        masked = MASK if _is_secret(name, value) else _mask_value(name, value, depth + 1)
        # The name may make the detector recognise a value.
        return _detect(f"{name}{sign}{masked}")
    if word[:1] in {"{", "["} and (decoded := _decoded(word)) is not None:
        return _mask_json_text(word, decoded, depth + 1)
    if len(word) > 1 and word[0] in _QUOTES and word[0] == word[-1]:
        return f"{word[0]}{_mask_word(word[1:-1], depth + 1)}{word[-1]}"
    if any(map(str.isspace, word)):
        return _detect(_mask_shell(word, depth + 1))
    return _detect(word)


def _detect(text: str) -> str:
    """Mask what the detector finds."""
    if all(len(run) < _MIN_KEY for run in _RUN.findall(text)) and not _SIGN.search(text):
        return text
    from rekindle.text.redact.detect import mask  # noqa: PLC0415 - 20 ms

    return mask(text)


def _mask_shell(text: str, depth: int) -> str:
    """Mask the words of a shell's command line, and keep the separators."""
    parts = [(it[0], it["word"] is not None) for it in _SHELL_WORD.finditer(text)]
    masked = iter(_mask_words((part for part, is_word in parts if is_word), depth))
    return "".join(next(masked) if is_word else part for part, is_word in parts)


def _mask_json_text(text: str, decoded: object, depth: int) -> str:
    try:
        redacted = _mask_json(decoded, "", depth)
    except RecursionError:
        return MASK
    return text if redacted == decoded else json.dumps(redacted, ensure_ascii=False)


def _mask_json(value: Any, name: str, depth: int) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            return MASK if _is_secret(name, value) else _mask_word(value, depth)
        case list():
            items = cast("list[Any]", value)
            if all(isinstance(it, str) and not _is_secret(name, it) for it in items):
                return _mask_words(items, depth)
            return [_mask_json(it, name, depth) for it in items]
        case dict():
            members = cast("dict[str, Any]", value)
            # The name of a value may be a member beside it.
            given = next(
                (it for it in map(members.get, ("name", "key")) if isinstance(it, str)), ""
            )
            return {
                key: _mask_json(it, given if key == "value" else key, depth)
                for key, it in members.items()
            }
        case _:
            return value


def _decoded(word: str) -> object:
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return None


def _is_secret(name: str, value: str) -> bool:
    """Return whether the value of a name is a secret."""
    found = _SENSITIVE.fullmatch(name.lstrip("-")) if len(name) <= _MAX_NAME else None
    if found is None or _ABOUT.search(found["tail"]):
        return False
    from rekindle.text.redact.names import is_about_a_secret  # noqa: PLC0415 - as above

    if is_about_a_secret(found["tail"]):
        return False
    is_way = found["unclear"] is not None and _WAY.fullmatch(value) is not None
    return not is_way and not _is_harmless(name, value)


def _is_harmless(name: str, value: str) -> bool:
    """Return whether a value names a variable, switches something, or is a number of tokens."""
    bare = value[1:-1] if value[:1] in _QUOTES and value[:1] == value[-1:] else value
    is_count = name.lower().endswith("tokens") and _COUNT.fullmatch(bare)
    return not bare or bool(is_count) or _REFERENCE.fullmatch(bare) is not None
