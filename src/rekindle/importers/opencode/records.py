"""OpenCode's records: sessions, messages and their parts, in all versions of its format.

Today a message is a row or a file, and so is each of its parts. In the first version a message
contained its parts. In the newest version it contains them again, and has a type instead of a role.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import MsgspecError, Raw, Struct
from msgspec.structs import replace

from rekindle.importers.entry_builder import MAX_TIME_US
from rekindle.importers.lenient_reader import LenientReader

NULL = Raw(b"null")


class OpenCodeTimes(Struct, frozen=True, gc=False):
    """Times in milliseconds."""

    created: float | None = None
    completed: float | None = None
    updated: float | None = None
    archived: float | None = None
    start: float | None = None
    end: float | None = None
    ran: float | None = None


class OpenCodeRevert(
    Struct, frozen=True, rename={"message_id": "messageID", "part_id": "partID"}, gc=False
):
    """The place up to which the user has reverted the session."""

    message_id: str = ""
    part_id: str | None = None


class OpenCodeSession(Struct, frozen=True, rename={"parent_id": "parentID"}, kw_only=True):
    """The metadata of a session."""

    id: str = ""
    parent_id: str | None = None
    directory: str | None = None
    title: str | None = None
    version: str | None = None
    revert: OpenCodeRevert | None = None
    time: OpenCodeTimes = OpenCodeTimes()


class OpenCodeAttachment(Struct, frozen=True, gc=False):
    """An attached file or text, in the newest version."""

    type: str = ""
    text: Raw = NULL
    url: Raw = NULL
    uri: Raw = NULL
    mime: str = ""
    filename: str | None = None
    name: str | None = None


class OpenCodeError(Struct, frozen=True, gc=False):
    """An error that ended a message."""

    name: str = ""
    message: str = ""
    data: "OpenCodeError | None" = None

    @property
    def text(self) -> str:
        """The message of the error."""
        return (self.data.message if self.data is not None else "") or self.message


class OpenCodeToolState(Struct, frozen=True, gc=False):
    """The state of a tool call."""

    status: str = ""
    input: Raw = NULL
    output: Raw = NULL
    error: Raw = NULL
    title: str | None = None
    metadata: Raw = NULL
    structured: Raw = NULL
    content: list[OpenCodeAttachment] = []
    attachments: list[OpenCodeAttachment] = []
    time: OpenCodeTimes = OpenCodeTimes()


class OpenCodeInvocation(Struct, frozen=True, rename="camel", gc=False):
    """A tool call in the first version."""

    state: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    args: Raw = NULL
    result: Raw = NULL


_PART_NAMES = {
    "call_id": "callID",
    "is_synthetic": "synthetic",
    "is_ignored": "ignored",
    "media_type": "mediaType",
    "tool_invocation": "toolInvocation",
}


class OpenCodePart(Struct, frozen=True, rename=_PART_NAMES, kw_only=True):
    """A part of a message."""

    id: str = ""
    type: str = ""
    text: Raw = NULL
    is_synthetic: bool = False
    is_ignored: bool = False
    call_id: str = ""
    tool: str = ""
    name: str | None = None
    state: OpenCodeToolState | None = None
    tool_invocation: OpenCodeInvocation | None = None
    time: OpenCodeTimes = OpenCodeTimes()
    mime: str = ""
    media_type: str = ""
    filename: str | None = None
    url: Raw = NULL
    prompt: Raw = NULL
    description: str = ""
    overflow: bool = False


class OpenCodePath(Struct, frozen=True, gc=False):
    """The folder in which the agent has worked."""

    cwd: str | None = None
    root: str | None = None


class _AssistantMetadata(Struct, frozen=True, rename="camel", gc=False):
    """The first version's metadata about the agent."""

    path: OpenCodePath | None = None
    summary: bool = False


class _MessageMetadata(Struct, frozen=True, gc=False):
    """The first version's metadata about a message."""

    time: OpenCodeTimes = OpenCodeTimes()
    error: OpenCodeError | None = None
    assistant: _AssistantMetadata | None = None


class _MessageRecord(Struct, frozen=True, rename={"call_id": "callID"}, kw_only=True):
    """A message in any version of the format."""

    id: str = ""
    role: str = ""
    type: str = ""
    time: OpenCodeTimes = OpenCodeTimes()
    error: OpenCodeError | None = None
    finish: str | None = None
    summary: Raw = NULL
    """In an answer, whether it is a summary; in a compaction, the text of the summary."""
    path: OpenCodePath | None = None
    parts: list[OpenCodePart] = []
    content: list[OpenCodePart] = []
    metadata: _MessageMetadata | None = None
    text: Raw = NULL
    files: list[OpenCodeAttachment] = []
    command: str = ""
    call_id: str = ""
    output: Raw = NULL


class StoredMessage(Struct, frozen=True, gc=False):
    """A message in a file or a database, not decoded yet."""

    id: str
    type: str
    """The type in the newest version; otherwise empty."""
    data: bytes | None
    parts: Callable[[], Iterator[tuple[str, bytes | None]]]
    """Yields the id and the data of each part, in order; None for data that is too large."""


class OpenCodeMessage(Struct, frozen=True, kw_only=True):
    """A message, whichever version wrote it."""

    id: str
    kind: str
    """One of user, assistant, shell and compaction, or an unknown kind."""
    at_us: int | None
    ended_us: int | None
    error: OpenCodeError | None = None
    finish: str | None = None
    is_summary: bool = False
    cwd: str | None = None
    parts: list[OpenCodePart] = []
    """The parts that the message itself contains."""
    command: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the agent may still be working on it."""
        return self.kind in {"assistant", "shell"} and self.ended_us is None and self.error is None


read_session = LenientReader(OpenCodeSession)
read_revert = LenientReader(OpenCodeRevert)
_read_part = LenientReader(OpenCodePart)
_read_record = LenientReader(_MessageRecord)


def read_part(data: bytes) -> OpenCodePart | None:
    """Decode a part; return None if it is not valid."""
    return _read_part(_on_one_line(data))


def _on_one_line(data: bytes) -> bytes:
    """Return a record without line breaks, because undecoded parts of it go into entries."""
    if b"\n" not in data and b"\r" not in data:
        return data
    try:
        return msgspec.json.format(data, indent=-1)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return data


def microseconds(milliseconds: float | None) -> int | None:
    """Return a time in microseconds; None if it is out of range."""
    if milliseconds is None or not 0 <= milliseconds <= MAX_TIME_US / 1000:
        return None
    return int(milliseconds * 1000)


def read_message(stored: StoredMessage) -> OpenCodeMessage | None:
    """Decode a message; return None if it is not valid."""
    record = _read_record(_on_one_line(stored.data)) if stored.data is not None else None
    if record is None:
        return None
    metadata = record.metadata or _MessageMetadata()
    time = record.time if record.time.created is not None else metadata.time
    assistant = metadata.assistant or _AssistantMetadata()
    path = record.path or assistant.path or OpenCodePath()
    return OpenCodeMessage(
        id=stored.id,
        kind=stored.type or record.role,
        at_us=microseconds(time.created),
        ended_us=microseconds(time.completed),
        error=record.error or metadata.error,
        finish=record.finish,
        is_summary=bytes(record.summary) == b"true" or assistant.summary,
        cwd=path.cwd or path.root,
        parts=list(_contained_parts(stored, record)),
        command=record.command,
    )


def _contained_parts(stored: StoredMessage, record: _MessageRecord) -> Iterable[OpenCodePart]:
    """Return the parts that a message contains, converted to today's format."""
    match stored.type:
        case "":
            return map(_from_first_version, record.parts)
        case "user":
            text = OpenCodePart(id=f"{stored.id}-text", type="text", text=record.text)
            return [text, *(_as_file_part(file) for file in record.files)]
        case "assistant":
            return map(_from_newest_version, record.content)
        case "shell":
            state = OpenCodeToolState(status="completed", output=record.output, time=record.time)
            return [OpenCodePart(type="tool", tool="bash", call_id=record.call_id, state=state)]
        case "compaction":
            return [OpenCodePart(id=stored.id, type="text", text=record.summary)]
        case _:
            return []


def _as_file_part(file: OpenCodeAttachment) -> OpenCodePart:
    return OpenCodePart(type="file", mime=file.mime, filename=file.name, url=file.uri)


def _from_newest_version(part: OpenCodePart) -> OpenCodePart:
    if part.type != "tool":
        return part
    time = OpenCodeTimes(start=part.time.ran or part.time.created, end=part.time.completed)
    state = replace(part.state or OpenCodeToolState(), time=time)
    return replace(part, call_id=part.id, tool=part.name or "", state=state)


def _from_first_version(part: OpenCodePart) -> OpenCodePart:
    call = part.tool_invocation
    if part.type == "file":
        return replace(part, mime=part.mime or part.media_type)
    if call is None:
        return part
    status = "completed" if call.state == "result" else "running"
    state = OpenCodeToolState(status=status, input=call.args, output=call.result)
    return replace(part, type="tool", tool=call.tool_name, call_id=call.tool_call_id, state=state)
