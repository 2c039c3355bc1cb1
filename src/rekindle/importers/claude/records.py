"""The records of Claude Code's files: of each only what is wanted of it, and all of it optional."""

from msgspec import Raw, Struct

from rekindle.importers.lenient_reader import Reader

NOTHING = Raw()


class MarkedMessage(Struct, gc=False):
    """Of a message, what tells where it belongs."""

    id: str | None = None
    content: Raw = NOTHING


class MarkedAttachment(Struct, gc=False):
    """Of what was given to the model besides, what it is."""

    type: str = ""


class Forked(Struct, rename="camel", gc=False):
    """Where a session was copied from."""

    session_id: str | None = None


class Mark(Struct, rename="camel", gc=False):
    """Of a record, what tells where it belongs. Most of a file is passed over unread."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    subtype: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    agent_id: str | None = None
    team_name: str | None = None
    message: MarkedMessage | None = None
    attachment: MarkedAttachment | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    leaf_uuid: str | None = None
    relocated_cwd: str | None = None
    forked_from: Forked | None = None


class Source(Struct, gc=False):
    """What a picture or a document is made of."""

    type: str = ""
    media_type: str = ""
    data: Raw = NOTHING
    url: str = ""


class Block(Struct, gc=False):
    """A part of what was said. Long texts are passed on as they stand there."""

    type: str = ""
    text: Raw = NOTHING
    thinking: Raw = NOTHING
    id: str = ""
    name: str = ""
    input: Raw = NOTHING
    tool_use_id: str = ""
    content: Raw = NOTHING
    is_error: bool | None = None
    source: Source | None = None
    title: str | None = None
    url: str | None = None


class Message(Struct, gc=False):
    """What was said, by the user or by the model."""

    id: str | None = None
    model: str | None = None
    content: str | list[Block] = ""
    stop_reason: str | None = None


class Attachment(Struct, rename="camel", gc=False):
    """What was given to the model besides."""

    type: str = ""
    prompt: str | list[Block] = ""


class Sender(Struct, gc=False):
    """Who has sent a message in the user's name."""

    kind: str = ""


class Record(Struct, rename="camel", gc=False):
    """A record that is part of the conversation."""

    type: str = ""
    uuid: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    origin: Sender | None = None
    message: Message | None = None
    attachment: Attachment | None = None
    operation: str | None = None
    content: Raw = NOTHING
    tool_use_result: Raw = NOTHING


read_mark = Reader(Mark)
read_record = Reader(Record)
