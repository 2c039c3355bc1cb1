"""Run imports in tests, and read the store afterwards."""

from pathlib import Path

from rekindle.importers.base import EntryCounts, ImportNotes, ToolImporter
from rekindle.importers.claude.session import IMPORTER as CLAUDE
from rekindle.model import Entry, LeaseHolder, Page, Session, TitleSource
from rekindle.store.base import Store
from rekindle.transfer.import_apply import Importer
from rekindle.transfer.import_scan import Gatherer, Report, Taken, Wanted
from rekindle.transfer.merge import How

NOW = 1_800_000_000_000_000
HOLDER = LeaseHolder(token="importer", pid=1, host="here")  # noqa: S106 - no password


class Run:
    """One import of all sessions in a path, and its results."""

    def __init__(
        self, store: Store, path: Path, tool: ToolImporter = CLAUDE, *, undelete: bool = False,
        only_looks: bool = False,
    ) -> None:  # fmt: skip
        importer = Importer(store, HOLDER, undelete=undelete, only_looks=only_looks)
        gatherer = Gatherer(tool, Wanted())
        gatherer.remember(store, undelete=undelete)
        self.report = Report(tool=tool.name)
        found = gatherer.look(path, self.report, NOW)
        self.read = len(found)
        """The number of sessions that were read, because they had changed."""
        self.taken: list[Taken] = []
        for match in found:
            self.taken += gatherer.take(match, importer, self.report, NOW, lambda _: None)

    @property
    def hows(self) -> list[How]:
        """The results of the sessions that have changed."""
        assert self.report.failed == {}
        return [taken.how for taken in self.taken]


def told(path: Path, tool: ToolImporter = CLAUDE) -> list[Entry]:
    """Return the entries of the single session in a file."""
    (found,) = tool.find(path, None)
    return list(next(iter(tool.read(found, ImportNotes()))).read_entries(EntryCounts()))


def everything(store: Store) -> list[tuple[Session, dict[TitleSource, str], list[Entry]]]:
    """Return all sessions in a store, with their titles and entries."""
    page = Page(with_unopened=True, with_archived=True, limit=1000)
    return [
        (source, store.titles(source.id), list(store.read(source.id)))
        for source in store.sessions(page)
    ]
