"""Gemini CLI's files: every type of record, every trap, and growth."""

import json
import re
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
from importer_results import (
    check_growth,
    describe_import,
    entries_of,
    items_of,
    read_sessions,
    settled_entries,
)
from rekindle.importers.base import ImportNotes, SourceSession
from rekindle.importers.gemini.files import GeminiRecordReader, GeminiSourceFile
from rekindle.importers.gemini.session import IMPORTER
from rekindle.model import Kind, Page, Session, TitleSource
from rekindle.store.memory import MemoryStore
from rekindle.transcript.model import Role, ToolCallItem, TranscriptMessage
from rekindle.transcript.reducer import fold
from rekindle.transfer.merge import MergeOutcome
from selection import some
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
def test_import_matches_golden_file(name: str, tmp_path: Path, *, update: bool) -> None:
    golden = GOLDEN / f"gemini-{name}.txt"
    made = describe_import(IMPORTER, CASES[name](tmp_path), str(tmp_path))
    if update:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


def first(path: Path) -> SourceSession | None:
    return next(iter(read_sessions(IMPORTER, path)), None)


def items_in(file: GeminiFile, home: Path) -> list[object]:
    return items_of(read_sessions(IMPORTER, file.write(home))[0])


# -- growth -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [everything, compacted, written_again, buried])
def test_growing_file_keeps_its_settled_entries(
    make: Callable[[], GeminiFile], tmp_path: Path
) -> None:
    check_growth(IMPORTER, tmp_path / f"{NAME}.jsonl", make().lines)


def test_rewritten_older_file_keeps_its_settled_entries(
    tmp_path: Path,
) -> None:
    file = older()
    every = list(file.messages.items())
    before: list[object] = []
    for count in range(len(every) + 1):
        file.messages = dict(every[:count])
        if count:
            # The last message may still grow.
            name, message = every[count - 1]
            some = message | {"toolCalls": message.get("toolCalls", [])[:1]}
            half = isinstance(message["content"], str)
            file.messages[name] = some | ({"content": message["content"][:4]} if half else {})
        path = file_of(tmp_path, file.one_object(), "json")
        entries = entries_of(source) if (source := first(path)) else []
        assert entries[: len(before)] == before
        before = list(settled_entries(source)) if source else []
    assert len(before) > 15


def test_growing_files_of_one_session_keep_their_settled_entries(tmp_path: Path) -> None:
    made, grown = tmp_path / "made", tmp_path / "grown"
    resumed(made)
    files = sorted(made.rglob(f"*-{SESSION[:8]}.jsonl"))
    lines = [(path.name, json.loads(line or b"{}"), line)
             for path in files for line in path.read_bytes().split(b"\n")]  # fmt: skip
    now = ""
    times: list[str] = []
    for _, record, _ in lines:
        now = "" if record.get("sessionId") and record.get("kind") else now
        written_at = record.get("timestamp") or record.get("startTime")
        now = max(now, written_at or record.get("$set", {}).get("lastUpdated") or "")
        times.append(now)
    grown.mkdir()
    before: list[object] = []
    for at in sorted(range(len(lines)), key=lambda item: times[item]):
        with (grown / lines[at][0]).open("ab") as file:
            file.write(lines[at][2] + b"\n")
        source = first(grown)
        entries = entries_of(source) if source else []
        assert entries[: len(before)] == before
        before = list(settled_entries(source)) if source else []
    assert len(before) == 11


def test_truncated_file_keeps_its_settled_entries(tmp_path: Path) -> None:
    file = GeminiFile()
    file.turn(1)
    file.call("glob", {"pattern": "*"}, "text \N{GRINNING FACE}")
    file.replace(list(file.messages.values())[:2])
    file.turn(2)
    data = file.data()
    path = tmp_path / f"{NAME}.jsonl"
    for length in range(0, len(data), 5):
        path.write_bytes(data[:length])
        cut = entries_of(main) if (main := first(path)) else []
        path.write_bytes(data[: data.rfind(b"\n", 0, length) + 1])
        settled = settled_entries(main) if (main := first(path)) else []
        assert cut[: len(settled)] == settled


def test_truncated_older_file_keeps_its_start(tmp_path: Path) -> None:
    file = GeminiFile()
    file.turn(1)
    file.turn(2)
    data = file.one_object()
    path = tmp_path / f"{NAME}.json"
    path.write_bytes(data)
    whole = items_of(read_sessions(IMPORTER, path)[0])
    for length in [*range(0, len(data), 5), len(data)]:
        path.write_bytes(data[:length])
        cut = items_of(source) if (source := first(path)) else []
        assert cut == whole[: len(cut)]
    assert cut == whole


@given(st.data())
@settings(max_examples=some(50))
def test_changed_bytes_do_not_affect_earlier_entries(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    file = GeminiFile()
    for number in range(4):
        file.turn(number)
        file.call("glob", {"pattern": "*"}, "a\nb")
    suffix = data.draw(st.sampled_from(["jsonl", "json"]))
    path = tmp_path_factory.mktemp("x") / f"{NAME}.{suffix}"
    whole = file.data() if suffix == "jsonl" else file.one_object()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    length = data.draw(st.integers(1, 40))
    changed[at : at + length] = data.draw(st.binary(min_size=0, max_size=40))
    path.write_bytes(bytes(changed))
    damaged_file = [entries_of(source) for source in read_sessions(IMPORTER, path)]
    path.write_bytes(whole[: whole.rfind(b"\n", 0, at) + 1])
    settled = settled_entries(main) if (main := first(path)) else []
    assert any(entries[: len(settled)] == settled for entries in [*damaged_file, settled])


# -- in a store ---------------------------------------------------------------------------------


def test_second_import_changes_nothing_and_growth_extends(tmp_path: Path) -> None:
    store = MemoryStore()
    file = GeminiFile()
    file.turn(1)
    file.write(tmp_path)
    assert Run(store, tmp_path / ".gemini", IMPORTER).outcomes == [MergeOutcome.NEW]
    assert Run(store, tmp_path / ".gemini", IMPORTER).read == 0
    file.turn(2)
    file.write(tmp_path)
    again = GeminiFile(minute=7)
    again.write(tmp_path)
    assert Run(store, tmp_path / ".gemini", IMPORTER).outcomes == [MergeOutcome.EXTENDED]
    assert store.session(SESSION).turns == 2
    # A list replaces all messages, and a new file has none of them.
    file.begin()
    file.write(tmp_path)
    assert Run(store, tmp_path / ".gemini", IMPORTER).outcomes == []
    assert Run(store, tmp_path / ".gemini", IMPORTER).read == 0
    assert store.session(SESSION).turns == 2


def test_messages_before_a_rewind_become_a_branch(tmp_path: Path) -> None:
    store = MemoryStore()
    file = GeminiFile()
    file.turn(1)
    name = file.user("This way")
    file.agent("Going this way")
    file.write(tmp_path)
    Run(store, tmp_path / ".gemini", IMPORTER)
    file.go_back(name)
    file.user("That way")
    file.agent("Going that way")
    file.write(tmp_path)
    Run(store, tmp_path / ".gemini", IMPORTER)
    whole = [[entry.line for entry in store.read(source.id)] for source in sessions(store)]
    assert [sum(b"This way" in line for line in lines) for lines in whole] == [0, 1]
    assert Run(store, tmp_path / ".gemini", IMPORTER).read == 0


def test_rewind_without_new_messages_rewinds_the_import(tmp_path: Path) -> None:
    file = GeminiFile()
    file.turn(1)
    name = file.user("This way")
    file.agent("Going this way")
    file.write(tmp_path)
    store, later = MemoryStore(), MemoryStore()
    Run(store, tmp_path / ".gemini", IMPORTER)
    file.go_back(name)
    file.put({"$set": {"lastUpdated": file.time()}})
    file.write(tmp_path)
    for each in (store, later):
        Run(each, tmp_path / ".gemini", IMPORTER)
        assert [source.turns for source in sessions(each)] == [1, 2]
        assert Run(each, tmp_path / ".gemini", IMPORTER).read == 0


def test_branch_title_comes_from_its_own_first_prompt(tmp_path: Path) -> None:
    file = GeminiFile()
    name = file.user("This way")
    file.agent("Going this way")
    file.go_back(name)
    file.user("That way")
    session, branch = read_sessions(IMPORTER, file.write(tmp_path))
    titles = [source.incoming.titles[TitleSource.PROMPT] for source in (session, branch)]
    assert titles == ["That way", "This way"]


def sessions(store: MemoryStore) -> list[Session]:
    """Return the session, and then its branches."""
    every = store.sessions(Page(with_unopened=True, with_archived=True))
    return sorted(every, key=lambda item: item.id != SESSION)


# -- messages -----------------------------------------------------------------------------------


def test_rewind_to_an_unknown_message_removes_all(tmp_path: Path) -> None:
    file = GeminiFile()
    file.turn(1)
    file.go_back("nobody")
    path = file.write(tmp_path)
    # Without later messages, the session is imported as it was.
    assert [items_of(source) for source in read_sessions(IMPORTER, path)] == [
        ["Question 1", "Answer 1"]
    ]
    file.turn(2)
    file.write(tmp_path)
    session, branch = read_sessions(IMPORTER, path)
    assert (items_of(session), items_of(branch)) == (
        ["Question 2", "Answer 2"],
        ["Question 1", "Answer 1"],
    )
    assert (session.is_abandoned, branch.is_abandoned) == (False, True)


def test_message_may_be_sent_again_after_a_rewind(tmp_path: Path) -> None:
    file = GeminiFile()
    file.turn(1)
    name = file.user("This way")
    message = file.messages[name]
    file.go_back(name)
    file.again(message)
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "This way"]
    file.go_back(name)
    file.go_back(name)
    file.turn(2)
    assert items_in(file, tmp_path) == ["Question 2", "Answer 2"]


def test_rewritten_message_keeps_its_place(tmp_path: Path) -> None:
    file = GeminiFile()
    file.user("One")
    calls = file.call("glob", {"pattern": "1"}, "one")
    file.user("Two")
    file.call("glob", {"pattern": "2"}, "two", into=calls)
    file.go_back(calls)
    file.user("Three")
    assert items_in(file, tmp_path) == ["One", "Three"]


def test_list_may_end_with_a_repeated_prompt(tmp_path: Path) -> None:
    file = GeminiFile()
    file.turn(1)
    file.user("Question 2")
    file.replace([file.make("user", [text("Question 2")])])
    file.agent("Answer 2")
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_calls_in_one_message_keep_their_places(
    tmp_path: Path,
) -> None:
    file = GeminiFile()
    file.user("One")
    calls = file.call("glob", {"pattern": "1"}, "one")
    file.agent("First")
    file.user("Two")
    file.call("glob", {"pattern": "2"}, "two", into=calls)
    file.agent("Second")
    texts = [
        item if isinstance(item, str) else item.fields["rawInput"]
        for item in items_in(file, tmp_path)
    ]
    assert texts == ["One", {"pattern": "1"}, "First", "Two", {"pattern": "2"}, "Second"]


def test_each_thought_is_a_message(tmp_path: Path) -> None:
    file = GeminiFile()
    file.user("Think")
    file.agent("Done.", ("One", "First"), ("Two", "Second"))
    assert items_in(file, tmp_path) == ["Think", "**One**\nFirst", "**Two**\nSecond", "Done."]


def test_later_truncation_of_an_output_is_ignored(tmp_path: Path) -> None:
    file = GeminiFile()
    file.user("One")
    calls = file.call("glob", {"pattern": "1"}, "all of it")
    message = json.loads(json.dumps(file.messages[calls]))
    message["toolCalls"][0]["result"] = [text("<tool_output_masked>")]
    file.again(message)
    file.replace(list(file.messages.values()))
    (call,) = [item for item in items_in(file, tmp_path) if isinstance(item, ToolCallItem)]
    assert "all of it" in str(call.fields["content"])


def test_older_file_beside_its_successor_is_read_once(tmp_path: Path) -> None:
    file = older()
    path = file.write(tmp_path)
    path.with_suffix(".json").write_bytes(file.one_object())
    (found,) = IMPORTER.find(path.parent, None)
    assert found.path.suffix == ".json"
    (source,) = IMPORTER.read(found, ImportNotes())
    both = entries_of(source)
    path.unlink()
    (source,) = read_sessions(IMPORTER, path.parent)
    assert [entry.line for entry in entries_of(source)] == [entry.line for entry in both]


@pytest.mark.parametrize("indent", [None, 4])
def test_older_file_may_have_another_indentation(indent: int | None, tmp_path: Path) -> None:
    file = older()
    (usual,) = read_sessions(IMPORTER, file_of(tmp_path, file.one_object(), "json"))
    expected = entries_of(usual)
    (source,) = read_sessions(IMPORTER, file_of(tmp_path, file.one_object(indent), "json"))
    assert entries_of(source) == expected


def test_too_long_message_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = GeminiFile()
    file.turn(1)
    file.agent("long " * 1000)
    path = file_of(tmp_path, file.one_object(), "json")
    monkeypatch.setattr("rekindle.importers.gemini.files.MAX_LINE_BYTES", 2000)
    records = GeminiRecordReader(GeminiSourceFile(path, path.stat().st_size))
    assert not any(b"long long" in record for record in records.records())
    assert records.too_long == 1
    end = max(n for n, line in enumerate(path.read_bytes().splitlines(), 1) if b"long" in line)
    assert re.fullmatch(rf"{re.escape(str(path))}, line \d+", records.too_long_place)
    assert int(records.too_long_place.rpartition(" ")[2]) >= end


def test_skipped_records_have_a_file_and_a_line(tmp_path: Path) -> None:
    file = GeminiFile()
    file.turn(1)
    file.lines.append(b"rubbish")
    file.put({"hologram": 1})
    file.put({"id": "x", "type": "hologram", "content": "?"})
    file.turn(2)
    file.lines.append(b'{"id": "cut')
    path = file.write(tmp_path)
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, path, notes)
    entries_of(source)
    lines = path.read_bytes().splitlines()
    bad = lines.index(b"rubbish") + 1
    assert notes.places == {
        "a record is not JSON": f"{path}, line {bad}",
        "a record of unknown type": f"{path}, line {bad + 1}",
        "a message of unknown type: hologram": f"{path}, line {bad + 2}",
        "the last record is incomplete": f"{path}, line {len(lines)}",
    }


def test_message_without_time_gets_the_start_of_the_session(tmp_path: Path) -> None:
    file = GeminiFile(minute=3)
    file.lines[1] = file.lines[1].replace(b"timestamp", b"time")
    file.put({"id": "a", "type": "user", "content": "Question"})
    file.put({"id": "b", "type": "gemini", "content": "Answer", "model": "m"})
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    (at_us,) = {entry.at_us for entry in entries_of(source)}
    assert at_us >= source.incoming.created_us > 0


def test_message_without_id_is_converted_once(tmp_path: Path) -> None:
    file = GeminiFile()
    file.turn(1)
    nameless = [
        {"type": "user", "content": [text("Who?")]}, {"type": "gemini", "content": [text("I.")]},
        {"type": "user", "content": [text("Why?")]}, {"type": "gemini", "content": [text("So.")]},
    ]  # fmt: skip
    for message in nameless:
        file.put(message)
    file.put({"$set": {"messages": nameless}})
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "Who?", "I.", "Why?", "So."]
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    ids = [
        json.loads(entry.line)["id"] for entry in entries_of(source) if entry.kind is Kind.PROMPT
    ]
    assert len(set(ids)) == 3


def test_number_of_branches_is_limited(tmp_path: Path) -> None:
    file = GeminiFile()
    for number in range(60):
        file.go_back(file.user(f"Try {number}"))
    file.turn(1)
    notes = ImportNotes()
    sources = read_sessions(IMPORTER, file.write(tmp_path), notes)
    assert len(sources) == 51
    assert notes.skipped == {"a branch was left out, because there are too many": 10}


def test_forgotten_messages_are_not_converted_twice(tmp_path: Path) -> None:
    file = GeminiFile()
    for number in range(300):
        file.turn(number)
    old = list(file.messages.values())[2]
    file.again(old | {"content": "Masked"})
    file.replace(list(file.messages.values()))
    texts = items_in(file, tmp_path)
    assert len(texts) == 600
    assert "Masked" not in texts


def test_summary_is_a_thought_not_a_prompt(tmp_path: Path) -> None:
    path = compacted().write(tmp_path)
    items = [
        item
        for turn in fold(entries_of(read_sessions(IMPORTER, path)[0])).turns
        for item in turn.items
    ]
    roles = {item.text: item.role for item in items if isinstance(item, TranscriptMessage)}
    assert next(role for texts, role in roles.items() if "snapshot" in texts) is Role.THOUGHT
    assert [texts for texts, role in roles.items() if role is Role.USER] == [
        "Question 1", "Question 2", "Question 3",
    ]  # fmt: skip
