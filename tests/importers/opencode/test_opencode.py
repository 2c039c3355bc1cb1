"""OpenCode's database and files: every type of record, every trap, and how they go on."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from importer_results import entries_of, settled_of, talks_of, told, written_down
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
from rekindle.importers.base import Notes, Talk
from rekindle.importers.line_reader import LONGEST
from rekindle.importers.opencode import TOOL
from rekindle.model import Entry
from rekindle.transcript.model import ToolCallItem
from test_selection import some

GOLDEN = Path(__file__).parents[1] / "golden"


def reverted() -> OpenCode:
    """Return a session of which the user has taken back the last two turns."""
    it = OpenCode()
    for number in (1, 2, 3):
        it.turn(number)
    it.fields["revert"] = {"messageID": it.messages[2].id, "snapshot": "5a"}
    return it


def reverted_in_a_message() -> OpenCode:
    it = OpenCode()
    it.turn(1)
    it.user(said("Go on"))
    it.agent(said("First."), called("bash", {"command": "ls"}), said("Second."))
    parts = list(it.messages[-1].parts)
    it.fields["revert"] = {"messageID": it.messages[-1].id, "partID": parts[1]}
    return it


def children(home: Path) -> Path:
    """Write a session with one of a sub-agent, one that is put away, and one without words."""
    path = home / "opencode.db"
    it = OpenCode(archived=BEGIN)
    it.user(said("Do it"))
    it.agent(called("task", {"description": "Help"}, "Helped", sessionId="ses_0002"), said("Done"))
    it.to_database(path)
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
def test_what_is_made_of_it(name: str, tmp_path: Path, *, update: bool) -> None:
    golden = GOLDEN / f"opencode-{name}.txt"
    made = written_down(TOOL, CASES[name](tmp_path), str(tmp_path))
    if update:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


def test_a_compaction_that_came_to_nothing_is_not_told_as_one(tmp_path: Path) -> None:
    it = OpenCode()
    it.turn(1)
    for name, words in (("APIError", "Overloaded"), ("MessageAbortedError", "Aborted")):
        it.user({"type": "compaction", "auto": False})
        error = {"name": name, "data": {"message": words}}
        it.agent(said("We did"), summary=True, finish=None, error=error)
    it.user(said("Go on"))
    it.agent(summary=True, finish=None, error={"name": "APIError", "data": {"message": "Again"}})
    it.user({"type": "compaction", "auto": False})
    (talk,) = talks_of(TOOL, it.to_database(tmp_path / "opencode.db"))
    lines = b"\n".join(entry.line for entry in entries_of(talk))
    assert b"was compacted here" not in lines
    assert lines.count(b"ended with an error: Overloaded") == 1
    assert lines.count(b"ended with an error: Again") == 1
    it.agent(said("All until here."), summary=True)
    (talk,) = talks_of(TOOL, it.to_database(tmp_path / "later.db"))
    lines = b"\n".join(entry.line for entry in entries_of(talk))
    assert lines.count(b"was compacted here") == 1


# -- the same in all places ---------------------------------------------------------------------


@pytest.mark.parametrize("make", [everything, damaged, reverted])
def test_files_and_the_database_tell_the_same(make: Callable[[], OpenCode], tmp_path: Path) -> None:
    database = talks_of(TOOL, make().to_database(tmp_path / "opencode.db"))
    in_files = talks_of(TOOL, make().to_tree(tmp_path / "a"))
    in_first = talks_of(TOOL, make().to_first_tree(tmp_path / "b"))
    assert [entries_of(it) for it in in_files] == [entries_of(it) for it in database]
    assert in_files[0].arrived.titles == database[0].arrived.titles
    assert in_files[0].arrived.cwd == in_first[0].arrived.cwd == database[0].arrived.cwd
    # Without a list of what is to be done.
    plan = [it for it in entries_of(database[0]) if b'"Rest"' not in it.line]
    assert [it.line for it in entries_of(in_first[0])] == [it.line for it in plan]


def test_what_was_taken_over_into_the_database_is_there_once(tmp_path: Path) -> None:
    it = OpenCode()
    it.turn(1)
    it.to_first_tree(tmp_path)
    it.to_tree(tmp_path)
    old = OpenCode("ses_0002")
    old.turn(2)
    old.to_first_tree(tmp_path)
    assert [found.path.parent.name for found in TOOL.find(tmp_path, None)] == ["abc", "info"]
    it.to_database(tmp_path / "opencode.db")
    found = list(TOOL.find(tmp_path, None))
    assert [(it.path.name, it.part) for it in found] == [
        ("opencode.db", SESSION),
        ("ses_0002.json", ""),
    ]


def test_what_the_newest_version_has_added_comes_after_the_rest(tmp_path: Path) -> None:
    it = OpenCode()
    it.event("user", text="Question 1")
    it.turn(1)
    it.event("user", text="Question 2")
    it.event("assistant", content=[{"type": "text", "text": "Answer 2"}], finish="stop")
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_an_older_database_has_fewer_tables_and_columns(tmp_path: Path) -> None:
    it = OpenCode()
    it.turn(1)
    path = it.to_database(tmp_path / "opencode.db")
    db = open_database(path)
    for statement in (
        # So it was for some weeks.
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
        assert told(talks_of(TOOL, path)[0]) == ["Question 1", "Answer 1"], statement
    db.execute("drop table part")
    assert talks_of(TOOL, path) == []
    db.close()


def test_messages_are_in_order_of_time_and_then_of_their_ids(tmp_path: Path) -> None:
    it = OpenCode()
    it.turn(1)
    it.turn(2)
    # Names are made of the time, but begin anew every two years.
    it.messages[0].id, it.messages[1].id = "msg_fff", "msg_ffg"
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


# -- how a session goes on ------------------------------------------------------------------------


def states_of(whole: OpenCode) -> Iterator[OpenCode]:
    """Yield a session as it was whenever a part of it was begun or done, or a message."""
    for count, last in enumerate(whole.messages):
        named = list(last.parts.items())
        for number in range(len(named) + 1):
            done, (*begun,) = dict(named[:number]), named[number : number + 1]
            it = OpenCode(whole.id, **whole.fields)
            it.number = count
            for parts in (done, {**done, **{name: undone(part) for name, part in begun}}):
                message = Message(last.id, last.at, unfinished(last.data), parts)
                it.messages = [*whole.messages[:count], message]
                yield it
        it.messages = whole.messages[: count + 1]
        yield it


def undone(part: Json) -> Json:
    """Return a part as it is while the agent is at it."""
    if part["type"] == "tool":
        return {**part, "state": {"status": "running", "input": {}}}
    return {**part, "text": part["text"][:3]} if "text" in part else part


def unfinished(message: Json) -> Json:
    if message["role"] == "user":
        return message
    time = {"created": message["time"]["created"]}
    ends = ("time", "finish", "error")
    return {"time": time, **{name: it for name, it in message.items() if name not in ends}}


def test_a_session_that_grows_begins_with_what_was_told_before(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    db = open_database(path)
    before: list[Entry] = []
    for number, state in enumerate(states_of(everything())):
        db.execute("delete from part; delete from message")
        state.into(db)
        talks = talks_of(TOOL, path)
        entries = entries_of(talks[0]) if talks else []
        assert entries[: len(before)] == before, f"state {number}"
        before = settled_of(talks[0]) if talks else []
    assert len(before) > 60
    db.close()


def test_what_is_being_said_is_told_for_the_time_being(tmp_path: Path) -> None:
    it = OpenCode()
    it.turn(1)
    it.user(said("Wait"))
    it.agent(said("I am"), running("bash", {"command": "sleep 9"}), finish=None)
    it.messages[-1].data["time"].pop("completed")
    # Typed meanwhile: nothing is settled by that.
    it.user(said("Hurry"))
    (talk,) = talks_of(TOOL, it.to_database(tmp_path / "opencode.db"))
    assert len(settled_of(talk)) == 4
    *_, wait, words, call, hurry = told(talk)
    assert (wait, words, hurry) == ("Wait", "I am", "Hurry")
    assert isinstance(call, ToolCallItem)
    assert call.fields["status"] == "failed"


@pytest.mark.parametrize("at", [1e307, -1, 1e18, "then", None])
def test_times_may_be_none(at: object, tmp_path: Path) -> None:
    it = OpenCode()
    it.turn(1)
    it.messages[0].data["time"] = {"created": at}
    it.messages[1].data["time"] = {"created": at, "completed": at}
    it.messages[1].parts["prt_z"] = {**called("bash", {}), "time": {"start": at}}
    it.messages[1].parts["prt_z"]["state"]["time"] = {"start": at, "end": at}
    path = it.to_tree(tmp_path)
    path.write_text(path.read_text().replace(str(BEGIN), json.dumps(at)))
    for talk in (first(path), first(it.to_database(tmp_path / "opencode.db"))):
        assert talk.arrived.created_us in {0, BEGIN * 1000}
        assert told(talk)[:2] == ["Question 1", "Answer 1"]


# -- torn rows and files --------------------------------------------------------------------------


def test_a_torn_message_takes_no_other_with_it(tmp_path: Path) -> None:
    it = OpenCode()
    for number in (1, 2, 3):
        it.turn(number)
    it.messages[2].data = '{"role":"us'
    words = ["Question 1", "Answer 1", "Answer 2", "Question 3", "Answer 3"]
    assert told_of(it, tmp_path) == words
    assert told(first(it.to_tree(tmp_path))) == words


def test_a_part_that_is_too_large_takes_no_other_with_it(tmp_path: Path) -> None:
    it = OpenCode()
    it.turn(1)
    it.agent(called("bash", {"command": "yes"}, "y" * LONGEST), said("Enough."))
    for path in (it.to_database(tmp_path / "opencode.db"), it.to_tree(tmp_path)):
        notes = Notes()
        (talk,) = talks_of(TOOL, path, notes)
        assert told(talk) == ["Question 1", "Answer 1", "Enough."]
        assert notes.skipped == {"a part of a message is torn, or too large": 1}


@settings(max_examples=some(50))
@given(st.data())
def test_a_torn_part_keeps_nothing_else_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    it = OpenCode()
    for number in range(4):
        it.turn(number)
        it.messages[-1].parts[f"prt_y{number}"] = called("bash", {"command": "ls"}, "a\nb")
    which = data.draw(st.integers(0, len(it.messages) - 1))
    message = it.messages[which]
    name = data.draw(st.sampled_from([*message.parts, ""]))
    record = message.parts[name] if name else message.data
    words = json.dumps(record)
    at, length = data.draw(st.integers(0, len(words) - 1)), data.draw(st.integers(1, 40))
    torn = words[:at] + data.draw(st.text(st.characters(codec="utf-8"), max_size=20))
    torn += words[at + length :] if data.draw(st.booleans()) else ""
    if name:
        message.parts[name] = torn
    else:
        message.data = torn
    home = tmp_path_factory.mktemp("x")
    talks = talks_of(TOOL, it.to_database(home / "opencode.db"))
    entries = next(entries_of(talk) for talk in talks)
    before = OpenCode()
    before.messages = it.messages[:which]
    sure = [settled_of(talk) for talk in talks_of(TOOL, before.to_database(home / "before.db"))]
    assert entries[: len(sure[0]) if sure else 0] == (sure[0] if sure else [])
    assert [entries_of(talk) for talk in talks_of(TOOL, it.to_tree(home))] == [entries]


@settings(max_examples=some(50))
@given(st.data())
def test_a_database_with_changed_bytes_is_never_fatal(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    it = OpenCode()
    for number in range(30):
        it.turn(number)
    path = it.to_database(tmp_path_factory.mktemp("x") / "opencode.db")
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.binary(min_size=1, max_size=200))
    whole[at : at + len(change)] = change
    path.write_bytes(bytes(whole[: data.draw(st.sampled_from([len(whole), at]))]))
    notes = Notes()
    for found in TOOL.find(path, None):
        try:
            for talk in TOOL.read(found, notes):
                entries_of(talk)
        except OSError as error:
            assert "database" in str(error)  # noqa: PT017 - not each of them raises


def told_of(it: OpenCode, home: Path) -> list[object]:
    return told(first(it.to_database(home / "opencode.db")))


def first(path: Path) -> Talk:
    return next(iter(talks_of(TOOL, path)))
