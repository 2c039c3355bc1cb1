"""Let ten editors open one session at once: one gets it, the others learn its holder."""

import signal

from .world import World

_EDITORS = 10


def all_at_once(world: World) -> None:
    """Load one session in ten editors; end or kill the holder; load it in another editor."""
    first = world.editor()
    session_id = world.new_session(first)
    first.answer(first.prompt(session_id, "stream 30 8"))
    world.leave(first)
    editors = [world.start_editor() for _ in range(_EDITORS)]
    for editor in editors:
        editor.result("initialize", editor.initialize_params)
    requests = [world.begin_to_load(editor, session_id) for editor in editors]
    world.count("ten editors open one session at once")
    answers = [editor.answer(request) for editor, request in zip(editors, requests, strict=True)]
    holders = [editor for editor in editors if session_id in editor.opened]
    world.expect("one editor has the session", len(holders) == 1, str(answers))
    for answer in answers:
        message = answer.get("error", {}).get("message", "in use by")
        world.expect("the others learn the holder", "in use by" in message, message)
    (holder,) = holders
    if world.chance.random() < 0.5:
        world.count("kill Rekindle among ten editors")
        holder.prompt(session_id, "stream 300 1")
        holder.rekindle.send_signal(signal.SIGKILL)
        world.check_after_exit(holder)
    else:
        holder.answer(holder.prompt(session_id, "stream 30 1"))
        world.leave(holder)
    next_editor = world.chance.choice(world.editors)
    world.load(next_editor, session_id)
    next_editor.answer(next_editor.prompt(session_id, "stream 30 8"))
    # All editors write to the store at once, each in its own session.
    turns = [
        (editor, editor.prompt(world.new_session(editor), "stream 200 4"))
        for editor in world.editors
    ]
    for editor, turn in turns:
        editor.answer(turn)
