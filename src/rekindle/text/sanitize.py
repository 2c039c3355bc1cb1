"""Characters that do more than be read: the one list of them, and what can stand in their place.

A terminal obeys control characters, and whatever turns the direction of writing deceives a
reader. Which of the remedies is right, those know who show a text.
"""

import re

# What colours a terminal, moves its cursor, or sets its title.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    # Not past another beginning: many of them without an end would each be looked for to the end.
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\x9d]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# All but tab and newline.
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_TURNING = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Halves of characters cannot be written at all.
_HALVES = r"\ud800-\udfff"
_IS_CONTROL = re.compile(f"[{_CONTROL}]")
_CONTROLS_OF_ASCII = bytes({*range(0x20), 0x7F} - {*b"\t\n"})
_IS_HARMFUL = re.compile(f"[{_CONTROL}{_TURNING}{_HALVES}]")
# These end a line in JavaScript, which JSON knows nothing of.
_IS_HARMFUL_IN_JSON = re.compile(f"[{_CONTROL}{_TURNING}{_HALVES}\\u2028\\u2029]")
_INSTEAD = "\ufffd"


def is_harmful(text: str) -> bool:
    """Tell whether a text has a character that does more than be read."""
    return not _is_plain(text) and _IS_HARMFUL.search(text) is not None


def without_controls(text: str) -> str:
    """Return what a terminal was told, without what only a terminal understands."""
    text = text.replace("\r\n", "\n")
    # Most texts have none, and to find that out takes much less than to look for more.
    if _is_plain(text) or not _IS_CONTROL.search(text):
        return text
    return _IS_CONTROL.sub("", _SEQUENCE.sub("", text))


def clean(text: str) -> str:
    """Return a text for documents: without colours, and with a sign where something else was."""
    text = text.replace("\r\n", "\n")
    return _IS_HARMFUL.sub(_INSTEAD, _SEQUENCE.sub("", text)) if is_harmful(text) else text


def spelled_out(text: str) -> str:
    """Return a text for a terminal: it shows control characters instead of obeying them."""
    text = text.replace("\r\n", "\n")
    return _IS_HARMFUL.sub(_spelled, text) if is_harmful(text) else text


def one_line(text: str) -> str:
    """Return a text for a terminal on one line, with single spaces."""
    return spelled_out(" ".join(text.split()))


def escaped(json: str) -> str:
    """Return JSON that says the same without such a character, or half a one."""
    return _IS_HARMFUL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def _is_plain(text: str) -> bool:
    """Tell whether a text is of ASCII alone, and has no control character, as most are.

    A terminal may put out very much, and this takes a tenth of what searching takes.
    """
    if not text.isascii():
        return False
    data = text.encode()
    return len(data.translate(None, _CONTROLS_OF_ASCII)) == len(data)


def _spelled(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}" if _IS_CONTROL.match(found[0]) else _INSTEAD
