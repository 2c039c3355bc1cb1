"""Which process drives a session, and whether it still lives.

A process that holds a session also holds the lock of a file of its own, named by its token,
for as long as it runs; the kernel lets go of it however the process ends. So a dead holder is
known at once and without doubt, whatever became of its process id.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from rekindle.model import LeaseHolder, LeaseResult
from rekindle.store.sqlite.filelock import FileLock

_PATIENCE_WITH_A_LOOK = 1.0

_FIND = "select token, pid, host, is_over from lease where session = ?"
ALL = "select session, token, pid, host from lease where not is_over"
_ALL_BY_ID = """
    select id, token, pid, host from lease join session on key = session where not is_over
"""
_TAKE = "insert or replace into lease (session, token, pid, host) values (?, ?, ?, ?)"
# Who had it last stays known: whoever had it before that has missed something.
DROP = """
    update lease set is_over = 1
    where token = :token and not is_over and (:key is null or session = :key)
"""


class Leases:
    """The leases of one store. Call inside a transaction."""

    def __init__(self, db: Any, folder: Path) -> None:  # noqa: ANN401 - an apsw connection
        self._db = db
        self._folder = folder
        self._alive: dict[str, FileLock] = {}
        self._claimed: dict[str, LeaseHolder] = {}
        """What was claimed by way of this object, should the store be unable to tell."""

    def claim(
        self, session_id: str, key: int, holder: LeaseHolder, *, takeover: bool
    ) -> LeaseResult:
        """Take a session, unless another has it who lives."""
        other = self.holder(key)
        if other is not None and other.token != holder.token and not takeover:
            return LeaseResult(holder=other)
        last = self._db.execute(_FIND, (key,)).fetchall()
        self._show_alive(holder.token)
        self._db.execute(_TAKE, (key, holder.token, holder.pid, holder.host))
        self._claimed[session_id] = holder
        return LeaseResult(was_held_by_another=bool(last) and last[0][0] != holder.token)

    def holder(self, key: int) -> LeaseHolder | None:
        """Return a session's living holder."""
        rows = self._db.execute(_FIND, (key,)).fetchall()
        if not rows or rows[0][3]:
            return None
        token, pid, host, _ = rows[0]
        found = LeaseHolder(token=token, pid=pid, host=host)
        return found if self._is_alive(token) else None

    def driven(self) -> dict[int, LeaseHolder]:
        """Return the living holders of all sessions that have one."""
        rows = self._db.execute(ALL).fetchall()
        alive = {token: self._is_alive(token) for token in {row[1] for row in rows}}
        return {
            key: LeaseHolder(token=token, pid=pid, host=host)
            for key, token, pid, host in rows
            if alive[token]
        }

    def held(self) -> dict[str, LeaseHolder]:
        """Return the sessions that are driven by way of this object, by their ids."""
        rows = self._db.execute(_ALL_BY_ID).fetchall()
        return {
            session_id: LeaseHolder(token=token, pid=pid, host=host)
            for session_id, token, pid, host in rows
            if token in self._alive
        }

    def claimed(self) -> dict[str, LeaseHolder]:
        """Return the same as far as it is known without the store, which may not be readable."""
        return dict(self._claimed)

    def drop(self, holder: LeaseHolder, key: int | None, session_id: str | None) -> None:
        """Give up one session, or all."""
        self._db.execute(DROP, {"token": holder.token, "key": key})
        for one in list(self._claimed) if session_id is None else [session_id]:
            if self._claimed.get(one) == holder:
                del self._claimed[one]

    @property
    def is_in_use(self) -> bool:
        """Whether something was claimed by way of this object."""
        return bool(self._alive)

    def drop_all(self) -> None:
        """Give up whatever was claimed by way of this object."""
        for token in self._alive:
            self._db.execute(DROP, {"token": token, "key": None})

    def inherit(self, former: "Leases") -> None:
        """Be alive instead of another."""
        self._claimed = former._claimed | self._claimed  # noqa: SLF001 - of its own kind
        for token, lock in former._alive.items():  # noqa: SLF001
            if lock.is_of(self._path(token)):
                self._forget(token)
                self._alive[token] = lock
            else:
                # It went with the store: nobody would see it.
                self._show_alive(token)
                lock.close()
        former._alive.clear()  # noqa: SLF001

    def close(self) -> None:
        """Stop being alive."""
        for token, lock in self._alive.items():
            self._path(token).unlink(missing_ok=True)
            lock.close()
        self._alive.clear()

    def _show_alive(self, token: str) -> None:
        path = self._path(token)
        while token not in self._alive:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(path)
            # Others look by its lock whether anybody has it, and remove what nobody has.
            lock.acquire(_PATIENCE_WITH_A_LOOK)
            if lock.is_of(path):
                self._alive[token] = lock
            else:
                lock.close()

    def _forget(self, token: str) -> None:
        if token in self._alive:
            self._alive.pop(token).close()

    def _is_alive(self, token: str) -> bool:
        if token in self._alive:
            return True
        path = self._path(token)
        if not path.exists():
            return False
        try:
            lock = FileLock(path)
        except OSError:
            # Not ours to look at, so not ours to take from.
            return True
        try:
            is_dead = lock.is_free()
            if is_dead:
                # Where the folder cannot be written, it stays, and is as dead.
                with suppress(OSError):
                    path.unlink()
            return not is_dead
        finally:
            lock.close()

    def _path(self, token: str) -> Path:
        return self._folder / token
