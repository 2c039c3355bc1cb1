"""Mask a text that arrives in chunks, which may be cut anywhere, also inside a secret."""

from rekindle.text.redact.detect import find_secrets
from rekindle.text.redact.prefilter import may_have_secret
from rekindle.text.redact.recorded_command import MASK

_MAX_HELD = 20_000
_CONTEXT = 4_000
_KEY_BEGINS = "-----BEGIN "
_KEY_ENDS = "-----END "


class StreamMask:
    """Masks secrets in chunks. Text is held back while it may be a part of a secret.

    An unfinished word is held back. An unfinished line is held back if it may have a secret, and
    a private key as a whole. No more than some thousand characters are held.
    """

    def __init__(self) -> None:
        self._text = ""
        """The held text, after some text that was returned before it."""
        self._start = 0
        """The length of the text that was returned."""

    def feed(self, chunk: str) -> str:
        """Return the text that is certain by now, masked."""
        self._text += chunk
        return self._take(self._certain_length())

    def release(self) -> str:
        """Return the held text, masked as far as it is known. The text may continue."""
        return self._take(len(self._text))

    def finish(self) -> str:
        """Return the rest of the text, masked. The next chunk begins another text."""
        rest = self._take(len(self._text))
        self._text, self._start = "", 0
        return rest

    def _certain_length(self) -> int:
        text = self._text
        if len(text) - self._start > _MAX_HELD:
            return len(text)
        key = text.rfind(_KEY_BEGINS)
        if key >= 0 and text.find(_KEY_ENDS, key) < 0:
            return max(self._start, text.rfind("\n", 0, key) + 1)
        line = text.rfind("\n") + 1
        if may_have_secret(text[line:]):
            return max(self._start, line)
        return max(self._start, line, text.rfind(" ") + 1)

    def _take(self, end: int) -> str:
        pieces: list[str] = []
        at = self._start
        if may_have_secret(self._text):
            for begin, after in find_secrets(self._text):
                if after > at and begin < end:
                    pieces += (self._text[at:begin], MASK)
                    at = after
        pieces.append(self._text[at:end])
        # A secret may also end in the held text. That rest must not appear later.
        self._start = max(at, end)
        shortened = max(0, self._start - _CONTEXT)
        self._text, self._start = self._text[shortened:], self._start - shortened
        return "".join(pieces)
