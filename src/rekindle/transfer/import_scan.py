"""Importing all that a tool has: what is found, what of it is news, and what became of it."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from rekindle.errors import RekindleError, SessionInUse
from rekindle.importers.base import FoundSession, ImportNotes, SourceSession, ToolImporter
from rekindle.importers.scan import error_text
from rekindle.importers.validate import is_valid_id, valid_folder, valid_id
from rekindle.model import UNKNOWN_TO_AGENT, IncomingSession, Origin, TitleSource
from rekindle.store.base import Store
from rekindle.transfer.import_apply import Importer
from rekindle.transfer.merge import How, Merged

_PATIENCE_US = 30_000_000
# That of a sub-agent has two in one.
_LONGEST_ID = 250
_NEWS = frozenset({How.NEW, How.EXTENDED, How.BRANCHED, How.UNDELETED})


class Taken(Struct, frozen=True, kw_only=True):
    """What became of a session."""

    how: How
    session_id: str
    entries: int
    title: str


class Report(Struct, kw_only=True):
    """What became of all that a tool has."""

    tool: str
    found: int = 0
    children: int = 0
    """How many of them are those of sub-agents."""
    hows: Counter[How] = field(default_factory=Counter[How])
    skipped: Counter[str] = field(default_factory=Counter[str])
    failed: dict[str, str] = {}
    """What could not be imported, and why."""


class Wanted(Struct, frozen=True, kw_only=True):
    """Which sessions are to be imported."""

    folders: tuple[str, ...] = ()
    """Those of one of these: the ways to spell a folder. None: all."""
    since_us: int = 0
    """Those that were changed since then."""

    def is_of(self, folder: str | None) -> bool:
        """Tell whether a session that belongs to that folder is meant."""
        return not self.folders or folder in self.folders


class _Seen(Struct, frozen=True):
    """What became of a place when it looked so."""

    folder: str | None
    """The folder that it belongs to; empty if it is not wanted."""
    is_deleted: bool = False


class Gatherer:
    """Imports from one tool, again and again if need be. What has not changed is not read again."""

    def __init__(self, tool: ToolImporter, wanted: Wanted) -> None:
        self._tool = tool
        self._wanted = wanted
        self._seen: dict[str, dict[str, _Seen]] = {}
        """By place and stamp: a session and a branch of it may know one file as of two times."""
        self._again_us: dict[str, int] = {}
        """When to try again what has failed."""

    def remember(self, store: Store, *, undelete: bool = False) -> None:
        """Learn what was imported before."""
        wanted_back: set[str] = set()
        for kept in store.imported():
            origin = kept.origin
            if origin.tool != self._tool.name:
                continue
            if kept.is_deleted and undelete:
                wanted_back.add(origin.path)
            else:
                seen = _Seen(kept.cwd, kept.is_deleted)
                self._seen.setdefault(origin.path, {})[origin.stamp] = seen
        for place in wanted_back:
            # A branch that is still here must not keep it from being read.
            self._seen.pop(place, None)

    def look(self, path: Path, report: Report, now_us: int) -> list[FoundSession]:
        """Find what is in a file or below a folder; return what has changed since the last time."""
        wanted = self._wanted
        return [
            it
            for it in self._find(path, report).values()
            if it.updated_us >= wanted.since_us
            and self._again_us.get(it.location, 0) <= now_us
            and not self._is_known(it, report)
        ]

    def _find(self, path: Path, report: Report) -> dict[str, FoundSession]:
        found: dict[str, FoundSession] = {}
        try:
            for folder in [it for it in self._wanted.folders if not it.endswith("/")] or [None]:
                for it in self._tool.find(path, folder):
                    if it.error:
                        report.failed[it.location] = it.error
                    else:
                        found[it.location] = it
        except OSError as error:
            report.failed[str(path)] = error_text(error, path)
        return found

    def _is_known(self, found: FoundSession, report: Report) -> bool:
        """Tell whether it was imported as it is, and count it then, if it is wanted."""
        seen = self._seen.get(found.location, {}).get(found.stamp)
        if seen is None:
            return False
        if seen.folder is None or (seen.folder and self._wanted.is_of(seen.folder)):
            _count(report, found)
            report.hows[How.DELETED if seen.is_deleted else How.UNCHANGED] += 1
        return True

    def take(self, found: FoundSession, importer: Importer, report: Report, now_us: int,
             at: Callable[[int], object]) -> list[Taken]:  # fmt: skip
        """Import one session, with what hangs on it; return what has changed."""
        notes = ImportNotes(at)
        self._again_us[found.location] = now_us + _PATIENCE_US
        try:
            taken = self._take(found, notes, importer, report, now_us)
        except OSError as error:
            report.failed[found.location] = error_text(error, found.path)
        except SessionInUse as error:
            report.failed[found.location] = str(error)
        except RekindleError:
            raise
        except Exception as error:  # noqa: BLE001 - one odd file must not keep all others out
            words = f"a bug in Rekindle: {type(error).__name__}: {error}"
            report.failed[found.location] = words
        else:
            del self._again_us[found.location]
            return taken
        finally:
            report.skipped += notes.skipped
        return []

    def _take(
        self,
        found: FoundSession,
        notes: ImportNotes,
        importer: Importer,
        report: Report,
        now_us: int,
    ) -> list[Taken]:
        taken: list[tuple[SourceSession, Merged]] = []
        asides: list[SourceSession] = []
        for read in self._tool.read(found, notes):
            talk = self._placed(read, found)
            if not taken and not self._wanted.is_of(talk.folder):
                break
            if talk.is_abandoned:
                asides.append(talk)
            else:
                taken.append((talk, importer.take(talk, now_us)))
            if taken[0][1].how is How.DELETED:
                break
        if asides and taken and importer.is_imported(taken[0][1]):
            merged = importer.take_asides(asides, taken[0][0], now_us)
            taken += zip(asides, merged, strict=True)
        if not taken:
            # Empty, or of another project: it has to be read again only when it has changed.
            self._seen[found.location] = {found.stamp: _Seen("")}
            return []
        main, first = taken[0]
        is_deleted = first.how is How.DELETED
        self._seen[found.location] = {found.stamp: _Seen(main.folder, is_deleted)}
        importer.stamp(first.session_id, found.stamp, now_us, found.location)
        _count(report, found)
        news = [_taken(talk, merged) for talk, merged in taken if merged.how in _NEWS]
        is_only_beside = first.how is How.UNCHANGED and news
        report.hows[How.EXTENDED if is_only_beside else first.how] += 1
        return news

    def _placed(self, talk: SourceSession, found: FoundSession) -> SourceSession:
        """Say where a session is from."""
        told = talk.incoming.origin
        origin = Origin(
            tool=self._tool.name,
            path=found.location,
            sha256=told.sha256 if told is not None else "",
            version=self._tool.version,
        )
        return replace(
            talk, incoming=_sound(talk.incoming, origin), folder=valid_folder(talk.folder)
        )


def _sound(arrived: IncomingSession, origin: Origin) -> IncomingSession:
    """Return what is known of a session without what no tool would say."""
    own_id = arrived.agent_session_id
    return replace(
        arrived,
        id=valid_id(arrived.id, _LONGEST_ID),
        agent_session_id=own_id if is_valid_id(own_id, _LONGEST_ID) else UNKNOWN_TO_AGENT,
        cwd=valid_folder(arrived.cwd),
        directories=tuple(it for it in arrived.directories if valid_folder(it)),
        parent_id=valid_id(arrived.parent_id, _LONGEST_ID) if arrived.parent_id else None,
        origin=origin,
    )


def _count(report: Report, found: FoundSession) -> None:
    report.found += 1
    report.children += found.is_child


def _taken(talk: SourceSession, merged: Merged) -> Taken:
    titles = talk.incoming.titles
    title = next((titles[source] for source in reversed(TitleSource) if source in titles), "")
    return Taken(how=merged.how, session_id=merged.session_id, entries=merged.entries, title=title)
