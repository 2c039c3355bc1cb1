"""Scan a tool's files for sessions that are new or changed, import them, and report the results."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from rekindle.errors import RekindleError, SessionInUse
from rekindle.importers.base import FoundSession, ImportNotes, SourceSession, ToolImporter
from rekindle.importers.scan import error_text
from rekindle.importers.validate import is_valid_id, valid_folder, valid_id
from rekindle.model import UNKNOWN_TO_AGENT, IncomingSession, Origin
from rekindle.store.base import Store
from rekindle.transfer.branches import shown_title
from rekindle.transfer.import_apply import SessionImporter
from rekindle.transfer.merge import MergeOutcome, MergeResult

_RETRY_DELAY_US = 30_000_000
_MAX_ID_LENGTH = 250
"""The id of a sub-agent's session contains two ids."""
_CHANGES = frozenset(
    {
        MergeOutcome.NEW,
        MergeOutcome.EXTENDED,
        MergeOutcome.BRANCHED,
        MergeOutcome.UNDELETED,
    }
)


class ImportResult(MergeResult, frozen=True):
    """The result of importing one session."""

    title: str = ""


class ImportReport(Struct, kw_only=True):
    """The results of importing all sessions of a tool."""

    tool: str
    found: int = 0
    children: int = 0
    """The number of sub-agents' sessions among those found."""
    outcomes: Counter[MergeOutcome] = field(default_factory=Counter[MergeOutcome])
    skipped: Counter[str] = field(default_factory=Counter[str])
    """The number of records that were not imported, by reason."""
    places: dict[str, str] = {}
    """The place of the first of them, by reason."""
    failed: dict[str, str] = {}
    """The reason why a file was not imported, by place."""

    def count(self, found: FoundSession) -> None:
        """Count a session that was found."""
        self.found += 1
        self.children += found.is_child


class ImportFilter(Struct, frozen=True, kw_only=True):
    """Which sessions to import."""

    folders: tuple[str, ...] = ()
    """The spellings of the project folder. Empty: all projects."""
    since_us: int = 0
    """Sessions that have not changed since then are left out."""

    def accepts_folder(self, folder: str | None) -> bool:
        """Return whether a session of this folder is to be imported."""
        return not self.folders or folder in self.folders


class _KnownState(Struct, frozen=True):
    """The result of an earlier import of a place with a certain stamp."""

    folder: str | None
    """The folder of its session; "" if it has no session, or none that the filter accepts."""
    is_deleted: bool = False


class ToolScanner:
    """Imports the sessions of one tool, repeatedly if needed. Unchanged files are not read."""

    def __init__(self, tool: ToolImporter, import_filter: ImportFilter) -> None:
        self._tool = tool
        self._filter = import_filter
        self._known: dict[str, dict[str, _KnownState]] = {}
        """By place and stamp. A session and its branch may be imports of two states of one file."""
        self._retry_at_us: dict[str, int] = {}
        """The time of the next attempt, by place, after a failure."""

    def load_known(self, store: Store, *, undelete: bool = False) -> None:
        """Load the states of earlier imports, with `undelete` without those of deleted sessions."""
        to_undelete: set[str] = set()
        for imported in store.imported():
            origin = imported.origin
            if origin.tool != self._tool.name:
                continue
            if imported.is_deleted and undelete:
                to_undelete.add(origin.path)
            else:
                state = _KnownState(imported.cwd, imported.is_deleted)
                self._known.setdefault(origin.path, {})[origin.stamp] = state
        for place in to_undelete:
            # A branch that is not deleted has the same place, and must not prevent the import.
            self._known.pop(place, None)

    def find_changed(self, path: Path, report: ImportReport, now_us: int) -> list[FoundSession]:
        """Find the sessions of a file or folder; return the new and the changed ones."""
        return [
            found
            for found in self._find(path, report).values()
            if found.updated_us >= self._filter.since_us
            and self._retry_at_us.get(found.location, 0) <= now_us
            and not self._is_known(found, report)
        ]

    def _find(self, path: Path, report: ImportReport) -> dict[str, FoundSession]:
        by_place: dict[str, FoundSession] = {}
        folders = [it for it in self._filter.folders if not it.endswith("/")]
        try:
            for folder in folders or [None]:
                for found in self._tool.find(path, folder):
                    if found.error:
                        report.failed[found.location] = found.error
                    else:
                        by_place[found.location] = found
        except OSError as error:
            report.failed[str(path)] = error_text(error, path)
        return by_place

    def _is_known(self, found: FoundSession, report: ImportReport) -> bool:
        """Return whether this state is imported already. If the filter accepts it, count it."""
        state = self._known.get(found.location, {}).get(found.stamp)
        if state is None:
            return False
        if state.folder is None or (state.folder and self._filter.accepts_folder(state.folder)):
            report.count(found)
            outcome = MergeOutcome.DELETED if state.is_deleted else MergeOutcome.UNCHANGED
            report.outcomes[outcome] += 1
        return True

    def import_found(
        self,
        found: FoundSession,
        importer: SessionImporter,
        report: ImportReport,
        now_us: int,
        on_progress: Callable[[int], object],
    ) -> list[ImportResult]:
        """Import one session with its branches and sub-agents; return the ones that changed.

        A failure is added to the report, and the session is tried again later. `on_progress` is
        called with the number of bytes read. Raises RekindleError where the store is at fault.
        """
        notes = ImportNotes(on_progress)
        self._retry_at_us[found.location] = now_us + _RETRY_DELAY_US
        try:
            results = self._import_found(found, notes, importer, report, now_us)
        except OSError as error:
            report.failed[found.location] = error_text(error, found.path)
        except SessionInUse as error:
            report.failed[found.location] = str(error)
        except RekindleError:
            raise
        except Exception as error:  # noqa: BLE001 - one odd file must not stop the import
            text = f"a bug in Rekindle: {type(error).__name__}: {error}"
            report.failed[found.location] = text
        else:
            del self._retry_at_us[found.location]
            return results
        finally:
            report.skipped += notes.skipped
            for reason, place in notes.places.items():
                report.places.setdefault(reason, place or found.location)
        return []

    def _import_found(
        self,
        found: FoundSession,
        notes: ImportNotes,
        importer: SessionImporter,
        report: ImportReport,
        now_us: int,
    ) -> list[ImportResult]:
        agent_names = self._tool.agent_names
        imported: list[tuple[SourceSession, MergeResult]] = []
        branches: list[SourceSession] = []
        for source_session in self._tool.read(found, notes):
            checked = self._checked(source_session, found)
            if not imported and not self._filter.accepts_folder(checked.folder):
                break
            if checked.is_abandoned:
                branches.append(checked)
            else:
                result = importer.import_session(checked, now_us, agent_names)
                imported.append((checked, result))
            if imported[0][1].outcome is MergeOutcome.DELETED:
                break
        if branches and imported and importer.is_imported(imported[0][1]):
            results = importer.import_branches(branches, imported[0][0], now_us, agent_names)
            imported += zip(branches, results, strict=True)
        if not imported:
            # It is empty, or belongs to another project. It is read again only when it changes.
            self._known[found.location] = {found.stamp: _KnownState("")}
            return []
        main, first = imported[0]
        is_deleted = first.outcome is MergeOutcome.DELETED
        self._known[found.location] = {found.stamp: _KnownState(main.folder, is_deleted)}
        importer.set_stamp(first.session_id, found.stamp, now_us, found.location)
        report.count(found)
        changed = [
            _import_result(source_session, result)
            for source_session, result in imported
            if result.outcome in _CHANGES
        ]
        is_related_changed = first.outcome is MergeOutcome.UNCHANGED and changed
        report.outcomes[MergeOutcome.EXTENDED if is_related_changed else first.outcome] += 1
        return changed

    def _checked(self, source_session: SourceSession, found: FoundSession) -> SourceSession:
        """Return a session with its origin, and without values that no tool writes."""
        own = source_session.incoming.origin
        origin = Origin(
            tool=self._tool.name,
            path=found.location,
            sha256=own.sha256 if own is not None else "",
            version=self._tool.version,
        )
        incoming = _validated(source_session.incoming, origin)
        return replace(
            source_session, incoming=incoming, folder=valid_folder(source_session.folder)
        )


def _validated(incoming: IncomingSession, origin: Origin) -> IncomingSession:
    agent_session_id, parent_id = incoming.agent_session_id, incoming.parent_id
    if not is_valid_id(agent_session_id, _MAX_ID_LENGTH):
        agent_session_id = UNKNOWN_TO_AGENT
    return replace(
        incoming,
        id=valid_id(incoming.id, _MAX_ID_LENGTH),
        agent_session_id=agent_session_id,
        cwd=valid_folder(incoming.cwd),
        directories=tuple(it for it in incoming.directories if valid_folder(it)),
        parent_id=valid_id(parent_id, _MAX_ID_LENGTH) if parent_id else None,
        origin=origin,
    )


def _import_result(source_session: SourceSession, result: MergeResult) -> ImportResult:
    title = shown_title(source_session.incoming)
    return ImportResult(result.outcome, result.session_id, result.entries, title)
