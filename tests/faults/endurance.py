"""One Rekindle for many sessions, turns and agents: it must not grow.

Memory, descriptors and threads return to where they were, whatever has come and gone.
"""

from .editor import Editor
from .held import Held
from .processes import until
from .world import World

_ROUNDS = 30
_ROUNDS_AN_AGENT = 6
_MOMENT = 5.0
_GROWTH_KIB = 6 * 1024
"""What an allocator may keep for itself."""


def endure(world: World) -> None:
    """Do the same again and again; after the first time, nothing may grow."""
    editor = world.editor(options=("--grace", "0.2"))
    _do_everything(world, editor)
    _lose_an_agent(world, editor)
    _do_everything(world, editor)
    pid = editor.rekindle.pid
    before = Held.by(pid)
    for number in range(_ROUNDS):
        _do_everything(world, editor)
        if number % _ROUNDS_AN_AGENT == 0:
            _lose_an_agent(world, editor)
    until(lambda: Held.by(pid).is_within(_with_some_memory(before)), _MOMENT)
    after = Held.by(pid)
    how = f"{before}, and now {after}"
    world.note(how)
    world.expect("all is as it was", after.is_within(_with_some_memory(before)), how)


def _with_some_memory(before: Held) -> Held:
    return before._replace(memory=before.memory + _GROWTH_KIB)


def _do_everything(world: World, editor: Editor) -> None:
    session_id = world.new_session(editor)
    editor.answer(editor.prompt(session_id, "stream 300 16"))
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
