"""Importing in tests: all that there is, and what is in the store then."""

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
    """What came of importing all that is in a place."""

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
        """How many were read, because they had changed."""
        self.taken: list[Taken] = []
        for it in found:
            self.taken += gatherer.take(it, importer, self.report, NOW, lambda _: None)

    @property
    def hows(self) -> list[How]:
        """What became of what has changed."""
        assert self.report.failed == {}
        return [it.how for it in self.taken]


def told(path: Path, tool: ToolImporter = CLAUDE) -> list[Entry]:
    """Return the entries of the only session in a file."""
    (found,) = tool.find(path, None)
    return list(next(iter(tool.read(found, ImportNotes()))).read_entries(EntryCounts()))


def everything(store: Store) -> list[tuple[Session, dict[TitleSource, str], list[Entry]]]:
    """Return all that a store has."""
    page = Page(with_unopened=True, with_archived=True, limit=1000)
    return [(it, store.titles(it.id), list(store.read(it.id))) for it in store.sessions(page)]
