"""The values that all layers share: frozen, plain, and free of behaviour that decides anything.

Times are microseconds since the epoch, in UTC.
"""

from enum import StrEnum
from pathlib import PurePath

from msgspec import Struct


class Side(StrEnum):
    """One of the two ends of a conversation."""

    CLIENT = "client"
    AGENT = "agent"

    @property
    def peer(self) -> "Side":
        """The other end."""
        return Side.AGENT if self is Side.CLIENT else Side.CLIENT


class Kind(StrEnum):
    """What an entry is to its session. The line itself tells the rest."""

    SETUP = "setup"
    """The request that made, loaded, resumed or forked the session, without secrets."""
    READY = "ready"
    """The answer to it: modes, configuration options."""
    PROMPT = "prompt"
    """A prompt, as the client sent it."""
    ANSWER = "answer"
    """The answer to a prompt."""
    UPDATE = "update"
    """A `session/update`."""
    PERMISSION = "permission"
    """The agent asks for permission."""
    OUTCOME = "outcome"
    """The client's answer to that."""
    CONFIG = "config"
    """The client sets a mode, model or option."""
    CONFIGURED = "configured"
    """The agent's answer to that."""
    CANCEL = "cancel"
    """The client cancels the turn."""
    NOTICE = "notice"
    """A notification outside the specification that names the session."""
    OPAQUE = "opaque"
    """A line that names the session but is no JSON."""
    ECHO = "echo"
    """A prompt that the agent says back: the same words, perhaps with a message id."""
    NAMED = "named"
    """Written by Rekindle: the id that it gave to the message which begins here."""
    TERMINAL = "terminal"
    """What a terminal that a tool call shows has put out."""
    HANDOVER = "handover"
    """Written by Rekindle: what the agent was told of the session before the last prompt."""
    REMINDER = "reminder"
    """Written by Rekindle: what an agent that came back by itself was told of its last turns."""
    GAP = "gap"
    """Written by Rekindle: entries are missing here, because the store failed."""


ACTIVITY = frozenset({Kind.PROMPT, Kind.ANSWER})
"""What counts as using a session: the beginnings and ends of turns."""


class Entry(Struct, frozen=True, kw_only=True):
    """One recorded thing: the bytes as they were on the wire, and their place in the session."""

    seq: int
    side: Side
    kind: Kind
    at_us: int
    line: bytes
    protocol: int = 1


class EntryBatch(Struct, frozen=True, kw_only=True):
    """Entries to be written that follow each other and differ only in their line.

    What one read of the wire brings is mostly alike, so it is decided on, written and
    packed together: `count` lines, joined by newlines. The store hands it out again as
    single entries.
    """

    session_id: str
    side: Side
    kind: Kind
    at_us: int
    data: bytes
    count: int = 1
    protocol: int = 1

    def __post_init__(self) -> None:
        # Of several lines nobody counts the newlines: whoever joined them knows.
        if self.count == 1 and b"\n" in self.data:
            raise ValueError("a line must not contain a newline")

    @property
    def lines(self) -> list[bytes]:
        """The lines, one by one."""
        return self.data.split(b"\n")


class AgentIdentity(Struct, frozen=True, kw_only=True):
    """Which agent: what it says of itself, and the command that started it."""

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


UNKNOWN_TO_AGENT = ""
"""In the place of the agent's id for a session: the agent does not know it."""


class Opened(Struct, frozen=True, kw_only=True):
    """A session was made, loaded or resumed: what is now known of it.

    None leaves what the store already has.
    """

    session_id: str
    at_us: int
    agent_session_id: str | None = None
    agent: AgentIdentity | None = None
    cwd: str | None = None
    directories: tuple[str, ...] | None = None
    parent_id: str | None = None


class TitleSource(StrEnum):
    """Who gave a title. A later member outranks an earlier one."""

    PROMPT = "prompt"
    AGENT = "agent"
    USER = "user"


class Titled(Struct, frozen=True, kw_only=True):
    """A title was given, or with None taken back, by that source."""

    session_id: str
    at_us: int
    source: TitleSource
    title: str | None


class Counted(Struct, frozen=True, kw_only=True):
    """More turns and messages were seen in the session."""

    session_id: str
    at_us: int
    turns: int = 0
    messages: int = 0


class Deleted(Struct, frozen=True, kw_only=True):
    """The session was deleted; its entries are kept until they are purged."""

    session_id: str
    at_us: int


class Archived(Struct, frozen=True, kw_only=True):
    """The session was put away, or taken out again: it is kept, and not listed by default."""

    session_id: str
    at_us: int
    is_archived: bool = True


class Forked(Struct, frozen=True, kw_only=True):
    """A session was made whose record begins with another's, up to that entry.

    The agent does not know it, until Opened says so.
    """

    session_id: str
    at_us: int
    parent_id: str
    until_seq: int


class RecordedPrefix(Struct, frozen=True, kw_only=True):
    """What a session has from before its file went on without us."""

    entries: int
    turns: int
    messages: int


class Origin(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The file of another tool's that a session is in, and what is known of it here."""

    tool: str
    path: str
    """The file; what stands after a `#` says which of its sessions."""
    sha256: str = ""
    stamp: str = ""
    """How the file looked from outside: one that looks so still has nothing new."""
    entries: int = 0
    """How many of the session's entries are from it; if there are more, it went on here."""
    settled: int = 0
    """How many of those stay as they are, however the file goes on."""
    recorded: RecordedPrefix | None = None
    """The first of those, if they were recorded here: the file tells them in other words."""
    version: int = 0
    """Of the importer: another one may make other entries of the same file."""


class Imported(Struct, frozen=True, kw_only=True):
    """The session is in a file of another tool's."""

    session_id: str
    at_us: int
    origin: Origin


class Truncated(Struct, frozen=True, kw_only=True):
    """The entries of a session after that one are taken away, because others come instead."""

    session_id: str
    at_us: int
    until_seq: int


Change = EntryBatch | Opened | Titled | Counted | Deleted | Archived | Forked | Imported | Truncated
"""What can be written to a store."""


class LeaseHolder(Struct, frozen=True, kw_only=True):
    """The process that drives a session. `token` tells it from all others, past and future."""

    token: str
    pid: int
    host: str


class LeaseResult(Struct, frozen=True):
    """What came of a claim: who drives the session instead, or since when it is ours."""

    holder: LeaseHolder | None = None
    """Another that drives it; then it is not ours."""
    was_held_by_another: bool = False
    """Whether the one before us was another."""


class Session(Struct, frozen=True, kw_only=True):
    """A conversation, as the store knows it without reading its entries."""

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

    @property
    def is_imported(self) -> bool:
        """Whether what is said in it, or the beginning of that, is from another tool's file."""
        return self.origin is not None and self.origin.entries > 0

    @property
    def is_unopened(self) -> bool:
        """Whether no client has opened it: a sub-agent's, or one that was never told whole."""
        return self.cwd is None

    @property
    def is_purged(self) -> bool:
        """Whether nothing is left but that it was deleted."""
        return self.deleted_us is not None and self.is_unopened and not self.turns + self.messages


class SessionStatus(StrEnum):
    """How it stands with a session now."""

    LIVE = "live"
    """A process drives it."""
    INTERRUPTED = "interrupted"
    """No process drives it, and its last turn has no end."""
    IDLE = "idle"
    """Neither."""


class SessionTotals(Struct, frozen=True, kw_only=True):
    """How much there is in some sessions."""

    sessions: int = 0
    turns: int = 0
    messages: int = 0


class Overview(Struct, frozen=True, kw_only=True):
    """What a store has in all, of the sessions that were opened by a client, and not deleted."""

    whole: SessionTotals
    archived: int
    deleted: int
    """How many were deleted and can be brought back."""
    first_us: int | None
    """When the first of them was made."""
    last_us: int | None
    """When one of them was last used."""
    agents: dict[str, SessionTotals]
    """By the name that an agent gives itself, else its program's; "" where neither is known."""
    weeks: dict[int, SessionTotals]
    """By the Monday, in UTC, of the week in which a session was made."""
    size: int
    """How many bytes the store takes."""
    unused: int
    """How many of them hold nothing, and can be given back."""


class IncomingSession(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session as it comes from elsewhere: all that is known of it but its entries."""

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


class Page(Struct, frozen=True, kw_only=True):
    """Which sessions to list. None and False mean: no matter."""

    cwd: str | None = None
    folders: tuple[str, ...] = ()
    """Sessions of one of these: the ways to spell a folder."""
    under: tuple[str, ...] = ()
    """Folders: sessions of these, and of those below them."""
    agent: str | None = None
    """Part of the name that the agent gives itself, or of its program's; in whichever case."""
    limit: int = 50
    before: tuple[int, str] | None = None
    """`(updated_us, id)` of the last session of the page before this one."""
    with_archived: bool = False
    archived: bool = False
    """Only those that are archived."""
    deleted: bool = False
    """Those that were deleted, instead of those that are there."""
    with_unopened: bool = False


class DocumentKind(StrEnum):
    """Where words are from."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"
    TOOL_CALL = "tool_call"
    PLAN = "plan"
    TITLE = "title"
    """The session's own."""


class SearchDocument(Struct, frozen=True, kw_only=True):
    """Words that stand together, and their place in the session."""

    turn: int
    seq: int
    at_us: int
    origin: DocumentKind
    ident: str | None = None
    """What a later entry may call it by."""
    words: str
