"""Where Codex keeps its sessions, their titles, and the files that they inherit."""

import json
import shutil
from pathlib import Path

import apsw
import pytest

from codex_files import CWD, SESSION, CodexFile, text, thread, write_file
from codex_sessions import bare, legacy
from importer_results import entries_of, items_of, read_sessions
from other_user import as_stranger
from rekindle.importers.base import ImportNotes
from rekindle.importers.codex.locations import folders
from rekindle.importers.codex.session import IMPORTER
from rekindle.importers.codex.user_text import own_text
from rekindle.model import TitleSource


def session(number: int = 1, **meta: object) -> CodexFile:
    file = CodexFile(thread(number), mode="paginated", **meta)
    file.turn(number)
    return file


def test_home_folder_comes_from_the_environment() -> None:
    home = Path("/home/user")
    assert folders({}, home) == [home / ".codex"]
    assert folders({"CODEX_HOME": "/c"}, home) == [Path("/c")]


def test_location_of_a_session_never_changes(tmp_path: Path) -> None:
    """The location stays when the file is archived, compressed, or both."""
    file = session()
    home = tmp_path / ".codex"
    path = file.write(tmp_path)
    places = [found.location for found in IMPORTER.find(home, None)]
    assert places == [str(path)]
    hashes = {
        source.incoming.origin.sha256
        for source in read_sessions(IMPORTER, home)
        if source.incoming.origin
    }
    for is_archived, is_compressed in ((True, False), (True, True), (False, True)):
        path.unlink()
        path = file.write(tmp_path, is_archived=is_archived, is_compressed=is_compressed)
        for named in (home, path, path.parent):
            assert [found.location for found in IMPORTER.find(named, None)] == places
        (source,) = read_sessions(IMPORTER, home)
        assert source.incoming.origin
        hashes.add(source.incoming.origin.sha256)
    assert len(hashes) == 1


def test_plain_file_wins_over_its_compressed_copy(tmp_path: Path) -> None:
    for is_archived in (False, True):
        file = session()
        file.write(tmp_path, is_compressed=True)
        file.turn(2)
        path = file.write(tmp_path, is_archived=is_archived)
        (source,) = read_sessions(IMPORTER, tmp_path / ".codex")
        assert items_of(source)[-1] == "Answer 2"
        path.unlink()


def test_find_returns_only_sessions_of_the_project(tmp_path: Path) -> None:
    session(1).write(tmp_path)
    session(2, cwd='/home/user/"other"').write(tmp_path, is_compressed=True)
    home = tmp_path / ".codex"
    assert len(list(IMPORTER.find(home, None))) == 2
    for number, cwd in ((1, CWD), (2, '/home/user/"other"')):
        (found,) = IMPORTER.find(home, cwd)
        assert thread(number) in found.path.name
    assert list(IMPORTER.find(home, "/home/user")) == []


def test_find_marks_sub_agents(tmp_path: Path) -> None:
    session(1).write(tmp_path)
    session(2, source={"subagent": "review"}).write(tmp_path)
    session(3, parent_thread_id=thread(1)).write(tmp_path)
    assert [found.is_child for found in IMPORTER.find(tmp_path / ".codex", None)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("is_archived", [True, False])
def test_file_in_the_archive_is_marked_as_archived(tmp_path: Path, *, is_archived: bool) -> None:
    folder = tmp_path / "archived_sessions"
    path = session().write(folder, is_archived=is_archived)
    assert [source.is_archived for source in read_sessions(IMPORTER, path)] == [is_archived]


def test_session_that_moves_during_the_scan_is_found(tmp_path: Path) -> None:
    session(1).write(tmp_path)
    second = session(2)
    path = second.write(tmp_path)
    found = IMPORTER.find(tmp_path / ".codex", None)
    next(found)
    path.unlink()
    second.write(tmp_path, is_archived=True, is_compressed=True)
    (moved,) = found
    assert moved.path == path
    session(3).write(tmp_path)
    found = IMPORTER.find(tmp_path / ".codex", None)
    next(found)
    next((tmp_path / ".codex" / "archived_sessions").iterdir()).unlink()
    # A deleted session does not stop the scan.
    assert [thread(3) in hit.path.name for hit in found] == [True]


def test_unreadable_folder_does_not_stop_the_scan(open_folder: Path) -> None:
    session(1).write(open_folder)
    hidden = session(2).write(open_folder, is_archived=True).parent
    hidden.chmod(0)
    with as_stranger():
        sound, refused = IMPORTER.find(open_folder / ".codex", None)
        assert thread(1) in sound.path.name
        assert (refused.path, refused.error) == (hidden, "Permission denied")
        # An unreadable folder elsewhere is ignored.
        other = open_folder / "other"
    other.mkdir()
    (other / "secret").mkdir(mode=0)
    with as_stranger():
        assert list(IMPORTER.find(other, None)) == []
    hidden.chmod(0o755)


def test_old_files_directly_in_the_sessions_folder_are_found(tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "sessions" / CodexFile().name()
    path.parent.mkdir(parents=True)
    write_file(path, b"\n".join(bare()))
    (found,) = IMPORTER.find(tmp_path / ".codex", None)
    assert found.location == str(path)
    (source,) = IMPORTER.read(found, ImportNotes())
    assert source.folder == source.incoming.cwd == CWD


def test_file_given_by_path_may_have_any_name(tmp_path: Path) -> None:
    for name in ("mine.jsonl", "mine.jsonl.zst"):
        path = write_file(tmp_path / "mine.jsonl", legacy().data(), is_compressed="zst" in name)
        (source,) = read_sessions(IMPORTER, path)
        assert source.incoming.id == SESSION
    assert list(IMPORTER.find(tmp_path, None)) == []


def test_files_of_other_programs_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"sessionId":"x","type":"user","uuid":"y"}\n')
    (tmp_path / "b.jsonl").write_text("{}\n")
    (tmp_path / "c.txt").write_bytes(legacy().data())
    (tmp_path / "rollout-x.jsonl").write_bytes(legacy().data())
    (tmp_path / "d.jsonl").write_text("")
    (tmp_path / "e.jsonl.zst").write_bytes(b"rubbish")
    (tmp_path / CodexFile().name()).mkdir()
    assert list(IMPORTER.find(tmp_path, None)) == []
    for path in tmp_path.iterdir():
        if path.name != "rollout-x.jsonl":
            assert list(IMPORTER.find(path, None)) == []


# -- inherited history --------------------------------------------------------------------------


def test_history_that_inherits_itself_is_read_once(tmp_path: Path) -> None:
    first = session(1)
    second = session(2, history_base=first.base())
    first = session(1, history_base=second.base())
    for number, path in enumerate((first.write(tmp_path), second.write(tmp_path)), 1):
        notes = ImportNotes()
        (source,) = read_sessions(IMPORTER, path, notes)
        assert items_of(source)[-2:] == [f"Question {number}", f"Answer {number}"]
        assert notes.skipped["the inherited history contains itself"] == 1


def test_history_may_be_inherited_through_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = session(1)
    for number in range(2, 40):
        file.write(tmp_path, is_compressed=number % 2 == 0)
        file = session(number, first=file.ordinal, history_base=file.base())
    path = file.write(tmp_path)
    texts = [f"{kind} {number}" for number in range(1, 40) for kind in ("Question", "Answer")]
    assert items_of(read_sessions(IMPORTER, path)[0]) == texts
    monkeypatch.setattr("rekindle.importers.codex.locations._MAX_HISTORY_LINKS", 3)
    notes = ImportNotes()
    assert items_of(read_sessions(IMPORTER, path, notes)[0]) == texts[-8:]
    assert notes.skipped == {"the inherited history is in too many files": 1}


def test_history_file_deleted_during_the_import_is_reported(tmp_path: Path) -> None:
    first = session(1)
    path = first.write(tmp_path)
    found, _ = IMPORTER.find(session(2, history_base=first.base()).write(tmp_path).parent, None)
    _, found = IMPORTER.find(path.parent, None)
    path.unlink()
    notes = ImportNotes()
    (source,) = IMPORTER.read(found, notes)
    assert items_of(source) == ["Question 2", "Answer 2"]
    assert notes.skipped == {"the inherited history cannot be read": 1}


def test_damaged_first_line_of_a_history_file_is_skipped(tmp_path: Path) -> None:
    first = session(1)
    first.lines[0] = b"x" * len(first.lines[0])
    first.write(tmp_path)
    path = session(2, first=first.ordinal, history_base=first.base()).write(tmp_path)
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, path, notes)
    assert items_of(source) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]
    assert notes.skipped == {"a line is not JSON": 1}


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ({"thread_id": thread(7)}, "the file of the inherited history is missing"),
        ({"thread_id": "../../secret"}, "the file of the inherited history is missing"),
        (
            {"thread_id": thread(1), "end_byte_offset": 1_000_000},
            "the inherited history is shorter than before",
        ),
    ],
)
def test_missing_history_is_reported(tmp_path: Path, base: dict[str, object], reason: str) -> None:
    session(1).write(tmp_path)
    path = session(2, history_base=base).write(tmp_path)
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, path, notes)
    assert items_of(source)[-2:] == ["Question 2", "Answer 2"]
    assert notes.skipped == {reason: 1}


def test_history_ends_where_the_session_was_forked(tmp_path: Path) -> None:
    first = session(1)
    base = first.base()
    first.turn(8)
    first.write(tmp_path)
    path = session(2, first=first.ordinal, history_base=base).write(tmp_path)
    texts = ["Question 1", "Answer 1", "Question 2", "Answer 2"]
    assert items_of(read_sessions(IMPORTER, path)[0]) == texts
    # Some versions have used ordinals twice.
    session(2, first=3, history_base={**base, "end_ordinal_exclusive": 1}).write(tmp_path)
    assert items_of(read_sessions(IMPORTER, path)[0]) == texts
    # If only one of the two is recorded, it is used.
    for name in ("end_byte_offset", "end_ordinal_exclusive"):
        single = {key: value for key, value in base.items() if key != name}
        session(2, first=first.ordinal, history_base=single).write(tmp_path)
        assert items_of(read_sessions(IMPORTER, path)[0]) == texts


# -- titles -------------------------------------------------------------------------------------


def database(home: Path, name: str = "state_5.sqlite") -> apsw.Connection:
    home.mkdir(exist_ok=True)
    db = apsw.Connection(str(home / name))
    db.execute("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0")
    db.execute("CREATE TABLE threads(id TEXT, title TEXT, first_user_message TEXT, name TEXT)")
    db.execute("ALTER TABLE threads ADD COLUMN rollout_path TEXT")
    return db


def title(home: Path, notes: ImportNotes | None = None) -> dict[TitleSource, str]:
    return read_sessions(IMPORTER, home, notes)[0].incoming.titles


def test_title_sources_are_ranked(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    session(1).write(tmp_path)
    stamps = {next(iter(IMPORTER.find(home, None))).stamp}
    prompt = {TitleSource.PROMPT: "Question 1"}
    assert title(home) == prompt
    with database(home) as db:
        row = (thread(1), "Question 1", "Question 1", None, None)
        db.execute("INSERT INTO threads VALUES(?, ?, ?, ?, ?)", row)
    assert title(home) == prompt
    db.execute("UPDATE threads SET title = 'Made'")
    before = sorted(
        (path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in home.iterdir()
    )
    assert title(home) == {**prompt, TitleSource.AGENT: "Made"}
    after = sorted(
        (path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in home.iterdir()
    )
    assert after == before
    stamps.add(next(iter(IMPORTER.find(home, None))).stamp)
    db.execute("UPDATE threads SET name = 'Given'")
    assert title(home)[TitleSource.AGENT] == "Given"
    stamps.add(next(iter(IMPORTER.find(home, None))).stamp)
    db.close()
    assert not (home / "state_5.sqlite-wal").exists()
    assert title(home)[TitleSource.AGENT] == "Given"
    assert not (home / "state_5.sqlite-wal").exists()
    entries = [{"id": thread(1), "thread_name": name} for name in ("First", "Last")]
    lines = ["rubbish", *map(json.dumps, entries), '{"id":"torn']
    (home / "session_index.jsonl").write_text("\n".join(lines))
    assert title(home)[TitleSource.AGENT] == "Last"
    stamps.add(next(iter(IMPORTER.find(home, None))).stamp)
    assert len(stamps) == 4


def test_titles_come_from_the_newest_database(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    session(1).write(tmp_path)
    for name, title_text in (("state_9.sqlite", "Old"), ("state_10.sqlite", "New")):
        db = database(home, name)
        db.execute("INSERT INTO threads(id, name) VALUES(?, ?)", (thread(1), title_text))
        db.close()
    assert title(home)[TitleSource.AGENT] == "New"


def test_unreadable_title_database_is_reported(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    session(1).write(tmp_path)
    (home / "state_5.sqlite").write_bytes(b"rubbish" * 1000)
    notes = ImportNotes()
    assert title(home, notes) == {TitleSource.PROMPT: "Question 1"}
    why = "the database cannot be read: file is not a database"
    assert notes.skipped == {f"titles in state_5.sqlite: {why}": 1}
    (home / "state_5.sqlite").unlink()
    apsw.Connection(str(home / "state_5.sqlite")).execute("CREATE TABLE threads(x)")
    notes = ImportNotes()
    assert title(home, notes) == {TitleSource.PROMPT: "Question 1"}
    assert notes.skipped == {}


def test_invalid_bytes_in_a_title_are_replaced(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    session(1).write(tmp_path)
    db = database(home)
    db.execute("INSERT INTO threads(id, title) VALUES(?, CAST(x'41FF' AS TEXT))", (thread(1),))
    db.close()
    assert title(home)[TitleSource.AGENT] == "A\N{REPLACEMENT CHARACTER}"


def test_titles_in_a_leftover_wal_are_read(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    session(1).write(tmp_path)
    (tmp_path / "live").mkdir()
    db = database(tmp_path / "live")
    db.execute("INSERT INTO threads(id, name) VALUES(?, 'Left')", (thread(1),))
    for name in ("state_5.sqlite", "state_5.sqlite-wal"):
        shutil.copy(tmp_path / "live" / name, home)
    db.close()
    before = sorted(
        (path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in home.iterdir()
    )
    assert title(home)[TitleSource.AGENT] == "Left"
    after = sorted(
        (path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in home.iterdir()
    )
    assert after == before


def test_database_names_the_current_file_of_a_reverted_session(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    first = session(1)
    first.write(tmp_path)
    later = session(1, first=first.ordinal, history_base=first.base())
    later.write(tmp_path, rollout=thread(9), minute=5)
    assert len(entries_of(read_sessions(IMPORTER, home)[0])) == 6
    db = database(home)
    db.execute("INSERT INTO threads(id, rollout_path) VALUES(?, ?)", (thread(1), first.name()))
    db.close()
    sources = read_sessions(IMPORTER, home)
    assert [len(entries_of(source)) for source in sources] == [3, 6]


# -- the user's own text ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("Hello", "Hello"),
        (" Hello\n", " Hello\n"),
        ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", ""),
        ("  <user_instructions>\nx\n</user_instructions>\n", ""),
        ("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>", ""),
        ("# AGENTS.md instructions are wrong", "# AGENTS.md instructions are wrong"),
        ("What is <environment_context>?", "What is <environment_context>?"),
        ('<hook_prompt hook_run_id="x">y</hook_prompt>', ""),
        ("# Context from my IDE setup:\n## My request for Codex:\n Go ", "Go"),
    ],
)
def test_own_text_removes_context(text: str, own: str) -> None:
    assert own_text(text) == own


def test_prompt_may_consist_of_an_image_only(tmp_path: Path) -> None:
    file = CodexFile()
    file.event("user_message", message="", images=["data:image/jpeg;base64,AAAA"])
    file.message("user", text("x"))
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    assert b'"mimeType":"image/jpeg"' in entries_of(source)[0].line
