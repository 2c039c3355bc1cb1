"""Leases: which process has the exclusive use of a session, and whether it still lives.

A process that holds a lease also locks a file of its own, named by its token, as long as it runs.
The kernel releases that lock however the process ends. So a dead holder is recognised at once and
without doubt, even if its process id is in use again.

If the file is missing, it was deleted, and the holder may live: its process id decides. A
holder that is found dead loses its file and its process id in the same transaction, so that the id
cannot be mistaken for it later.

The epoch of a lease grows when another process acquires it. The last seq of the session at that
time is kept, because the entries of the former holder diverge there.
"""

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from rekindle.errors import LeaseLost
from rekindle.model import LeaseHolder, LeaseResult
from rekindle.store.base import LeaseMark
from rekindle.store.fencing import lease_lost
from rekindle.store.sqlite.filelock import FileLock, is_held
from rekindle.store.sqlite.schema import places, seq_at
from rekindle.store.sqlite.sql import LAST

_PROBE_TIMEOUT = 1.0

_HOLDER = "token, pid, host, socket, version, agent_group"
_FIND = f"select epoch, is_over, {_HOLDER} from lease where session = ?"  # noqa: S608 - constants
ACTIVE = f"select session, {_HOLDER} from lease where not is_over"  # noqa: S608 - constants
_ACTIVE_BY_ID = f"""
    select id, {_HOLDER} from lease join session on key = session where not is_over
"""  # noqa: S608 - constants
# The group of its agent stays: the agent may outlive the holder.
_BURY = "update lease set pid = 0 where token = ?"
_ACQUIRE = f"""
    insert or replace into lease (session, epoch, is_over, {_HOLDER})
    values (?, ?, 0, ?, ?, ?, ?, ?, ?)
"""  # noqa: S608 - constants
_UPDATE = """
    update lease set pid = ?2, host = ?3, socket = ?4, version = ?5, agent_group = ?6
    where token = ?1 and not is_over
"""
# An earlier release may have written a lower number to the lease.
_LAST_EPOCH = "select max(?2, coalesce(max(epoch), 0)) from epoch where session = ?1"
_BEGIN_EPOCH = "insert into epoch values (?, ?, ?)"
_NEXT_BEGIN = """
    select seq from epoch where session = ? and epoch > ? order by epoch limit 1
"""
_OWN_IDS = """
    select id from lease join session on key = session where token = ? and not is_over
"""
# The row stays: a process that had the lease before the last holder has missed something.
RELEASE = """
    update lease set is_over = 1
    where token = :token and not is_over and (:key is null or session = :key)
"""


class _Lease(Struct, frozen=True):
    """A row of the table."""

    epoch: int
    is_over: bool
    holder: LeaseHolder

    def is_that_of(self, mark: LeaseMark) -> bool:
        """Return whether no other process has acquired the lease since.

        The epoch is lower if the store was replaced, and its leases were brought into the new one.
        """
        return self.holder.token == mark.token and self.epoch <= mark.epoch


class Leases:
    """The leases of one store. Call the methods inside a transaction."""

    def __init__(self, db: Any, folder: Path) -> None:  # noqa: ANN401 - an apsw connection
        self._db = db
        self._folder = folder
        self._liveness: dict[str, FileLock] = {}
        """The locked files by token."""
        self._acquired: dict[str, LeaseHolder] = {}
        """The leases of this object, in case the store cannot be read any more."""
        self.marks: dict[str, LeaseMark] = {}
        """The same leases with their epochs, lost or not. The writer compares them."""

    def acquire(
        self, session_id: str, key: int, holder: LeaseHolder, *, takeover: bool
    ) -> LeaseResult:
        """Give `holder` a lease, unless another live process has it. Call `committed` next."""
        last = self._find(key)
        was = holder if last is None else last.holder
        is_another = was.token != holder.token
        is_alive = last is not None and not last.is_over and self._is_alive(was)
        if is_another and is_alive and not takeover:
            return LeaseResult(holder=was)
        epoch = 1 if last is None else last.epoch
        if is_another:
            epoch = self._begin_epoch(key, epoch)
        # Only now: it removes the process ids of dead holders.
        self._lock_token(holder.token)
        self._db.execute(_ACQUIRE, (key, epoch, *_values(holder)))
        self._acquired[session_id] = holder
        is_former = is_another and last is not None and not last.is_over
        return LeaseResult(
            was_held_by_another=is_another,
            epoch=epoch,
            former=was if is_former else None,
            is_former_alive=is_former and is_alive,
        )

    def committed(self, session_id: str, holder: LeaseHolder, epoch: int) -> None:
        """Note that the store has the lease. From now on it fences entries."""
        self.marks[session_id] = LeaseMark(session_id=session_id, token=holder.token, epoch=epoch)

    def own_epoch(self, session_id: str, key: int, holder: LeaseHolder) -> int | None:
        """Return the epoch of a lease that `holder` has already, exactly so; None otherwise."""
        mark, last = self.marks.get(session_id), self._find(key)
        if mark is None or last is None or last.is_over or holder.token not in self._liveness:
            return None
        return last.epoch if last.is_that_of(mark) and last.holder == holder else None

    def update(self, holder: LeaseHolder) -> None:
        """Store the new fields of a holder."""
        self._db.execute(_UPDATE, _values(holder))
        for session_id, known in self._acquired.items():
            if known.token == holder.token:
                self._acquired[session_id] = holder

    def check(self, session_id: str, key: int) -> None:
        """Raise LeaseLost if the lease of this object on a session is lost."""
        mark, last = self.marks.get(session_id), self._find(key)
        if mark is not None and last is not None and not last.is_that_of(mark):
            raise lease_lost(mark, last.holder, self._seq_after(key, mark.epoch))

    def find_lost(self, mark: LeaseMark, key: int) -> LeaseLost | None:
        """Return the error for pending changes that must not be appended to their session."""
        last = self._find(key)
        if last is None or last.is_that_of(mark):
            return None
        until_seq = self._seq_after(key, mark.epoch)
        is_free = last.is_over or not self._is_alive(last.holder)
        if is_free and self._last_seq(key) == until_seq:
            return None
        return lease_lost(mark, last.holder, until_seq)

    def _find(self, key: int) -> _Lease | None:
        rows = self._db.execute(_FIND, (key,)).fetchall()
        return _Lease(rows[0][0], bool(rows[0][1]), _holder(rows[0][2:])) if rows else None

    def _begin_epoch(self, key: int, epoch: int) -> int:
        """Start the next epoch of a session; return its number."""
        last = self._db.execute(_LAST_EPOCH, (key, epoch)).get
        self._db.execute(_BEGIN_EPOCH, (key, last + 1, self._last_seq(key)))
        return last + 1

    def _seq_after(self, key: int, epoch: int) -> int:
        """Return the last seq of a session when the next epoch began.

        A process of an earlier release begins none. Then all entries count as common.
        """
        rows = self._db.execute(_NEXT_BEGIN, (key, epoch)).fetchall()
        return rows[0][0] if rows else self._last_seq(key)

    def _last_seq(self, key: int) -> int:
        rows = self._db.execute(LAST, places(key)).fetchall()
        return seq_at(rows[0][0]) if rows else 0

    def holder(self, key: int) -> LeaseHolder | None:
        """Return the live holder of a session."""
        last = self._find(key)
        if last is None or last.is_over or not self._is_alive(last.holder):
            return None
        return last.holder

    def holders(self) -> dict[int, LeaseHolder]:
        """Return the live holders by the key of the session."""
        held = {key: _holder(row) for key, *row in self._db.execute(ACTIVE).fetchall()}
        by_token = {holder.token: holder for holder in held.values()}
        alive = {token for token, holder in by_token.items() if self._is_alive(holder)}
        return {key: holder for key, holder in held.items() if holder.token in alive}

    def own(self) -> dict[str, LeaseHolder]:
        """Return the leases that were acquired through this object, by session id."""
        rows = self._db.execute(_ACTIVE_BY_ID).fetchall()
        held = {session_id: _holder(row) for session_id, *row in rows}
        return {id_: holder for id_, holder in held.items() if holder.token in self._liveness}

    def remembered(self) -> dict[str, LeaseHolder]:
        """Return the same as `own` without reading the store."""
        return dict(self._acquired)

    def release(self, holder: LeaseHolder, key: int | None, session_id: str | None) -> None:
        """Release the lease of one session, or all of them."""
        own = self._db.execute(_OWN_IDS, (holder.token,)).fetchall()
        self._db.execute(RELEASE, {"token": holder.token, "key": key})
        for (one,) in own:
            if session_id in {None, one}:
                self.forget(one)

    def forget(self, session_id: str) -> None:
        """Note that a session was removed, and its lease with it."""
        self._acquired.pop(session_id, None)
        self.marks.pop(session_id, None)

    @property
    def are_in_use(self) -> bool:
        """Whether a lease was acquired through this object."""
        return bool(self._liveness)

    def release_all(self) -> None:
        """Release all leases that were acquired through this object."""
        for token in self._liveness:
            self._db.execute(RELEASE, {"token": token, "key": None})

    def inherit(self, former: "Leases") -> None:
        """Take over the locked files of another object, so that its leases stay alive."""
        self._acquired = former._acquired | self._acquired  # noqa: SLF001 - of its own kind
        # The writer has the same dictionary.
        for session_id, mark in former.marks.items():
            self.marks.setdefault(session_id, mark)
        for token, lock in former._liveness.items():  # noqa: SLF001
            if lock.is_of(self._path(token)):
                self._unlock_token(token)
                self._liveness[token] = lock
            else:
                # The file went away with the store: other processes would not see its lock.
                self._lock_token(token)
                lock.close()
        former._liveness.clear()  # noqa: SLF001

    def close(self) -> None:
        """Remove and unlock the files."""
        for token, lock in self._liveness.items():
            self._path(token).unlink(missing_ok=True)
            lock.close()
        self._liveness.clear()

    def _lock_token(self, token: str) -> None:
        path = self._path(token)
        if token in self._liveness and not self._liveness[token].is_of(path):
            # The file was deleted, so other processes do not see its lock.
            self._unlock_token(token)
        if token not in self._liveness:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._bury_dead()
        while token not in self._liveness:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(path)
            # Other processes probe the lock, and remove a file that no process has locked.
            lock.acquire(_PROBE_TIMEOUT)
            if lock.is_of(path):
                self._liveness[token] = lock
            else:
                lock.close()

    def _unlock_token(self, token: str) -> None:
        if token in self._liveness:
            self._liveness.pop(token).close()

    def _bury_dead(self) -> None:
        """Remove the files of dead holders, and note that these are dead."""
        for path in self._folder.iterdir():
            # A file that cannot be opened may belong to another user: its holder is respected.
            with suppress(OSError), closing(FileLock(path)) as lock:
                # Shared, so that a process that probes the file meanwhile sees a dead holder too.
                if path.name not in self._liveness and lock.acquire_shared():
                    self._db.execute(_BURY, (path.name,))
                    path.unlink()

    def _is_alive(self, holder: LeaseHolder) -> bool:
        return holder.token in self._liveness or is_alive(self._folder, holder)

    def _path(self, token: str) -> Path:
        return self._folder / token


def _holder(row: Sequence[Any]) -> LeaseHolder:
    token, pid, machine, socket, version, agent_group = row
    return LeaseHolder(
        token=token,
        pid=pid,
        machine=machine,
        socket=socket,
        version=version,
        agent_group=agent_group,
    )


def _values(holder: LeaseHolder) -> tuple[object, ...]:
    return (
        holder.token,
        holder.pid,
        holder.machine,
        holder.socket,
        holder.version,
        holder.agent_group,
    )


def is_alive(folder: Path, holder: LeaseHolder) -> bool:
    """Return whether the holder of a lease lives. `folder` has the files that holders lock."""
    path = folder / holder.token
    if not path.exists():
        is_here = holder.machine == os.uname().nodename and holder.pid != os.getpid()
        return is_here and _process_exists(holder.pid)
    try:
        return is_held(path)
    except OSError:
        # A file that may not be opened belongs to another user: respect the lease.
        return True


def live_holder(db: Any, folder: Path) -> LeaseHolder | None:  # noqa: ANN401 - an apsw connection
    """Return a live process that has or had a lease, in a store of any schema; None without one."""
    if not db.execute("select 1 from sqlite_schema where name = 'lease'").fetchone():
        return None
    held = db.execute("select distinct token, pid, host from lease")
    holders = [LeaseHolder(token=token, pid=pid, machine=host) for token, pid, host in held]
    return next((it for it in holders if is_alive(folder, it)), None)


def _process_exists(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
