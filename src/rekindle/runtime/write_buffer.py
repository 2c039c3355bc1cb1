"""The write buffer: changes that wait until the store works again, in order.

They are kept in a pending file, which outlives this process and is limited only by the disk. If the
file cannot be written, changes are kept in memory up to a limit; entries beyond it are replaced by
a gap. Later changes then wait in memory too, until all of them can be moved into the file.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from rekindle.errors import StoreError
from rekindle.jsonvalue import encode
from rekindle.model import Change, EntryBatch, Kind, Side
from rekindle.runtime.log import Log
from rekindle.store.base import (
    LeaseMark,
    PendingChange,
    PendingChanges,
    Store,
    UncertainWrite,
)

_MAX_BYTES = 8 * 1024 * 1024
"""The limit for entries, and the limit for all other changes, which no gap can replace."""
_OTHER_CHANGE_BYTES = 500


class _Gap(Struct):
    """Replaces entries that did not fit."""

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
    """The waiting changes of one recorder.

    `open_file` creates the pending file of a token, or returns None if there is to be none.
    """

    def __init__(self, open_file: Callable[[str], PendingChanges | None], log: Log) -> None:
        self._open_file = open_file
        self._log = log
        self._file: PendingChanges | None = None
        self._reset()

    def _reset(self) -> None:
        # The same in memory and in the file: an attempt to apply them has an unknown result, too.
        self._token = os.urandom(16).hex()
        self._in_memory: list[PendingChange | _Gap] = []
        self._gaps: dict[str, _Gap] = {}
        self._leases: dict[str, LeaseMark] = {}
        """The marks among the changes, by session."""
        self._entry_bytes = self._other_bytes = 0
        self._count = self._entries_lost = self._changes_lost = 0

    def add(
        self,
        changes: Sequence[Change],
        *,
        sync: bool,
        uncertain: UncertainWrite | None = None,
        leases: Sequence[LeaseMark] = (),
    ) -> None:
        """Add changes. With `sync`, make them survive a crash of the machine, if possible.

        `uncertain` recognises the changes if the store has them already. `leases` are those under
        which entries of sessions were made.
        """
        self._count += len(changes)
        new = [mark for mark in leases if self._leases.get(mark.session_id) != mark]
        self._leases |= {mark.session_id: mark for mark in new}
        marks = [*new] if uncertain is None else [*new, uncertain]
        if self._in_memory or not self._write_to_file([*marks, *changes]):
            self._in_memory += new
            self._keep_all_in_memory(changes, uncertain)
        elif sync:
            self._sync()

    def move_to_file(self) -> None:
        """Try to move the changes in memory into the pending file."""
        if self._in_memory and self._write_to_file(list(self._changes_in_memory())):
            self._sync()
            self._in_memory.clear()
            self._gaps.clear()
            self._entry_bytes = self._other_bytes = 0

    def write_to(self, store: Store, timeout: float) -> str:
        """Write all changes to the store; return a text about losses.

        Raises StoreError; then no change was written.
        """
        token = self._token
        # The store counts the changes that it applies, so a gap among them must not grow.
        self._gaps.clear()
        for reason in store.apply_pending(token, self._changes(), timeout=timeout):
            self._log.report("could not record one entry", quote=reason)
        self._log.note(f"recorded {self._count} waiting changes")
        try:
            self._remove_file()
        except OSError as error:
            # The store keeps the count of applied changes, so the file is not applied again.
            self._log.note(f"could not remove the pending file after recording it: {error}")
        else:
            with suppress(StoreError):
                store.forget_pending(token)
        losses = self._losses()
        self._reset()
        return losses

    def _remove_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.remove()

    def _losses(self) -> str:
        entries, changes = self._entries_lost, self._changes_lost
        lost = f"; {entries} entries were lost and are marked as a gap" if entries else ""
        return lost + (f"; {changes} titles and counts were lost" if changes else "")

    def leave(self) -> None:
        """Leave the changes to the next process that opens the store, and inform the user."""
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
        if count := file.entries:
            waiting = "1 entry waits" if count == 1 else f"{count} entries wait"
            self._log.report(
                f"{waiting} in {file.location}, to be recorded when the store works again"
            )

    def _changes(self) -> Iterator[PendingChange]:
        if self._file is not None:
            yield from self._file.changes()
        yield from self._changes_in_memory()

    def _changes_in_memory(self) -> Iterator[PendingChange]:
        return (it.as_entry() if isinstance(it, _Gap) else it for it in self._in_memory)

    # -- in the file -----------------------------------------------------------------------

    def _write_to_file(self, changes: Sequence[PendingChange]) -> bool:
        try:
            if self._file is None:
                self._file = self._open_file(self._token)
            if self._file is None:
                return False
            for reason in self._file.add(changes):
                self._log.report("could not record one entry", quote=reason)
        except (OSError, StoreError) as error:
            self._log.note(f"changes wait in memory only: {error}")
            return False
        return True

    def _sync(self) -> None:
        try:
            if self._file is not None:
                self._file.sync()
        except OSError as error:
            self._log.note(f"waiting changes may not survive a crash of the machine: {error}")

    # -- in memory -------------------------------------------------------------------------

    def _keep_all_in_memory(
        self, changes: Sequence[Change], uncertain: UncertainWrite | None
    ) -> None:
        first = len(self._in_memory)
        for change in changes:
            self._keep_in_memory(change)
        if uncertain is not None:
            # Some changes may not have fitted. Later ones do not belong to this gap.
            mark = replace(uncertain, changes=len(self._in_memory) - first)
            self._in_memory.insert(first, mark)
            self._gaps.clear()

    def _keep_in_memory(self, change: Change) -> None:
        if not isinstance(change, EntryBatch):
            if self._other_bytes + _OTHER_CHANGE_BYTES <= _MAX_BYTES:
                self._other_bytes += _OTHER_CHANGE_BYTES
                self._in_memory.append(change)
            else:
                self._changes_lost += 1
        elif self._entry_bytes + len(change.data) <= _MAX_BYTES:
            self._entry_bytes += len(change.data)
            self._in_memory.append(change)
        else:
            self._add_to_gap(change)

    def _add_to_gap(self, batch: EntryBatch) -> None:
        gap = self._gaps.get(batch.session_id)
        if gap is None:
            gap = self._gaps[batch.session_id] = _Gap(batch.session_id, batch.at_us, 0)
            self._in_memory.append(gap)
        gap.lost += batch.count
        self._entries_lost += batch.count


def _entries_in(change: PendingChange | _Gap) -> int:
    match change:
        case EntryBatch():
            return change.count
        case _Gap():
            return change.lost
        case _:
            return 0
