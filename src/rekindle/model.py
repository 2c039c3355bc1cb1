"""The values that all packages share: frozen and without behaviour.

Times are microseconds since 1970, in UTC. The values of enums, and the fields of `Origin` and
`IncomingSession`, are stored on disk: they never change.
"""

from enum import StrEnum
from pathlib import PurePath
from typing import Self

from msgspec import Struct


class Side(StrEnum):
    """The client or the agent."""

    CLIENT = "client"
    AGENT = "agent"

    @property
    def peer(self) -> "Side":
        """The other side."""
        return Side.AGENT if self is Side.CLIENT else Side.CLIENT


class Kind(StrEnum):
    """The role of an entry in its session."""

    SETUP = "setup"
    """The request that created, loaded, resumed or forked the session, without secrets."""
    READY = "ready"
    """The answer to SETUP: modes and configuration options."""
    PROMPT = "prompt"
    """A prompt, as the client sent it."""
    ANSWER = "answer"
    """The answer to a prompt."""
    UPDATE = "update"
    """A `session/update`."""
    PERMISSION = "permission"
    """A permission request of the agent."""
    OUTCOME = "outcome"
    """The client's answer to PERMISSION."""
    CONFIG = "config"
    """A request of the client to set a mode, model or option."""
    CONFIGURED = "configured"
    """The agent's answer to CONFIG."""
    CANCEL = "cancel"
    """The client's cancellation of the turn."""
    NOTICE = "notice"
    """A notification outside the specification that names the session."""
    OPAQUE = "opaque"
    """A line that names the session but is not JSON."""
    ECHO = "echo"
    """A prompt that the agent echoes, perhaps with a message id."""
    NAMED = "named"
    """Written by Rekindle: the id that it assigned to the message that starts here."""
    TERMINAL = "terminal"
    """The output of a terminal that a tool call shows."""
    HANDOVER = "handover"
    """Written by Rekindle: the history that it handed over to the agent."""
    REMINDER = "reminder"
    """Written by Rekindle: the last turns, sent to an agent that had restored the session."""
    GAP = "gap"
    """Written by Rekindle: entries are missing here, because the store failed."""


ACTIVITY = frozenset({Kind.PROMPT, Kind.ANSWER})
"""The kinds that update the time of a session: the starts and ends of turns."""


class Entry(Struct, frozen=True, kw_only=True):
    """A recorded line, with the bytes as they were on the wire, and its place in the session."""

    seq: int
    side: Side
    kind: Kind
    at_us: int
    line: bytes
    protocol: int = 1


class EntryBatch(Struct, frozen=True, kw_only=True):
    """Consecutive entries to write that differ only in their line.

    The lines of one read are mostly alike, so they are processed and written together: `count`
    lines, joined by newlines. The store returns them as single entries.
    """

    session_id: str
    side: Side
    kind: Kind
    at_us: int
    data: bytes
    count: int = 1
    protocol: int = 1

    def __post_init__(self) -> None:
        # Only single lines are checked: counting the newlines of many would be slow.
        if self.count == 1 and b"\n" in self.data:
            raise ValueError("a line must not contain a newline")

    @property
    def lines(self) -> list[bytes]:
        """The lines as a list."""
        return self.data.split(b"\n")


class AgentIdentity(Struct, frozen=True, kw_only=True):
    """The agent's name and version as it reports them, and the command that started it."""

    name: str | None = None
    version: str | None = None
    command: tuple[str, ...] = ()

    @property
    def program(self) -> str | None:
        """The base name of the command."""
        return PurePath(self.command[0]).name if self.command else None

    @property
    def identity(self) -> str:
        """The name that the agent gives itself, or else its program; "" if it has neither."""
        return self.name or self.program or ""

    @property
    def release(self) -> str:
        """The identity and the version."""
        return f"{self.identity} {self.version or ''}".rstrip()


class AgentTrait(StrEnum):
    """A property of a release of an agent that a restore has shown."""

    REPLAYS = "replays"
    """Its `session/load` replays the history, so a load without a replay shows a loss."""
    LOADS_SILENTLY = "loads_silently"
    """Its `session/load` restores without a replay."""


def subagent_record_id(parent_id: str, session_id: str) -> str:
    """Return the id under which the session of a sub-agent is recorded.

    The agent's own id is unique on one connection only, so it follows the id of the parent.
    """
    return f"{parent_id}.{session_id}"


UNKNOWN_TO_AGENT = ""
"""The agent's session id of a session that the agent does not know."""


class Opened(Struct, frozen=True, kw_only=True):
    """A session was created, loaded or resumed. A field that is None stays as it is."""

    session_id: str
    at_us: int
    agent_session_id: str | None = None
    agent: AgentIdentity | None = None
    cwd: str | None = None
    directories: tuple[str, ...] | None = None
    parent_id: str | None = None


class TitleSource(StrEnum):
    """The source of a title. A later member outranks an earlier one."""

    PROMPT = "prompt"
    AGENT = "agent"
    USER = "user"


class Titled(Struct, frozen=True, kw_only=True):
    """A source has set its title, or removed it with None."""

    session_id: str
    at_us: int
    source: TitleSource
    title: str | None


class Counted(Struct, frozen=True, kw_only=True):
    """The session has more turns and messages, or fewer after a rewind."""

    session_id: str
    at_us: int
    turns: int = 0
    messages: int = 0


class Deleted(Struct, frozen=True, kw_only=True):
    """The session was deleted; its entries are kept until they are purged."""

    session_id: str
    at_us: int


class Archived(Struct, frozen=True, kw_only=True):
    """The session was archived or unarchived. An archived session is not listed by default."""

    session_id: str
    at_us: int
    is_archived: bool = True


class AgentArchived(Struct, frozen=True, kw_only=True):
    """The agent is known to have archived the session itself, or unarchived it."""

    session_id: str
    at_us: int
    is_archived: bool


class Forked(Struct, frozen=True, kw_only=True):
    """A session was created with a copy of its parent's entries up to `until_seq`.

    The agent does not know it until it is opened.
    """

    session_id: str
    at_us: int
    parent_id: str
    until_seq: int
    owner_id: str | None = None
    """If the copy is a sub-agent's: the session that it belongs to, which becomes its parent."""


class RecordedPrefix(Struct, frozen=True, kw_only=True):
    """The entries that were recorded before the imported file went on without Rekindle."""

    entries: int
    turns: int
    messages: int


class Origin(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The file of another tool that contains a session, and the imported part of it."""

    tool: str
    path: str
    """The file. A part after `#` identifies the session in a file with several."""
    sha256: str = ""
    stamp: str = ""
    """Size and time of the file. As long as they are the same, nothing is new."""
    entries: int = 0
    """The number of entries that come from the file. Further entries were recorded here."""
    settled: int = 0
    """The number of imported entries that stay the same when the file grows."""
    recorded: RecordedPrefix | None = None
    """The first entries, if they were recorded here. The file has them in another form."""
    version: int = 0
    """The version of the importer. Another version may produce other entries."""


class Imported(Struct, frozen=True, kw_only=True):
    """The session comes from a file of another tool."""

    session_id: str
    at_us: int
    origin: Origin


class Truncated(Struct, frozen=True, kw_only=True):
    """The entries of a session after `until_seq` are removed, because others replace them."""

    session_id: str
    at_us: int
    until_seq: int


class AgentSaved(Struct, frozen=True, kw_only=True):
    """The agent is known to have saved every turn that the session has now."""

    session_id: str
    at_us: int


class AgentObserved(Struct, frozen=True, kw_only=True):
    """A restore of the session has shown a trait of an agent."""

    session_id: str
    at_us: int
    release: str
    """`AgentIdentity.release` of the agent."""
    trait: AgentTrait


class Forgotten(Struct, frozen=True, kw_only=True):
    """A session that was never used is removed, and leaves no tombstone."""

    session_id: str
    at_us: int
    """The time of its last entry."""
    hides_agents: bool = False
    """Whether the agent's own session is not listed either, until it is used later than that."""


Change = (
    EntryBatch
    | Opened
    | Titled
    | Counted
    | Deleted
    | Archived
    | AgentArchived
    | Forked
    | Imported
    | Truncated
    | AgentSaved
    | AgentObserved
    | Forgotten
)
"""A change that can be written to a store."""

RareChange = (
    Forked
    | Deleted
    | Archived
    | AgentArchived
    | Imported
    | Truncated
    | AgentSaved
    | AgentObserved
    | Forgotten
)
"""A change that is seldom written."""


class LeaseHolder(Struct, frozen=True, kw_only=True):
    """The process that has the exclusive use of a session. Its `token` is never used again.

    The token alone is its identity: the other fields may change while it lives.
    """

    token: str
    pid: int
    machine: str
    socket: str = ""
    """The path of the unix socket on which it listens."""
    version: str = ""
    """The version of the program."""
    agent_group: int = 0
    """The process group of its agent; 0 if unknown."""


class LeaseResult(Struct, frozen=True):
    """The result of acquiring a lease."""

    holder: LeaseHolder | None = None
    """The process that has the lease instead. None means that it was acquired."""
    was_held_by_another: bool = False
    """Whether another process had the lease before."""
    epoch: int = 0
    """The number of the lease; 0 if it was not acquired, or if the store could not record it."""
    former: LeaseHolder | None = None
    """The process that had the lease before, if it did not release it: it died, or lost it."""
    is_former_alive: bool = False
    """Whether that process lives: the lease was taken over."""


class Session(Struct, frozen=True, kw_only=True):
    """A conversation, without its entries."""

    id: str
    agent_session_id: str
    agent: AgentIdentity
    cwd: str | None
    directories: tuple[str, ...]
    title: str | None
    title_source: TitleSource | None
    created_us: int
    updated_us: int
    parent_id: str | None
    archived_us: int | None
    deleted_us: int | None
    last_seq: int
    turns: int
    messages: int
    origin: Origin | None = None
    saved_turns: int = 0
    """The number of turns that the agent is known to have saved."""
    is_archived_by_agent: bool = False
    """Whether the agent is known to have archived it."""

    @property
    def is_saved_by_agent(self) -> bool:
        """Whether the agent is known to have saved all turns: its own files may show that."""
        is_from_file = self.origin is not None and self.last_seq <= self.origin.entries
        return is_from_file or self.saved_turns >= self.turns

    @property
    def is_imported(self) -> bool:
        """Whether its first entries come from a file of another tool."""
        return self.origin is not None and self.origin.entries > 0

    @property
    def is_unopened(self) -> bool:
        """Whether no client has opened it, as with the session of a sub-agent."""
        return self.cwd is None

    @property
    def is_subagent(self) -> bool:
        """Whether it is the session of a sub-agent, and `parent_id` is the session that owns it.

        The parent of any other session is the one that it was forked from.
        """
        return self.parent_id is not None and self.is_unopened

    @property
    def is_unused(self) -> bool:
        """Whether a client has opened it, it has no turn, and the user did nothing else with it.

        A fork and an imported session were made on purpose, so they do not count as unused.
        """
        is_touched = self.title_source is TitleSource.USER or self.archived_us is not None
        is_derived = self.parent_id is not None or self.origin is not None
        is_there = self.deleted_us is None and not self.is_unopened
        return is_there and not (self.turns or is_touched or is_derived)

    @property
    def is_placeholder(self) -> bool:
        """Whether it has only the archive mark or the user's title of a session of the agent.

        The agent has the history. No client has opened the session through Rekindle.
        """
        is_marked = self.archived_us is not None or self.title_source is TitleSource.USER
        return self.is_unopened and is_marked and self.origin is None

    @property
    def is_blank(self) -> bool:
        """Whether it holds no more than marks: no client has opened it, and it has no entries.

        A placeholder stays as a blank session when its last mark is removed.
        """
        is_there = self.deleted_us is None and self.origin is None
        return is_there and self.is_unopened and not self.last_seq

    @property
    def is_purged(self) -> bool:
        """Whether only its tombstone is left."""
        return self.deleted_us is not None and self.is_unopened and not self.turns + self.messages


class SessionStatus(StrEnum):
    """Whether a session is in use, and whether its last turn has ended."""

    LIVE = "live"
    """A live process holds its lease."""
    INTERRUPTED = "interrupted"
    """No process holds its lease, and its last turn has no end."""
    IDLE = "idle"
    """No process holds its lease, and its last turn has ended."""


class SessionTotals(Struct, frozen=True, kw_only=True):
    """The totals of some sessions."""

    sessions: int = 0
    turns: int = 0
    messages: int = 0


class Overview(Struct, frozen=True, kw_only=True):
    """Totals of a store. Only sessions count that a client has opened and that are not deleted."""

    whole: SessionTotals
    archived: int
    deleted: int
    """The number of deleted sessions that can be undeleted."""
    first_us: int | None
    """The time at which the first one was created."""
    last_us: int | None
    """The time of the last activity."""
    agents: dict[str, SessionTotals]
    """By the agent's name, or its program; "" if neither is known."""
    weeks: dict[int, SessionTotals]
    """By the Monday, in UTC, of the week in which a session was created."""
    size: int
    """The size of the store in bytes."""
    unused: int
    """The number of unused bytes, which can be reclaimed."""


class IncomingSession(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session to import or merge, without its entries."""

    id: str
    created_us: int
    agent_session_id: str = UNKNOWN_TO_AGENT
    agent: AgentIdentity = AgentIdentity()
    cwd: str | None = None
    directories: tuple[str, ...] = ()
    titles: dict[TitleSource, str] = {}
    parent_id: str | None = None
    turns: int = 0
    messages: int = 0
    origin: Origin | None = None

    @classmethod
    def from_session(cls, session: Session, titles: dict[TitleSource, str]) -> Self:
        """Return a session of a store as one to merge into another store."""
        return cls(
            id=session.id,
            created_us=session.created_us,
            agent_session_id=session.agent_session_id,
            agent=session.agent,
            cwd=session.cwd,
            directories=session.directories,
            titles=titles,
            parent_id=session.parent_id,
            # A failing store may have lost entries that were counted.
            turns=min(session.turns, session.last_seq),
            messages=min(session.messages, session.last_seq),
            origin=session.origin,
        )


class Page(Struct, frozen=True, kw_only=True):
    """Selects sessions to list. Fields that are None or empty do not restrict the selection."""

    cwd: str | None = None
    folders: tuple[str, ...] = ()
    """Alternative spellings of one folder."""
    under: tuple[str, ...] = ()
    """Folders whose sessions are selected, including those of folders inside them."""
    agent: str | None = None
    """A part of the agent's name or of its program, ignoring case."""
    limit: int = 50
    before: tuple[int, str] | None = None
    """`(updated_us, id)` of the last session of the previous page."""
    with_archived: bool = False
    archived: bool = False
    """Select archived sessions only."""
    deleted: bool = False
    """Select deleted sessions instead of the others."""
    with_unopened: bool = False
    with_subagents: bool = False
    """Select the sessions of sub-agents, too."""
    prompted: bool = False
    """Select sessions that have a turn only."""
    placeholders: bool = False
    """Select sessions for which `Session.is_placeholder` is true only."""


class DocumentKind(StrEnum):
    """The kind of text in a search document."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"
    TOOL_CALL = "tool_call"
    PLAN = "plan"
    TITLE = "title"
    """The title of the session."""


class SearchDocument(Struct, frozen=True, kw_only=True):
    """A text that is indexed as one unit, and its place in the session."""

    turn: int
    seq: int
    at_us: int
    kind: DocumentKind
    ident: str | None = None
    """The id by which a later entry may refer to it."""
    text: str
