"""The records in Gemini CLI's files: only the fields of interest, all of them optional."""

from msgspec import Raw, Struct, field

from rekindle.importers.lenient_reader import MISSING, LenientReader, is_json_string


class GeminiPatch(Struct, frozen=True, rename="camel", gc=False):
    """A change of the session's metadata. A list of messages replaces all earlier messages."""

    last_updated: str | None = None
    summary: str | None = None
    directories: list[str] | None = None
    messages: list[Raw] | None = None


class GeminiRecordHead(Struct, frozen=True, rename="camel", gc=False):
    """The fields of a record that decide where it belongs. The rest is not decoded."""

    id: str | None = None
    type: str | None = None
    timestamp: str | None = None
    rewind_to: str | None = field(default=None, name="$rewindTo")
    patch: GeminiPatch | None = field(default=None, name="$set")
    session_id: str | None = None
    project_hash: str | None = None
    start_time: str | None = None
    last_updated: str | None = None
    kind: str | None = None
    summary: str | None = None
    directories: list[str] | None = None
    messages: list[Raw] | None = None
    memory_scratchpad: Raw = MISSING


class GeminiToolCall(Struct, frozen=True, rename="camel", gc=False):
    """A tool call, and its result."""

    id: str = ""
    name: str = ""
    args: Raw = MISSING
    result: Raw = MISSING
    status: str = ""
    timestamp: str | None = None
    display_name: str | None = None
    description: str | None = None
    result_display: Raw = MISSING
    agent_id: str | None = None


class GeminiThought(Struct, frozen=True, gc=False):
    """A summary of a thought of the model."""

    subject: str = ""
    description: str = ""


class GeminiMessage(Struct, frozen=True, rename="camel", gc=False):
    """A message of the user, of the model, or of Gemini CLI itself."""

    id: str | None = None
    type: str = ""
    timestamp: str | None = None
    content: Raw = MISSING
    display_content: Raw = MISSING
    tool_calls: list[GeminiToolCall] | None = None
    thoughts: list[GeminiThought] | None = None
    model: str | None = None


class GeminiInlineData(Struct, frozen=True, rename="camel", gc=False):
    """An image, or other data that is not text."""

    mime_type: str = ""
    data: Raw = MISSING


class GeminiFileData(Struct, frozen=True, rename="camel", gc=False):
    """A reference to a file."""

    mime_type: str = ""
    file_uri: str = ""


class GeminiFunctionCall(Struct, frozen=True, gc=False):
    """A tool call of the model."""

    id: str | None = None
    name: str = ""
    args: Raw = MISSING


class GeminiFunctionResponse(Struct, frozen=True, gc=False):
    """The result of a tool call, as the model received it."""

    id: str | None = None
    name: str = ""
    response: Raw = MISSING
    parts: list["GeminiPart"] | None = None


class GeminiPart(Struct, frozen=True, rename="camel", gc=False):
    """A part of a message. Long texts stay undecoded."""

    text: Raw = MISSING
    thought: Raw = MISSING
    inline_data: GeminiInlineData | None = None
    file_data: GeminiFileData | None = None
    function_call: GeminiFunctionCall | None = None
    function_response: GeminiFunctionResponse | None = None


class _Parts(Struct, frozen=True, gc=False):
    parts: list[Raw] = []


read_record_head = LenientReader(GeminiRecordHead)
read_message = LenientReader(GeminiMessage)
_read_parts = LenientReader(_Parts)
_read_part = LenientReader(GeminiPart)


def read_parts(content: Raw) -> list[GeminiPart]:
    """Return the parts of a content, which is a text, a part, or a list of both."""
    if is_json_string(content):
        return [GeminiPart(text=content)]
    encoded = bytes(content)
    listed = _read_parts(b'{"parts":%b}' % encoded) if encoded[:1] == b"[" else None
    parts = [_decode_part(bytes(part)) for part in (listed.parts if listed else [content])]
    return [part for part in parts if part is not None]


def _decode_part(encoded: bytes) -> GeminiPart | None:
    match encoded[:1]:
        case b'"':
            return GeminiPart(text=Raw(encoded))
        case b"{":
            return _read_part(encoded)
        case _:
            return None
