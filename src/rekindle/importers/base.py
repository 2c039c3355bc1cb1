"""What an importer is: plain data, which the rest of Rekindle knows all tools by."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from rekindle.model import Entry, IncomingSession

_MOST_REASONS = 50
_LONGEST_REASON = 80
_OTHERS = "other reasons"
_MOST_BRANCHES = 50
_MOST_BYTES_OF_BRANCHES = 1 << 30


class Found(Struct, frozen=True, kw_only=True):
    """A session that a tool has, as far as that is known without reading it."""

    path: Path
    part: str = ""
    """Which one, if the file has several."""
    stamp: str
    """Another one whenever the session may have changed: the sizes and times of its files."""
    size: int
    """About how many bytes there are to read."""
    updated_us: int
    is_child: bool = False
    """Whether it is that of a sub-agent, and not one that a person has begun."""
    trouble: str = ""
    """Why nobody can look at it, if so: what is there, if anything, is not read then."""

    @property
    def place(self) -> str:
        """Where it is, in a word that no other session has."""
        return f"{self.path}#{self.part}" if self.part else str(self.path)


class Tally(Struct):
    """What was told of a session so far."""

    entries: int = 0
    turns: int = 0
    messages: int = 0
    settled: int = 0
    """How many entries stay as they are, however the file goes on."""


class Talk(Struct, frozen=True, kw_only=True):
    """A conversation in a file of another tool's, ready to be told.

    The entries are drawn as they are written, so that memory stays bounded, and may be asked for
    more than once. They must be the same each time; and those of a file that has grown must begin
    with those that it had before, as far as these were settled.
    """

    arrived: IncomingSession
    """With its `origin`: tool, path and checksum."""
    tell: Callable[[Tally], Iterator[Entry]]
    """Yields the entries, and counts them in the tally while they are drawn."""
    folder: str | None = None
    """The folder that it belongs to, even if the session is not to be listed by it."""
    is_aside: bool = False
    """Whether the tool itself would not show it: a branch that was left for another."""
    stamp: str = ""
    """Of such a branch: another one whenever it may have changed. Then it need not be told."""
    is_shortened: bool = False
    """Whether the tool itself has taken back what came after its end, and nothing came since."""
    is_archived: bool = False
    """Whether it is put away in the tool; if it is new here, it is put away here, too."""


def most_branches(size: int) -> int:
    """Return how many branches of a session are told: for each, all of its bytes are read."""
    return min(_MOST_BRANCHES, max(1, _MOST_BYTES_OF_BRANCHES // max(1, size)))


class Notes:
    """What is to be said of reading: what could not be taken over, and how far it is."""

    def __init__(self, at: Callable[[int], object] = lambda _: None) -> None:
        self.at = at
        """Told how many bytes of the session are read, now and then."""
        self._skipped: Counter[str] = Counter()
        self._parts: dict[str, Notes] = {}

    def skip(self, reason: str, count: int = 1) -> None:
        """Note that something could not be taken over, and why."""
        reason = reason[:_LONGEST_REASON]
        # A file may invent as many reasons as it likes.
        is_room = reason in self._skipped or len(self._skipped) < _MOST_REASONS
        if count:
            self._skipped[reason if is_room else _OTHERS] += count

    def anew(self, part: str) -> "Notes":
        """Return notes for a part of it, which may be read again: then only the last ones count."""
        self._parts[part] = notes = Notes(self.at)
        return notes

    @property
    def skipped(self) -> Counter[str]:
        """How many times something was passed over, by the reason."""
        return sum((it.skipped for it in self._parts.values()), self._skipped.copy())


class Tool(Struct, frozen=True, kw_only=True):
    """Another tool whose sessions can be imported."""

    name: str
    """As it is typed on the command line, and the name of the agent in its imported sessions."""
    agent_names: tuple[str, ...] = ()
    """Further names of its agents: those that they give themselves, and those of their programs."""
    title: str
    """As people call it."""
    version: int = 1
    """Raised whenever other entries are made of the same file."""
    folders: Callable[[Mapping[str, str], Path], list[Path]]
    """Returns where it keeps its sessions, by its own rules, from the environment and the home."""
    find: Callable[[Path, str | None], Iterator[Found]]
    """Yields the sessions of a file or below a folder, cheaply; nothing if they are not its own.

    With a folder of a project, those that belong to others may be left out where that is quick.
    What cannot be looked at is yielded with its `trouble`, and keeps no other out.
    """
    read: Callable[[Found, Notes], Iterator[Talk]]
    """Yields a session: itself first, and then what hangs on it. Raises OSError."""
