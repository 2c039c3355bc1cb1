"""SIGKILL of a Rekindle whose store does not work, and of whoever takes in what it has left.

What it could not record waits in a file beside the store. Every update that a client received is
in the record as soon as the store works again, once, and behind what was there before.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import apsw

from rekindle.store.sqlite.filelock import FileLock
from rekindle.store.sqlite.files import lock_path, pending_files
from rekindle.store.sqlite.store import SqliteStore

from .checks import check_no_faults_of_ours
from .editor import Editor
from .processes import PATIENCE, until
from .violation import Violation
from .world import World

_PAGE = 4096
_ABOUT_ITS_START = 0.15
_INDEXES = ("session_by_time", "session_by_cwd", "sqlite_autoindex_session_1")


def kill_while_it_waits(world: World) -> None:
    """Have a store fail under editors that are killed, and perhaps also whoever comes next."""
    editor = world.editor()
    session_id = world.new_session(editor)
    _talk(world, editor, session_id)
    how = world.chance.choice(sorted(FAILURES))
    with FAILURES[how](world.store):
        _talk(world, editor, session_id)
        others = [world.editor() for _ in range(world.chance.randrange(2))]
        for other in others:
            _talk(world, other, world.new_session(other))
        world.expect("what waits is in a file", bool(pending_files(world.store)), how)
        for one in (editor, *others):
            _strike(world, one, how)
    while world.chance.random() < 0.5:
        _kill_who_takes_it_in(world)
    heir = _heir(world)
    world.load(heir, session_id)
    _talk(world, heir, session_id)
    world.leave(heir)
    world.check(*world.ledger)


def _talk(world: World, editor: Editor, session_id: str) -> None:
    for _ in range(world.chance.randrange(1, 3)):
        count, at_once = world.chance.choice((3, 100)), world.chance.choice((1, 16))
        answer = editor.answer(editor.prompt(session_id, f"stream {count} {at_once}"))
        world.expect("the conversation goes on", "result" in answer, str(answer))


def _strike(world: World, editor: Editor, how: str) -> None:
    """Kill an editor's Rekindle, between two turns or in one; nobody can read the store now."""
    session_id = world.chance.choice(sorted(editor.opened))
    if world.chance.random() < 0.5:
        enough = world.ledger[session_id].received + world.chance.randrange(300)
        editor.prompt(session_id, "stream 300 1")
        until(lambda: editor.has_received(session_id, enough))
    world.count(f"kill Rekindle, while {how}")
    editor.rekindle.strike(signal.SIGKILL)
    editor.wait_for_the_end()
    world.editors.remove(editor)
    check_no_faults_of_ours(editor.stderr.read_text(errors="replace"))


def _kill_who_takes_it_in(world: World) -> None:
    editor = world.start_editor()
    editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    time.sleep(world.chance.random() * _ABOUT_ITS_START)  # the moment is what is drawn
    world.count("kill Rekindle, while it takes in what another has left")
    editor.rekindle.strike(signal.SIGKILL)
    editor.wait_for_the_end()
    world.editors.remove(editor)


def _heir(world: World) -> Editor:
    """Return an editor whose Rekindle has taken in all that waits."""
    editor = world.editor()

    def has_taken_it_in() -> bool:
        # What takes long to be saved is not waited for: the client is told, and may ask again.
        answer = editor.answer(editor.request("session/list", {}))
        return "result" in answer and not pending_files(world.store)

    if not until(has_taken_it_in, PATIENCE):
        raise Violation("what waits is not taken in", str(pending_files(world.store)))
    return editor


# -- stores that do not work ------------------------------------------------------------


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    with closing(apsw.Connection(str(store))) as db:
        db.set_busy_timeout(int(PATIENCE * 1000))
        db.execute("begin exclusive")
        yield


@contextmanager
def _being_saved(store: Path) -> Iterator[None]:
    """Damage a store so that all of it can be saved, and keep whoever would do so from it."""
    with SqliteStore(store) as ours:
        # The damage would else be hidden by the log.
        ours.purge()
    with closing(apsw.Connection(str(store))) as db:
        sql = "select pageno from dbstat where name = ?"
        pages = [row[0] for name in _INDEXES for row in db.execute(sql, (name,))]
    lock = FileLock(lock_path(store))
    try:
        if not lock.acquire(PATIENCE):
            raise Violation("a lock is stuck", str(store))
        with store.open("r+b") as file:
            for number in pages:
                file.seek((number - 1) * _PAGE)
                file.write(b"\xff" * _PAGE)
        yield
    finally:
        lock.close()


FAILURES: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "its store is locked": _locked,
    "its store is saved": _being_saved,
}
