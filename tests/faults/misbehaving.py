"""Agents that flood, stall, send unexpected messages, die or never exit; slow clients."""

import signal
import time

from .editor import Editor
from .processes import until
from .strikes import any_editor
from .world import World

HABITS = {
    "an agent answers twice": "twice 5 1",
    "an agent answers what nobody asked": "unknown 5 1",
    "an agent speaks of unknown sessions": "strangers 5 1",
    "an agent writes garbage": "garbage 5 1",
    "an agent dies in the middle of a turn": "die 20 4",
    "an agent dies in the middle of a line": "half 20 4",
    "an agent floods": "stream 8000 64",
    "an agent stalls": "stall 5 1",
}
_DEADLY = ("die", "half")
_LEAVING = ("leaves", "is killed", "is killed with Rekindle")


def misbehave(world: World) -> None:
    """Let an agent misbehave in one way, and check that the next turn works."""
    name = world.chance.choice(sorted(HABITS))
    editor = any_editor(world)
    session_id = world.open_session(editor)
    world.count(name)
    request = editor.prompt(session_id, HABITS[name])
    if HABITS[name].startswith("stall"):
        _cancel(world, editor, session_id, request)
    answer = editor.answer(request)
    is_deadly = HABITS[name].startswith(_DEADLY)
    world.expect("a turn ends as it should", ("error" in answer) is is_deadly, str(answer))
    answer = editor.answer(editor.prompt(session_id, "stream 3 1"))
    world.expect("the next turn works", "result" in answer, str(answer))
    world.check(session_id)


def _cancel(world: World, editor: Editor, session_id: str, request: int) -> None:
    before = world.ledger[session_id].received
    until(lambda: editor.has_received(session_id, before + 5))
    world.expect("a stalled turn is open", editor.is_open(request), session_id)
    editor.notify("session/cancel", {"sessionId": session_id})


def never_exit(world: World) -> None:
    """Check that agents which ignore signals are ended, however the client leaves."""
    for how in world.chance.sample(_LEAVING, len(_LEAVING)):
        _never_exit(world, how)


def _never_exit(world: World, how: str) -> None:
    editor = world.editor()
    session_id = world.new_session(editor)
    answer = editor.answer(editor.prompt(session_id, "deaf 5 1"))
    world.expect("a turn ends as it should", "result" in answer, str(answer))
    world.count(f"an agent never exits, and the client {how}")
    match how:
        case "leaves":
            editor.hang_up()
        case "is killed":
            editor.client.send_signal(signal.SIGKILL)
        case _:
            editor.client.send_signal(signal.SIGKILL)
            editor.rekindle.send_signal(signal.SIGKILL)
    world.check_after_exit(editor)


def do_not_read(world: World, seconds: float) -> None:
    """Stop a client while the agent floods; it still receives all updates in order."""
    editor = any_editor(world)
    session_id = world.open_session(editor)
    world.count("a client does not read for a while")
    editor.client.send_signal(signal.SIGSTOP)
    request = editor.prompt(session_id, "stream 6000 32")
    time.sleep(seconds)  # the fault itself
    editor.client.send_signal(signal.SIGCONT)
    answer = editor.answer(request)
    world.expect("a turn ends as it should", "result" in answer, str(answer))
    world.check(session_id)


def do_not_read_for_a_minute(world: World) -> None:
    do_not_read(world, 60.0)
