"""The SQLite back end: everything that can be done with the store at a path."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.store.base import PendingChanges, PendingInfo, Reporter, Store, StoreHooks
from rekindle.store.sqlite.files import awaiting_recovery, pending_files, quarantined
from rekindle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from rekindle.store.maintenance import Diagnosis, Progress, ProgressDisplay, RecoveryReport
    from rekindle.store.search import SearchIndex


class SqliteBackend:
    """A store in a file: with a search index, diagnosis and recovery."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        """Return whether there is a file, or a damaged store that waits for recovery."""
        return self._path.exists() or awaiting_recovery(self._path) is not None

    def is_store_file(self) -> bool:
        """Return whether the file is a store, by its header. Raises OSError."""
        from rekindle.store.sqlite.inspect import is_store  # noqa: PLC0415 - seldom needed

        return is_store(self._path)

    def open(self, *, create: bool, report: Reporter, hooks: StoreHooks) -> Store:
        """Open the store."""
        store = SqliteStore(self._path, create=create, hooks=hooks)
        if create and pending_files(self._path):
            from rekindle.store.sqlite.pending import (  # noqa: PLC0415 - seldom needed
                apply_abandoned,
            )

            try:
                apply_abandoned(self._path, store, report)
            except BaseException:
                store.close()
                raise
        return store

    def open_pending(self, token: str) -> PendingChanges:
        """Create a pending file."""
        from rekindle.store.sqlite.pending import PendingFile  # noqa: PLC0415 - seldom needed

        return PendingFile(self._path, token)

    def pending(self) -> list[PendingInfo]:
        """Return the pending files of all processes."""
        if not pending_files(self._path):
            return []
        from rekindle.store.sqlite.pending import pending_infos  # noqa: PLC0415 - seldom needed

        return pending_infos(self._path)

    def open_index(self, *, rebuild: bool = False) -> "SearchIndex":
        """Open the search index."""
        from rekindle.store.sqlite.search_index import (  # noqa: PLC0415 - not needed to record
            SqliteSearchIndex,
        )

        return SqliteSearchIndex(self._path, rebuild=rebuild)

    def recover(
        self, hooks: StoreHooks, progress: "Progress" = lambda _: None
    ) -> "RecoveryReport | None":
        """Quarantine a damaged store, and copy its readable parts into a new one."""
        from rekindle.store.sqlite.quarantine import recover  # noqa: PLC0415 - seldom needed

        return recover(self._path, hooks.title_from_prompt, progress=progress)

    def recovery_reports(self) -> "list[RecoveryReport]":
        """Return the reports of all earlier recoveries."""
        if not quarantined(self._path):
            return []
        from rekindle.store.sqlite.quarantine import reports  # noqa: PLC0415 - seldom needed

        return reports(self._path)

    def diagnose(
        self,
        *,
        full: bool,
        is_requested: bool,
        hooks: StoreHooks,
        report: Reporter,
        progress: "ProgressDisplay",
    ) -> "Iterator[Diagnosis]":
        """Run all checks."""
        from rekindle.store.sqlite.doctor_checks import Doctor  # noqa: PLC0415 - seldom needed

        doctor = Doctor(self._path, hooks, report, progress)
        return doctor.diagnose(full=full, is_requested=is_requested)
