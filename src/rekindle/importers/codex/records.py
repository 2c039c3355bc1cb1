"""The records of Codex's files: of each only what is wanted of it, and all of it optional."""

from msgspec import Raw, Struct, field

from rekindle.importers.lenient_reader import Reader

NOTHING = Raw()


class Line(Struct, gc=False):
    """A line of a file. Before September 2025, what is now in the payload was the line itself."""

    type: str = ""
    timestamp: str | None = None
    ordinal: int | None = None
    payload: Raw = NOTHING


# -- what is looked at to find out what belongs to a session ---------------------------------


class MarkedItem(Struct, gc=False):
    """Of what happened in a turn, what it is."""

    type: str = ""


class MarkedPayload(Struct, gc=False):
    """Of a payload, what tells where turns begin, and which were taken back."""

    type: str = ""
    num_turns: int | None = None
    item: MarkedItem | None = None


class Mark(Struct, gc=False):
    """Of a line, what tells what it is. Most of a file is passed over unread."""

    type: str = ""
    timestamp: str | None = None
    ordinal: int | None = None
    payload: MarkedPayload | None = None
    id: str | None = None
    record_type: str | None = None


class Base(Struct, gc=False):
    """Up to where a session begins in another file. What is named there is a file's id."""

    thread_id: str = ""
    end_ordinal_exclusive: int | None = None
    end_byte_offset: int | None = None


class Spawned(Struct, gc=False):
    """Who has started a sub-agent."""

    parent_thread_id: str | None = None


class SubAgent(Struct, gc=False):
    """What for a sub-agent was started."""

    thread_spawn: Spawned | None = None


class Source(Struct, gc=False):
    """Who has begun a session, if no person did."""

    subagent: SubAgent | str | None = None


class Meta(Struct, gc=False):
    """What is known of a session."""

    id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    cli_version: str | None = None
    source: Source | str | None = None
    parent_thread_id: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None
    history_mode: str | None = None
    history_base: Base | None = None
    subagent_history_start_ordinal: int | None = None


class _MetaLine(Struct, gc=False):
    payload: Meta | None = None


# -- what is told ------------------------------------------------------------------------------


class Part(Struct, gc=False):
    """A part of what was said. Long texts are passed on as they stand there."""

    type: str = ""
    text: Raw = NOTHING
    image_url: Raw = NOTHING
    image_link: Raw = field(default=NOTHING, name="imageUrl")
    path: str | None = None
    name: str | None = None


class Action(Struct, gc=False):
    """What was looked for, or run."""

    type: str = ""
    query: str | None = None
    queries: list[str] | None = None
    url: str | None = None
    pattern: str | None = None
    command: list[str] | None = None


class Item(Struct, gc=False):
    """What the model was told, or has said."""

    type: str = ""
    role: str = ""
    id: str | None = None
    content: list[Part] | None = None
    summary: list[Part] | None = None
    name: str = ""
    namespace: str | None = None
    arguments: Raw = NOTHING
    input: Raw = NOTHING
    call_id: str | None = None
    output: Raw = NOTHING
    status: str | None = None
    action: Action | None = None
    revised_prompt: str | None = None
    result: Raw = NOTHING


class Change(Struct, gc=False):
    """What became of a file."""

    type: str = ""
    content: Raw = NOTHING
    unified_diff: str | None = None
    move_path: str | None = None


class Parsed(Struct, gc=False):
    """What a command does, as far as Codex knows."""

    type: str = ""
    name: str | None = None
    path: str | None = None
    query: str | None = None


class Place(Struct, gc=False):
    """Where in a file something was found."""

    absolute_file_path: str | None = None


class Finding(Struct, gc=False):
    """Something that a review has found."""

    title: str = ""
    body: str = ""
    code_location: Place | None = None


class Review(Struct, gc=False):
    """What a review has brought."""

    overall_explanation: str = ""
    findings: list[Finding] = []


class Mishap(Struct, gc=False):
    """What went wrong."""

    message: str = ""


class TurnItem(Struct, gc=False):
    """Something that happened in a turn, as it is shown."""

    type: str = ""
    id: str = ""
    content: list[Part] | None = None
    text: Raw = NOTHING
    summary_text: list[Raw] = []
    raw_content: list[Raw] = []
    command: list[str] = []
    parsed_cmd: list[Parsed] = []
    status: str | None = None
    aggregated_output: Raw = NOTHING
    stdout: Raw = NOTHING
    exit_code: int | None = None
    changes: dict[str, Change] = {}
    server: str = ""
    namespace: str | None = None
    tool: str = ""
    arguments: Raw = NOTHING
    content_items: list[Part] | None = None
    result: Raw = NOTHING
    error: Mishap | str | None = None
    query: str | None = None
    action: Action | None = None
    path: str | None = None
    receiver_thread_ids: list[str] = []
    prompt: str | None = None
    agent_thread_id: str | None = None
    agent_path: str | None = None
    kind: str = ""
    user_facing_hint: str | None = None
    review_output: Review | None = None
    revised_prompt: str | None = None


class Invocation(Struct, gc=False):
    """Which tool of which server was called."""

    server: str = ""
    tool: str = ""
    arguments: Raw = NOTHING


class Event(Struct, gc=False):
    """Something that was shown when it happened."""

    type: str = ""
    message: Raw = NOTHING
    text: Raw = NOTHING
    kind: str | None = None
    images: list[Raw] | None = None
    local_images: list[str] | None = None
    turn_id: str | None = None
    error: Mishap | None = None
    item: TurnItem | None = None
    call_id: str = ""
    event_id: str = ""
    success: bool | None = None
    status: str | None = None
    changes: dict[str, Change] = {}
    stderr: Raw = NOTHING
    invocation: Invocation | None = None
    result: Raw = NOTHING
    query: str | None = None
    action: Action | None = None
    user_facing_hint: str | None = None
    review_output: Review | None = None
    revised_prompt: str | None = None
    agent_thread_id: str | None = None
    agent_path: str | None = None


class Message(Struct, gc=False):
    """What one agent has said to another; or what a conversation was made of when it was long."""

    content: Raw = NOTHING
    message: Raw = NOTHING


read_line = Reader(Line)
read_mark = Reader(Mark)
read_meta = Reader(Meta)
read_item = Reader(Item)
read_event = Reader(Event)
read_message = Reader(Message)
_read_meta_line = Reader(_MetaLine)


def meta_of(line: bytes) -> Meta | None:
    """Return what the first line of a file tells of the session."""
    wrapped = _read_meta_line(line)
    return wrapped.payload if wrapped is not None and wrapped.payload else read_meta(line)


def parent_of(meta: Meta) -> str | None:
    """Return the session that has started this one."""
    source = meta.source.subagent if isinstance(meta.source, Source) else None
    spawned = source.thread_spawn if isinstance(source, SubAgent) else None
    return meta.parent_thread_id or (spawned.parent_thread_id if spawned is not None else None)


def is_agents(meta: Meta) -> bool:
    """Tell whether a session is that of a sub-agent."""
    has_source = isinstance(meta.source, Source) and meta.source.subagent is not None
    return has_source or parent_of(meta) is not None
