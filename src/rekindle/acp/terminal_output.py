"""Decode the output of terminals, from terminal updates or from the `rawOutput` of a tool call."""

import base64
import binascii
from typing import Any

from msgspec import Struct, field

from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.text.sanitize import without_controls


def decode_bytes(data: object) -> bytes:
    """Decode base64; return no bytes if it is invalid."""
    try:
        return base64.b64decode(as_str(data) or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


_OUTPUT_FIELDS = ("output", "aggregated_output", "formatted_output")


def raw_output_text(raw: object) -> str:
    """Return the text in the `rawOutput` of a tool call; empty if it has none.

    The protocol leaves its form to the agent. These are the forms that agents use.
    """
    fields = as_object(raw)
    streams = "".join(as_str(fields.get(name)) or "" for name in ("stdout", "stderr"))
    blocks = map(as_object, as_array(fields.get("content")) or as_array(raw))
    content = "".join(as_str(block.get("text")) or "" for block in blocks)
    texts = [as_str(raw), *(as_str(fields.get(name)) for name in _OUTPUT_FIELDS), streams, content]
    return without_controls(next(filter(None, texts), ""))


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
