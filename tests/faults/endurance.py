"""One Rekindle for many sessions, turns and agents: it must not grow.

Memory, descriptors and threads return to where they were, whatever has come and gone.
"""

from pathlib import Path

from .editor import Editor
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
    descriptors, threads, memory = _held(editor)
    for number in range(_ROUNDS):
        _do_everything(world, editor)
        if number % _ROUNDS_AN_AGENT == 0:
            _lose_an_agent(world, editor)
    until(lambda: _held(editor)[:2] <= (descriptors, threads), _MOMENT)
    after = _held(editor)
    how = f"descriptors {descriptors}, threads {threads} before; {after[:2]} after"
    world.expect("all is as it was", after[0] <= descriptors and after[1] <= threads, how)
    grown = after[2] - memory
    world.expect("memory returns to where it was", grown < _GROWTH_KIB, f"{grown} KiB more")
    world.note(f"{how}; memory {memory} KiB before, {grown} KiB more after")


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


def _held(editor: Editor) -> tuple[int, int, int]:
    """Return how many descriptors, threads and KiB of memory Rekindle has."""
    process = Path(f"/proc/{editor.rekindle.pid}")
    descriptors = len(list((process / "fd").iterdir()))
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return descriptors, int(status["Threads"]), int(status["VmRSS"].split()[0])
