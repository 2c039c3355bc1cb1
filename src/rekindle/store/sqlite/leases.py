"""Leases: which process has the exclusive use of a session, and whether it still lives.

A process that holds a lease also locks a file of its own, named by its token, as long as it runs.
The kernel releases that lock however the process ends. So a dead holder is recognised at once and
without doubt, even if its process id is in use again.

If the file is missing, it was deleted, and the holder may live: its process id decides. A
holder that is found dead loses its file and its process id in the same transaction, so that the id
cannot be mistaken for it later.
"""

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from rekindle.model import LeaseHolder, LeaseResult
from rekindle.store.sqlite.filelock import FileLock, is_held

_PROBE_TIMEOUT = 1.0

HOLDER = "token, pid, host, socket, version, agent_group"
"""The columns of a holder, as `read_holder` reads them."""

_FIND = f"select is_over, {HOLDER} from lease where session = ?"  # noqa: S608 - constants only
ACTIVE = f"select session, {HOLDER} from lease where not is_over"  # noqa: S608 - constants only
_ACTIVE_BY_ID = f"""
    select id, {HOLDER} from lease join session on key = session where not is_over
"""  # noqa: S608 - constants only
_BURY = "update lease set pid = 0 where token = ?"
_ACQUIRE = f"""
    insert into lease (session, {HOLDER}) values (?, ?, ?, ?, ?, ?, ?)
    on conflict (session) do update set
        epoch = epoch + (is_over or token <> excluded.token), is_over = 0,
        token = excluded.token, pid = excluded.pid, host = excluded.host,
        socket = excluded.socket, version = excluded.version, agent_group = excluded.agent_group
"""  # noqa: S608 - constants only
# The row stays: a process that had the lease before the last holder has missed something.
RELEASE = """
    update lease set is_over = 1
    where token = :token and not is_over and (:key is null or session = :key)
"""


class Leases:
    """The leases of one store. Call the methods inside a transaction."""

    def __init__(self, db: Any, folder: Path) -> None:  # noqa: ANN401 - an apsw connection
        self._db = db
        self._folder = folder
        self._liveness: dict[str, FileLock] = {}
        """The locked files by token."""
        self._acquired: dict[str, LeaseHolder] = {}
        """The leases of this object, in case the store cannot be read any more."""

    def acquire(
        self, session_id: str, key: int, holder: LeaseHolder, *, takeover: bool
    ) -> LeaseResult:
        """Give `holder` a lease, unless another live process has it."""
        other = self.holder(key)
        if other is not None and other.token != holder.token and not takeover:
            return LeaseResult(holder=other)
        last = self._db.execute(_FIND, (key,)).fetchall()
        self._lock_token(holder.token)
        self._db.execute(_ACQUIRE, (key, *astuple(holder)))
        self._acquired[session_id] = holder
        return LeaseResult(was_held_by_another=bool(last) and last[0][1] != holder.token)

    def holder(self, key: int) -> LeaseHolder | None:
        """Return the live holder of a session."""
        rows = self._db.execute(_FIND, (key,)).fetchall()
        if not rows or rows[0][0]:
            return None
        found = read_holder(rows[0][1:])
        return found if self._is_alive(found) else None

    def holders(self) -> dict[int, LeaseHolder]:
        """Return the live holders by the key of the session."""
        held = {key: read_holder(row) for key, *row in self._db.execute(ACTIVE).fetchall()}
        by_token = {holder.token: holder for holder in held.values()}
        alive = {token for token, holder in by_token.items() if self._is_alive(holder)}
        return {key: holder for key, holder in held.items() if holder.token in alive}

    def own(self) -> dict[str, LeaseHolder]:
        """Return the leases that were acquired through this object, by session id."""
        rows = self._db.execute(_ACTIVE_BY_ID).fetchall()
        own = {session_id: read_holder(row) for session_id, *row in rows}
        return {it: holder for it, holder in own.items() if holder.token in self._liveness}

    def remembered(self) -> dict[str, LeaseHolder]:
        """Return the same as `own` without reading the store."""
        return dict(self._acquired)

    def release(self, holder: LeaseHolder, key: int | None, session_id: str | None) -> None:
        """Release the lease of one session, or all of them."""
        self._db.execute(RELEASE, {"token": holder.token, "key": key})
        for one in list(self._acquired) if session_id is None else [session_id]:
            if self._acquired.get(one) == holder:
                del self._acquired[one]

    def forget(self, session_id: str) -> None:
        """Note that a session was removed, and its lease with it."""
        self._acquired.pop(session_id, None)

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


def read_holder(row: Sequence[Any]) -> LeaseHolder:
    """Return the holder in a row with the columns of `HOLDER`."""
    token, pid, machine, socket, version, agent_group = row
    return LeaseHolder(
        token=token,
        pid=pid,
        machine=machine,
        socket=socket,
        version=version,
        agent_group=agent_group,
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
