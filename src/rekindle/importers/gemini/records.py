"""The records of Gemini CLI's files: of each only what is wanted of it, and all of it optional."""

from msgspec import Raw, Struct, field

from rekindle.importers.lenient_reader import Reader, is_text

NOTHING = Raw()


class Patch(Struct, rename="camel", gc=False):
    """What is said anew of the session. A list of messages is to stand for all there were."""

    last_updated: str | None = None
    summary: str | None = None
    directories: list[str] | None = None
    messages: list[Raw] | None = None


class Mark(Struct, rename="camel", gc=False):
    """Of a record, what tells where it belongs. Most of a file is passed over unread."""

    id: str | None = None
    type: str | None = None
    timestamp: str | None = None
    rewind_to: str | None = field(default=None, name="$rewindTo")
    patch: Patch | None = field(default=None, name="$set")
    session_id: str | None = None
    project_hash: str | None = None
    start_time: str | None = None
    last_updated: str | None = None
    kind: str | None = None
    summary: str | None = None
    directories: list[str] | None = None
    messages: list[Raw] | None = None
    memory_scratchpad: Raw = NOTHING


class Call(Struct, rename="camel", gc=False):
    """A tool that was called, and what came of it."""

    id: str = ""
    name: str = ""
    args: Raw = NOTHING
    result: Raw = NOTHING
    status: str = ""
    timestamp: str | None = None
    display_name: str | None = None
    description: str | None = None
    result_display: Raw = NOTHING
    agent_id: str | None = None


class Thought(Struct, gc=False):
    """What the model has thought, in short."""

    subject: str = ""
    description: str = ""


class Message(Struct, rename="camel", gc=False):
    """Something that was said, by the user, the model, or the tool itself."""

    id: str | None = None
    type: str = ""
    timestamp: str | None = None
    content: Raw = NOTHING
    display_content: Raw = NOTHING
    tool_calls: list[Call] | None = None
    thoughts: list[Thought] | None = None
    model: str | None = None


class Data(Struct, rename="camel", gc=False):
    """A picture, or what else is no text."""

    mime_type: str = ""
    data: Raw = NOTHING


class FileData(Struct, rename="camel", gc=False):
    """A file that lies elsewhere."""

    mime_type: str = ""
    file_uri: str = ""


class FunctionCall(Struct, gc=False):
    """A call, as the model has made it."""

    id: str | None = None
    name: str = ""
    args: Raw = NOTHING


class FunctionResponse(Struct, gc=False):
    """What a call has brought, as the model was told."""

    id: str | None = None
    name: str = ""
    response: Raw = NOTHING
    parts: list["Part"] | None = None


class Part(Struct, rename="camel", gc=False):
    """A part of what was said. Long texts are passed on as they stand there."""

    text: Raw = NOTHING
    thought: Raw = NOTHING
    inline_data: Data | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class _Parts(Struct, gc=False):
    parts: list[Raw] = []


read_mark = Reader(Mark)
read_message = Reader(Message)
_read_parts = Reader(_Parts)
_read_part = Reader(Part)


def parts_of(content: Raw) -> list[Part]:
    """Return what a content is made of: it is a text, a part, or a list of both."""
    if is_text(content):
        return [Part(text=content)]
    given = bytes(content)
    listed = _read_parts(b'{"parts":%b}' % given) if given[:1] == b"[" else None
    found = [_part(bytes(it)) for it in (listed.parts if listed is not None else [content])]
    return [it for it in found if it is not None]


def _part(given: bytes) -> Part | None:
    match given[:1]:
        case b'"':
            return Part(text=Raw(given))
        case b"{":
            return _read_part(given)
        case _:
            return None
