"""SIGKILL of an import from another tool's file, which grows, while an editor records.

A long session comes in parts. What is there after a kill is how the session begins; the next import
goes on from there, and nothing is there twice, beside it or in it.
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
"""So many that each round has more than is written at once."""
_WITHIN = 1.0
"""Within how many seconds it is killed: it takes about as long."""
_BETWEEN_PARTS = 0.6
"""How often it is killed when one part is written, and others are not."""

_LAST = """
    select place + lines - 1 from stretch where place between ? and ? order by place desc limit 1
"""

_Lines = list[bytes]


def kill_imports(world: World) -> None:
    """Kill one import after the other, and see that the last one has everything, once."""
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
        until(lambda: command.is_over() or _length(world.store, session_id) > before)
    else:
        time.sleep(world.chance.random() * _WITHIN)  # the moment is what is drawn
    if not command.is_over():
        world.count("kill an import from another tool")
    command.strike(signal.SIGKILL)
    command.wait()


def _length(store: Path, session_id: str) -> int:
    """Return how many entries are there, in the shortest way."""
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
    """Return what an import makes of a file that nobody disturbs."""
    here = world.store
    world.begin_anew()
    run(world, "import", str(path)).wait()
    lines = _lines(world.store, session_id)
    world.store = here
    return lines


def _lines(store: Path, session_id: str) -> _Lines:
    with SqliteStore(store, create=False) as opened, suppress(SessionNotFound):
        return [entry.line for entry in opened.read(session_id)]
    return []


def _begins(there: _Lines, expected: _Lines) -> bool:
    # That the last turn has ended is only assumed until the next one begins.
    return expected[: len(there)] == there or expected[: len(there) - 1] == there[:-1]
