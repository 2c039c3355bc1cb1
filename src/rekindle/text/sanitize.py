"""Replace or remove harmful characters: control characters and direction marks.

A terminal executes control characters, and text with a changed direction deceives its reader. There
are several remedies; the caller chooses one.
"""

import re

# Sequences that set colours, move the cursor, or set the title of a terminal.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    # A sequence ends where the next one begins, so that incomplete ones take linear time.
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\x9d]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# All control characters except tab and newline.
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTION = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Lone surrogates cannot be encoded.
_SURROGATES = r"\ud800-\udfff"
_IS_CONTROL = re.compile(f"[{_CONTROL}]")
_ASCII_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n"})
_IS_HARMFUL = re.compile(f"[{_CONTROL}{_DIRECTION}{_SURROGATES}]")
# The last two end a line in JavaScript, but not in JSON.
_IS_HARMFUL_IN_JSON = re.compile(f"[{_CONTROL}{_DIRECTION}{_SURROGATES}\\u2028\\u2029]")
_REPLACEMENT = "\ufffd"


def is_harmful(text: str) -> bool:
    """Return whether a text has a harmful character."""
    return not _is_plain_ascii(text) and _IS_HARMFUL.search(text) is not None


def without_controls(text: str) -> str:
    """Return the output of a terminal without control sequences."""
    text = text.replace("\r\n", "\n")
    # Most texts have none, and that is found much faster than a sequence.
    if _is_plain_ascii(text) or not _IS_CONTROL.search(text):
        return text
    return _IS_CONTROL.sub("", _SEQUENCE.sub("", text))


def clean(text: str) -> str:
    """Return a text for documents: without sequences, and with U+FFFD for harmful characters."""
    text = text.replace("\r\n", "\n")
    return _IS_HARMFUL.sub(_REPLACEMENT, _SEQUENCE.sub("", text)) if is_harmful(text) else text


def spelled_out(text: str) -> str:
    """Return a text for a terminal, with control characters spelled out."""
    text = text.replace("\r\n", "\n")
    return _IS_HARMFUL.sub(_spell_out, text) if is_harmful(text) else text


def one_line(text: str) -> str:
    """Return a text for a terminal on one line, with single spaces."""
    return spelled_out(" ".join(text.split()))


def escaped(json: str) -> str:
    """Return the same JSON with harmful characters escaped."""
    return _IS_HARMFUL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def _is_plain_ascii(text: str) -> bool:
    """Return whether a text is ASCII without control characters.

    The output of a terminal may be very long. This takes a tenth of the time of a search.
    """
    if not text.isascii():
        return False
    data = text.encode()
    return len(data.translate(None, _ASCII_CONTROLS)) == len(data)


def _spell_out(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}" if _IS_CONTROL.match(found[0]) else _REPLACEMENT
