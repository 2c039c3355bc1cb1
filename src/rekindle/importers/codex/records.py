"""The records in Codex's files: only the fields of interest, all of them optional."""

from msgspec import Raw, Struct, field

from rekindle.importers.lenient_reader import MISSING, LenientReader


class CodexLine(Struct, frozen=True, gc=False):
    """A line of a file. Before September 2025, the payload was the line itself."""

    type: str = ""
    timestamp: str | None = None
    ordinal: int | None = None
    payload: Raw = MISSING


# -- records for the outline ------------------------------------------------------------------


class CodexItemHead(Struct, frozen=True, gc=False):
    """The type of an item of a turn."""

    type: str = ""


class CodexPayloadHead(Struct, frozen=True, gc=False):
    """The fields of a payload that mark the start of a turn, or a rollback."""

    type: str = ""
    num_turns: int | None = None
    item: CodexItemHead | None = None


class CodexLineHead(Struct, frozen=True, gc=False):
    """The fields that decide how a line is used. The rest is not decoded."""

    type: str = ""
    timestamp: str | None = None
    ordinal: int | None = None
    payload: CodexPayloadHead | None = None
    id: str | None = None
    record_type: str | None = None


class CodexHistoryBase(Struct, frozen=True, gc=False):
    """The end of the history that a session inherits. `thread_id` is the id of a file."""

    thread_id: str = ""
    end_ordinal_exclusive: int | None = None
    end_byte_offset: int | None = None


class CodexSpawnSource(Struct, frozen=True, gc=False):
    """The session that started a sub-agent."""

    parent_thread_id: str | None = None


class CodexSubAgentSource(Struct, frozen=True, gc=False):
    """The reason why a sub-agent was started."""

    thread_spawn: CodexSpawnSource | None = None


class CodexSource(Struct, frozen=True, gc=False):
    """The origin of a session that was not started by a person."""

    subagent: CodexSubAgentSource | str | None = None


class CodexMeta(Struct, frozen=True, gc=False):
    """The metadata of a session."""

    id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    cli_version: str | None = None
    source: CodexSource | str | None = None
    parent_thread_id: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None
    history_mode: str | None = None
    history_base: CodexHistoryBase | None = None
    subagent_history_start_ordinal: int | None = None


class _MetaLine(Struct, frozen=True, gc=False):
    payload: CodexMeta | None = None


# -- records that are converted ---------------------------------------------------------------


class CodexPart(Struct, frozen=True, gc=False):
    """A part of a message. Long texts stay undecoded."""

    type: str = ""
    text: Raw = MISSING
    image_url: Raw = MISSING
    image_link: Raw = field(default=MISSING, name="imageUrl")
    path: str | None = None
    name: str | None = None


class CodexAction(Struct, frozen=True, gc=False):
    """A search or a command."""

    type: str = ""
    query: str | None = None
    queries: list[str] | None = None
    url: str | None = None
    pattern: str | None = None
    command: list[str] | None = None


class CodexItem(Struct, frozen=True, gc=False):
    """Input or output of the model."""

    type: str = ""
    role: str = ""
    id: str | None = None
    content: list[CodexPart] | None = None
    summary: list[CodexPart] | None = None
    name: str = ""
    namespace: str | None = None
    arguments: Raw = MISSING
    input: Raw = MISSING
    call_id: str | None = None
    output: Raw = MISSING
    status: str | None = None
    action: CodexAction | None = None
    revised_prompt: str | None = None
    result: Raw = MISSING


class CodexFileChange(Struct, frozen=True, gc=False):
    """The change of a file."""

    type: str = ""
    content: Raw = MISSING
    unified_diff: str | None = None
    move_path: str | None = None


class CodexParsedCommand(Struct, frozen=True, gc=False):
    """Codex's interpretation of a command."""

    type: str = ""
    name: str | None = None
    path: str | None = None
    query: str | None = None


class CodexCodeLocation(Struct, frozen=True, gc=False):
    """The location of a finding."""

    absolute_file_path: str | None = None


class CodexFinding(Struct, frozen=True, gc=False):
    """A finding of a review."""

    title: str = ""
    body: str = ""
    code_location: CodexCodeLocation | None = None


class CodexReview(Struct, frozen=True, gc=False):
    """The result of a review."""

    overall_explanation: str = ""
    findings: list[CodexFinding] = []


class CodexError(Struct, frozen=True, gc=False):
    """An error."""

    message: str = ""


class CodexTurnItem(Struct, frozen=True, gc=False):
    """An item of a turn, as the user saw it."""

    type: str = ""
    id: str = ""
    content: list[CodexPart] | None = None
    text: Raw = MISSING
    summary_text: list[Raw] = []
    raw_content: list[Raw] = []
    command: list[str] = []
    parsed_cmd: list[CodexParsedCommand] = []
    status: str | None = None
    aggregated_output: Raw = MISSING
    stdout: Raw = MISSING
    exit_code: int | None = None
    changes: dict[str, CodexFileChange] = {}
    server: str = ""
    namespace: str | None = None
    tool: str = ""
    arguments: Raw = MISSING
    content_items: list[CodexPart] | None = None
    result: Raw = MISSING
    error: CodexError | str | None = None
    query: str | None = None
    action: CodexAction | None = None
    path: str | None = None
    receiver_thread_ids: list[str] = []
    prompt: str | None = None
    agent_thread_id: str | None = None
    agent_path: str | None = None
    kind: str = ""
    user_facing_hint: str | None = None
    review_output: CodexReview | None = None
    revised_prompt: str | None = None


class CodexInvocation(Struct, frozen=True, gc=False):
    """A call of an MCP server's tool."""

    server: str = ""
    tool: str = ""
    arguments: Raw = MISSING


class CodexEvent(Struct, frozen=True, gc=False):
    """An event, as the user saw it."""

    type: str = ""
    message: Raw = MISSING
    text: Raw = MISSING
    kind: str | None = None
    images: list[Raw] | None = None
    local_images: list[str] | None = None
    turn_id: str | None = None
    error: CodexError | None = None
    item: CodexTurnItem | None = None
    call_id: str = ""
    event_id: str = ""
    success: bool | None = None
    status: str | None = None
    changes: dict[str, CodexFileChange] = {}
    stderr: Raw = MISSING
    invocation: CodexInvocation | None = None
    result: Raw = MISSING
    query: str | None = None
    action: CodexAction | None = None
    user_facing_hint: str | None = None
    review_output: CodexReview | None = None
    revised_prompt: str | None = None
    agent_thread_id: str | None = None
    agent_path: str | None = None


class CodexMessage(Struct, frozen=True, gc=False):
    """A message between agents, or the summary of a compacted conversation."""

    content: Raw = MISSING
    message: Raw = MISSING


read_line = LenientReader(CodexLine)
read_line_head = LenientReader(CodexLineHead)
_read_meta = LenientReader(CodexMeta)
read_item = LenientReader(CodexItem)
read_event = LenientReader(CodexEvent)
read_message = LenientReader(CodexMessage)
_read_meta_line = LenientReader(_MetaLine)


def read_first_line(line: bytes) -> CodexMeta | None:
    """Return the metadata in the first line of a file."""
    wrapped = _read_meta_line(line)
    return wrapped.payload if wrapped is not None and wrapped.payload else _read_meta(line)


def parent_of(meta: CodexMeta) -> str | None:
    """Return the session that has started this one."""
    source = meta.source.subagent if isinstance(meta.source, CodexSource) else None
    spawned = source.thread_spawn if isinstance(source, CodexSubAgentSource) else None
    return meta.parent_thread_id or (spawned.parent_thread_id if spawned is not None else None)


def is_sub_agent(meta: CodexMeta) -> bool:
    """Return whether a session belongs to a sub-agent."""
    has_source = isinstance(meta.source, CodexSource) and meta.source.subagent is not None
    return has_source or parent_of(meta) is not None
