"""Decide whether the value of a secret's name is the secret, or only refers to it.

A literal, which is quoted or a whole string, counts as a secret unless its form excludes that. A
bare word may be code, so it counts only if it looks like a secret.
"""

import re

from rekindle.text.redact.recorded_command import MASK

_MIN_LENGTH = 8
_MIN_CHOSEN = 6
_MIN_RANDOM = 12
_LONG = 16
_MAX_WORDS = 5
_MEAN_PART_OF_WORDS = 2.8

# People choose passwords, so they may be words. Machines generate all other secrets.
_CHOSEN = re.compile(r"(?i)pass|pwd|secret")

# Programs and manuals write these in place of a secret.
_REFERENCE = re.compile(
    r"""
      \$ (?: [({] | (?:[A-Z_][A-Z0-9_]*|[A-Za-z_]+)$ )
    | <[^<>]*>$ | \[[^\]]*\]$ | \([^)]*\)$ | %\w+%$ | %\(?\w*\)?[sd]$
    | [a-z]{2,9}:// | \.{3} | …
    | (?:os|process|env|import\.meta|config|self|this|settings|secrets|vault|arn|op|file)[.:]
    | (?:[A-Z]+_)+(?:KEY|TOKEN|SECRET|PASSWORD)(?:_[A-Z0-9]+)*$
    | (.)\1*$
    """,
    re.VERBOSE,
)
_TEMPLATE = re.compile(r"\$\{|\{\{|\{[\w.!:]*\}")
_LABEL = re.compile(
    r"(?i)(?<![a-z])(?:secret|token|pass|password|passwd|passphrase|key|credential|authorization"
    r"|your|example|placeholder|redacted|undefined|required|optional)s?(?![a-z])"
)
_ABOUT_SECRETS = re.compile(r"(?i)secret|token|passw|credential|header")

_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
# Generated keys consist of characters that need no quoting.
_ALPHABET = re.compile(r"[\w.~+/=:%$@!-]+")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_TYPE = re.compile(r"[A-Z]+[a-z]|[A-Z]{2,}\d")
_CODE = re.compile(
    r"[A-Za-z_$][\w$]*+(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*+)++$|[\w.:$>@!&*-]*+[(\[{]"
)
_BETWEEN_WORDS = re.compile(r"[-_./:+*%=!?|&]+")
_WORD = re.compile(r"[a-z]*+(?:[A-Z][a-z]{2,}+)*+\d{0,4}|[A-Z]*+\d{0,4}")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_HEX_OR_LONG_NUMBER = re.compile(r"(?i)[0-9a-f]+$|.*?\d{6}")


def is_chosen(name: str) -> bool:
    """Return whether people choose the value of this name."""
    return bool(_CHOSEN.search(name))


def refers(value: str) -> bool:
    """Return whether a value is a reference, a placeholder or a mask instead of a secret."""
    if MASK in value or _REFERENCE.match(value) or _TEMPLATE.search(value):
        return True
    is_name = not _has_digit(value) and _LABEL.search(value)
    return bool(is_name) or _is_path(value)


def is_literal_secret(name: str, value: str) -> bool:
    """Return whether a string with this name is a secret."""
    if refers(value):
        return False
    chosen = is_chosen(name)
    if (words := len(value.split())) != 1:
        return chosen and 1 < words <= _MAX_WORDS and len(value) >= _MIN_LENGTH
    if not chosen and not _can_be_generated(value):
        return False
    if is_mixed(value) or _is_number(value):
        return len(value) >= (_MIN_CHOSEN if chosen else _MIN_LENGTH)
    return len(value) >= (_MIN_LENGTH if chosen else _MIN_RANDOM)


def is_bare_secret(name: str, value: str, *, is_setting: bool, is_code: bool) -> bool:
    """Return whether an unquoted word with this name is a secret.

    With `is_setting`, the text is a configuration file, where only a value can follow a name.
    """
    is_identifier = bool(_IDENTIFIER.fullmatch(value))
    shortest = _MIN_CHOSEN if is_chosen(name) and not is_identifier else _MIN_LENGTH
    if len(value) < shortest or refers(value) or _CODE.match(value) or _is_number(value):
        return False
    if is_setting and (is_chosen(name) or not reads_as_words(value)):
        return True
    if not is_mixed(value) or reads_as_words(value):
        return False
    if not is_chosen(name) and not _can_be_generated(value):
        return False
    if not is_identifier or is_generated(value):
        return True
    return not (is_code or _TYPE.match(value) or _ABOUT_SECRETS.search(value))


def is_mixed(value: str) -> bool:
    """Return whether a value mixes letters and digits, unlike most words and numbers."""
    return _has_digit(value) and _LETTER.search(value) is not None


def is_generated(value: str) -> bool:
    """Return whether a value is generated. Values that people choose consist of words."""
    if len(value) < _LONG or not is_mixed(value):
        return False
    parts = len(_PARTS.findall(value))
    return bool(_HEX_OR_LONG_NUMBER.match(value)) or len(value) < _MEAN_PART_OF_WORDS * parts


def reads_as_words(value: str) -> bool:
    """Return whether a value consists of joined words, as in `my-app-v2` or `total/elapsed_s2`."""
    words = _BETWEEN_WORDS.split(value)
    return len(words) > 1 and all(map(_WORD.fullmatch, words))


def _can_be_generated(value: str) -> bool:
    is_plain = _ALPHABET.fullmatch(value) is not None
    return is_plain and not _is_number(value) and not reads_as_words(value)


def _has_digit(value: str) -> bool:
    return _DIGIT.search(value) is not None


def _is_number(value: str) -> bool:
    return _LETTER.search(value) is None and _has_digit(value)


def _is_path(value: str) -> bool:
    return "/" in value and reads_as_words(value.lstrip("~"))
