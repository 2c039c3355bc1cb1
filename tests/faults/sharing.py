"""Let several editors use one session, and strike in the middle of a turn.

One process has the agent, and the others are attached to it. Each editor that is left receives
every update, and the next turn works.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from rekindle.store.sqlite.store import SqliteStore

from .editor import Editor
from .processes import TIMEOUT, Process, until
from .strikes import agents_of
from .violation import Violation
from .world import World

_MOST_ATTACHED = 3
_LONGEST_STOP = 0.15
_LOCKED = "is locked by another process"
_WORDS = ("drip 150 2", "drip 60 1", "stream 2000 7", "ask 20 1")

Editors = list[Editor]
Fault = Callable[[World, str, Editors], None]
"""Injects a fault into a session and its editors, of which the first is the host."""


def share(world: World) -> None:
    """Strike at a session of several editors in the middle of a turn; then all of them leave."""
    chance = world.chance
    world.connections = _MOST_ATTACHED + 1
    session_id, editors = shared_session(world, chance.randint(1, _MOST_ATTACHED))
    speaker = chance.choice(editors)
    turn = speaker.prompt(session_id, chance.choice(_WORDS))
    if chance.random() < 0.3:
        # It waits for the end of the first one.
        chance.choice(editors).prompt(session_id, "stream 5 1")
    seen = len(world.ledger[session_id].pieces[speaker.name]) + chance.randrange(40)
    until(lambda: _has_seen(world, speaker, session_id, seen) or not speaker.is_open(turn))
    name = chance.choice(sorted(FAULTS))
    world.count(f"{name}, among editors")
    FAULTS[name](world, session_id, editors)
    left = [editor for editor in editors if editor in world.editors]
    continue_together(world, session_id, left)
    for editor in left:
        world.leave(editor)
    check_sockets(world)


def shared_session(world: World, count: int) -> tuple[str, Editors]:
    """Return a session with a turn, its host, and `count` editors attached to it."""
    host = world.editor()
    session_id = world.new_session(host)
    world.ledger[session_id].is_shared = True
    host.answer(host.prompt(session_id, "stream 20 4"))
    attached = [world.editor() for _ in range(count)]
    for editor in attached:
        world.load(editor, session_id)
    return session_id, [host, *attached]


def continue_together(world: World, session_id: str, editors: Sequence[Editor]) -> None:
    """Check that a turn of one editor reaches all of them, and that the record has everything."""
    settle(editors)
    if not editors:
        editors = [world.editor()]
        world.load(editors[0], session_id)
    speaker = world.chance.choice(editors)
    _, answer = speaker.insist(lambda: speaker.prompt(session_id, "stream 3 1"))
    world.expect("the next turn works", "result" in answer, str(answer))
    record = world.record(session_id)
    for editor in editors:
        if not until(lambda it=editor: _has_last(world, it, session_id, record.said[-1])):
            piece = world.ledger[session_id].pieces[editor.name][-1:]
            raise Violation("an editor lacks updates", f"{editor.name} has {piece} last")
    world.check(session_id)


def settle(editors: Sequence[Editor]) -> None:
    """Wait until all requests of all editors are answered. One may wait for the user of another."""
    deadline = time.monotonic() + TIMEOUT
    while busy := [editor for editor in editors if editor.has_open_requests()]:
        if time.monotonic() > deadline:
            raise Violation("a request is not answered", f"by {', '.join(it.name for it in busy)}")
        time.sleep(0.002)


def check_sockets(world: World) -> None:
    """No socket of a process that has ended is left, after the next process has started."""
    if world.editors:
        return
    world.leave(world.editor())
    left = [str(path) for path in sockets(world)]
    world.expect("no socket is left", not left, str(left))


def sockets(world: World) -> list[Path]:
    folder = Path(f"{world.store}.hosts")
    return list(folder.glob("*.sock")) if folder.exists() else []


def host_socket(world: World, session_id: str) -> Path:
    """Return the socket of the process that has a session."""
    with SqliteStore(world.store, create=False) as store:
        holder = store.lease_holder(session_id)
    assert holder is not None
    return Path(holder.socket)


def host_of(world: World, session_id: str) -> Process | None:
    """Return the process that has a session."""
    with SqliteStore(world.store, create=False) as store:
        holder = store.lease_holder(session_id)
    return None if holder is None else world.watch(Process("the host", holder.pid))


def _has_seen(world: World, editor: Editor, session_id: str, count: int) -> bool:
    editor.read_journal()
    return len(world.ledger[session_id].pieces[editor.name]) >= count


def _has_last(world: World, editor: Editor, session_id: str, last: tuple[str, int]) -> bool:
    editor.read_journal()
    return world.ledger[session_id].pieces[editor.name][-1:] == [last]


# -- faults -------------------------------------------------------------------------------


def kill_the_host(world: World, _: str, editors: Editors) -> None:
    _kill(world, editors[0], editors[0].rekindle)


def kill_the_client_of_the_host(world: World, _: str, editors: Editors) -> None:
    _kill(world, editors[0], editors[0].client)


def the_client_of_the_host_leaves(world: World, _: str, editors: Editors) -> None:
    world.leave(editors[0])


def kill_the_agent(_: World, __: str, editors: Editors) -> None:
    for pid in agents_of(editors[0]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_an_attached_process(world: World, _: str, editors: Editors) -> None:
    victim = world.chance.choice(editors[1:])
    _kill(world, victim, victim.rekindle)


def kill_an_attached_client(world: World, _: str, editors: Editors) -> None:
    victim = world.chance.choice(editors[1:])
    _kill(world, victim, victim.client)


def an_attached_client_leaves(world: World, _: str, editors: Editors) -> None:
    world.leave(world.chance.choice(editors[1:]))


def kill_all_clients(world: World, _: str, editors: Editors) -> None:
    for editor in shuffled(world.chance, editors):
        editor.client.send_signal(signal.SIGKILL)
    for editor in editors:
        world.check_after_exit(editor)


def kill_everything(world: World, _: str, editors: Editors) -> None:
    for editor in shuffled(world.chance, editors):
        editor.rekindle.send_signal(signal.SIGKILL)
    for editor in editors:
        world.check_after_exit(editor)


def kill_one_host_after_the_other(world: World, session_id: str, editors: Editors) -> None:
    """Kill the host, and then the process that continues its session."""
    _kill(world, editors[0], editors[0].rekindle)
    left = {editor.rekindle.pid: editor for editor in editors[1:]}
    until(lambda: _holder_pid(world, session_id) in left or len(left) == 1, 2.0)
    if next_host := left.get(_holder_pid(world, session_id) or 0):
        _kill(world, next_host, next_host.rekindle)


def pause_the_host(world: World, _: str, editors: Editors) -> None:
    _pause(world, editors[0].rekindle)


def pause_an_attached_process(world: World, _: str, editors: Editors) -> None:
    _pause(world, world.chance.choice(editors[1:]).rekindle)


def pause_a_client(world: World, _: str, editors: Editors) -> None:
    _pause(world, world.chance.choice(editors).client)


def remove_the_socket(world: World, session_id: str, editors: Editors) -> None:
    """Remove the socket, and attach another editor."""
    path = host_socket(world, session_id)
    path.unlink()
    world.expect("the socket is made again", until(path.exists), str(path))
    newcomer = world.editor()
    settle(editors)
    world.load(newcomer, session_id)
    editors.append(newcomer)


def take_it_over(world: World, session_id: str, editors: Editors) -> None:
    """Take the session over in another editor."""
    newcomer = world.editor(options=("--takeover",))
    _, answer = newcomer.insist(lambda: world.begin_to_load(newcomer, session_id))
    world.expect("the session is taken over", "result" in answer, str(answer))
    editors.append(newcomer)
    _leave_to_the_last(world, editors)


def take_it_over_from_a_stopped_host(world: World, session_id: str, editors: Editors) -> None:
    """Take the session over while its host is stopped. The host continues after the next turn."""
    host = editors[0].rekindle
    host.send_signal(signal.SIGSTOP)
    try:
        newcomer = world.editor(options=("--takeover",))
        _, answer = newcomer.insist(lambda: world.begin_to_load(newcomer, session_id))
        is_taken = "result" in answer
        if is_taken:
            newcomer.answer(newcomer.prompt(session_id, "stream 20 4"))
        else:
            # The host was stopped in the middle of a write.
            text = answer["error"]["message"]
            world.expect("the session is taken over", _LOCKED in text, text)
    finally:
        host.send_signal(signal.SIGCONT)
    if is_taken:
        editors.append(newcomer)
        _leave_to_the_last(world, editors)
    else:
        world.leave(newcomer)


def _leave_to_the_last(world: World, editors: Editors) -> None:
    """Let all editors but the last leave. The session was closed for them."""
    settle(editors)
    for editor in editors[:-1]:
        world.leave(editor)


FAULTS: dict[str, Fault] = {
    "kill the host": kill_the_host,
    "kill the client of the host": kill_the_client_of_the_host,
    "the client of the host leaves": the_client_of_the_host_leaves,
    "kill the agent": kill_the_agent,
    "kill an attached process": kill_an_attached_process,
    "kill an attached client": kill_an_attached_client,
    "an attached client leaves": an_attached_client_leaves,
    "kill all clients": kill_all_clients,
    "kill all processes": kill_everything,
    "kill one host after the other": kill_one_host_after_the_other,
    "pause the host": pause_the_host,
    "pause an attached process": pause_an_attached_process,
    "pause a client": pause_a_client,
    "remove the socket": remove_the_socket,
    "take over the session": take_it_over,
    "take over the session from a stopped host": take_it_over_from_a_stopped_host,
}


def _kill(world: World, editor: Editor, victim: Process) -> None:
    victim.send_signal(signal.SIGKILL)
    world.check_after_exit(editor)


def _pause(world: World, victim: Process) -> None:
    victim.send_signal(signal.SIGSTOP)
    time.sleep(world.chance.random() * _LONGEST_STOP)  # the fault itself
    victim.send_signal(signal.SIGCONT)


def _holder_pid(world: World, session_id: str) -> int | None:
    with SqliteStore(world.store, create=False) as store:
        holder = store.lease_holder(session_id)
    return None if holder is None else holder.pid


def shuffled(chance: random.Random, editors: Editors) -> Editors:
    return chance.sample(editors, len(editors))
