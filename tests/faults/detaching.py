"""End an editor in the middle of a turn whose host is detached: the turn continues, and is whole.

The next editor loads the session, during the turn or after it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from rekindle.store.sqlite.store import SqliteStore

from .editor import Editor
from .processes import TIMEOUT, Process, ends, processes_with_mark, until
from .sharing import check_sockets, settle
from .violation import Violation
from .world import World

_LONGEST_STOP = 0.15
_UPDATES = 200
_WORDS = f"drip {_UPDATES} 1"

End = Callable[[World, str, Editor], None]
"""Ends an editor in the middle of the turn of a session."""


def detach(world: World) -> None:
    """End the editor of a detached host in the middle of a turn, and continue in the next one."""
    chance = world.chance
    world.connections = 2
    editor = world.editor(options=("--detach",))
    session_id = world.new_session(editor)
    world.ledger[session_id].is_shared = True
    editor.answer(editor.prompt(session_id, "stream 20 4"))
    host = _host_of(world, session_id)
    asks = chance.random() < 0.3
    editor.answers_questions = False
    turn = editor.prompt(session_id, f"ask {_UPDATES} 1" if asks else _WORDS)
    piece = world.ledger[session_id].pieces[editor.name]
    seen = len(piece) + (1 if asks else chance.randrange(1, _UPDATES // 2))
    until(lambda: _count(world, editor, session_id) >= seen)
    world.expect("the turn still runs", editor.is_open(turn), session_id)
    name = chance.choice(sorted(ENDS))
    world.count(f"{name}, and its turn is detached")
    ENDS[name](world, session_id, editor)
    _leave(world, editor)
    what = chance.choice(sorted(MEANWHILE))
    world.count(f"{what}, during a detached turn")
    is_killed = MEANWHILE[what](world, host)
    if asks or chance.random() < 0.5:
        next_editor = world.editor()
        world.load(next_editor, session_id) if is_killed else _join(world, next_editor, session_id)
    else:
        _wait_for_release(world, session_id, host)
        next_editor = world.editor()
        world.load(next_editor, session_id)
    _check_turn(world, session_id, next_editor, is_killed=is_killed)
    world.leave(next_editor)
    host.wait()
    _check_no_agent_left(editor)
    world.check(session_id)
    check_sockets(world)


def _host_of(world: World, session_id: str) -> Process:
    with SqliteStore(world.store, create=False) as store:
        holder = store.lease_holder(session_id)
    assert holder is not None
    host = world.watch(Process("the detached host", holder.pid))
    world.hosts.append(host)
    return host


def _count(world: World, editor: Editor, session_id: str) -> int:
    editor.read_journal()
    return len(world.ledger[session_id].pieces[editor.name])


def _leave(world: World, editor: Editor) -> None:
    """Check that the processes end that the editor knows; the host and its agent go on."""
    editor.rekindle.wait()
    editor.hang_up()
    editor.client.wait()
    editor.read_journal()
    world.editors.remove(editor)


def _join(world: World, editor: Editor, session_id: str) -> None:
    """Load a session in the middle of its turn. The rest arrives live, after the replay."""
    _, answer = editor.insist(lambda: world.begin_to_load(editor, session_id))
    if "result" not in answer:
        raise Violation("a session cannot be loaded", str(answer["error"]))


def _wait_for_release(world: World, session_id: str, host: Process) -> None:
    """Wait until the turn has ended without a client, and the host too."""
    if not host.has_ended(TIMEOUT):
        raise Violation("a detached host does not end", f"{host.pid}")
    with SqliteStore(world.store, create=False) as store:
        held = store.leased_ids()
    world.expect("a detached host releases its sessions", session_id not in held, str(held))


def _check_turn(world: World, session_id: str, editor: Editor, *, is_killed: bool) -> None:
    """Check that the turn is whole in the record, unless its host was killed."""
    if not is_killed:
        complete = until(lambda: _is_whole(world, session_id, editor))
        record = world.record(session_id)
        how = f"{len(record.said)} updates and {record.answers} ends of turns"
        world.expect("a detached turn ends whole", complete, how)
    settle([editor])
    _, answer = editor.insist(lambda: editor.prompt(session_id, "stream 3 1"))
    world.expect("the next turn works", "result" in answer, str(answer))
    world.check(session_id)


def _is_whole(world: World, session_id: str, editor: Editor) -> bool:
    editor.read_journal()
    record = world.record(session_id)
    return len(record.said) in {20 + _UPDATES, 21 + _UPDATES} and record.answers == 2


def _check_no_agent_left(editor: Editor) -> None:
    for pid, command in processes_with_mark(editor.mark).items():
        if not ends(pid, TIMEOUT):
            raise Violation("a process is left behind", f"{pid}: {command}")


# -- how the editor ends ----------------------------------------------------------------------


def leave(_: World, __: str, editor: Editor) -> None:
    editor.hang_up()


def kill_the_client(_: World, __: str, editor: Editor) -> None:
    editor.client.send_signal(signal.SIGKILL)


def kill_the_child(_: World, __: str, editor: Editor) -> None:
    """Kill the process that the editor has started, and then the client."""
    editor.rekindle.send_signal(signal.SIGKILL)
    editor.client.send_signal(signal.SIGKILL)


def kill_the_group_and_all_descendants(_: World, __: str, editor: Editor) -> None:
    """Kill as some editors do: the process group of the child, and all of its descendants."""
    pids = [editor.rekindle.pid, *_descendants(editor.rekindle.pid)]
    with suppress(ProcessLookupError):
        os.killpg(editor.rekindle.pid, signal.SIGKILL)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    editor.client.send_signal(signal.SIGKILL)


def hang_up_with_sighup(_: World, __: str, editor: Editor) -> None:
    """Send SIGHUP to the child, as a terminal that closes does, and leave."""
    editor.rekindle.send_signal(signal.SIGHUP)
    editor.hang_up()


def close_the_session(_: World, session_id: str, editor: Editor) -> None:
    """Close the session in the middle of the turn, and leave."""
    editor.result("session/close", {"sessionId": session_id})
    settle([editor])
    editor.hang_up()


ENDS: dict[str, End] = {
    "the editor leaves": leave,
    "kill the client": kill_the_client,
    "kill the child of the editor": kill_the_child,
    "kill the group and all descendants": kill_the_group_and_all_descendants,
    "SIGHUP to the child of the editor": hang_up_with_sighup,
    "the editor closes the session": close_the_session,
}


def _descendants(pid: int) -> Iterator[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    with suppress(OSError):
        for child in map(int, children.read_text().split()):
            yield child
            yield from _descendants(child)


# -- what happens to the host without its editor ----------------------------------------------


def nothing(_: World, __: Process) -> bool:
    return False


def pause_the_host(world: World, host: Process) -> bool:
    host.send_signal(signal.SIGSTOP)
    time.sleep(world.chance.random() * _LONGEST_STOP)  # the fault itself
    host.send_signal(signal.SIGCONT)
    return False


def kill_the_host(_: World, host: Process) -> bool:
    host.send_signal(signal.SIGKILL)
    host.wait()
    return True


def remove_the_socket(world: World, _: Process) -> bool:
    for path in Path(f"{world.store}.hosts").glob("*.sock"):
        path.unlink()
    until(lambda: list(Path(f"{world.store}.hosts").glob("*.sock")), 2.0)
    return False


MEANWHILE: dict[str, Callable[[World, Process], bool]] = {
    "nothing happens": nothing,
    "pause the host": pause_the_host,
    "kill the host": kill_the_host,
    "remove the socket": remove_the_socket,
}
"""Each returns whether the host was killed."""
