"""Kill a Rekindle whose store fails, and the processes that later record its pending changes.

Pending changes are kept in a file beside the store. When the store works again, every update that a
client received is recorded once, after the older entries.
"""

import errno
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

import apsw

from rekindle.store.sqlite.filelock import FileLock
from rekindle.store.sqlite.files import lock_path, pending_files
from rekindle.store.sqlite.store import SqliteStore

from .checks import check_no_internal_errors
from .editor import Editor
from .processes import TIMEOUT, until
from .violation import Violation
from .world import World

_PAGE = 4096
_START_SECONDS = 0.15
_INDEXES = ("session_by_time", "session_by_cwd", "sqlite_autoindex_session_1")


def kill_while_pending(world: World) -> None:
    """Kill editors while the store fails, and sometimes the processes that come next."""
    editor = world.editor()
    session_id = world.new_session(editor)
    _run_turn(world, editor, session_id)
    how = world.chance.choice(sorted(FAILURES))
    if how in FAILING_DISKS and not world.fork_server.can_fail_disks:
        world.skip(f"kill Rekindle, while {how}", "needs a C compiler")
        return
    with FAILURES[how](world.store):
        _run_turn(world, editor, session_id)
        others = [world.editor() for _ in range(world.chance.randrange(2))]
        for other in others:
            _run_turn(world, other, world.new_session(other))
        world.expect("what waits is in a file", bool(pending_files(world.store)), how)
        for one in (editor, *others):
            _strike(world, one, how)
    while world.chance.random() < 0.5:
        _kill_during_recording(world)
    next_editor = _next_editor(world)
    world.load(next_editor, session_id)
    _run_turn(world, next_editor, session_id)
    world.leave(next_editor)
    world.check(*world.ledger)


def _run_turn(world: World, editor: Editor, session_id: str) -> None:
    for _ in range(world.chance.randrange(1, 3)):
        count, at_once = world.chance.choice((3, 100)), world.chance.choice((1, 16))
        answer = editor.answer(editor.prompt(session_id, f"stream {count} {at_once}"))
        world.expect("the conversation goes on", "result" in answer, str(answer))


def _strike(world: World, editor: Editor, how: str) -> None:
    """Kill the Rekindle of an editor, between two turns or in one. The store still fails."""
    session_id = world.chance.choice(sorted(editor.opened))
    if world.chance.random() < 0.5:
        enough = world.ledger[session_id].received + world.chance.randrange(300)
        editor.prompt(session_id, "stream 300 1")
        until(lambda: editor.has_received(session_id, enough))
    world.count(f"kill Rekindle, while {how}")
    editor.rekindle.send_signal(signal.SIGKILL)
    editor.wait_for_exit()
    world.editors.remove(editor)
    check_no_internal_errors(editor.stderr.read_text(errors="replace"))


def _kill_during_recording(world: World) -> None:
    editor = world.start_editor()
    editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    time.sleep(world.chance.random() * _START_SECONDS)  # the moment is random
    world.count("kill Rekindle, while it takes in what another has left")
    editor.rekindle.send_signal(signal.SIGKILL)
    editor.wait_for_exit()
    world.editors.remove(editor)


def _next_editor(world: World) -> Editor:
    """Return an editor whose Rekindle has recorded all pending changes."""
    editor = world.editor()

    def is_recorded() -> bool:
        # Rekindle does not wait for a long recovery: the client gets an error and tries again.
        answer = editor.answer(editor.request("session/list", {}))
        return "result" in answer and not pending_files(world.store)

    if not until(is_recorded, TIMEOUT):
        raise Violation("what waits is not taken in", str(pending_files(world.store)))
    return editor


# -- failing stores ------------------------------------------------------------


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    with closing(apsw.Connection(str(store))) as db:
        db.set_busy_timeout(int(TIMEOUT * 1000))
        db.execute("begin exclusive")
        yield


@contextmanager
def _in_recovery(store: Path) -> Iterator[None]:
    """Damage only the indexes of a store, and hold the lock that recovery needs."""
    with SqliteStore(store) as ours:
        # Empty the WAL; otherwise it would hide the damage.
        ours.purge()
    with closing(apsw.Connection(str(store))) as db:
        sql = "select pageno from dbstat where name = ?"
        pages = [row[0] for name in _INDEXES for row in db.execute(sql, (name,))]
    lock = FileLock(lock_path(store))
    try:
        if not lock.acquire(TIMEOUT):
            raise Violation("a lock is stuck", str(store))
        with store.open("r+b") as file:
            for number in pages:
                file.seek((number - 1) * _PAGE)
                file.write(b"\xff" * _PAGE)
        yield
    finally:
        lock.close()


@contextmanager
def _on_failing_disk(store: Path, orders: tuple[str, ...]) -> Iterator[None]:
    """Let operations fail, as `failing_disk.c` reads it. The data of a failed sync stay."""
    file = store.with_name("failing")
    begun = file.with_name("failing.new")
    begun.write_text("".join(f"{order}\n" for order in orders))
    begun.rename(file)
    try:
        yield
    finally:
        file.unlink()


def _all(*operations: str, number: int) -> tuple[str, ...]:
    return tuple(f"{operation} {number}" for operation in operations)


_SYNCS = ("sync wal", "sync store", "sync pending", "sync folder")
FAILING_DISKS: dict[str, tuple[str, ...]] = {
    "a sync of its log fails": _all("sync wal", number=errno.EIO),
    "no sync works": _all(*_SYNCS, number=errno.EIO),
    "its disk is full at each sync": _all(*_SYNCS, number=errno.ENOSPC),
    "its log cannot be written": _all("write wal", "write shm", "write store", number=errno.EIO),
    "its log has no room": _all("write wal", "write shm", *_SYNCS, number=errno.ENOSPC),
}
"""The operations that fail, on which files, and the number of the error."""

FAILURES: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "its store is locked": _locked,
    "its store is saved": _in_recovery,
    **{how: partial(_on_failing_disk, orders=orders) for how, orders in FAILING_DISKS.items()},
}
