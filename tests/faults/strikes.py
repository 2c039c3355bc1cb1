"""Kill or pause one of the three processes at any moment of a conversation.

A moment is a function that starts an action in an editor. Shortly later, the fault hits a process.
"""

import os
import signal
import time
from collections.abc import Callable

from .editor import Editor
from .processes import Process, until
from .world import NEW, World

VICTIMS = ("Rekindle", "the agent", "the client")
_LONGEST_STOP = 0.15
_LONG_LOG = 15_900_000
"""A little less than 4000 pages, the size of the WAL at which SQLite runs a checkpoint."""

Moment = Callable[[World], tuple[Editor, float]]
"""Starts an action in an editor; returns the seconds within which the fault should come."""


def strike_at_random(world: World) -> None:
    """Choose a moment, a process and a fault."""
    strike(world, world.chance.choice(sorted(MOMENTS)))


def strike_a_checkpoint(world: World) -> None:
    """Inject a fault when the WAL is long enough for a checkpoint."""
    strike(world, "during a checkpoint")


def strike(world: World, moment: str) -> None:
    """Start an action, and inject a fault shortly later."""
    chance = world.chance
    victim = chance.choice(VICTIMS)
    blow = chance.choice((kill, kill, pause))
    editor, within = (MOMENTS | RARE_MOMENTS)[moment](world)
    time.sleep(chance.random() * within)  # the moment is random
    world.count(f"{blow.__name__} {victim}, {moment}")
    world.note(f"it strikes {editor.name}")
    blow(world, editor, victim)


# -- moments ----------------------------------------------------------------------------


def starting(world: World) -> tuple[Editor, float]:
    editor = world.start_editor()
    editor.request("initialize", editor.initialize_params)
    return editor, 0.1


def streaming(world: World) -> tuple[Editor, float]:
    editor = any_editor(world)
    session_id = world.open_session(editor)
    before = world.ledger[session_id].received
    count = world.chance.choice((50, 300, 1500))
    editor.prompt(session_id, f"stream {count} {world.chance.choice((1, 7, 64))}")
    enough = before + world.chance.randrange(count)
    until(lambda: editor.has_received(session_id, enough))
    return editor, 0.003


def ending_a_turn(world: World) -> tuple[Editor, float]:
    editor = any_editor(world)
    session_id = world.open_session(editor)
    for _ in range(world.chance.randrange(1, 4)):
        editor.prompt(session_id, f"stream {world.chance.randrange(1, 9)} 1")
    return editor, 0.02


def stalling(world: World) -> tuple[Editor, float]:
    """Let the agent not end its turn."""
    editor = any_editor(world)
    session_id = world.open_session(editor)
    request = editor.prompt(session_id, "stall 3 1")
    before = world.ledger[session_id].received
    until(lambda: editor.has_received(session_id, before + 3) or not editor.is_open(request))
    editor.notify("session/cancel", {"sessionId": session_id})
    return editor, 0.01


def replaying(world: World) -> tuple[Editor, float]:
    editor = world.editor()
    free = world.free_sessions()
    if free:
        session_id = max(free, key=lambda one: world.ledger[one].received)
        world.begin_to_load(editor, session_id)
    else:
        world.new_session(editor)
    return editor, 0.03


def handing_over(world: World) -> tuple[Editor, float]:
    """Let an agent that lost the session receive the history with the next prompt."""
    editor = world.editor()
    session_id = world.open_session(editor)
    editor.prompt(session_id, f"stream {world.chance.randrange(1, 200)} 16")
    return editor, 0.03


def making_sessions(world: World) -> tuple[Editor, float]:
    editor = any_editor(world)
    session_id = world.open_session(editor)
    for method in world.chance.sample(("session/new", "session/fork", "session/list"), 3):
        params = {} if method == "session/list" else dict(NEW)
        if method == "session/fork":
            params["sessionId"] = session_id
        editor.request(method, params)
    return editor, 0.03


def closing(world: World) -> tuple[Editor, float]:
    """Let the client leave, sometimes in the middle of a turn, so that the store is closed."""
    editor = any_editor(world)
    session_id = world.open_session(editor)
    editor.prompt(session_id, "stream 100 10")
    if world.chance.random() < 0.5:
        editor.settle()
    editor.hang_up()
    return editor, 0.05


def checkpointing(world: World) -> tuple[Editor, float]:
    """Let the WAL grow so long that the next commit runs a checkpoint."""
    editor = any_editor(world)
    session_id = world.new_session(editor)
    turn = editor.prompt(session_id, "stream 4500 1")
    log = world.store.with_name(world.store.name + "-wal")
    until(lambda: log.stat().st_size > _LONG_LOG or not editor.is_open(turn))
    return editor, 0.15


MOMENTS: dict[str, Moment] = {
    "as it starts": starting,
    "while the agent speaks": streaming,
    "as a turn ends": ending_a_turn,
    "while the agent stalls": stalling,
    "during a replay": replaying,
    "during a handover": handing_over,
    "as sessions are made": making_sessions,
    "as the client leaves": closing,
}
RARE_MOMENTS: dict[str, Moment] = {"during a checkpoint": checkpointing}
"""Moments that take long to reach."""


def any_editor(world: World) -> Editor:
    """Return a running editor, or a new one."""
    idle = [editor for editor in world.editors if not editor.rekindle.has_ended()]
    return world.chance.choice(idle) if idle else world.editor()


# -- faults ------------------------------------------------------------------------------


def kill(world: World, editor: Editor, victim: str) -> None:
    if victim == "the agent":
        for pid in agents_of(editor):
            _signal(pid, signal.SIGKILL)
        recover(world, editor)
        return
    process_of(editor, victim).send_signal(signal.SIGKILL)
    # A killed process cannot clean up; the others must exit all the same.
    world.check_after_exit(editor)


def pause(world: World, editor: Editor, victim: str) -> None:
    """Send SIGSTOP, and after a while SIGCONT."""
    if victim == "the agent":
        strike = [lambda number, pid=pid: _signal(pid, number) for pid in agents_of(editor)]
    else:
        strike = [process_of(editor, victim).send_signal]
    for one in strike:
        one(signal.SIGSTOP)
    time.sleep(world.chance.random() * _LONGEST_STOP)  # the fault itself
    for one in strike:
        one(signal.SIGCONT)
    recover(world, editor)


def recover(world: World, editor: Editor) -> None:
    """Check that an editor can continue: open requests are answered, the next turn works."""
    if editor.has_hung_up:
        world.check_after_exit(editor)
        return
    editor.settle()
    if editor.rekindle.has_ended(0.05) or not editor.is_initialized:
        # The agent died before it answered `initialize`, which is final.
        world.leave(editor)
        return
    session_id = world.open_session(editor)
    _, answer = editor.insist(lambda: editor.prompt(session_id, "stream 3 1"))
    world.expect("the next turn works", "result" in answer, str(answer))
    world.check(*editor.opened)


def process_of(editor: Editor, victim: str) -> Process:
    return editor.rekindle if victim == "Rekindle" else editor.client


def agents_of(editor: Editor) -> list[int]:
    return [pid for pid, command in editor.agents().items() if "agent.py" in command]


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
