"""One Rekindle for many sessions, turns and agents; the store comes and goes. It must not grow.

Memory, descriptors and threads return to where they were, whatever has come and gone.
"""

import time

from .editor import Editor
from .held import Held
from .processes import until
from .world import World

_ROUNDS = 30
_ROUNDS_AN_AGENT = 6
_ROUNDS_A_STORE = 15
_MOMENT = 5.0
_A_WHILE = 0.2
_GROWTH_KIB = 10 * 1024
"""What an allocator may keep for itself. All that is said in all rounds is more than that."""


def endure(world: World) -> None:
    """Do the same again and again; after the first time, nothing may grow."""
    editor = world.editor(options=("--grace", "0.2"))
    _do_everything(world, editor)
    _lose_an_agent(world, editor)
    _lose_the_store(world, editor)
    _do_everything(world, editor)
    pid = editor.rekindle.pid
    before = Held.by(pid)
    for number in range(_ROUNDS):
        _do_everything(world, editor)
        if number % _ROUNDS_AN_AGENT == 0:
            _lose_an_agent(world, editor)
        if number % _ROUNDS_A_STORE == 0:
            _lose_the_store(world, editor)
    until(lambda: Held.by(pid).is_within(_with_some_memory(before)), _MOMENT)
    after = Held.by(pid)
    how = f"{before}, and now {after}"
    world.note(how)
    world.expect("all is as it was", after.is_within(_with_some_memory(before)), how)


def _with_some_memory(before: Held) -> Held:
    return before._replace(memory=before.memory + _GROWTH_KIB)


def _do_everything(world: World, editor: Editor) -> None:
    session_id = world.new_session(editor)
    editor.answer(editor.prompt(session_id, "stream 2000 16"))
    editor.result("session/close", {"sessionId": session_id})
    editor.opened.discard(session_id)
    world.load(editor, session_id)
    editor.answer(editor.prompt(session_id, "garbage 50 16"))
    editor.result("session/close", {"sessionId": session_id})
    editor.opened.discard(session_id)


def _lose_an_agent(world: World, editor: Editor) -> None:
    """Have the agent die; the next request starts another."""
    session_id = world.new_session(editor)
    world.count("an agent dies in the middle of a turn")
    editor.answer(editor.prompt(session_id, "die 20 4"))


def _lose_the_store(world: World, editor: Editor) -> None:
    """Have the store be elsewhere for a while; it is opened anew when it is back."""
    session_id = world.new_session(editor)
    folder, away = world.store.parent, world.folder / "away"
    world.count("the store is away for a while")
    folder.rename(away)
    editor.answer(editor.prompt(session_id, "stream 20 4"))
    if folder.exists():
        # It took so long that another was made.
        folder.rename(world.folder / f"made-meanwhile-{len(world.ledger)}")
    away.rename(folder)
    until(lambda: _is_recorded(world, editor, session_id))
    editor.result("session/close", {"sessionId": session_id})
    editor.opened.discard(session_id)
    world.check(session_id)


def _is_recorded(world: World, editor: Editor, session_id: str) -> bool:
    """Have another turn, with which the store is tried again; tell whether it has it."""
    time.sleep(_A_WHILE)  # it is tried only now and then
    editor.answer(editor.prompt(session_id, "stream 1 1"))
    return bool(world.record(session_id).said)
