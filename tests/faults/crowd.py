"""Ten editors that want one session at once: one gets it, and the others are told who has it."""

import signal

from .world import World

_EDITORS = 10


def all_at_once(world: World) -> None:
    """Have ten editors load one session; kill the one that got it; let another have it."""
    first = world.editor()
    session_id = world.new_session(first)
    first.answer(first.prompt(session_id, "stream 30 8"))
    world.leave(first)
    editors = [world.start_editor() for _ in range(_EDITORS)]
    for editor in editors:
        editor.result("initialize", editor.greeting)
    requests = [world.begin_to_load(editor, session_id) for editor in editors]
    world.count("ten editors open one session at once")
    answers = [editor.answer(request) for editor, request in zip(editors, requests, strict=True)]
    holders = [editor for editor in editors if session_id in editor.opened]
    world.expect("one editor has the session", len(holders) == 1, str(answers))
    for answer in answers:
        told = answer.get("error", {}).get("message", "in use by")
        world.expect("the others are told who has it", "in use by" in told, told)
    (holder,) = holders
    if world.chance.random() < 0.5:
        world.count("kill Rekindle among ten editors")
        holder.prompt(session_id, "stream 300 1")
        holder.rekindle.strike(signal.SIGKILL)
        world.lay_down(holder)
    else:
        holder.answer(holder.prompt(session_id, "stream 30 1"))
        world.leave(holder)
    heir = world.chance.choice(world.editors)
    world.load(heir, session_id)
    heir.answer(heir.prompt(session_id, "stream 30 8"))
    # All of them write to the store at once, each in a session of its own.
    turns = [
        (editor, editor.prompt(world.new_session(editor), "stream 200 4"))
        for editor in world.editors
    ]
    for editor, turn in turns:
        editor.answer(turn)
