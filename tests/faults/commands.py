"""Kill commands that change the whole store, while an editor records into it.

The change of each session is complete or absent. When the command runs again, it is complete.
"""

import os
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from rekindle.model import EntryBatch, Kind, Opened, Side
from rekindle.store.sqlite.files import lock_path
from rekindle.store.sqlite.schema import APPLICATION_ID, MIGRATIONS, place
from rekindle.store.sqlite.store import SqliteStore

from .checks import check_integrity, recorded
from .processes import Process, until
from .world import World

_IMPORTED = tuple(f"elsewhere-{number}" for number in range(4))
_ENTRIES = 1500
_LONG_AGO_US = 1_600_000_000_000_000
_KILL_WITHIN = 0.15
"""A command is killed within this time. Most commands end earlier."""
_UPGRADE = 0.02
_ROUNDS = 6
_ROWS_OF_OLD = 3000


def kill_commands(world: World) -> None:
    """Kill commands, and check that the store is intact before and after each runs again."""
    bundle = _bundle(world)
    editor = world.editor()
    session_id = world.new_session(editor)
    commands = {
        "import": ("import", "--undelete", str(bundle)),
        "prune": ("prune", "--older-than", "1y", "--yes"),
        "prune for good": ("prune", "--older-than", "1y", "--yes", "--now"),
        "compact": ("compact",),
        "search": ("search", "elsewhere"),
        "doctor": ("doctor", "--fix"),
    }
    run(world, *commands["import"]).wait()
    for _ in range(_ROUNDS):
        name = world.chance.choice(sorted(commands))
        if name in {"compact", "import"}:
            # Give the command something to do.
            run(world, *commands["prune for good"]).wait()
        turn = editor.prompt(session_id, "stream 300 4")
        command = run(world, *commands[name])
        time.sleep(world.chance.random() * _KILL_WITHIN)  # the moment is random
        _kill(world, command, f"`rekindle {commands[name][0]}`")
        _check_all_or_nothing(world)
        world.expect("the conversation goes on", "result" in editor.answer(turn), name)
        world.check(session_id)
        run(world, *commands["import"]).wait()
        _check_all(world)
    check_integrity(world.store)


def kill_migrations(world: World) -> None:
    """Kill upgrades of an old store; the next command completes them and loses nothing."""
    for _ in range(_ROUNDS):
        world.use_new_store()
        world.store.parent.mkdir()
        _create_old_store(world.store, world.chance.randrange(1, len(MIGRATIONS)))
        _kill_an_upgrade(world, run(world, "list"))
        run(world, "list").wait()
        seqs = recorded(world.store, "old").seqs
        world.expect("an old store is whole", len(seqs) == _ROWS_OF_OLD, str(seqs[-3:]))
        check_integrity(world.store)


def _kill_an_upgrade(world: World, command: Process) -> None:
    # An upgrade first creates the lock file, which this store did not have.
    until(lambda: lock_path(world.store).exists() or command.has_ended())
    time.sleep(world.chance.random() * _UPGRADE)  # the moment is random
    _kill(world, command, "an upgrade of the store")


def _kill(world: World, command: Process, name: str) -> None:
    """Kill a command, and count the fault unless the command had ended."""
    if not command.has_ended():
        world.count(f"kill {name}")
    command.send_signal(signal.SIGKILL)
    command.wait()


def run(world: World, *arguments: str) -> Process:
    nothing = os.open(os.devnull, os.O_RDWR)
    errors = os.open(world.folder / "commands.stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    command, *rest = arguments
    order = {"arguments": [command, "--store", str(world.store), *rest], "environ": {}}
    pid = world.fork_server.start("warm", (nothing, nothing, errors), order)
    os.close(nothing)
    os.close(errors)
    return world.watch(Process(f"rekindle {command}", pid))


def _bundle(world: World) -> Path:
    """Write a bundle of sessions of another store."""
    here, world.store = world.store, world.folder / "elsewhere.db"
    with SqliteStore(world.store) as store:
        for session_id in _IMPORTED:
            opened = Opened(session_id=session_id, at_us=_LONG_AGO_US, cwd="/elsewhere")
            prompt = _entries(
                session_id, Kind.PROMPT, b'{"prompt":[{"type":"text","text":"elsewhere"}]}'
            )
            lines = b"\n".join(b'{"said":%d}' % number for number in range(_ENTRIES - 1))
            update = _entries(session_id, Kind.UPDATE, lines, _ENTRIES - 1)
            store.write([opened, prompt, update], sync=True)
    bundle = world.folder / "bundle"
    run(world, "export", "--all", "--format", "bundle", "-o", str(bundle)).wait()
    world.store = here
    return bundle


def _entries(session_id: str, kind: Kind, data: bytes, count: int = 1) -> EntryBatch:
    side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
    return EntryBatch(
        session_id=session_id, side=side, kind=kind, at_us=_LONG_AGO_US, data=data, count=count
    )


def _check_all_or_nothing(world: World) -> None:
    for session_id in _IMPORTED:
        count = len(recorded(world.store, session_id).seqs)
        world.expect("a session is there or not", count in {0, _ENTRIES}, f"{count} entries")


def _check_all(world: World) -> None:
    for session_id in _IMPORTED:
        count = len(recorded(world.store, session_id).seqs)
        world.expect("what was imported is there", count == _ENTRIES, f"{count} entries")


def _create_old_store(path: Path, schema: int) -> None:
    """Create a store with an earlier schema."""
    with closing(apsw.Connection(str(path))) as db:
        _fill_old_store(db, schema)


def _fill_old_store(db: Any, schema: int) -> None:  # noqa: ANN401 - an apsw connection
    db.pragma("journal_mode", "wal")
    with db:
        for step in MIGRATIONS[:schema]:
            db.execute(step)
        columns = "key, id, agent_session_id, created_us, updated_us"
        db.execute(f"insert into session ({columns}) values (1, 'old', 'old', 1, 1)")  # noqa: S608
        rows = (
            (place(1, seq), 1, "agent", "prompt" if seq % 3 else "update", 1, 1, 0, b"{}")
            for seq in range(1, _ROWS_OF_OLD + 1)
        )
        db.executemany("insert into stretch values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", schema)
