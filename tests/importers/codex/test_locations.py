"""Where Codex keeps its sessions, what it calls them, and which files are read at all."""

import json
import shutil
from pathlib import Path

import apsw
import pytest

from codex_files import CWD, SESSION, CodexFile, text, thread, write_file
from codex_sessions import bare, legacy
from importer_results import entries_of, talks_of, told
from other_user import as_stranger
from rekindle.importers.base import ImportNotes
from rekindle.importers.codex.locations import folders
from rekindle.importers.codex.session import IMPORTER
from rekindle.importers.codex.user_text import own_text
from rekindle.model import TitleSource


def session(number: int = 1, **meta: object) -> CodexFile:
    it = CodexFile(thread(number), mode="paginated", **meta)
    it.turn(number)
    return it


def test_where_it_keeps_its_sessions() -> None:
    home = Path("/home/user")
    assert folders({}, home) == [home / ".codex"]
    assert folders({"CODEX_HOME": "/c"}, home) == [Path("/c")]


def test_a_session_stays_where_it_was_begun(tmp_path: Path) -> None:
    """It is the same one when its file is archived, or compressed, or both."""
    it = session()
    home = tmp_path / ".codex"
    path = it.write(tmp_path)
    places = [found.location for found in IMPORTER.find(home, None)]
    assert places == [str(path)]
    hashes = {
        talk.incoming.origin.sha256 for talk in talks_of(IMPORTER, home) if talk.incoming.origin
    }
    for is_archived, is_compressed in ((True, False), (True, True), (False, True)):
        path.unlink()
        path = it.write(tmp_path, is_archived=is_archived, is_compressed=is_compressed)
        for named in (home, path, path.parent):
            assert [found.location for found in IMPORTER.find(named, None)] == places
        (talk,) = talks_of(IMPORTER, home)
        assert talk.incoming.origin
        hashes.add(talk.incoming.origin.sha256)
    assert len(hashes) == 1


def test_what_is_about_to_be_compressed_is_one_session(tmp_path: Path) -> None:
    for is_archived in (False, True):
        it = session()
        it.write(tmp_path, is_compressed=True)
        it.turn(2)
        path = it.write(tmp_path, is_archived=is_archived)
        (talk,) = talks_of(IMPORTER, tmp_path / ".codex")
        assert told(talk)[-1] == "Answer 2"
        path.unlink()


def test_only_sessions_of_a_project_are_looked_into(tmp_path: Path) -> None:
    session(1).write(tmp_path)
    session(2, cwd='/home/user/"other"').write(tmp_path, is_compressed=True)
    home = tmp_path / ".codex"
    assert len(list(IMPORTER.find(home, None))) == 2
    for number, cwd in ((1, CWD), (2, '/home/user/"other"')):
        (found,) = IMPORTER.find(home, cwd)
        assert thread(number) in found.path.name
    assert list(IMPORTER.find(home, "/home/user")) == []


def test_sub_agents_are_known_at_once(tmp_path: Path) -> None:
    session(1).write(tmp_path)
    session(2, source={"subagent": "review"}).write(tmp_path)
    session(3, parent_thread_id=thread(1)).write(tmp_path)
    assert [it.is_child for it in IMPORTER.find(tmp_path / ".codex", None)] == [False, True, True]


@pytest.mark.parametrize("is_archived", [True, False])
def test_what_is_archived(tmp_path: Path, *, is_archived: bool) -> None:
    folder = tmp_path / "archived_sessions"
    path = session().write(folder, is_archived=is_archived)
    assert [it.is_archived for it in talks_of(IMPORTER, path)] == [is_archived]


def test_a_session_may_move_while_others_are_found(tmp_path: Path) -> None:
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
    # One that is gone keeps no other out.
    assert [thread(3) in it.path.name for it in found] == [True]


def test_a_folder_that_cannot_be_read_keeps_no_other_out(open_folder: Path) -> None:
    session(1).write(open_folder)
    hidden = session(2).write(open_folder, is_archived=True).parent
    hidden.chmod(0)
    with as_stranger():
        sound, refused = IMPORTER.find(open_folder / ".codex", None)
        assert thread(1) in sound.path.name
        assert (refused.path, refused.error) == (hidden, "Permission denied")
        # In a folder that is not Codex's, this means nothing.
        other = open_folder / "other"
    other.mkdir()
    (other / "secret").mkdir(mode=0)
    with as_stranger():
        assert list(IMPORTER.find(other, None)) == []
    hidden.chmod(0o755)


def test_old_files_lie_in_one_folder(tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "sessions" / CodexFile().name()
    path.parent.mkdir(parents=True)
    write_file(path, b"\n".join(bare()))
    (found,) = IMPORTER.find(tmp_path / ".codex", None)
    assert found.location == str(path)
    (talk,) = IMPORTER.read(found, ImportNotes())
    assert talk.folder == talk.incoming.cwd == CWD


def test_a_file_may_have_any_name_if_somebody_names_it(tmp_path: Path) -> None:
    for name in ("mine.jsonl", "mine.jsonl.zst"):
        path = write_file(tmp_path / "mine.jsonl", legacy().data(), is_compressed="zst" in name)
        (talk,) = talks_of(IMPORTER, path)
        assert talk.incoming.id == SESSION
    assert list(IMPORTER.find(tmp_path, None)) == []


def test_what_is_not_its_own_is_left_alone(tmp_path: Path) -> None:
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


# -- what a session begins with -----------------------------------------------------------------


def test_a_session_that_begins_with_itself_is_told_once(tmp_path: Path) -> None:
    first = session(1)
    second = session(2, history_base=first.base())
    first = session(1, history_base=second.base())
    for number, path in enumerate((first.write(tmp_path), second.write(tmp_path)), 1):
        notes = ImportNotes()
        (talk,) = talks_of(IMPORTER, path, notes)
        assert told(talk)[-2:] == [f"Question {number}", f"Answer {number}"]
        assert notes.skipped["what a session begins with begins with itself"] == 1


def test_a_session_may_begin_in_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = session(1)
    for number in range(2, 40):
        it.write(tmp_path, is_compressed=number % 2 == 0)
        it = session(number, first=it.ordinal, history_base=it.base())
    path = it.write(tmp_path)
    words = [f"{kind} {number}" for number in range(1, 40) for kind in ("Question", "Answer")]
    assert told(talks_of(IMPORTER, path)[0]) == words
    monkeypatch.setattr("rekindle.importers.codex.locations._MAX_HISTORY_LINKS", 3)
    notes = ImportNotes()
    assert told(talks_of(IMPORTER, path, notes)[0]) == words[-8:]
    assert notes.skipped == {"what a session begins with is in too many files": 1}


def test_a_base_that_goes_away_meanwhile_is_told(tmp_path: Path) -> None:
    first = session(1)
    path = first.write(tmp_path)
    found, _ = IMPORTER.find(session(2, history_base=first.base()).write(tmp_path).parent, None)
    _, found = IMPORTER.find(path.parent, None)
    path.unlink()
    notes = ImportNotes()
    (talk,) = IMPORTER.read(found, notes)
    assert told(talk) == ["Question 2", "Answer 2"]
    assert notes.skipped == {"what a session begins with cannot be read": 1}


def test_the_first_lines_of_a_base_may_be_torn(tmp_path: Path) -> None:
    first = session(1)
    first.lines[0] = b"x" * len(first.lines[0])
    first.write(tmp_path)
    path = session(2, first=first.ordinal, history_base=first.base()).write(tmp_path)
    notes = ImportNotes()
    (talk,) = talks_of(IMPORTER, path, notes)
    assert told(talk) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]
    assert notes.skipped == {"a line is no JSON": 1}


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ({"thread_id": thread(7)}, "what a session begins with is in a file that is gone"),
        ({"thread_id": "../../secret"}, "what a session begins with is in a file that is gone"),
        (
            {"thread_id": thread(1), "end_byte_offset": 1_000_000},
            "what a session begins with is shorter than it was",
        ),
    ],
)
def test_what_is_missing_is_told(tmp_path: Path, base: dict[str, object], reason: str) -> None:
    session(1).write(tmp_path)
    path = session(2, history_base=base).write(tmp_path)
    notes = ImportNotes()
    (talk,) = talks_of(IMPORTER, path, notes)
    assert told(talk)[-2:] == ["Question 2", "Answer 2"]
    assert notes.skipped == {reason: 1}


def test_a_base_that_goes_on_is_not_followed_further(tmp_path: Path) -> None:
    first = session(1)
    base = first.base()
    first.turn(8)
    first.write(tmp_path)
    path = session(2, first=first.ordinal, history_base=base).write(tmp_path)
    words = ["Question 1", "Answer 1", "Question 2", "Answer 2"]
    assert told(talks_of(IMPORTER, path)[0]) == words
    # Numbers were given twice by some versions.
    session(2, first=3, history_base={**base, "end_ordinal_exclusive": 1}).write(tmp_path)
    assert told(talks_of(IMPORTER, path)[0]) == words
    # Where only one of both is told, that counts.
    for name in ("end_byte_offset", "end_ordinal_exclusive"):
        told_once = {key: value for key, value in base.items() if key != name}
        session(2, first=first.ordinal, history_base=told_once).write(tmp_path)
        assert told(talks_of(IMPORTER, path)[0]) == words


# -- titles -------------------------------------------------------------------------------------


def database(home: Path, name: str = "state_5.sqlite") -> apsw.Connection:
    home.mkdir(exist_ok=True)
    db = apsw.Connection(str(home / name))
    db.execute("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0")
    db.execute("CREATE TABLE threads(id TEXT, title TEXT, first_user_message TEXT, name TEXT)")
    db.execute("ALTER TABLE threads ADD COLUMN rollout_path TEXT")
    return db


def title(home: Path, notes: ImportNotes | None = None) -> dict[TitleSource, str]:
    return talks_of(IMPORTER, home, notes)[0].incoming.titles


def test_titles_by_their_rank(tmp_path: Path) -> None:
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
    before = sorted((it.name, it.stat().st_mtime_ns, it.stat().st_size) for it in home.iterdir())
    assert title(home) == {**prompt, TitleSource.AGENT: "Made"}
    after = sorted((it.name, it.stat().st_mtime_ns, it.stat().st_size) for it in home.iterdir())
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


def test_the_newest_database_counts(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    session(1).write(tmp_path)
    for name, words in (("state_9.sqlite", "Old"), ("state_10.sqlite", "New")):
        db = database(home, name)
        db.execute("INSERT INTO threads(id, name) VALUES(?, ?)", (thread(1), words))
        db.close()
    assert title(home)[TitleSource.AGENT] == "New"


def test_a_database_that_cannot_be_read_is_told(tmp_path: Path) -> None:
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


def test_titles_may_be_damaged(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    session(1).write(tmp_path)
    db = database(home)
    db.execute("INSERT INTO threads(id, title) VALUES(?, CAST(x'41FF' AS TEXT))", (thread(1),))
    db.close()
    assert title(home)[TitleSource.AGENT] == "A\N{REPLACEMENT CHARACTER}"


def test_titles_that_a_crash_has_left_in_a_log_are_read(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    session(1).write(tmp_path)
    (tmp_path / "live").mkdir()
    db = database(tmp_path / "live")
    db.execute("INSERT INTO threads(id, name) VALUES(?, 'Left')", (thread(1),))
    for name in ("state_5.sqlite", "state_5.sqlite-wal"):
        shutil.copy(tmp_path / "live" / name, home)
    db.close()
    before = sorted((it.name, it.stat().st_mtime_ns, it.stat().st_size) for it in home.iterdir())
    assert title(home)[TitleSource.AGENT] == "Left"
    after = sorted((it.name, it.stat().st_mtime_ns, it.stat().st_size) for it in home.iterdir())
    assert after == before


def test_the_database_says_which_file_a_reverted_session_goes_on_with(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    first = session(1)
    first.write(tmp_path)
    later = session(1, first=first.ordinal, history_base=first.base())
    later.write(tmp_path, rollout=thread(9), minute=5)
    assert len(entries_of(talks_of(IMPORTER, home)[0])) == 6
    db = database(home)
    db.execute("INSERT INTO threads(id, rollout_path) VALUES(?, ?)", (thread(1), first.name()))
    db.close()
    talks = talks_of(IMPORTER, home)
    assert [len(entries_of(talk)) for talk in talks] == [3, 6]


# -- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "own"),
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
def test_what_is_the_users_own(words: str, own: str) -> None:
    assert own_text(words) == own


def test_a_picture_alone_is_a_prompt(tmp_path: Path) -> None:
    it = CodexFile()
    it.event("user_message", message="", images=["data:image/jpeg;base64,AAAA"])
    it.message("user", text("x"))
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    assert b'"mimeType":"image/jpeg"' in entries_of(talk)[0].line
