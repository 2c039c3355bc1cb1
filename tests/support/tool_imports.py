"""Run imports from other tools in tests, and read the store afterwards."""

from pathlib import Path

from rekindle.importers.base import EntryCounts, ImportNotes, ToolImporter
from rekindle.importers.claude.session import IMPORTER as CLAUDE
from rekindle.model import Entry, LeaseHolder, Page, Session, TitleSource
from rekindle.store.base import Store
from rekindle.transfer.import_apply import SessionImporter
from rekindle.transfer.import_scan import ImportFilter, ImportReport, ImportResult, ToolScanner
from rekindle.transfer.merge import MergeOutcome

NOW = 1_800_000_000_000_000
HOLDER = LeaseHolder(token="importer", pid=1, machine="here")  # noqa: S106 - no password


class Run:
    """An import of all sessions in a path, and its results."""

    def __init__(
        self, store: Store, path: Path, tool: ToolImporter = CLAUDE, *, undelete: bool = False,
        dry_run: bool = False,
    ) -> None:  # fmt: skip
        importer = SessionImporter(store, HOLDER, undelete=undelete, dry_run=dry_run)
        scanner = ToolScanner(tool, ImportFilter())
        scanner.load_known(store, undelete=undelete)
        self.report = ImportReport(tool=tool.name)
        found = scanner.find_changed(path, self.report, NOW)
        self.read = len(found)
        """The number of files that were read because they had changed."""
        self.results: list[ImportResult] = []
        for it in found:
            self.results += scanner.import_found(it, importer, self.report, NOW, lambda _: None)

    @property
    def outcomes(self) -> list[MergeOutcome]:
        """The outcomes of the sessions that changed."""
        assert self.report.failed == {}
        return [it.outcome for it in self.results]


def entries_of_file(path: Path, tool: ToolImporter = CLAUDE) -> list[Entry]:
    """Return the entries of the only session in a file."""
    (found,) = tool.find(path, None)
    return list(next(iter(tool.read(found, ImportNotes()))).read_entries(EntryCounts()))


def everything(store: Store) -> list[tuple[Session, dict[TitleSource, str], list[Entry]]]:
    """Return every session of a store with its titles and entries."""
    page = Page(with_unopened=True, with_archived=True, limit=1000)
    return [(it, store.titles(it.id), list(store.read(it.id))) for it in store.sessions(page)]
