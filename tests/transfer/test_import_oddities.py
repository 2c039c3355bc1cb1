"""Importing copies, in parts, by mistakes, and what is found of it afterwards."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from claude_files import SESSION, ClaudeFile, said
from recorded_sessions import asked, look
from rekindle.errors import SessionInUse
from rekindle.importers.base import EntryCounts, FoundSession, ImportNotes, SourceSession
from rekindle.importers.claude.session import IMPORTER
from rekindle.model import (
    Entry,
    LeaseHolder,
)
from rekindle.store.base import Store
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transfer import batch_writer
from rekindle.transfer.import_apply import Importer
from rekindle.transfer.import_scan import Gatherer, Report, Wanted
from rekindle.transfer.merge import How
from tool_imports import HOLDER, NOW, Run, everything, told

OTHER = LeaseHolder(token="other", pid=7, host="there")  # noqa: S106 - no password


@pytest.fixture
def file() -> ClaudeFile:
    it = ClaudeFile()
    it.turn(1)
    return it


def test_a_copy_of_the_file_elsewhere_is_the_same_session(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    before = everything(store)
    copy = tmp_path / "copy" / ".claude" / "projects" / path.parent.name / path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes())
    assert Run(store, tmp_path / "copy" / ".claude").hows == []
    assert everything(store) == before
    # One that went on in its own way does not take the place of the first.
    file.turn(2)
    file.write(tmp_path)
    Run(store, tmp_path / ".claude")
    other = ClaudeFile()
    other.lines = file.lines[:2]
    other.number, other.last = 50, file.uuid(2)
    other.user("Elsewhere")
    copy.write_bytes(other.data())
    assert Run(store, tmp_path / "copy" / ".claude").hows == [How.BRANCHED]
    assert list(store.read(SESSION)) == told(path)


def test_another_version_of_the_importer_replaces_what_the_last_has_made(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    (found,) = IMPORTER.find(path, None)
    (talk,) = IMPORTER.read(found, ImportNotes())
    importer = Importer(store, HOLDER)
    for version in (1, 2):
        origin = replace(talk.incoming.origin, version=version)  # type: ignore[type-var]
        arrived = replace(talk.incoming, origin=origin)
        made = [replace(it, line=b'{"v":%d}' % version) for it in told(path)]

        def tell(tally: EntryCounts, made: list[Entry] = made) -> Iterator[Entry]:
            tally.entries = tally.settled = len(made)
            return iter(made)

        importer.take(replace(talk, incoming=arrived, read_entries=tell), NOW)
    ((_, _, entries),) = everything(store)
    assert {it.line for it in entries} == {b'{"v":2}'}


def test_a_long_session_is_written_in_parts_and_gone_on_with_after_an_interruption(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "_ENTRIES_A_PART", 4)
    it = ClaudeFile()
    for number in range(6):
        it.turn(number)
    path = it.write(tmp_path)
    (found,) = IMPORTER.find(path, None)
    (talk,) = IMPORTER.read(found, ImportNotes())

    def tell(tally: EntryCounts) -> Iterator[Entry]:
        for entry in talk.read_entries(tally):
            if entry.seq == 10:
                raise KeyboardInterrupt
            yield entry

    with pytest.raises(KeyboardInterrupt):
        Importer(store, HOLDER).take(replace(talk, read_entries=tell), NOW)
    assert len(list(store.read(SESSION))) == 8
    assert store.holder(SESSION) is None
    assert Run(store, tmp_path / ".claude").hows == [How.EXTENDED]
    ((session, _, entries),) = everything(store)
    assert entries == told(path)
    assert (session.turns, session.messages) == (6, 12)


def test_nobody_goes_on_with_it_while_it_is_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "_ENTRIES_A_PART", 2)
    it = ClaudeFile()
    for number in range(3):
        it.turn(number)
    (found,) = IMPORTER.find(it.write(tmp_path), None)
    (talk,) = IMPORTER.read(found, ImportNotes())

    def tell(tally: EntryCounts) -> Iterator[Entry]:
        for entry in talk.read_entries(tally):
            if entry.seq == 6:
                assert store.claim(SESSION, OTHER).holder == HOLDER
            yield entry

    Importer(store, HOLDER).take(replace(talk, read_entries=tell), NOW)
    store.claim(SESSION, OTHER)
    grown = replace(talk.incoming, origin=replace(talk.incoming.origin, sha256="another"))  # type: ignore[type-var]
    with pytest.raises(SessionInUse):
        Importer(store, HOLDER).take(
            replace(talk, incoming=grown, read_entries=_with_more(talk.read_entries)),  # type: ignore[arg-type]
            NOW,
        )


def _with_more(tell: object) -> object:
    def more(tally: EntryCounts) -> Iterator[Entry]:
        entries = list(tell(tally))  # type: ignore[operator]
        yield from entries
        yield replace(entries[-1], seq=len(entries) + 1)

    return more


def test_a_mistake_of_an_importer_keeps_no_other_session_out(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    (found,) = IMPORTER.find(path, None)

    def read(*_: object) -> Iterator[object]:
        raise KeyError("odd")
        yield

    gatherer = Gatherer(replace(IMPORTER, read=read), Wanted())
    report = Report(tool="claude")
    assert gatherer.take(found, Importer(store, HOLDER), report, NOW, lambda _: None) == []
    assert report.failed == {str(path): "a bug in Rekindle: KeyError: 'odd'"}
    # It is tried again, but not at once.
    assert gatherer.look(path, report, NOW + 1) == []
    assert gatherer.look(path, report, NOW + 60_000_000) == [found]


def test_what_took_the_place_of_something_else_is_found_and_the_other_is_not(
    tmp_path: Path,
) -> None:
    db = tmp_path / "s.db"
    it = ClaudeFile()
    it.turn(1)
    above = it.last
    it.user("Look for zebras")
    it.write(tmp_path)
    with SqliteStore(db) as store:
        Run(store, tmp_path / ".claude")
    assert [hit.session_id for hit in look(db, "zebras")] == [SESSION]
    it.user("Look for lions", parent=above)
    it.write(tmp_path)
    with SqliteStore(db) as store:
        Run(store, tmp_path / ".claude")
    assert [hit.session_id for hit in look(db, "lions")] == [SESSION]
    assert look(db, "zebras") == []
    (hit,) = look(db, "zebras", with_archived=True)
    assert hit.session_id != SESSION


# -- branches that the tool has left --------------------------------------------------------------


def ways() -> tuple[ClaudeFile, str]:
    """Return a session that went two ways, of which the second is the last, and where they part."""
    it = ClaudeFile()
    it.turn(1)
    above = str(it.last)
    it.user("This way")
    it.agent("msg_a", said("Going this way"), "end_turn")
    it.last = above
    it.user("That way")
    it.agent("msg_b", said("Going that way"), "end_turn")
    return it, above


def words(store: Store) -> dict[str, str]:
    """Return what was said last in each session."""
    return {it.id: str(entries[-2].line) for it, _, entries in everything(store)}


def test_a_branch_that_is_left_stays_what_it_is_while_others_come(
    store: Store, tmp_path: Path
) -> None:
    it, above = ways()
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    before = words(store)
    for number in range(3):
        it.last = above
        it.user(f"Way {number}")
        it.agent(f"msg_{number}", said(f"Going way {number}"), "end_turn")
        it.write(tmp_path)
        Run(store, tmp_path / ".claude")
        assert len(everything(store)) == 3 + number
        now = words(store)
        assert all(now[name] == said for name, said in before.items() if name != SESSION)
        assert f"Going way {number}" in now[SESSION]
        before = now


def test_a_branch_that_has_grown_before_it_was_left_is_the_same_one(
    store: Store, tmp_path: Path
) -> None:
    it, above = ways()
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    # On from there, and off to another one, between two imports.
    it.turn(2)
    it.last = above
    it.user("Yet another way")
    it.agent("msg_c", said("Going yet another way"), "end_turn")
    path = it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert len(everything(store)) == 3
    assert any("Answer 2" in said for said in words(store).values())
    path.touch()
    assert Run(store, tmp_path / ".claude").hows == []
    assert len(everything(store)) == 3


def test_what_comes_late_to_a_branch_that_was_left_is_added_to_it(
    store: Store, tmp_path: Path
) -> None:
    it, above = ways()
    left = it.last
    it.user("Another way", parent=above)
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    queued = {"type": "queued_command", "prompt": "Late"}
    it.add("attachment", parent=left, attachment=queued)
    it.write(tmp_path)
    assert Run(store, tmp_path / ".claude").hows == [How.EXTENDED]
    late = [it.id for it, _, entries in everything(store) if "Late" in str(entries[-1].line)]
    assert [name.partition("~")[0] for name in late] == [SESSION]
    assert late != [SESSION]


def test_only_what_is_new_here_is_put_away_because_it_is_there(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
        return (replace(it, is_archived=True) for it in IMPORTER.read(found, notes))

    tool = replace(IMPORTER, read=read)
    file.write(tmp_path)
    Run(store, tmp_path / ".claude", tool)
    assert store.session(SESSION).archived_us is not None
    store.write([asked(SESSION, "Here")])
    file.turn(2)
    file.write(tmp_path)
    (branch,) = Run(store, tmp_path / ".claude", tool).taken
    assert branch.how is How.BRANCHED
    assert store.session(branch.session_id).archived_us is None


def test_who_goes_back_to_a_branch_has_it_as_the_session_again(
    store: Store, tmp_path: Path
) -> None:
    it, _ = ways()
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    it.last = it.uuid(4)
    it.turn(2)
    path = it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert list(store.read(SESSION)) == told(path)
    assert any("Going that way" in said for said in words(store).values())
    path.touch()
    assert Run(store, tmp_path / ".claude").hows == []


def test_a_branch_that_was_gone_on_with_here_is_left_alone(store: Store, tmp_path: Path) -> None:
    it, above = ways()
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    (aside,) = [it.id for it, _, _ in everything(store) if it.id != SESSION]
    store.write([asked(aside, "Here")])
    before = list(store.read(aside))
    it.last = above
    it.user("Yet another way")
    it.write(tmp_path)
    Run(store, tmp_path / ".claude")
    assert list(store.read(aside)) == before
    assert len(everything(store)) == 3


@pytest.mark.parametrize("odd", ["../../etc", "\x1b[2J", "a\nb", "x" * 300, "\ud800", " ", "ses/1"])
def test_names_that_nobody_gives_are_not_taken_over(
    store: Store, file: ClaudeFile, tmp_path: Path, odd: str
) -> None:
    def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
        for talk in IMPORTER.read(found, notes):
            told = {"id": odd, "agent_session_id": odd, "cwd": odd, "directories": (odd, "/d")}
            arrived = replace(talk.incoming, **told, parent_id=odd)
            yield replace(talk, incoming=arrived, folder=odd)

    path = file.write(tmp_path)
    run = Run(store, path, replace(IMPORTER, read=read))
    assert run.hows == [How.NEW]
    ((session, _, entries),) = everything(store)
    assert re.fullmatch(r"[0-9a-f]{16}", session.id)
    assert (session.parent_id, session.agent_session_id) == (session.id, "")
    assert (session.cwd, session.directories) == (None, ("/d",))
    assert len(entries) == 3
    assert Run(store, path, replace(IMPORTER, read=read)).read == 0
