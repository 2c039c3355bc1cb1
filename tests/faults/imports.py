"""Kill an import of another tool's growing file, while an editor records.

A long session is imported in parts. After a kill, the store has the beginning of the session. The
next import continues there, and imports nothing twice.
"""

import signal
import time
from contextlib import closing, suppress
from pathlib import Path

import apsw

from claude_files import ClaudeFile
from rekindle.errors import SessionNotFound
from rekindle.model import Page
from rekindle.store.sqlite.schema import places, seq_at
from rekindle.store.sqlite.store import SqliteStore

from .commands import run
from .processes import until
from .world import World

_ROUNDS = 2
_TURNS = 400
_ANSWERS = 80
"""Enough that each round has more entries than one part."""
_WITHIN = 1.0
"""The import is killed within this time. It takes about as long."""
_BETWEEN_PARTS = 0.6
"""The share of kills between two parts."""

_LAST = """
    select place + lines - 1 from stretch where place between ? and ? order by place desc limit 1
"""

_Lines = list[bytes]


def kill_imports(world: World) -> None:
    """Kill imports, and check that the last one has imported every entry once."""
    file = ClaudeFile(cwd="/elsewhere")
    editor = world.editor()
    session_id = world.new_session(editor)
    for _ in range(_ROUNDS):
        _go_on(file)
        path = _write(file, world.folder / f"{file.session}.jsonl")
        expected = _imported_elsewhere(world, path, file.session)
        before = _lines(world.store, file.session)
        turn = editor.prompt(session_id, "stream 300 4")
        _kill_an_import(world, path, file.session, len(before))
        there = _lines(world.store, file.session)
        world.note(f"{len(there)} of {len(expected)} entries are there, {len(before)} before")
        world.expect(
            "what an import has left is how the session begins",
            _begins(there, expected) and len(there) >= len(before) - 1,
            f"{len(there)} of {len(expected)} entries, {len(before)} before",
        )
        for _ in range(2):
            run(world, "import", str(path)).wait()
            there = _lines(world.store, file.session)
            world.expect("all is imported, once", there == expected, f"{len(there)} entries")
        world.expect("the conversation goes on", "result" in editor.answer(turn), "import")
        world.check(session_id)
    with SqliteStore(world.store, create=False) as store:
        ids = {session.id for session in store.sessions(Page(limit=10, with_archived=True))}
    world.expect("nothing else is made", ids == {session_id, file.session}, str(ids))


def _kill_an_import(world: World, path: Path, session_id: str, before: int) -> None:
    command = run(world, "import", str(path))
    if world.chance.random() < _BETWEEN_PARTS:
        until(lambda: command.has_ended() or _length(world.store, session_id) > before)
    else:
        time.sleep(world.chance.random() * _WITHIN)  # the moment is random
    if not command.has_ended():
        world.count("kill an import from another tool")
    command.send_signal(signal.SIGKILL)
    command.wait()


def _length(store: Path, session_id: str) -> int:
    """Return the number of entries with as few queries as possible."""
    with closing(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        found = db.execute("select key from session where id = ?", (session_id,)).fetchall()
        within = places(found[0][0]) if found else (0, 0)
        last = db.execute(_LAST, within).fetchone()
    return seq_at(last[0]) if last else 0


def _go_on(file: ClaudeFile) -> None:
    for _ in range(_TURNS):
        file.user(f"Ask {file.number}")
        for _ in range(_ANSWERS):
            file.agent(f"msg_{file.number}", {"type": "text", "text": f"Say {file.number}."})


def _write(file: ClaudeFile, path: Path) -> Path:
    path.write_bytes(file.data())
    return path


def _imported_elsewhere(world: World, path: Path, session_id: str) -> _Lines:
    """Return the lines that an undisturbed import writes."""
    here = world.store
    world.use_new_store()
    run(world, "import", str(path)).wait()
    lines = _lines(world.store, session_id)
    world.store = here
    return lines


def _lines(store: Path, session_id: str) -> _Lines:
    with SqliteStore(store, create=False) as opened, suppress(SessionNotFound):
        return [entry.line for entry in opened.read(session_id)]
    return []


def _begins(there: _Lines, expected: _Lines) -> bool:
    # The end of the last turn is an assumption until the next turn begins.
    return expected[: len(there)] == there or expected[: len(there) - 1] == there[:-1]
