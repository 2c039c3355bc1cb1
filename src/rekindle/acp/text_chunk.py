"""Read chunks of plain text fast. Most updates are such chunks."""

import msgspec
from msgspec import UNSET, MsgspecError, Struct, UnsetType, field


class _Content(Struct, gc=False, forbid_unknown_fields=True):
    type: str
    text: str


class TextChunk(Struct, gc=False):
    """An update that adds plain text to a message."""

    kind: str = field(name="sessionUpdate")
    content: _Content
    message_id: str | None = field(default=None, name="messageId")
    meta: msgspec.Raw | UnsetType = field(default=UNSET, name="_meta")


class _Params(Struct, gc=False):
    update: TextChunk


class _Line(Struct, gc=False):
    params: _Params


_decode = msgspec.json.Decoder(_Line).decode


def read_text_chunk(line: bytes) -> TextChunk | None:
    """Read a line; None if it is not a chunk of plain text without `_meta`."""
    try:
        update = _decode(line).params.update
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return update if update.content.type == "text" and update.meta is UNSET else None
