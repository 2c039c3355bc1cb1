"""One Rekindle for many sessions, turns and agents: it must not grow, nor keep descriptors."""

from pathlib import Path

from .editor import Editor
from .processes import until
from .world import World

_ROUNDS = 30
_ROUNDS_AN_AGENT = 6
_GROWTH_KIB = 6 * 1024
"""What an allocator may keep for itself."""


def endure(world: World) -> None:
    """Do the same again and again; after the first time, nothing may grow."""
    editor = world.editor(options=("--grace", "0.2"))
    _do_everything(world, editor)
    _lose_an_agent(world, editor)
    _do_everything(world, editor)
    descriptors, memory = _descriptors(editor), _memory_kib(editor)
    for number in range(_ROUNDS):
        _do_everything(world, editor)
        if number % _ROUNDS_AN_AGENT == 0:
            _lose_an_agent(world, editor)
    after = until(lambda: _descriptors(editor) <= descriptors) and _memory_kib(editor)
    world.expect(
        "descriptors return to where they were",
        _descriptors(editor) <= descriptors,
        f"{descriptors} before, {_descriptors(editor)} after",
    )
    grown = after - memory
    world.expect("memory returns to where it was", grown < _GROWTH_KIB, f"{grown} KiB more")
    world.note(f"memory {memory} KiB, {grown} KiB more after; {descriptors} descriptors")


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


def _descriptors(editor: Editor) -> int:
    return len(list(Path(f"/proc/{editor.rekindle.pid}/fd").iterdir()))


def _memory_kib(editor: Editor) -> int:
    status = Path(f"/proc/{editor.rekindle.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])
