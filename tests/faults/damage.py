"""Bits that flip and pages that are torn, in a store that nobody has open, or that is in use.

What a disk has lost cannot be brought back, so less is asked for here: an editor is never kept
from its conversation; whoever opens the store gets what can be read of it, in its order, in a store
that is sound; the user is told how much was saved and lost; and what is said from then on is
recorded, or the user is told that it is not.
"""

import json
import signal
from pathlib import Path

from rekindle.errors import StoreError
from rekindle.model import Kind, Page
from rekindle.store.sqlite.quarantine import reports
from rekindle.store.sqlite.store import SqliteStore

from .checks import Recorded, check_no_faults_of_ours, check_soundness, recorded
from .editor import Editor
from .processes import until
from .violation import Violation
from .world import World

_PAGE = 4096
_CUT = "the store is cut off"
_LOST = "entries could not be recorded and are lost"
_WAITS = "to be recorded when the store works again"
_LEAST_SAVED = 0.25
"""Which part of what was said, at least, however many pages were harmed."""


def damage(world: World) -> None:
    """Damage the store between two editors, or before the first one has left it."""
    editor = world.editor()
    session_id = world.new_session(editor)
    _talk(editor, session_id, "stream 400 4")
    is_killed = world.chance.random() < 0.5
    if is_killed:
        editor.rekindle.strike(signal.SIGKILL)
        world.lay_down(editor)
    else:
        world.leave(editor)
    how = world.chance.choice(sorted(HARM))
    HARM[how](world, _file_to_harm(world))
    world.count(how)
    world.ledger[session_id].is_excused = True
    heir = world.editor()
    told = _go_on(world, heir)
    # All of it is read for that, which is when hidden damage is found.
    heir.answer(world.begin_to_load(heir, session_id))
    _hang_up(world, heir)
    _see_what_is_said(world, heir, told)
    _see_what_is_saved(world, heir)
    if how == _CUT:
        _see_it_in_order(world, session_id)
    else:
        _see_most_of_it(world, heir, session_id)
    world.forget(*world.ledger)
    world.begin_anew()


def damage_in_use(world: World) -> None:
    """Damage the store in the middle of a turn; see that its editor can go on, and an heir."""
    editor = world.editor()
    session_id = world.new_session(editor)
    _talk(editor, session_id, "stream 400 4")
    turn = editor.prompt(session_id, "stream 400 1")
    enough = 400 + world.chance.randrange(400)
    until(lambda: editor.has_received(session_id, enough))
    how = world.chance.choice(sorted(HARM))
    HARM[how](world, _file_to_harm(world))
    world.count(f"{how}, in the middle of a turn")
    world.ledger[session_id].is_excused = True
    answer = editor.answer(turn)
    world.expect("the conversation goes on", "result" in answer, str(answer))
    _talk(editor, session_id, "stream 50 4")
    told = _go_on(world, editor)
    world.ledger[told].is_excused = True
    _hang_up(world, editor)
    # What is damaged where nobody had to read is found by whoever reads it first.
    heir = world.editor()
    for one in (session_id, told):
        heir.answer(world.begin_to_load(heir, one))
    told_by_heir = _go_on(world, heir)
    _hang_up(world, heir)
    _see_what_is_said(world, heir, told_by_heir)
    _see_what_is_said(world, editor, told, heir)
    _see_what_is_saved(world, editor, heir)
    if how != _CUT:
        _see_most_of_it(world, heir, session_id)
    world.forget(*world.ledger)
    world.begin_anew()


def _hang_up(world: World, editor: Editor) -> None:
    editor.hang_up()
    editor.wait_for_the_end()
    world.editors.remove(editor)


def _go_on(world: World, editor: Editor) -> str:
    """Have a conversation in a new session; return its id."""
    session_id = world.new_session(editor)
    _talk(editor, session_id, "stream 50 4")
    _talk(editor, session_id, "stream 50 4")
    return session_id


def _talk(editor: Editor, session_id: str, words: str) -> None:
    answer = editor.answer(editor.prompt(session_id, words))
    if "result" not in answer:
        raise Violation("a damaged store keeps an editor from its conversation", str(answer))


def _see_what_is_said(world: World, editor: Editor, session_id: str, *others: Editor) -> None:
    """See that what was said since is in the record, or that the user was told that it is not."""
    stderr = "".join(it.stderr.read_text(errors="replace") for it in (editor, *others))
    check_no_faults_of_ours(stderr)
    try:
        said = recorded(world.store, session_id).said
    except StoreError as error:
        raise Violation("a damaged store stays in the way", str(error)) from error
    is_whole = said == world.ledger[session_id].pieces[editor.name]
    if not is_whole and not any(words in stderr for words in (_LOST, _WAITS)):
        raise Violation("what is lost is not told", f"{len(said)} recorded, and {stderr!r}")


def _see_most_of_it(world: World, editor: Editor, session_id: str) -> None:
    """See that of what was said before the damage most is there, whatever session it is in now."""
    if "was set aside as" not in editor.stderr.read_text(errors="replace"):
        return
    said = {one for piece in world.ledger[session_id].pieces.values() for one in piece}
    with SqliteStore(world.store, create=False) as store:
        sessions = store.sessions(Page(limit=1000, with_unopened=True))
        saved = {one for it in sessions for one in Recorded.of(store.read(it.id)).said}
    if len(said & saved) < len(said) * _LEAST_SAVED:
        raise Violation("what can be read is not saved", f"{len(said & saved)} of {len(said)}")


def _see_what_is_saved(world: World, *editors: Editor) -> None:
    """See that a store that was set aside was told of with its counts, and what came of it."""
    stderr = "".join(it.stderr.read_text(errors="replace") for it in editors)
    told = reports(world.store)
    for report in told:
        if report.text not in stderr:
            raise Violation("what was saved is not told", f"{report} and {stderr!r}")
        if not Path(report.path).exists():
            raise Violation("a damaged store is not kept", report.path)
        check_soundness(world.store)
    if len(told) == 1 and (lost := _marked_as_lost(world)) != told[0].entries_lost:
        raise Violation("the user is told a wrong number", f"{lost} are lost, and {told[0]}")


def _marked_as_lost(world: World) -> int:
    """Return how many entries are lost, by the gaps in all sessions."""
    with SqliteStore(world.store, create=False) as store:
        sessions = store.sessions(Page(limit=1000, with_unopened=True))
        lines = [
            entry.line
            for it in sessions
            for entry in store.read(it.id)
            if entry.kind is Kind.GAP and b"isDamage" in entry.line
        ]
    return sum(json.loads(line)["lostEntries"] for line in lines)


def _see_it_in_order(world: World, session_id: str) -> None:
    """See that what is left is in its order. Other harm may change words, which nothing tells."""
    received = world.ledger[session_id].pieces
    places = {serial: at for at, serial in enumerate(it for one in received.values() for it in one)}
    saved = [places[it] for it in recorded(world.store, session_id).said if it in places]
    if saved != sorted(set(saved)):
        raise Violation("what was saved is in another order", str(saved))


# -- harm -------------------------------------------------------------------------------


def _file_to_harm(world: World) -> Path:
    log = world.store.with_name(world.store.name + "-wal")
    files = [file for file in (world.store, log) if file.exists() and file.stat().st_size]
    return world.chance.choice(files)


def _flip(world: World, file: Path) -> None:
    data = file.read_bytes()
    for _ in range(world.chance.choice((1, 10))):
        at = world.chance.randrange(len(data))
        _put(file, at, bytes([data[at] ^ 1 << world.chance.randrange(8)]))


def _tear(world: World, file: Path) -> None:
    """Put half a page of nothing, or of another page, where a page should be."""
    data = file.read_bytes()
    begin = world.chance.randrange(max(1, len(data) // _PAGE)) * _PAGE + _PAGE // 2
    other = world.chance.randrange(max(1, len(data) // _PAGE)) * _PAGE
    half = world.chance.choice((bytes(_PAGE // 2), data[other : other + _PAGE // 2]))
    _put(file, begin, half)


def _put(file: Path, at: int, data: bytes) -> None:
    """Write in place: somebody may be writing elsewhere in it."""
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def _cut_off(world: World, file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(world.chance.randrange(file.stat().st_size))


HARM = {
    "bits flip in the store": _flip,
    "a page of the store is torn": _tear,
    _CUT: _cut_off,
}
