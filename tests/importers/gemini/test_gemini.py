"""Gemini CLI's files: every type of record, every trap, and how they go on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from gemini_files import (
    SESSION,
    GeminiFile,
    buried,
    compacted,
    damaged,
    everything,
    gone_back,
    older,
    resumed,
    sub_agents,
    text,
    written_again,
)
from importer_results import check_growth, entries_of, settled_of, talks_of, told, written_down
from rekindle.importers.base import Notes, Talk
from rekindle.importers.gemini import TOOL
from rekindle.importers.gemini.files import File, Records
from rekindle.model import Kind, Page, Session, TitleSource
from rekindle.store.memory import MemoryStore
from rekindle.transcript.model import Role, ToolCallItem, TranscriptMessage
from rekindle.transcript.reducer import fold
from rekindle.transfer.merge import MergeOutcome
from tool_imports import Run

GOLDEN = Path(__file__).parents[1] / "golden"
NAME = f"session-2025-11-09T00-00-{SESSION[:8]}"

CASES: dict[str, Callable[[Path], Path]] = {
    "everything": lambda home: everything().write(home),
    "compacted": lambda home: compacted().write(home),
    "written-again": lambda home: written_again().write(home),
    "gone-back": lambda home: gone_back().write(home),
    "buried": lambda home: buried().write(home),
    "resumed": resumed,
    "sub-agents": sub_agents,
    "damaged": lambda home: file_of(home, damaged()),
    "one-object": lambda home: file_of(home, older().one_object(), "json"),
}


def file_of(home: Path, data: bytes, suffix: str = "jsonl") -> Path:
    path = home / f"{NAME}.{suffix}"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_of_it(name: str, tmp_path: Path, *, update: bool) -> None:
    golden = GOLDEN / f"gemini-{name}.txt"
    made = written_down(TOOL, CASES[name](tmp_path), str(tmp_path))
    if update:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


def first(path: Path) -> Talk | None:
    return next(iter(talks_of(TOOL, path)), None)


def told_of(it: GeminiFile, home: Path) -> list[object]:
    return told(talks_of(TOOL, it.write(home))[0])


# -- how a file goes on -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [everything, compacted, written_again, buried])
def test_a_file_that_grows_begins_with_what_was_told_before(
    make: Callable[[], GeminiFile], tmp_path: Path
) -> None:
    check_growth(TOOL, tmp_path / f"{NAME}.jsonl", make().lines)


def test_an_older_file_that_is_written_anew_begins_with_what_was_told_before(
    tmp_path: Path,
) -> None:
    it = older()
    every = list(it.messages.items())
    before: list[object] = []
    for count in range(len(every) + 1):
        it.messages = dict(every[:count])
        if count:
            # What was said last may yet be said to its end.
            name, message = every[count - 1]
            some = message | {"toolCalls": message.get("toolCalls", [])[:1]}
            half = isinstance(message["content"], str)
            it.messages[name] = some | ({"content": message["content"][:4]} if half else {})
        path = file_of(tmp_path, it.one_object(), "json")
        entries = entries_of(talk) if (talk := first(path)) else []
        assert entries[: len(before)] == before
        before = list(settled_of(talk)) if talk else []
    assert len(before) > 15


def test_files_of_one_session_that_grow_begin_with_what_was_told_before(tmp_path: Path) -> None:
    made, grown = tmp_path / "made", tmp_path / "grown"
    resumed(made)
    files = sorted(made.rglob(f"*-{SESSION[:8]}.jsonl"))
    lines = [(it.name, json.loads(line or b"{}"), line)
             for it in files for line in it.read_bytes().split(b"\n")]  # fmt: skip
    now = ""
    times: list[str] = []
    for _, record, _ in lines:
        now = "" if record.get("sessionId") and record.get("kind") else now
        told_at = record.get("timestamp") or record.get("startTime")
        now = max(now, told_at or record.get("$set", {}).get("lastUpdated") or "")
        times.append(now)
    grown.mkdir()
    before: list[object] = []
    for at in sorted(range(len(lines)), key=lambda it: times[it]):
        with (grown / lines[at][0]).open("ab") as file:
            file.write(lines[at][2] + b"\n")
        talk = first(grown)
        entries = entries_of(talk) if talk else []
        assert entries[: len(before)] == before
        before = list(settled_of(talk)) if talk else []
    assert len(before) == 11


def test_a_file_that_is_cut_anywhere_tells_what_is_before(tmp_path: Path) -> None:
    it = GeminiFile()
    it.turn(1)
    it.call("glob", {"pattern": "*"}, "text \N{GRINNING FACE}")
    it.replace(list(it.messages.values())[:2])
    it.turn(2)
    data = it.data()
    path = tmp_path / f"{NAME}.jsonl"
    for length in range(0, len(data), 5):
        path.write_bytes(data[:length])
        cut = entries_of(main) if (main := first(path)) else []
        path.write_bytes(data[: data.rfind(b"\n", 0, length) + 1])
        sure = settled_of(main) if (main := first(path)) else []
        assert cut[: len(sure)] == sure


def test_an_older_file_that_is_cut_anywhere_tells_what_is_before(tmp_path: Path) -> None:
    it = GeminiFile()
    it.turn(1)
    it.turn(2)
    data = it.one_object()
    path = tmp_path / f"{NAME}.json"
    path.write_bytes(data)
    whole = told(talks_of(TOOL, path)[0])
    for length in [*range(0, len(data), 5), len(data)]:
        path.write_bytes(data[:length])
        cut = told(talk) if (talk := first(path)) else []
        assert cut == whole[: len(cut)]
    assert cut == whole


@given(st.data())
@settings(max_examples=50)
def test_a_file_with_changed_bytes_tells_what_is_before(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    it = GeminiFile()
    for number in range(4):
        it.turn(number)
        it.call("glob", {"pattern": "*"}, "a\nb")
    suffix = data.draw(st.sampled_from(["jsonl", "json"]))
    path = tmp_path_factory.mktemp("x") / f"{NAME}.{suffix}"
    whole = it.data() if suffix == "jsonl" else it.one_object()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    length = data.draw(st.integers(1, 40))
    changed[at : at + length] = data.draw(st.binary(min_size=0, max_size=40))
    path.write_bytes(bytes(changed))
    damaged_file = [entries_of(it) for it in talks_of(TOOL, path)]
    path.write_bytes(whole[: whole.rfind(b"\n", 0, at) + 1])
    sure = settled_of(main) if (main := first(path)) else []
    assert any(it[: len(sure)] == sure for it in [*damaged_file, sure])


# -- in a store ---------------------------------------------------------------------------------


def test_importing_twice_changes_nothing_and_what_has_grown_is_extended(tmp_path: Path) -> None:
    store = MemoryStore()
    it = GeminiFile()
    it.turn(1)
    it.write(tmp_path)
    assert Run(store, tmp_path / ".gemini", TOOL).outcomes == [MergeOutcome.NEW]
    assert Run(store, tmp_path / ".gemini", TOOL).read == 0
    it.turn(2)
    it.write(tmp_path)
    again = GeminiFile(minute=7)
    again.write(tmp_path)
    assert Run(store, tmp_path / ".gemini", TOOL).outcomes == [MergeOutcome.EXTENDED]
    assert store.session(SESSION).turns == 2
    # A list buries all of it, and a file begins that has none of it.
    it.begin()
    it.write(tmp_path)
    assert Run(store, tmp_path / ".gemini", TOOL).outcomes == []
    assert Run(store, tmp_path / ".gemini", TOOL).read == 0
    assert store.session(SESSION).turns == 2


def test_what_was_gone_back_from_is_kept_beside(tmp_path: Path) -> None:
    store = MemoryStore()
    it = GeminiFile()
    it.turn(1)
    name = it.user("This way")
    it.agent("Going this way")
    it.write(tmp_path)
    Run(store, tmp_path / ".gemini", TOOL)
    it.go_back(name)
    it.user("That way")
    it.agent("Going that way")
    it.write(tmp_path)
    Run(store, tmp_path / ".gemini", TOOL)
    whole = [[entry.line for entry in store.read(it.id)] for it in sessions(store)]
    assert [sum(b"This way" in line for line in lines) for lines in whole] == [0, 1]
    assert Run(store, tmp_path / ".gemini", TOOL).read == 0


def test_who_has_gone_back_and_said_nothing_since_has_gone_back_here(tmp_path: Path) -> None:
    it = GeminiFile()
    it.turn(1)
    name = it.user("This way")
    it.agent("Going this way")
    it.write(tmp_path)
    store, later = MemoryStore(), MemoryStore()
    Run(store, tmp_path / ".gemini", TOOL)
    it.go_back(name)
    it.put({"$set": {"lastUpdated": it.time()}})
    it.write(tmp_path)
    for each in (store, later):
        Run(each, tmp_path / ".gemini", TOOL)
        assert [it.turns for it in sessions(each)] == [1, 2]
        assert Run(each, tmp_path / ".gemini", TOOL).read == 0


def test_a_branch_is_called_after_its_own_first_prompt(tmp_path: Path) -> None:
    it = GeminiFile()
    name = it.user("This way")
    it.agent("Going this way")
    it.go_back(name)
    it.user("That way")
    session, branch = talks_of(TOOL, it.write(tmp_path))
    titles = [talk.arrived.titles[TitleSource.PROMPT] for talk in (session, branch)]
    assert titles == ["That way", "This way"]


def sessions(store: MemoryStore) -> list[Session]:
    """Return the session, and then its branches."""
    every = store.sessions(Page(with_unopened=True, with_archived=True))
    return sorted(every, key=lambda it: it.id != SESSION)


# -- what counts --------------------------------------------------------------------------------


def test_going_back_to_an_unknown_message_takes_all_away(tmp_path: Path) -> None:
    it = GeminiFile()
    it.turn(1)
    it.go_back("nobody")
    path = it.write(tmp_path)
    # Nothing came after it: then it is what it was.
    assert [told(talk) for talk in talks_of(TOOL, path)] == [["Question 1", "Answer 1"]]
    it.turn(2)
    it.write(tmp_path)
    session, branch = talks_of(TOOL, path)
    assert (told(session), told(branch)) == (["Question 2", "Answer 2"], ["Question 1", "Answer 1"])
    assert (session.is_aside, branch.is_aside) == (False, True)


def test_what_was_gone_back_from_is_not_known_any_more(tmp_path: Path) -> None:
    it = GeminiFile()
    it.turn(1)
    name = it.user("This way")
    message = it.messages[name]
    it.go_back(name)
    it.again(message)
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "This way"]
    it.go_back(name)
    it.go_back(name)
    it.turn(2)
    assert told_of(it, tmp_path) == ["Question 2", "Answer 2"]


def test_a_message_that_is_written_once_more_stays_where_it_was_first(tmp_path: Path) -> None:
    it = GeminiFile()
    it.user("One")
    calls = it.call("glob", {"pattern": "1"}, "one")
    it.user("Two")
    it.call("glob", {"pattern": "2"}, "two", into=calls)
    it.go_back(calls)
    it.user("Three")
    assert told_of(it, tmp_path) == ["One", "Three"]


def test_a_list_may_end_with_a_prompt_that_was_asked_before(tmp_path: Path) -> None:
    it = GeminiFile()
    it.turn(1)
    it.user("Question 2")
    it.replace([it.make("user", [text("Question 2")])])
    it.agent("Answer 2")
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_calls_are_told_where_they_were_made_though_one_message_has_them_all(
    tmp_path: Path,
) -> None:
    it = GeminiFile()
    it.user("One")
    calls = it.call("glob", {"pattern": "1"}, "one")
    it.agent("First")
    it.user("Two")
    it.call("glob", {"pattern": "2"}, "two", into=calls)
    it.agent("Second")
    words = [it if isinstance(it, str) else it.fields["rawInput"] for it in told_of(it, tmp_path)]
    assert words == ["One", {"pattern": "1"}, "First", "Two", {"pattern": "2"}, "Second"]


def test_each_thought_is_one_of_its_own(tmp_path: Path) -> None:
    it = GeminiFile()
    it.user("Think")
    it.agent("Done.", ("One", "First"), ("Two", "Second"))
    assert told_of(it, tmp_path) == ["Think", "**One**\nFirst", "**Two**\nSecond", "Done."]


def test_an_output_that_is_cut_later_stays_as_it_was(tmp_path: Path) -> None:
    it = GeminiFile()
    it.user("One")
    calls = it.call("glob", {"pattern": "1"}, "all of it")
    message = json.loads(json.dumps(it.messages[calls]))
    message["toolCalls"][0]["result"] = [text("<tool_output_masked>")]
    it.again(message)
    it.replace(list(it.messages.values()))
    (call,) = [it for it in told_of(it, tmp_path) if isinstance(it, ToolCallItem)]
    assert "all of it" in str(call.fields["content"])


def test_an_older_file_beside_its_successor_is_told_once(tmp_path: Path) -> None:
    it = older()
    path = it.write(tmp_path)
    path.with_suffix(".json").write_bytes(it.one_object())
    (found,) = TOOL.find(path.parent, None)
    assert found.path.suffix == ".json"
    (talk,) = TOOL.read(found, Notes())
    both = entries_of(talk)
    path.unlink()
    (talk,) = talks_of(TOOL, path.parent)
    assert [it.line for it in entries_of(talk)] == [it.line for it in both]


@pytest.mark.parametrize("indent", [None, 4])
def test_an_older_file_may_be_written_otherwise(indent: int | None, tmp_path: Path) -> None:
    it = older()
    (usual,) = talks_of(TOOL, file_of(tmp_path, it.one_object(), "json"))
    expected = entries_of(usual)
    (talk,) = talks_of(TOOL, file_of(tmp_path, it.one_object(indent), "json"))
    assert entries_of(talk) == expected


def test_a_message_that_is_too_long_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = GeminiFile()
    it.turn(1)
    it.agent("long " * 1000)
    path = file_of(tmp_path, it.one_object(), "json")
    monkeypatch.setattr("rekindle.importers.gemini.files.LONGEST", 2000)
    records = Records(File(path, path.stat().st_size))
    assert not any(b"long long" in record for record in records.each())
    assert records.too_long == 1


def test_what_has_no_time_was_said_when_the_session_began(tmp_path: Path) -> None:
    it = GeminiFile(minute=3)
    it.lines[1] = it.lines[1].replace(b"timestamp", b"time")
    it.put({"id": "a", "type": "user", "content": "Question"})
    it.put({"id": "b", "type": "gemini", "content": "Answer", "model": "m"})
    (talk,) = talks_of(TOOL, it.write(tmp_path))
    (at_us,) = {entry.at_us for entry in entries_of(talk)}
    assert at_us >= talk.arrived.created_us > 0


def test_what_has_no_id_is_told_and_only_once(tmp_path: Path) -> None:
    it = GeminiFile()
    it.turn(1)
    nameless = [
        {"type": "user", "content": [text("Who?")]}, {"type": "gemini", "content": [text("I.")]},
        {"type": "user", "content": [text("Why?")]}, {"type": "gemini", "content": [text("So.")]},
    ]  # fmt: skip
    for message in nameless:
        it.put(message)
    it.put({"$set": {"messages": nameless}})
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Who?", "I.", "Why?", "So."]
    (talk,) = talks_of(TOOL, it.write(tmp_path))
    ids = [json.loads(entry.line)["id"] for entry in entries_of(talk) if entry.kind is Kind.PROMPT]
    assert len(set(ids)) == 3


def test_many_branches_are_kept_within_reason(tmp_path: Path) -> None:
    it = GeminiFile()
    for number in range(60):
        it.go_back(it.user(f"Try {number}"))
    it.turn(1)
    notes = Notes()
    talks = talks_of(TOOL, it.write(tmp_path), notes)
    assert len(talks) == 51
    assert notes.skipped == {"a branch is left out, because there are many": 10}


def test_more_messages_than_are_remembered_are_not_told_twice(tmp_path: Path) -> None:
    it = GeminiFile()
    for number in range(300):
        it.turn(number)
    old = list(it.messages.values())[2]
    it.again(old | {"content": "Masked"})
    it.replace(list(it.messages.values()))
    words = told_of(it, tmp_path)
    assert len(words) == 600
    assert "Masked" not in words


def test_the_words_of_a_summary_are_not_the_users(tmp_path: Path) -> None:
    path = compacted().write(tmp_path)
    items = [it for turn in fold(entries_of(talks_of(TOOL, path)[0])).turns for it in turn.items]
    roles = {it.text: it.role for it in items if isinstance(it, TranscriptMessage)}
    assert next(role for words, role in roles.items() if "snapshot" in words) is Role.THOUGHT
    assert [words for words, role in roles.items() if role is Role.USER] == [
        "Question 1", "Question 2", "Question 3",
    ]  # fmt: skip
