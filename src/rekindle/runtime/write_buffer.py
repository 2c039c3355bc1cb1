"""What waits until the store works again, in its order: in a file, and else in memory.

The file outlives us, and has no limit but the disk's. What it cannot take is kept in memory, up to
a limit; beyond that, a gap is marked. What comes later then waits in memory, too, until all of it
can be moved into the file.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from rekindle.errors import StoreError
from rekindle.jsonvalue import encode
from rekindle.model import Change, EntryBatch, Kind, Side
from rekindle.runtime.log import Log
from rekindle.store.base import PendingChanges, Store

_LARGEST = 8 * 1024 * 1024
"""Of what was said; and once more of all else, which is small, and no gap can stand for it."""
_SIZE_OF_THE_REST = 500


class _Gap(Struct):
    """Stands where entries had to be let go."""

    session_id: str
    at_us: int
    lost: int

    def as_entry(self) -> EntryBatch:
        return EntryBatch(
            session_id=self.session_id,
            side=Side.AGENT,
            kind=Kind.GAP,
            at_us=self.at_us,
            data=encode({"lostEntries": self.lost}),
        )


class WriteBuffer:
    """What one recorder holds back. `open_file` makes its file; None where there is to be none."""

    def __init__(self, open_file: Callable[[], PendingChanges | None], log: Log) -> None:
        self._open_file = open_file
        self._log = log
        self._file: PendingChanges | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._in_memory: list[Change | _Gap] = []
        self._gaps: dict[str, _Gap] = {}
        self._size_said = self._size_else = 0
        self._count = self._entries_lost = self._changes_lost = 0

    def add(self, changes: Sequence[Change], *, sync: bool) -> None:
        """Hold changes back."""
        self._count += len(changes)
        if self._in_memory or not self._put_in_file(changes):
            for change in changes:
                self._keep(change)
        elif sync:
            self._sync()

    def move_to_file(self) -> None:
        """Try to have in the file what is only in memory."""
        if self._in_memory and self._put_in_file(list(self._of_memory())):
            self._sync()
            self._in_memory.clear()
            self._gaps.clear()
            self._size_said = self._size_else = 0

    def write_to(self, store: Store, timeout: float) -> str:
        """Record everything; say what had to be let go. Raises StoreError: then nothing is."""
        token = self._file.token if self._file else os.urandom(16).hex()
        for why in store.apply_pending(token, self._all(), timeout=timeout):
            self._log.report("one entry cannot be recorded", quote=why)
        self._log.note(f"caught up with {self._count} changes")
        try:
            self._remove_file()
        except OSError as error:
            # How much was taken of it stays noted in the store, so it is not taken again.
            self._log.note(f"what was recorded is still in a file: {error}")
        else:
            with suppress(StoreError):
                store.forget_pending(token)
        lost = self._what_was_lost()
        self._begin_anew()
        return lost

    def _remove_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.remove()

    def _what_was_lost(self) -> str:
        entries, changes = self._entries_lost, self._changes_lost
        lost = f"; {entries} entries were lost and are marked as a gap" if entries else ""
        return lost + (f"; {changes} titles and counts were lost" if changes else "")

    def leave(self) -> None:
        """Leave what waits to whoever opens the store next, and tell the user."""
        self.move_to_file()
        file, self._file = self._file, None
        if file is not None:
            self._leave_file(file)
        lost = sum(map(_entries_in, self._in_memory))
        if lost:
            self._log.report(f"{lost} entries could not be recorded and are lost")

    def _leave_file(self, file: PendingChanges) -> None:
        if file.is_empty:
            with suppress(OSError):
                file.remove()
            return
        file.leave()
        if waits := file.entries:
            what = "1 entry waits" if waits == 1 else f"{waits} entries wait"
            self._log.report(
                f"{what} in {file.location}, to be recorded when the store works again"
            )

    def _all(self) -> Iterator[Change]:
        if self._file is not None:
            yield from self._file.changes()
        yield from self._of_memory()

    def _of_memory(self) -> Iterator[Change]:
        return (it.as_entry() if isinstance(it, _Gap) else it for it in self._in_memory)

    # -- in the file --------------------------------------------------------------------

    def _put_in_file(self, changes: Sequence[Change]) -> bool:
        try:
            if self._file is None:
                self._file = self._open_file()
            if self._file is None:
                return False
            for why in self._file.add(changes):
                self._log.report("one entry cannot be recorded", quote=why)
        except (OSError, StoreError) as error:
            self._log.note(f"what waits is only in memory: {error}")
            return False
        return True

    def _sync(self) -> None:
        try:
            if self._file is not None:
                self._file.sync()
        except OSError as error:
            self._log.note(f"what waits may not outlive a crash of the machine: {error}")

    # -- in memory ----------------------------------------------------------------------

    def _keep(self, change: Change) -> None:
        if not isinstance(change, EntryBatch):
            if self._size_else + _SIZE_OF_THE_REST <= _LARGEST:
                self._size_else += _SIZE_OF_THE_REST
                self._in_memory.append(change)
            else:
                self._changes_lost += 1
        elif self._size_said + len(change.data) <= _LARGEST:
            self._size_said += len(change.data)
            self._in_memory.append(change)
        else:
            self._let_go(change)

    def _let_go(self, stretch: EntryBatch) -> None:
        gap = self._gaps.get(stretch.session_id)
        if gap is None:
            gap = self._gaps[stretch.session_id] = _Gap(stretch.session_id, stretch.at_us, 0)
            self._in_memory.append(gap)
        gap.lost += stretch.count
        self._entries_lost += stretch.count


def _entries_in(change: Change | _Gap) -> int:
    match change:
        case EntryBatch():
            return change.count
        case _Gap():
            return change.lost
        case _:
            return 0
