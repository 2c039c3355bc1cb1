"""Let ten editors open one session at once: one process gets it, and the others attach to it."""

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
    world.ledger[session_id].is_shared = True
    answers = [editor.answer(request) for editor, request in zip(editors, requests, strict=True)]
    ways = [answer.get("result", {}).get("_meta", {}).get("rekindle", {}) for answer in answers]
    restored = [way.get("restored") for way in ways]
    world.expect("all editors have the session", None not in restored, str(answers))
    holders = [it for it, how in zip(editors, restored, strict=True) if how != "live"]
    world.expect("one process has restored the session", len(holders) == 1, str(answers))
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
    next_editor.answer(next_editor.prompt(session_id, "stream 30 8"))
    # All editors write to the store at once, each in its own session.
    turns = [
        (editor, editor.prompt(world.new_session(editor), "stream 200 4"))
        for editor in world.editors
    ]
    for editor, turn in turns:
        editor.answer(turn)
