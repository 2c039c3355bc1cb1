"""Optional capabilities of a store: reclaim space, diagnose, and recover from damage.

A kind of store may lack any of them. `address` finds out, and raises UsageError.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from rekindle.errors import UsageError
from rekindle.store.base import Reporter, Store, StoreHooks

Progress = Callable[[float], object]
"""Receives how much of a long operation is done, from 0 to 1."""
ProgressDisplay = Callable[[], AbstractContextManager[Progress]]
"""Shows the progress of an operation as long as the context lasts."""


@runtime_checkable
class SpaceManager(Protocol):
    """An open store that manages its own disk space."""

    def entries_size(self, session_ids: Sequence[str]) -> int:
        """Return the number of bytes in the entries of these sessions. Unknown ids count 0."""
        ...

    def compact(self) -> Iterator[float]:
        """Return unused space to the disk, in steps; yield how much is done, from 0 to 1.

        Other processes may write between two steps. Stopping at any step, or a kill at any moment,
        loses nothing. Raises StoreUnavailable also if other processes have to end first.
        """
        ...

    def scrub(self, tick: Callable[[], object]) -> None:
        """Overwrite every remaining copy of purged content, also in unused parts of files.

        Other processes cannot write meanwhile. `tick` is called now and then. Raises
        StoreUnavailable also if others read at the moment or would wait too long; then purged
        sessions stay purged, and the call can be repeated.
        """
        ...


def space_manager(store: Store) -> SpaceManager:
    """Return the store as a SpaceManager. Raises UsageError if it does not manage its space."""
    if not isinstance(store, SpaceManager):
        raise UsageError("this kind of store manages its disk space itself; there is nothing to do")
    return store


class RecoveryReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a recovery: saved and lost sessions and entries, as far as known."""

    sessions_saved: int = 0
    entries_saved: int = 0
    sessions_lost: int = 0
    entries_lost: int = 0
    at_us: int
    path: str
    """Where the damaged store was moved to."""
    is_finished: bool = True
    """Whether the counts are known."""

    @property
    def text(self) -> str:
        """The report as a sentence for the user."""
        where = f"the damaged store was renamed to {self.path}"
        if not self.is_finished:
            return f"{where}; the recovery did not finish"
        if not self.sessions_saved + self.sessions_lost + self.entries_lost:
            return f"{where}: no session could be read"
        saved = _counts(self.sessions_saved, self.entries_saved)
        if not self.sessions_lost + self.entries_lost:
            return f"{where}: {saved} were recovered, and no loss is known"
        lost = _counts(self.sessions_lost, self.entries_lost)
        return f"{where}: {saved} were recovered; at least {lost} were lost"


def _counts(sessions: int, entries: int) -> str:
    plural = "" if sessions == 1 else "s"
    return f"{sessions} session{plural} and {entries} {'entry' if entries == 1 else 'entries'}"


class Severity(StrEnum):
    """How bad a diagnosis is."""

    OK = "ok"
    FIXED = "fixed"
    WARNING = "warning"
    """Nothing fails because of it."""
    PROBLEM = "problem"
    """Something fails, is lost, or can be read by other users."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """The result of one check of `rekindle doctor`."""

    check: str
    """The name of the check."""
    text: str
    severity: Severity = Severity.OK
    remedy: str = ""
    """An instruction for the user."""
    facts: dict[str, Any] = {}
    """The same for programs."""
    repair: Callable[[], object] | None = None
    """Repairs it without losing anything, and may return a text about the result."""
    is_damage: bool = False
    """Whether the store's contents make no sense, so that writing to it might lose more."""


@runtime_checkable
class MaintenanceBackend(Protocol):
    """A back end that can be diagnosed, and recovered if it is damaged."""

    def recover(
        self, hooks: StoreHooks, progress: Progress = lambda _: None
    ) -> RecoveryReport | None:
        """Quarantine a damaged store, and copy its readable parts into a new one.

        Returns None if the store is not damaged, or was never a store. If another process is
        recovering it, wait for that and return its report. Raises StoreUnavailable.
        """
        ...

    def recovery_reports(self) -> list[RecoveryReport]:
        """Return the reports of all earlier recoveries, oldest first."""
        ...

    def diagnose(
        self,
        *,
        full: bool,
        is_requested: bool,
        hooks: StoreHooks,
        report: Reporter,
        progress: ProgressDisplay,
    ) -> Iterator[Diagnosis]:
        """Run all checks and yield a diagnosis for each. The store is not changed.

        `full` reads everything. `is_requested` means that the user named the store, so that a
        missing one is a problem. `report` receives notices for the user. `progress`
        shows how far a recovery is, if a repair starts one.

        Checks that find damage come first, because nothing is repaired after damage is found.
        """
        ...
