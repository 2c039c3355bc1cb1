"""Decode the output of terminals as version 2 of the protocol carries it."""

import base64
import binascii
from typing import Any

from msgspec import Struct, field

from rekindle.jsonvalue import as_str
from rekindle.text.sanitize import without_controls


def decode_bytes(data: object) -> bytes:
    """Decode what version 2 writes as base64, as far as it can be."""
    try:
        return base64.b64decode(as_str(data) or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


class Terminal(Struct, kw_only=True):
    """A terminal that a tool call shows, as far as it is known."""

    output: bytearray = field(default_factory=bytearray)
    rest: dict[str, Any] = {}
    """Its command, folder, exit status and so on, as version 2 names them."""
    last_seq: int = 0
    """The last entry that had to do with it."""

    @property
    def text(self) -> str:
        """What it has put out, without what only a terminal understands."""
        return without_controls(self.output.decode("utf-8", "replace"))
