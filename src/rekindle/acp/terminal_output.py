"""Decode the output of terminals as version 2 of the protocol carries it."""

import base64
import binascii
from typing import Any

from msgspec import Struct, field

from rekindle.jsonvalue import as_str
from rekindle.text.sanitize import without_controls


def decode_bytes(data: object) -> bytes:
    """Decode base64; return no bytes if it is invalid."""
    try:
        return base64.b64decode(as_str(data) or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


class Terminal(Struct, kw_only=True):
    """A terminal that a tool call shows."""

    output: bytearray = field(default_factory=bytearray)
    rest: dict[str, Any] = {}
    """Its other fields in the form of version 2, such as command and exit status."""
    last_seq: int = 0
    """The last entry that changed it."""

    @property
    def text(self) -> str:
        """The output without control sequences."""
        return without_controls(self.output.decode("utf-8", "replace"))
