"""Use one Rekindle process for many sessions, turns, agents and losses of the store.

Its memory, descriptors and threads must not grow.
"""

import time

from .editor import Editor
from .processes import until
from .resource_usage import ResourceUsage
from .world import World

_ROUNDS = 30
_ROUNDS_AN_AGENT = 6
_ROUNDS_A_STORE = 15
_TIMEOUT = 5.0
_RETRY_SECONDS = 0.2
_GROWTH_KIB = 10 * 1024
"""The memory that an allocator may keep: less than all messages of all rounds."""


def endure(world: World) -> None:
    """Repeat the same actions; after the first time, no resource may grow."""
    editor = world.editor(options=("--grace", "0.2"))
    _do_everything(world, editor)
    _lose_an_agent(world, editor)
    _lose_the_store(world, editor)
    _do_everything(world, editor)
    pid = editor.rekindle.pid
    before = ResourceUsage.by(pid)
    for number in range(_ROUNDS):
        _do_everything(world, editor)
        if number % _ROUNDS_AN_AGENT == 0:
            _lose_an_agent(world, editor)
        if number % _ROUNDS_A_STORE == 0:
            _lose_the_store(world, editor)
    until(lambda: ResourceUsage.by(pid).is_within(_with_some_memory(before)), _TIMEOUT)
    after = ResourceUsage.by(pid)
    how = f"{before}, and now {after}"
    world.note(how)
    world.expect("all is as it was", after.is_within(_with_some_memory(before)), how)


def _with_some_memory(before: ResourceUsage) -> ResourceUsage:
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
    """Let the agent die. The next request starts another."""
    session_id = world.new_session(editor)
    world.count("an agent dies in the middle of a turn")
    editor.answer(editor.prompt(session_id, "die 20 4"))


def _lose_the_store(world: World, editor: Editor) -> None:
    """Move the store away for a while. Rekindle opens it again when it is back."""
    session_id = world.new_session(editor)
    folder, away = world.store.parent, world.folder / "away"
    world.count("the store is away for a while")
    folder.rename(away)
    editor.answer(editor.prompt(session_id, "stream 20 4"))
    if folder.exists():
        # The turn took so long that Rekindle created another store.
        folder.rename(world.folder / f"made-meanwhile-{len(world.ledger)}")
    away.rename(folder)
    until(lambda: _is_recorded(world, editor, session_id))
    editor.result("session/close", {"sessionId": session_id})
    editor.opened.discard(session_id)
    world.check(session_id)


def _is_recorded(world: World, editor: Editor, session_id: str) -> bool:
    """Run a turn, after which Rekindle tries the store again; return whether it is recorded."""
    time.sleep(_RETRY_SECONDS)  # Rekindle tries the store only now and then
    editor.answer(editor.prompt(session_id, "stream 1 1"))
    return bool(world.record(session_id).said)
