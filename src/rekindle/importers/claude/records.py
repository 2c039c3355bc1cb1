"""The records in Claude Code's files: only the fields of interest, all of them optional."""

from msgspec import Raw, Struct

from rekindle.importers.lenient_reader import MISSING, LenientReader


class ClaudeMessageHead(Struct, frozen=True, gc=False):
    """The fields of a message that decide where its record belongs."""

    id: str | None = None
    content: Raw = MISSING


class ClaudeAttachmentHead(Struct, frozen=True, gc=False):
    """The type of an attachment."""

    type: str = ""


class ClaudeForkOrigin(Struct, frozen=True, rename="camel", gc=False):
    """The session that a session was copied from."""

    session_id: str | None = None


class ClaudeRecordHead(Struct, frozen=True, rename="camel", gc=False):
    """The fields of a record that decide where it belongs. The rest is not decoded."""

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
    message: ClaudeMessageHead | None = None
    attachment: ClaudeAttachmentHead | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    leaf_uuid: str | None = None
    relocated_cwd: str | None = None
    forked_from: ClaudeForkOrigin | None = None


class ClaudeMediaSource(Struct, frozen=True, gc=False):
    """The data or the address of an image or a document."""

    type: str = ""
    media_type: str = ""
    data: Raw = MISSING
    url: str = ""


class ClaudeBlock(Struct, frozen=True, gc=False):
    """A content block of a message. Long texts stay undecoded."""

    type: str = ""
    text: Raw = MISSING
    thinking: Raw = MISSING
    id: str = ""
    name: str = ""
    input: Raw = MISSING
    tool_use_id: str = ""
    content: Raw = MISSING
    is_error: bool | None = None
    source: ClaudeMediaSource | None = None
    title: str | None = None
    url: str | None = None


class ClaudeMessage(Struct, frozen=True, gc=False):
    """A message of the user or of the model."""

    id: str | None = None
    model: str | None = None
    content: str | list[ClaudeBlock] = ""
    stop_reason: str | None = None


class ClaudeAttachment(Struct, frozen=True, rename="camel", gc=False):
    """Additional input for the model."""

    type: str = ""
    prompt: str | list[ClaudeBlock] = ""


class ClaudeSender(Struct, frozen=True, gc=False):
    """The sender of a message in the user's role."""

    kind: str = ""


class ClaudeRecord(Struct, frozen=True, rename="camel", gc=False):
    """A record of the conversation."""

    type: str = ""
    uuid: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    origin: ClaudeSender | None = None
    message: ClaudeMessage | None = None
    attachment: ClaudeAttachment | None = None
    operation: str | None = None
    content: Raw = MISSING
    tool_use_result: Raw = MISSING


read_record_head = LenientReader(ClaudeRecordHead)
read_record = LenientReader(ClaudeRecord)
