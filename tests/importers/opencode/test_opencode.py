"""OpenCode's database and files: every type of record, every trap, and growth."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from importer_results import describe_import, entries_of, items_of, read_sessions, settled_entries
from opencode_files import (
    BEGIN,
    SESSION,
    Json,
    Message,
    OpenCode,
    called,
    damaged,
    everything,
    first_version,
    newest,
    open_database,
    running,
    said,
)
from rekindle.importers.base import ImportNotes, SourceSession
from rekindle.importers.line_reader import MAX_LINE_BYTES
from rekindle.importers.opencode.session import IMPORTER
from rekindle.model import Entry
from rekindle.transcript.model import ToolCallItem
from selection import some

GOLDEN = Path(__file__).parents[1] / "golden"


def reverted() -> OpenCode:
    """Return a session in which the user has reverted the last two turns."""
    session = OpenCode()
    for number in (1, 2, 3):
        session.turn(number)
    session.fields["revert"] = {"messageID": session.messages[2].id, "snapshot": "5a"}
    return session


def reverted_in_a_message() -> OpenCode:
    session = OpenCode()
    session.turn(1)
    session.user(said("Go on"))
    session.agent(said("First."), called("bash", {"command": "ls"}), said("Second."))
    parts = list(session.messages[-1].parts)
    session.fields["revert"] = {"messageID": session.messages[-1].id, "partID": parts[1]}
    return session


def children(home: Path) -> Path:
    """Write a session with a sub-agent, an archived session, and an empty one."""
    path = home / "opencode.db"
    session = OpenCode(archived=BEGIN)
    session.user(said("Do it"))
    session.agent(
        called("task", {"description": "Help"}, "Helped", sessionId="ses_0002"), said("Done")
    )
    session.to_database(path)
    child = OpenCode("ses_0002", parentID=SESSION, title="Child session - 2025-10-09T08:53:20.000Z")
    child.turn(1)
    child.to_database(path)
    OpenCode("ses_0003").to_database(path)
    return path


def database_of(make: Callable[[], OpenCode]) -> Callable[[Path], Path]:
    return lambda home: make().to_database(home / "opencode.db")


CASES: dict[str, Callable[[Path], Path]] = {
    "everything": database_of(everything),
    "newest": database_of(newest),
    "first": lambda home: first_version().to_first_tree(home),
    "reverted": database_of(reverted),
    "reverted-in-a-message": database_of(reverted_in_a_message),
    "children": children,
    "damaged": database_of(damaged),
}


@pytest.mark.parametrize("name", CASES)
def test_import_matches_golden_file(name: str, tmp_path: Path, *, update: bool) -> None:
    golden = GOLDEN / f"opencode-{name}.txt"
    made = describe_import(IMPORTER, CASES[name](tmp_path), str(tmp_path))
    if update:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


def test_failed_compaction_is_not_marked(tmp_path: Path) -> None:
    session = OpenCode()
    session.turn(1)
    for name, texts in (("APIError", "Overloaded"), ("MessageAbortedError", "Aborted")):
        session.user({"type": "compaction", "auto": False})
        error = {"name": name, "data": {"message": texts}}
        session.agent(said("We did"), summary=True, finish=None, error=error)
    session.user(said("Go on"))
    session.agent(
        summary=True, finish=None, error={"name": "APIError", "data": {"message": "Again"}}
    )
    session.user({"type": "compaction", "auto": False})
    (source,) = read_sessions(IMPORTER, session.to_database(tmp_path / "opencode.db"))
    lines = b"\n".join(entry.line for entry in entries_of(source))
    assert b"was compacted here" not in lines
    assert lines.count(b"ended with an error: Overloaded") == 1
    assert lines.count(b"ended with an error: Again") == 1
    session.agent(said("All until here."), summary=True)
    (source,) = read_sessions(IMPORTER, session.to_database(tmp_path / "later.db"))
    lines = b"\n".join(entry.line for entry in entries_of(source))
    assert lines.count(b"was compacted here") == 1


# -- databases and files ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [everything, damaged, reverted])
def test_files_and_database_produce_the_same_entries(
    make: Callable[[], OpenCode], tmp_path: Path
) -> None:
    database = read_sessions(IMPORTER, make().to_database(tmp_path / "opencode.db"))
    in_files = read_sessions(IMPORTER, make().to_tree(tmp_path / "a"))
    in_first = read_sessions(IMPORTER, make().to_first_tree(tmp_path / "b"))
    assert [entries_of(source) for source in in_files] == [
        entries_of(source) for source in database
    ]
    assert in_files[0].incoming.titles == database[0].incoming.titles
    assert in_files[0].incoming.cwd == in_first[0].incoming.cwd == database[0].incoming.cwd
    # The first tree has no to-do lists.
    plan = [entry for entry in entries_of(database[0]) if b'"Rest"' not in entry.line]
    assert [entry.line for entry in entries_of(in_first[0])] == [entry.line for entry in plan]


def test_migrated_session_is_found_once(tmp_path: Path) -> None:
    session = OpenCode()
    session.turn(1)
    session.to_first_tree(tmp_path)
    session.to_tree(tmp_path)
    old = OpenCode("ses_0002")
    old.turn(2)
    old.to_first_tree(tmp_path)
    assert [found.path.parent.name for found in IMPORTER.find(tmp_path, None)] == ["abc", "info"]
    session.to_database(tmp_path / "opencode.db")
    found = list(IMPORTER.find(tmp_path, None))
    assert [(hit.path.name, hit.part) for hit in found] == [
        ("opencode.db", SESSION),
        ("ses_0002.json", ""),
    ]


def test_messages_of_the_newest_version_come_last(tmp_path: Path) -> None:
    session = OpenCode()
    session.event("user", text="Question 1")
    session.turn(1)
    session.event("user", text="Question 2")
    session.event("assistant", content=[{"type": "text", "text": "Answer 2"}], finish="stop")
    assert items_in(session, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_older_database_may_lack_tables_and_columns(tmp_path: Path) -> None:
    session = OpenCode()
    session.turn(1)
    path = session.to_database(tmp_path / "opencode.db")
    db = open_database(path)
    for statement in (
        # Some versions had this table without an order.
        "drop index session_message_session_seq_idx",
        "alter table session_message drop column seq",
        "alter table session drop column time_archived",
        "alter table session drop column tokens_input",
        "alter table todo drop column time_updated",
        "drop index message_session_time_created_id_idx",
        "drop index part_message_id_id_idx",
        "drop table todo",
        "drop table session_message",
    ):
        db.execute(statement)
        assert items_of(read_sessions(IMPORTER, path)[0]) == ["Question 1", "Answer 1"], statement
    db.execute("drop table part")
    assert read_sessions(IMPORTER, path) == []
    db.close()


def test_messages_are_ordered_by_time_and_id(tmp_path: Path) -> None:
    session = OpenCode()
    session.turn(1)
    session.turn(2)
    # Ids start with the time, but they wrap around every two years.
    session.messages[0].id, session.messages[1].id = "msg_fff", "msg_ffg"
    assert items_in(session, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


# -- growth ---------------------------------------------------------------------------------------


def states_of(whole: OpenCode) -> Iterator[OpenCode]:
    """Yield all states of a session: before and after each part and each message."""
    for count, last in enumerate(whole.messages):
        named = list(last.parts.items())
        for number in range(len(named) + 1):
            done, (*begun,) = dict(named[:number]), named[number : number + 1]
            value = OpenCode(whole.id, **whole.fields)
            value.number = count
            for parts in (done, {**done, **{name: undone(part) for name, part in begun}}):
                message = Message(last.id, last.at, unfinished(last.data), parts)
                value.messages = [*whole.messages[:count], message]
                yield value
        value.messages = whole.messages[: count + 1]
        yield value


def undone(part: Json) -> Json:
    """Return a part while the agent is still working on it."""
    if part["type"] == "tool":
        return {**part, "state": {"status": "running", "input": {}}}
    return {**part, "text": part["text"][:3]} if "text" in part else part


def unfinished(message: Json) -> Json:
    if message["role"] == "user":
        return message
    time = {"created": message["time"]["created"]}
    ends = ("time", "finish", "error")
    return {"time": time, **{name: item for name, item in message.items() if name not in ends}}


def test_growing_session_keeps_its_settled_entries(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    db = open_database(path)
    before: list[Entry] = []
    for number, state in enumerate(states_of(everything())):
        db.execute("delete from part; delete from message")
        state.into(db)
        sources = read_sessions(IMPORTER, path)
        entries = entries_of(sources[0]) if sources else []
        assert entries[: len(before)] == before, f"state {number}"
        before = settled_entries(sources[0]) if sources else []
    assert len(before) > 60
    db.close()


def test_unfinished_answer_is_provisional(tmp_path: Path) -> None:
    session = OpenCode()
    session.turn(1)
    session.user(said("Wait"))
    session.agent(said("I am"), running("bash", {"command": "sleep 9"}), finish=None)
    session.messages[-1].data["time"].pop("completed")
    # A prompt that is typed meanwhile settles nothing.
    session.user(said("Hurry"))
    (source,) = read_sessions(IMPORTER, session.to_database(tmp_path / "opencode.db"))
    assert len(settled_entries(source)) == 4
    *_, wait, texts, call, hurry = items_of(source)
    assert (wait, texts, hurry) == ("Wait", "I am", "Hurry")
    assert isinstance(call, ToolCallItem)
    assert call.fields["status"] == "failed"


@pytest.mark.parametrize("at", [1e307, -1, 1e18, "then", None])
def test_invalid_times_are_ignored(at: object, tmp_path: Path) -> None:
    session = OpenCode()
    session.turn(1)
    session.messages[0].data["time"] = {"created": at}
    session.messages[1].data["time"] = {"created": at, "completed": at}
    session.messages[1].parts["prt_z"] = {**called("bash", {}), "time": {"start": at}}
    session.messages[1].parts["prt_z"]["state"]["time"] = {"start": at, "end": at}
    path = session.to_tree(tmp_path)
    path.write_text(path.read_text().replace(str(BEGIN), json.dumps(at)))
    for source in (first(path), first(session.to_database(tmp_path / "opencode.db"))):
        assert source.incoming.created_us in {0, BEGIN * 1000}
        assert items_of(source)[:2] == ["Question 1", "Answer 1"]


# -- damaged rows and files -----------------------------------------------------------------------


def test_damaged_message_does_not_affect_others(tmp_path: Path) -> None:
    session = OpenCode()
    for number in (1, 2, 3):
        session.turn(number)
    session.messages[2].data = '{"role":"us'
    texts = ["Question 1", "Answer 1", "Answer 2", "Question 3", "Answer 3"]
    assert items_in(session, tmp_path) == texts
    assert items_of(first(session.to_tree(tmp_path))) == texts


def test_too_large_part_does_not_affect_others(tmp_path: Path) -> None:
    session = OpenCode()
    session.turn(1)
    session.agent(called("bash", {"command": "yes"}, "y" * MAX_LINE_BYTES), said("Enough."))
    for path in (session.to_database(tmp_path / "opencode.db"), session.to_tree(tmp_path)):
        notes = ImportNotes()
        (source,) = read_sessions(IMPORTER, path, notes)
        assert items_of(source) == ["Question 1", "Answer 1", "Enough."]
        assert notes.skipped == {"a part of a message is incomplete or too large": 1}


@settings(max_examples=some(50))
@given(st.data())
def test_damaged_part_does_not_affect_others(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    session = OpenCode()
    for number in range(4):
        session.turn(number)
        session.messages[-1].parts[f"prt_y{number}"] = called("bash", {"command": "ls"}, "a\nb")
    which = data.draw(st.integers(0, len(session.messages) - 1))
    message = session.messages[which]
    name = data.draw(st.sampled_from([*message.parts, ""]))
    record = message.parts[name] if name else message.data
    texts = json.dumps(record)
    at, length = data.draw(st.integers(0, len(texts) - 1)), data.draw(st.integers(1, 40))
    torn = texts[:at] + data.draw(st.text(st.characters(codec="utf-8"), max_size=20))
    torn += texts[at + length :] if data.draw(st.booleans()) else ""
    if name:
        message.parts[name] = torn
    else:
        message.data = torn
    home = tmp_path_factory.mktemp("x")
    sources = read_sessions(IMPORTER, session.to_database(home / "opencode.db"))
    entries = next(entries_of(source) for source in sources)
    before = OpenCode()
    before.messages = session.messages[:which]
    settled = [
        settled_entries(source)
        for source in read_sessions(IMPORTER, before.to_database(home / "before.db"))
    ]
    assert entries[: len(settled[0]) if settled else 0] == (settled[0] if settled else [])
    assert [entries_of(source) for source in read_sessions(IMPORTER, session.to_tree(home))] == [
        entries
    ]


@settings(max_examples=some(50))
@given(st.data())
def test_changed_bytes_in_a_database_are_not_fatal(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    session = OpenCode()
    for number in range(30):
        session.turn(number)
    path = session.to_database(tmp_path_factory.mktemp("x") / "opencode.db")
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.binary(min_size=1, max_size=200))
    whole[at : at + len(change)] = change
    path.write_bytes(bytes(whole[: data.draw(st.sampled_from([len(whole), at]))]))
    notes = ImportNotes()
    for found in IMPORTER.find(path, None):
        try:
            for source in IMPORTER.read(found, notes):
                entries_of(source)
        except OSError as error:
            assert "database" in str(error)  # noqa: PT017 - not each of them raises


def items_in(session: OpenCode, home: Path) -> list[object]:
    return items_of(first(session.to_database(home / "opencode.db")))


def first(path: Path) -> SourceSession:
    return next(iter(read_sessions(IMPORTER, path)))
