"""The registry of update kinds: one row for each name that `sessionUpdate` may have.

A row has the protocol versions that define the kind, its category, and the methods that translate
it live to the other version. `transcript/reducer.REDUCERS` has the function that folds it into the
transcript, and `export/views.VIEWS` the presentation of the items that result. A test compares the
three tables. docs/design/update-kinds.md shows how a kind is added.

A name that no row has is an unknown kind: it belongs to the history, and is kept as it came.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto

from msgspec import Struct

from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2, NamedMessage
from rekindle.acp.translate.session_state import (
    SessionState,
    StateTranslation,
    commands_to_replay_v1,
    commands_to_replay_v2,
    not_replayed,
    options_to_replay_v1,
    options_to_replay_v2,
    unchanged,
)
from rekindle.acp.translate.subagents import SUBAGENT_UPDATE
from rekindle.jsonvalue import Json, without

ToV1 = Callable[[LiveToV1, Json], list[Json]]
ToV2 = Callable[[LiveToV2, Json], Json]

SESSION_INFO_UPDATE = "session_info_update"
STATE_UPDATE = "state_update"
HISTORY_TRUNCATED = "history_truncated"


class Category(Enum):
    """The part of a session that an update belongs to."""

    USER_MESSAGE = auto()
    AGENT_MESSAGE = auto()
    THOUGHT = auto()
    TOOL_CALL = auto()
    TERMINAL = auto()
    PLAN = auto()
    SUBAGENT = auto()
    """The relation to the session of a sub-agent, which has updates of its own."""
    SESSION_MESSAGE = auto()
    """A message between a session and a sub-agent's."""
    OTHER = auto()
    """Any other part of the history."""
    TRUNCATION = auto()
    """The removal of the end of the history."""
    NOTICE = auto()
    """A passing remark, which is not part of the history."""
    STATE = auto()
    """The present state of the session. A later update replaces an earlier one."""


class UpdateKind(Struct, frozen=True, kw_only=True):
    """One kind of update."""

    name: str
    versions: tuple[int, ...]
    """The protocol versions that define it."""
    category: Category
    is_chunk: bool = False
    """Whether an update adds to an earlier one of the same kind."""
    to_v1: ToV1 = LiveToV1.unknown
    """Translates an update of a version 2 agent for a version 1 client."""
    to_v2: ToV2 = LiveToV2.unknown
    """Translates an update of a version 1 agent for a version 2 client."""
    state_to_v1: StateTranslation | None = None
    """Translates the present state for a replay in version 1. Only for the category STATE.

    Without a function the state is replayed unchanged if the version defines the kind, and left
    out otherwise.
    """
    state_to_v2: StateTranslation | None = None
    """Translates the present state for a replay in version 2, like `state_to_v1`."""


def _tool_call_to_v1(live: LiveToV1, update: Json) -> list[Json]:
    return live.tool_calls.tool_call(update)


def _content_chunk_to_v1(live: LiveToV1, update: Json) -> list[Json]:
    return live.tool_calls.content_chunk(update)


def _terminal_to_v1(live: LiveToV1, update: Json) -> list[Json]:
    return live.tool_calls.terminal(update)


def _terminal_output_to_v1(live: LiveToV1, update: Json) -> list[Json]:
    return live.tool_calls.terminal_output(update)


def _message(name: str, category: Category) -> list[UpdateKind]:
    """Return the rows of a message: sent whole, which only version 2 has, and in chunks."""
    return [
        UpdateKind(name=name, versions=(2,), category=category, to_v1=LiveToV1.whole_message),
        UpdateKind(
            name=f"{name}_chunk",
            versions=(1, 2),
            category=category,
            is_chunk=True,
            to_v1=LiveToV1.chunk,
            to_v2=LiveToV2.chunk,
        ),
    ]


_ROWS = [
    *_message("user_message", Category.USER_MESSAGE),
    *_message("agent_message", Category.AGENT_MESSAGE),
    *_message("agent_thought", Category.THOUGHT),
    UpdateKind(
        name="tool_call", versions=(1,), category=Category.TOOL_CALL, to_v2=LiveToV2.tool_call
    ),
    UpdateKind(
        name="tool_call_update",
        versions=(1, 2),
        category=Category.TOOL_CALL,
        to_v1=_tool_call_to_v1,
        to_v2=LiveToV2.tool_call,
    ),
    UpdateKind(
        name="tool_call_content_chunk",
        versions=(2,),
        category=Category.TOOL_CALL,
        is_chunk=True,
        to_v1=_content_chunk_to_v1,
    ),
    UpdateKind(
        name="terminal_update", versions=(2,), category=Category.TERMINAL, to_v1=_terminal_to_v1
    ),
    UpdateKind(
        name="terminal_output_chunk",
        versions=(2,),
        category=Category.TERMINAL,
        is_chunk=True,
        to_v1=_terminal_output_to_v1,
    ),
    UpdateKind(name="plan", versions=(1,), category=Category.PLAN, to_v2=LiveToV2.plan),
    UpdateKind(name="plan_update", versions=(2,), category=Category.PLAN, to_v1=LiveToV1.plan),
    # Version 1 has these only for clients that announce sub-agents.
    UpdateKind(
        name=SUBAGENT_UPDATE,
        versions=(1, 2),
        category=Category.SUBAGENT,
        to_v1=LiveToV1.subagent,
        to_v2=LiveToV2.subagent,
    ),
    UpdateKind(
        name="session_message",
        versions=(1, 2),
        category=Category.SESSION_MESSAGE,
        to_v1=LiveToV1.session_message,
        to_v2=LiveToV2.session_message,
    ),
    UpdateKind(
        name="session_message_chunk",
        versions=(1, 2),
        category=Category.SESSION_MESSAGE,
        is_chunk=True,
        to_v1=LiveToV1.session_message,
        to_v2=LiveToV2.session_message,
    ),
    # Version 1 has these only for clients that announce them, so `to_v1` leaves them out.
    UpdateKind(
        name="compaction_update",
        versions=(1, 2),
        category=Category.OTHER,
        to_v2=LiveToV2.unchanged,
    ),
    UpdateKind(
        name="compaction_summary_chunk",
        versions=(1, 2),
        category=Category.OTHER,
        to_v2=LiveToV2.unchanged,
    ),
    # A proposal that no schema has yet: see docs/design/session-methods.md.
    UpdateKind(
        name=HISTORY_TRUNCATED,
        versions=(),
        category=Category.TRUNCATION,
        to_v1=LiveToV1.truncation,
        to_v2=LiveToV2.unchanged,
    ),
    UpdateKind(name="notice", versions=(1, 2), category=Category.NOTICE, to_v2=LiveToV2.unchanged),
    UpdateKind(
        name="current_mode_update",
        versions=(1,),
        category=Category.STATE,
        to_v2=LiveToV2.current_mode,
    ),
    UpdateKind(
        name="config_option_update",
        versions=(1, 2),
        category=Category.STATE,
        to_v1=LiveToV1.config_options,
        to_v2=LiveToV2.config_options,
        state_to_v1=options_to_replay_v1,
        state_to_v2=options_to_replay_v2,
    ),
    UpdateKind(
        name="available_commands_update",
        versions=(1, 2),
        category=Category.STATE,
        to_v1=LiveToV1.available_commands,
        to_v2=LiveToV2.available_commands,
        state_to_v1=commands_to_replay_v1,
        state_to_v2=commands_to_replay_v2,
    ),
    UpdateKind(
        name=SESSION_INFO_UPDATE,
        versions=(1, 2),
        category=Category.STATE,
        to_v1=LiveToV1.unchanged,
        to_v2=LiveToV2.unchanged,
    ),
    UpdateKind(
        name="usage_update",
        versions=(1, 2),
        category=Category.STATE,
        to_v1=LiveToV1.unchanged,
        to_v2=LiveToV2.unchanged,
    ),
    UpdateKind(
        name=STATE_UPDATE,
        versions=(2,),
        category=Category.STATE,
        to_v1=LiveToV1.session_state,
        state_to_v2=not_replayed,
    ),
]

KINDS: dict[str, UpdateKind] = {row.name: row for row in _ROWS}
"""The kinds by name. Use `kind_of` to look one up. The state is replayed in the order of rows."""

_UNKNOWN = UpdateKind(name="", versions=(), category=Category.OTHER)


def kind_of(name: object) -> UpdateKind:
    """Return the row of a kind; for an unknown name, the row of unknown kinds."""
    return KINDS.get(name, _UNKNOWN) if isinstance(name, str) else _UNKNOWN


def update_to_v1(live: LiveToV1, update: Json) -> list[Json]:
    """Translate an update of a version 2 agent for a version 1 client."""
    kind = kind_of(update.get("sessionUpdate"))
    live.follows_terminal = kind.is_chunk and kind.category is Category.TERMINAL
    return kind.to_v1(live, update)


def update_to_v2(live: LiveToV2, update: Json) -> tuple[Json, NamedMessage | None]:
    """Translate an update of a version 1 agent for a version 2 client.

    Also returns the message that begins with it, if the translator made an id for it.
    """
    live.new_message = None
    kind = kind_of(update.get("sessionUpdate"))
    if kind.category is Category.OTHER:
        live.end_message()
    return kind.to_v2(live, update), live.new_message


def state_updates(state: SessionState, version: int) -> Iterator[Json]:
    """Yield the updates that report the present state in a version, for a replay."""
    for kind in KINDS.values():
        if kind.category is Category.STATE:
            translate = kind.state_to_v1 if version == 1 else kind.state_to_v2
            if translate is None:
                translate = unchanged if version in kind.versions else not_replayed
            fields = translate(state, kind.name)
            if fields is not None:
                named = {"sessionUpdate": kind.name}
                # The order of the fields is that of release 0.1: the kind comes first in version
                # 1, and where the recorded update has it in version 2.
                yield named | without(fields, *named) if version == 1 else fields | named


# -- questions about kinds --------------------------------------------------------------------


def is_state(name: str) -> bool:
    """Return whether an update reports the present state; all others belong to the history."""
    return kind_of(name).category is Category.STATE


def is_user_message(name: str) -> bool:
    """Return whether an update is a user message or a chunk of one."""
    return kind_of(name).category is Category.USER_MESSAGE


def is_agent_message(name: str) -> bool:
    """Return whether an update is a message of the agent or a chunk of one."""
    return kind_of(name).category is Category.AGENT_MESSAGE


def is_agent_chunk(name: str) -> bool:
    """Return whether an update is a chunk of a message or thought of the agent."""
    kind = kind_of(name)
    return kind.is_chunk and kind.category in {Category.AGENT_MESSAGE, Category.THOUGHT}


def is_tool_call(name: str) -> bool:
    """Return whether an update has the fields of a tool call."""
    kind = kind_of(name)
    return kind.category is Category.TOOL_CALL and not kind.is_chunk


def concerns_subagents(name: str) -> bool:
    """Return whether an update is about a sub-agent, or a message between sessions."""
    # A set would be slow: the hash of an enum member is computed in Python.
    category = kind_of(name).category
    return category is Category.SUBAGENT or category is Category.SESSION_MESSAGE


def is_terminal_output(name: str) -> bool:
    """Return whether an update adds to the output of a terminal."""
    kind = kind_of(name)
    return kind.is_chunk and kind.category is Category.TERMINAL
