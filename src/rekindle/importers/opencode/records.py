"""What OpenCode has on record: sessions, messages and their parts, in all versions of its format.

A message of today is a row, or a file, and so is each of its parts. In the first version it had
its parts inside. In the newest one it has them inside again, and a type instead of a role.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import MsgspecError, Raw, Struct

from rekindle.importers.entry_builder import LATEST_US
from rekindle.importers.lenient_reader import Reader

NOTHING = Raw(b"null")


class Times(Struct, frozen=True, gc=False):
    """When something was, in milliseconds."""

    created: float | None = None
    completed: float | None = None
    updated: float | None = None
    archived: float | None = None
    start: float | None = None
    end: float | None = None
    ran: float | None = None


class Revert(Struct, rename={"message_id": "messageID", "part_id": "partID"}, gc=False):
    """From where on the user has taken the session back."""

    message_id: str = ""
    part_id: str | None = None


class Session(Struct, rename={"parent_id": "parentID"}, kw_only=True):
    """What is said of a session."""

    id: str = ""
    parent_id: str | None = None
    directory: str | None = None
    title: str | None = None
    version: str | None = None
    revert: Revert | None = None
    time: Times = Times()


class Shown(Struct, gc=False):
    """A file that somebody has shown, or a text, as the newest version has it."""

    type: str = ""
    text: Raw = NOTHING
    url: Raw = NOTHING
    uri: Raw = NOTHING
    mime: str = ""
    filename: str | None = None
    name: str | None = None


class Failure(Struct, gc=False):
    """What went wrong."""

    name: str = ""
    message: str = ""
    data: "Failure | None" = None

    @property
    def words(self) -> str:
        """What is said of it."""
        return (self.data.message if self.data is not None else "") or self.message


class State(Struct, gc=False):
    """How far a call is."""

    status: str = ""
    input: Raw = NOTHING
    output: Raw = NOTHING
    error: Raw = NOTHING
    title: str | None = None
    metadata: Raw = NOTHING
    structured: Raw = NOTHING
    content: list[Shown] = []
    attachments: list[Shown] = []
    time: Times = Times()


class Invocation(Struct, rename="camel", gc=False):
    """A call, in the first version."""

    state: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    args: Raw = NOTHING
    result: Raw = NOTHING


_NAMES = {
    "call_id": "callID",
    "is_synthetic": "synthetic",
    "is_ignored": "ignored",
    "media_type": "mediaType",
    "tool_invocation": "toolInvocation",
}


class Part(Struct, rename=_NAMES, kw_only=True):
    """A part of a message."""

    id: str = ""
    type: str = ""
    text: Raw = NOTHING
    is_synthetic: bool = False
    is_ignored: bool = False
    call_id: str = ""
    tool: str = ""
    name: str | None = None
    state: State | None = None
    tool_invocation: Invocation | None = None
    time: Times = Times()
    mime: str = ""
    media_type: str = ""
    filename: str | None = None
    url: Raw = NOTHING
    prompt: Raw = NOTHING
    description: str = ""
    overflow: bool = False


class Place(Struct, gc=False):
    """Where the agent has worked."""

    cwd: str | None = None
    root: str | None = None


class _Of(Struct, rename="camel", gc=False):
    """What the first version said of the agent."""

    path: Place | None = None
    summary: bool = False


class _About(Struct, gc=False):
    """What the first version said of a message."""

    time: Times = Times()
    error: Failure | None = None
    assistant: _Of | None = None


class _Record(Struct, rename={"call_id": "callID"}, kw_only=True):
    """A message as it is written."""

    id: str = ""
    role: str = ""
    type: str = ""
    time: Times = Times()
    error: Failure | None = None
    finish: str | None = None
    summary: Raw = NOTHING
    """Of an answer, whether it is one; of a compaction, its words."""
    path: Place | None = None
    parts: list[Part] = []
    content: list[Part] = []
    metadata: _About | None = None
    text: Raw = NOTHING
    files: list[Shown] = []
    command: str = ""
    call_id: str = ""
    output: Raw = NOTHING


class Stored(Struct, frozen=True, gc=False):
    """A message where it is kept, not read yet."""

    id: str
    type: str
    """The newest version's; else empty."""
    data: bytes | None
    parts: Callable[[], Iterator[tuple[str, bytes | None]]]
    """Yields the ids of its parts, and the parts, in order; None for what is too large."""


class Message(Struct, kw_only=True):
    """A message, whichever version wrote it."""

    id: str
    kind: str
    """user, assistant, shell, compaction, or what nobody knows."""
    at_us: int | None
    ended_us: int | None
    error: Failure | None = None
    finish: str | None = None
    is_summary: bool = False
    cwd: str | None = None
    inside: list[Part] = []
    command: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the agent may still be at it."""
        return self.kind in {"assistant", "shell"} and self.ended_us is None and self.error is None


read_session = Reader(Session)
read_revert = Reader(Revert)
_read_part = Reader(Part)
_read_record = Reader(_Record)


def read_part(data: bytes) -> Part | None:
    """Read a part; None if it is none."""
    return _read_part(_on_one_line(data))


def _on_one_line(data: bytes) -> bytes:
    """Return a record without line breaks, as files have them: parts of it are passed on unread."""
    if b"\n" not in data and b"\r" not in data:
        return data
    try:
        return msgspec.json.format(data, indent=-1)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return data


def microseconds(milliseconds: float | None) -> int | None:
    """Return a time as it is counted here; None if no calendar has it."""
    if milliseconds is None or not 0 <= milliseconds <= LATEST_US / 1000:
        return None
    return int(milliseconds * 1000)


def message_of(stored: Stored) -> Message | None:
    """Read a message; None if it is none."""
    record = _read_record(_on_one_line(stored.data)) if stored.data is not None else None
    if record is None:
        return None
    about = record.metadata or _About()
    time = record.time if record.time.created is not None else about.time
    of = about.assistant or _Of()
    path = record.path or of.path or Place()
    return Message(
        id=stored.id,
        kind=stored.type or record.role,
        at_us=microseconds(time.created),
        ended_us=microseconds(time.completed),
        error=record.error or about.error,
        finish=record.finish,
        is_summary=bytes(record.summary) == b"true" or of.summary,
        cwd=path.cwd or path.root,
        inside=list(_inside(stored, record)),
        command=record.command,
    )


def _inside(stored: Stored, record: _Record) -> Iterable[Part]:
    """Return the parts that are in a message, as today's."""
    match stored.type:
        case "":
            return map(_of_first_version, record.parts)
        case "user":
            said = Part(id=f"{stored.id}-text", type="text", text=record.text)
            return [said, *(_as_file(it) for it in record.files)]
        case "assistant":
            return map(_of_newest_version, record.content)
        case "shell":
            state = State(status="completed", output=record.output, time=record.time)
            return [Part(type="tool", tool="bash", call_id=record.call_id, state=state)]
        case "compaction":
            return [Part(id=stored.id, type="text", text=record.summary)]
        case _:
            return []


def _as_file(shown: Shown) -> Part:
    return Part(type="file", mime=shown.mime, filename=shown.name, url=shown.uri)


def _of_newest_version(part: Part) -> Part:
    if part.type == "tool":
        time, state = part.time, part.state or State()
        state.time = Times(start=time.ran or time.created, end=time.completed)
        part.call_id, part.tool, part.state = part.id, part.name or "", state
    return part


def _of_first_version(part: Part) -> Part:
    made = part.tool_invocation
    if part.type == "file":
        part.mime = part.mime or part.media_type
    elif made is not None:
        status = "completed" if made.state == "result" else "running"
        part.state = State(status=status, input=made.args, output=made.result)
        part.type, part.tool, part.call_id = "tool", made.tool_name, made.tool_call_id
    return part
