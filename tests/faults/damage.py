"""Flip bits and tear pages of a store that is closed, or in use.

Lost data cannot come back, so these checks are weaker: a conversation always continues. The next
process that opens the store recovers the readable entries, in order, into an intact store. The user
learns how many entries were recovered and lost. New messages are recorded, or the user learns that
they are not.
"""

import json
import signal
from pathlib import Path

from rekindle.errors import StoreError
from rekindle.model import Kind, Page
from rekindle.store.sqlite.quarantine import reports
from rekindle.store.sqlite.store import SqliteStore

from .checks import Recorded, check_integrity, check_no_internal_errors, recorded
from .editor import Editor
from .processes import until
from .violation import Violation
from .world import World

_PAGE = 4096
_CUT = "the store is cut off"
_LOST = "entries could not be recorded and are lost"
_WAITS = "to be recorded when the store works again"
_LEAST_SAVED = 0.25
"""The smallest share of the messages that recovery must save."""


def damage(world: World) -> None:
    """Damage the store after the first editor has left or was killed."""
    editor = world.editor()
    session_id = world.new_session(editor)
    _run_turn(editor, session_id, "stream 400 4")
    is_killed = world.chance.random() < 0.5
    if is_killed:
        editor.rekindle.send_signal(signal.SIGKILL)
        world.check_after_exit(editor)
    else:
        world.leave(editor)
    how = world.chance.choice(sorted(DAMAGES))
    DAMAGES[how](world, _file_to_damage(world))
    world.count(how)
    world.ledger[session_id].may_have_gaps = True
    next_editor = world.editor()
    told = _run_new_session(world, next_editor)
    # Loading reads the whole session, which reveals hidden damage.
    next_editor.answer(world.begin_to_load(next_editor, session_id))
    _hang_up(world, next_editor)
    _check_new_session(world, next_editor, told)
    _check_reports(world, next_editor)
    if how == _CUT:
        _check_order(world, session_id)
    else:
        _check_most_is_recovered(world, next_editor, session_id)
    world.forget(*world.ledger)
    world.use_new_store()


def damage_in_use(world: World) -> None:
    """Damage the store in the middle of a turn; this editor and the next one continue."""
    editor = world.editor()
    session_id = world.new_session(editor)
    _run_turn(editor, session_id, "stream 400 4")
    turn = editor.prompt(session_id, "stream 400 1")
    enough = 400 + world.chance.randrange(400)
    until(lambda: editor.has_received(session_id, enough))
    how = world.chance.choice(sorted(DAMAGES))
    DAMAGES[how](world, _file_to_damage(world))
    world.count(f"{how}, in the middle of a turn")
    world.ledger[session_id].may_have_gaps = True
    answer = editor.answer(turn)
    world.expect("the conversation goes on", "result" in answer, str(answer))
    _run_turn(editor, session_id, "stream 50 4")
    told = _run_new_session(world, editor)
    world.ledger[told].may_have_gaps = True
    _hang_up(world, editor)
    # Damage in pages that were not read yet is found by the next reader.
    next_editor = world.editor()
    for one in (session_id, told):
        next_editor.answer(world.begin_to_load(next_editor, one))
    told_by_heir = _run_new_session(world, next_editor)
    _hang_up(world, next_editor)
    _check_new_session(world, next_editor, told_by_heir)
    _check_new_session(world, editor, told, next_editor)
    _check_reports(world, editor, next_editor)
    if how != _CUT:
        _check_most_is_recovered(world, next_editor, session_id)
    world.forget(*world.ledger)
    world.use_new_store()


def _hang_up(world: World, editor: Editor) -> None:
    editor.hang_up()
    editor.wait_for_exit()
    world.editors.remove(editor)


def _run_new_session(world: World, editor: Editor) -> str:
    """Run turns in a new session; return its id."""
    session_id = world.new_session(editor)
    _run_turn(editor, session_id, "stream 50 4")
    _run_turn(editor, session_id, "stream 50 4")
    return session_id


def _run_turn(editor: Editor, session_id: str, words: str) -> None:
    answer = editor.answer(editor.prompt(session_id, words))
    if "result" not in answer:
        raise Violation("a damaged store keeps an editor from its conversation", str(answer))


def _check_new_session(world: World, editor: Editor, session_id: str, *others: Editor) -> None:
    """Check that new messages are recorded, or that the user learned that they are not."""
    stderr = "".join(it.stderr.read_text(errors="replace") for it in (editor, *others))
    check_no_internal_errors(stderr)
    try:
        said = recorded(world.store, session_id).said
    except StoreError as error:
        raise Violation("a damaged store stays in the way", str(error)) from error
    is_whole = said == world.ledger[session_id].pieces[editor.name]
    if not is_whole and not any(words in stderr for words in (_LOST, _WAITS)):
        raise Violation("what is lost is not told", f"{len(said)} recorded, and {stderr!r}")


def _check_most_is_recovered(world: World, editor: Editor, session_id: str) -> None:
    """Check that most messages from before the damage are in the store, in any session."""
    if "was renamed to" not in editor.stderr.read_text(errors="replace"):
        return
    said = {one for piece in world.ledger[session_id].pieces.values() for one in piece}
    with SqliteStore(world.store, create=False) as store:
        sessions = store.sessions(Page(limit=1000, with_unopened=True))
        saved = {one for it in sessions for one in Recorded.of(store.read(it.id)).said}
    if len(said & saved) < len(said) * _LEAST_SAVED:
        raise Violation("what can be read is not saved", f"{len(said & saved)} of {len(said)}")


def _check_reports(world: World, *editors: Editor) -> None:
    """Check that each quarantined store was reported with correct counts, and is kept."""
    stderr = "".join(it.stderr.read_text(errors="replace") for it in editors)
    told = reports(world.store)
    for report in told:
        if report.text not in stderr:
            raise Violation("what was saved is not told", f"{report} and {stderr!r}")
        if not Path(report.path).exists():
            raise Violation("a damaged store is not kept", report.path)
        check_integrity(world.store)
    if len(told) == 1 and (lost := _marked_as_lost(world)) != told[0].entries_lost:
        raise Violation("the user is told a wrong number", f"{lost} are lost, and {told[0]}")


def _marked_as_lost(world: World) -> int:
    """Return the number of lost entries, from the gaps in all sessions."""
    with SqliteStore(world.store, create=False) as store:
        sessions = store.sessions(Page(limit=1000, with_unopened=True))
        lines = [
            entry.line
            for it in sessions
            for entry in store.read(it.id)
            if entry.kind is Kind.GAP and b"isDamage" in entry.line
        ]
    return sum(json.loads(line)["lostEntries"] for line in lines)


def _check_order(world: World, session_id: str) -> None:
    """Check that the recovered messages are in order. Other damage may change their text."""
    received = world.ledger[session_id].pieces
    places = {serial: at for at, serial in enumerate(it for one in received.values() for it in one)}
    saved = [places[it] for it in recorded(world.store, session_id).said if it in places]
    if saved != sorted(set(saved)):
        raise Violation("what was saved is in another order", str(saved))


# -- kinds of damage -------------------------------------------------------------------------------


def _file_to_damage(world: World) -> Path:
    log = world.store.with_name(world.store.name + "-wal")
    files = [file for file in (world.store, log) if file.exists() and file.stat().st_size]
    return world.chance.choice(files)


def _flip(world: World, file: Path) -> None:
    data = file.read_bytes()
    for _ in range(world.chance.choice((1, 10))):
        at = world.chance.randrange(len(data))
        _put(file, at, bytes([data[at] ^ 1 << world.chance.randrange(8)]))


def _tear(world: World, file: Path) -> None:
    """Replace half a page with zeros or with half of another page."""
    data = file.read_bytes()
    begin = world.chance.randrange(max(1, len(data) // _PAGE)) * _PAGE + _PAGE // 2
    other = world.chance.randrange(max(1, len(data) // _PAGE)) * _PAGE
    half = world.chance.choice((bytes(_PAGE // 2), data[other : other + _PAGE // 2]))
    _put(file, begin, half)


def _put(file: Path, at: int, data: bytes) -> None:
    """Write in place, because another process may write elsewhere in the file."""
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def _cut_off(world: World, file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(world.chance.randrange(file.stat().st_size))


DAMAGES = {
    "bits flip in the store": _flip,
    "a page of the store is torn": _tear,
    _CUT: _cut_off,
}
