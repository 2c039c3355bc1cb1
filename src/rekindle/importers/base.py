"""The types that importers share. The rest of Rekindle knows every tool by these alone."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rekindle.model import UNKNOWN_TO_AGENT, Entry, IncomingSession, Origin, TitleSource

_MAX_REASONS = 50
_MAX_REASON_LENGTH = 80
_OTHER_REASONS = "other reasons"
_MAX_BRANCHES = 50
_MAX_BRANCH_BYTES = 1 << 30


class FoundSession(Struct, frozen=True, kw_only=True):
    """A session in a tool's files that has been found but not read yet."""

    path: Path
    part: str = ""
    """Names the session within the file, if the file has several."""
    stamp: str
    """Changes whenever the session may have changed: the sizes and times of its files."""
    size: int
    """The approximate number of bytes to read."""
    updated_us: int
    is_child: bool = False
    """Whether it belongs to a sub-agent, and was not started by a person."""
    error: str = ""
    """The reason why it cannot be read, if so. The importer does not try to read it then."""

    @property
    def location(self) -> str:
        """The path, with the part if there is one. It is unique among sessions."""
        return f"{self.path}#{self.part}" if self.part else str(self.path)


class EntryCounts(Struct):
    """Counts of the entries that a session has produced so far."""

    entries: int = 0
    turns: int = 0
    messages: int = 0
    settled: int = 0
    """The number of leading entries that stay the same when the file grows."""


class SourceSession(Struct, frozen=True, kw_only=True):
    """A session in another tool's files, ready to be imported.

    Entries are read while they are written to the store, so that memory stays bounded. They can be
    read more than once, and must be the same each time. After the file has grown, its entries must
    begin with the settled entries from before.
    """

    incoming: IncomingSession
    """The session's metadata, including its `origin`: tool, path and checksum."""
    read_entries: Callable[[EntryCounts], Iterator[Entry]]
    """Yields the entries, and updates the counts with each entry."""
    folder: str | None = None
    """The project folder of the session, even if the session is not listed under it."""
    is_abandoned: bool = False
    """Whether this is a branch that the tool has left for another one and no longer shows."""
    stamp: str = ""
    """For an abandoned branch: changes whenever the branch may have changed."""
    is_rewound: bool = False
    """Whether the tool itself has removed the end of the session, and nothing was added since."""
    is_archived: bool = False
    """Whether the tool has archived it. A new session is then archived here too."""

    def branch(
        self,
        read_entries: Callable[[EntryCounts], Iterator[Entry]],
        stamp: str,
        *,
        titles: dict[TitleSource, str] | None = None,
        origin: Origin | None = None,
    ) -> "SourceSession":
        """Return an abandoned branch of this session, with its own entries."""
        incoming = replace(
            self.incoming,
            agent_session_id=UNKNOWN_TO_AGENT,
            titles=titles or self.incoming.titles,
            origin=origin or self.incoming.origin,
        )
        return SourceSession(
            incoming=incoming,
            read_entries=read_entries,
            folder=self.folder,
            is_abandoned=True,
            stamp=stamp,
        )


def branch_limit(size: int) -> int:
    """Return how many branches of a session to import: each one reads all of its bytes again."""
    return min(_MAX_BRANCHES, max(1, _MAX_BRANCH_BYTES // max(1, size)))


class ImportNotes:
    """Notes from reading one session: the parts that were skipped, and the progress."""

    def __init__(self, on_progress: Callable[[int], object] = lambda _: None) -> None:
        self.report_progress = on_progress
        """Accepts the number of bytes read so far. Importers call it now and then."""
        self.place: Callable[[], str] = lambda: ""
        """Returns the place that is being read, for people. Importers set it for each file."""
        self._skipped: Counter[str] = Counter()
        self._places: dict[str, str] = {}
        self._sections: dict[str, ImportNotes] = {}

    def skip(self, reason: str, count: int = 1, place: str = "") -> None:
        """Count something that could not be imported, by the reason.

        Without `place`, it is in the place that is being read.
        """
        if not count:
            return
        reason = reason[:_MAX_REASON_LENGTH]
        # A damaged file can produce any number of reasons.
        if reason not in self._skipped and len(self._skipped) >= _MAX_REASONS:
            reason = _OTHER_REASONS
        self._skipped[reason] += count
        if reason not in self._places:
            self._places[reason] = place or self.place()

    def restart(self, section: str) -> "ImportNotes":
        """Return empty notes for a section. Notes from an earlier reading of it are dropped."""
        self._sections[section] = notes = ImportNotes(self.report_progress)
        return notes

    @property
    def skipped(self) -> Counter[str]:
        """The number of skipped parts, by reason."""
        return sum((notes.skipped for notes in self._sections.values()), self._skipped.copy())

    @property
    def places(self) -> dict[str, str]:
        """The place of the first skipped part, by reason; empty texts where it is unknown."""
        places: dict[str, str] = {}
        for notes in self._sections.values():
            places = notes.places | places
        return places | self._places


class ToolImporter(Struct, frozen=True, kw_only=True):
    """The importer of one tool: where the tool keeps its sessions, and how to read them."""

    name: str
    """The name on the command line, and the name of the agent in imported sessions."""
    agent_names: tuple[str, ...] = ()
    """Further names of its agents: the names that they report, and the names of their programs."""
    title: str
    """The name of the tool for people."""
    version: int = 1
    """Raised whenever the same file produces different entries."""
    folders: Callable[[Mapping[str, str], Path], list[Path]]
    """Returns the folders of the tool's sessions, given the environment and the home folder."""
    find: Callable[[Path, str | None], Iterator[FoundSession]]
    """Yields the sessions in a file or below a folder, cheaply. Ignores files of other tools.

    Given a project folder, it may leave out the sessions of other projects, where that is fast.
    A path that cannot be read is yielded with its `error`, and does not stop the search.
    """
    read: Callable[[FoundSession, ImportNotes], Iterator[SourceSession]]
    """Yields the session itself first, then its branches and sub-agents. Raises OSError."""
