"""Set the clock back by an hour, while Rekindle waits or works."""

import signal

from .world import World

_HOUR = 3600.0
_TURNS = 6


def jump_back(world: World) -> None:
    """Set the clock of a Rekindle process back several times; nothing hangs or changes order."""
    first = world.editor()
    session_id = world.new_session(first)
    first.answer(first.prompt(session_id, "stream 20 4"))
    world.leave(first)
    editor = world.editor(clock=-_HOUR)
    request = world.begin_to_load(editor, session_id)
    for _ in range(_TURNS):
        world.count("the clock jumps back by an hour")
        editor.rekindle.send_signal(signal.SIGUSR1)
        editor.answer(request)
        verb = world.chance.choice(("stream 50 1", "die 20 4"))
        request = editor.prompt(session_id, verb)
    editor.answer(request)
    world.check(session_id)
