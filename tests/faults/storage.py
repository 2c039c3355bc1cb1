"""Full disks, and stores that cannot be written, are deleted or are replaced while in use.

The conversation continues, and changes are kept as pending. When the store works again, nothing is
missing.
"""

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .editor import Editor
from .processes import until
from .world import World

NAMESPACE = "REKINDLE_FAULTS_NAMESPACE"
"""The variable that is set in a private mount namespace, whose mounts end with the harness."""
_RETRY = 1.1
"""A little longer than the pause of Rekindle between two tries."""
_BLOCK = 4096
_SIZE_OF_DISK = "size=3m"
_NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def no_room_for_the_file(world: World) -> None:
    """Set a limit on the size of files, as a quota does: writes that would pass it fail."""
    editor, session_id = _start_conversation(world)
    log = world.store.with_name("s.db-wal")
    size = log.stat().st_size if log.exists() else 0
    limit = world.chance.choice((0, size, size + world.chance.randrange(100_000)))
    world.count("the disk is full: a limit on files")
    resource.prlimit(editor.rekindle.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    _run_turns(world, editor, session_id)
    resource.prlimit(editor.rekindle.pid, resource.RLIMIT_FSIZE, _NO_LIMIT)
    _check_recovery(world, editor, session_id)


def no_room_on_the_disk(world: World) -> None:
    """Give the store a small disk of its own, and fill it to the last block."""
    if not os.environ.get(NAMESPACE):
        world.skip("the disk is full: a disk without room", "needs root and `unshare`")
        return
    with _mounted(world.store.parent, "-t", "tmpfs", "-o", _SIZE_OF_DISK, "tmpfs"):
        editor, session_id = _start_conversation(world)
        world.count("the disk is full: a disk without room")
        filler = world.store.parent / "filler"
        _fill(filler)
        _run_turns(world, editor, session_id)
        filler.unlink()
        _check_recovery(world, editor, session_id)
    world.forget(session_id)


def read_only(world: World) -> None:
    """Start an editor when the store cannot be written; later it can."""
    if os.geteuid() == 0 and not os.environ.get(NAMESPACE):
        world.skip("the store cannot be written", "root can write everything, without `unshare`")
        return
    editor, _ = _start_conversation(world)
    world.leave(editor)
    with _unwritable(world.store.parent):
        world.count("the store cannot be written")
        editor = world.editor()
        session_id = world.new_session(editor)
        _run_turns(world, editor, session_id)
    _check_recovery(world, editor, session_id)


def permission_lost(world: World) -> None:
    """Remove all permissions in the middle of a turn, and restore them later."""
    editor, session_id = _start_conversation(world, way="warm", obeys_modes=True)
    folder = world.store.parent
    _run_turn_during(world, editor, session_id, lambda: _set_modes(folder, 0, 0))
    world.count("permission is lost")
    _run_turns(world, editor, session_id)
    _set_modes(folder, 0o700, 0o600)
    _check_recovery(world, editor, session_id)


def deleted(world: World) -> None:
    """Delete the store in the middle of a turn; open sessions go to a new store."""
    editor, session_id = _start_conversation(world)
    world.forget_all_but(session_id)
    what = world.chance.choice(("file alone", "files", "folder"))
    _run_turn_during(world, editor, session_id, lambda: _delete(world, what))
    world.count(f"the store is deleted: its {what}")
    _check_recovery(world, editor, session_id)


def replaced(world: World) -> None:
    """Put an older copy in the store's place, or an empty file."""
    editor, session_id = _start_conversation(world)
    world.leave(editor)
    older = world.folder / "older.db"
    shutil.copy(world.store, older)
    editor = world.editor()
    world.load(editor, session_id)
    _run_turns(world, editor, session_id)
    for end in ("-wal", "-shm"):
        world.store.with_name(world.store.name + end).unlink(missing_ok=True)
    if world.chance.random() < 0.3:
        older.write_bytes(b"")
        world.forget_all_but(session_id)
        world.count("the store is replaced by an empty file")
    else:
        world.count("the store is replaced by an older copy")
    older.replace(world.store)
    _check_recovery(world, editor, session_id)


KINDS = (
    no_room_for_the_file,
    no_room_on_the_disk,
    read_only,
    permission_lost,
    deleted,
    replaced,
)


def all_of_them(world: World) -> None:
    for fail in world.chance.sample(KINDS, len(KINDS)):
        fail(world)


def _delete(world: World, what: str) -> None:
    match what:
        case "file alone":
            world.store.unlink()
        case "files":
            for file in world.store.parent.glob("s.db*"):
                if file.is_file():
                    file.unlink(missing_ok=True)
        case _:
            shutil.rmtree(world.store.parent)


# -- conversations ----------------------------------------------------------------------


def _start_conversation(world: World, **options: Any) -> tuple[Editor, str]:  # noqa: ANN401 - as Editor's
    editor = world.editor(**options)
    session_id = world.new_session(editor)
    _run_turn(world, editor, session_id)
    return editor, session_id


def _run_turn(world: World, editor: Editor, session_id: str) -> None:
    count, at_once = world.chance.choice((5, 200)), world.chance.choice((1, 16))
    answer = editor.answer(editor.prompt(session_id, f"stream {count} {at_once}"))
    world.expect("the conversation goes on", "result" in answer, str(answer))


def _run_turns(world: World, editor: Editor, session_id: str) -> None:
    for _ in range(world.chance.randrange(1, 4)):
        _run_turn(world, editor, session_id)


def _run_turn_during(
    world: World, editor: Editor, session_id: str, happens: Callable[[], None]
) -> None:
    """Run a turn, and call `happens` in the middle of it."""
    enough = world.ledger[session_id].received + world.chance.randrange(400)
    request = editor.prompt(session_id, "stream 400 1")
    until(lambda: editor.has_received(session_id, enough))
    happens()
    editor.answer(request)


def _check_recovery(world: World, editor: Editor, session_id: str) -> None:
    """Check that everything is recorded after the next try, or when the client leaves."""
    if world.chance.random() < 0.7:
        time.sleep(world.chance.choice((0.0, _RETRY)))  # until the next try, or not
        _run_turn(world, editor, session_id)
    world.leave(editor)
    next_editor = world.editor()
    world.load(next_editor, session_id)
    world.leave(next_editor)


# -- the machine ------------------------------------------------------------------------


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * _BLOCK)


@contextmanager
def _mounted(folder: Path, *how: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", *how, folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def _unwritable(folder: Path) -> Iterator[None]:
    if os.geteuid() == 0:
        with _mounted(folder, "--bind", str(folder)):
            subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
            yield
        return
    _set_modes(folder, 0o500, 0o400)
    try:
        yield
    finally:
        _set_modes(folder, 0o700, 0o600)


def _set_modes(folder: Path, mode: int, mode_of_files: int) -> None:
    # Without root, the folder must be readable while its files are listed.
    folder.chmod(0o700)
    for path in folder.rglob("*"):
        path.chmod(mode if path.is_dir() else mode_of_files)
    folder.chmod(mode)
