"""Codex's sessions in a store: followed wherever their files go, and nothing is lost."""

import json
from pathlib import Path

import pytest

from codex_files import SESSION, CodexFile, thread
from codex_sessions import legacy, paginated
from rekindle.importers.codex.session import IMPORTER
from rekindle.jsonvalue import as_array, as_object, decode_object
from rekindle.model import Archived, Kind, Page, TitleSource
from rekindle.store.base import Store
from rekindle.transfer.merge import How
from tool_imports import Run, everything


@pytest.fixture
def file() -> CodexFile:
    it = CodexFile(mode="paginated")
    it.turn(1)
    return it


def run(store: Store, home: Path) -> Run:
    return Run(store, home / ".codex", IMPORTER)


def asked(store: Store, session_id: str = SESSION) -> list[object]:
    prompts = [it for it in store.read(session_id) if it.kind is Kind.PROMPT]
    params = [as_object((decode_object(it.line) or {}).get("params")) for it in prompts]
    return [as_object(as_array(it.get("prompt"))[0]).get("text") for it in params]


def archived(store: Store) -> list[str]:
    return [it.id for it in store.sessions(Page(archived=True))]


def test_twice_is_once(store: Store, tmp_path: Path) -> None:
    legacy().write(tmp_path)
    it = paginated()
    it.thread_id = thread(2)
    it.write(tmp_path)
    assert run(store, tmp_path).hows == [How.NEW, How.NEW]
    first = everything(store)
    again = run(store, tmp_path)
    assert (again.read, again.report.hows) == (0, {How.UNCHANGED: 2})
    for path in (tmp_path / ".codex").rglob("*.jsonl"):
        path.touch()
    again = run(store, tmp_path)
    assert (again.read, again.hows) == (2, [])
    assert [entries for _, _, entries in everything(store)] == [it for _, _, it in first]


def test_one_that_grows_is_extended(store: Store, file: CodexFile, tmp_path: Path) -> None:
    for line in range(1, len(file.lines)):
        part = CodexFile(mode="paginated")
        part.lines = file.lines[:line]
        part.write(tmp_path)
        run(store, tmp_path)
    file.turn(2)
    file.write(tmp_path)
    assert run(store, tmp_path).hows in ([How.EXTENDED], [How.NEW])
    ((session, _, _),) = everything(store)
    assert asked(store) == ["Question 1", "Question 2"]
    assert (session.turns, session.messages) == (2, 4)


def test_it_stays_the_same_wherever_its_file_goes(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    run(store, tmp_path)
    for number, (is_archived, is_compressed) in enumerate(
        [(True, False), (True, True), (False, False)]
    ):
        path.unlink()
        path = file.write(tmp_path, is_archived=is_archived, is_compressed=is_compressed)
        assert run(store, tmp_path).hows == []
        path.unlink()
        file.turn(2 + number)
        path = file.write(tmp_path, is_archived=is_archived, is_compressed=is_compressed)
        assert run(store, tmp_path).hows == [How.EXTENDED]
    assert len(everything(store)) == 1
    assert asked(store) == ["Question 1", "Question 2", "Question 3", "Question 4"]


def test_turns_that_were_taken_back_are_kept_once(store: Store, tmp_path: Path) -> None:
    it = CodexFile()
    it.turn(1)
    it.turn(2)
    it.write(tmp_path)
    run(store, tmp_path)
    it.event("thread_rolled_back", num_turns=1)
    it.write(tmp_path)
    run(store, tmp_path)
    assert asked(store) == ["Question 1"]
    assert len(archived(store)) == 1
    it.turn(3)
    it.write(tmp_path)
    run(store, tmp_path)
    (branch,) = archived(store)
    assert asked(store) == ["Question 1", "Question 3"]
    assert asked(store, branch) == ["Question 1", "Question 2"]
    it.turn(4)
    it.write(tmp_path)
    run(store, tmp_path)
    assert archived(store) == [branch]
    assert len(everything(store)) == 2


def test_a_reverted_session_follows_its_new_file(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    kept = len(file.lines)
    file.turn(2)
    file.write(tmp_path)
    run(store, tmp_path)
    later = CodexFile(mode="paginated", first=file.ordinal, history_base=file.base(kept))
    later.write(tmp_path, rollout=thread(9), minute=5)
    assert run(store, tmp_path).hows[0] is How.EXTENDED
    assert asked(store) == ["Question 1"]
    later.turn(3)
    later.write(tmp_path, rollout=thread(9), minute=5)
    assert run(store, tmp_path).hows == [How.EXTENDED]
    (branch,) = archived(store)
    assert asked(store) == ["Question 1", "Question 3"]
    assert asked(store, branch) == ["Question 1", "Question 2"]
    assert run(store, tmp_path).read == 0


def test_all_files_that_were_left_are_kept(store: Store, file: CodexFile, tmp_path: Path) -> None:
    base = file.base()
    file.turn(2)
    file.write(tmp_path)
    for number in (3, 4):
        later = CodexFile(mode="paginated", first=file.ordinal, history_base=base)
        later.turn(number)
        later.write(tmp_path, rollout=thread(number), minute=number)
    run(store, tmp_path)
    assert asked(store) == ["Question 1", "Question 4"]
    left = [asked(store, it) for it in archived(store)]
    assert sorted(left) == [["Question 1", "Question 2"], ["Question 1", "Question 3"]]
    # Somebody has gone on with one of them.
    file.turn(5)
    file.write(tmp_path)
    run(store, tmp_path)
    left = [asked(store, it) for it in archived(store)]
    assert sorted(left) == [
        ["Question 1", "Question 2", "Question 5"],
        ["Question 1", "Question 3"],
    ]


def test_a_file_that_is_cut_off_takes_nothing_away(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    file.turn(2)
    path = file.write(tmp_path)
    run(store, tmp_path)
    data = path.read_bytes()
    for length in (len(data) // 2, 10, 0):
        path.write_bytes(data[:length])
        assert run(store, tmp_path).hows == []
    assert asked(store) == ["Question 1", "Question 2"]
    assert len(everything(store)) == 1


def test_what_a_session_begins_with_may_turn_up_later(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    later = CodexFile(thread(2), mode="paginated", first=file.ordinal, history_base=file.base())
    later.turn(2)
    later.write(tmp_path)
    report = run(store, tmp_path).report
    assert report.skipped == {"what a session begins with is in a file that is gone": 1}
    assert asked(store, thread(2)) == ["Question 2"]
    file.write(tmp_path, is_archived=True, is_compressed=True)
    run(store, tmp_path)
    assert asked(store, thread(2)) == ["Question 1", "Question 2"]
    assert run(store, tmp_path).read == 0


def test_what_is_archived_there_is_archived_here(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path, is_archived=True)
    assert run(store, tmp_path).hows == [How.NEW]
    assert (archived(store), store.sessions(Page())) == ([SESSION], [])
    # Later, what is put away here is up to whoever is here.
    store.write([Archived(session_id=SESSION, at_us=1, is_archived=False)])
    file.turn(2)
    file.write(tmp_path, is_archived=True)
    assert run(store, tmp_path).hows == [How.EXTENDED]
    assert archived(store) == []
    path.unlink()


def test_what_is_archived_there_later_stays_listed(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    run(store, tmp_path)
    path.unlink()
    file.write(tmp_path, is_archived=True)
    assert run(store, tmp_path).hows == []
    assert archived(store) == []


def test_a_new_name_is_taken_over(store: Store, file: CodexFile, tmp_path: Path) -> None:
    file.write(tmp_path)
    run(store, tmp_path)
    entry = json.dumps({"id": SESSION, "thread_name": "Mine"})
    (tmp_path / ".codex" / "session_index.jsonl").write_text(entry + "\n")
    assert run(store, tmp_path).read == 1
    assert store.titles(SESSION)[TitleSource.AGENT] == "Mine"
    assert run(store, tmp_path).read == 0


def test_sub_agents_belong_to_their_session(store: Store, file: CodexFile, tmp_path: Path) -> None:
    file.write(tmp_path)
    child = CodexFile(thread(2), parent_thread_id=SESSION)
    child.turn(1)
    child.write(tmp_path)
    report = run(store, tmp_path).report
    assert (report.found, report.children) == (2, 1)
    assert [it.id for it in store.sessions(Page())] == [SESSION]
    assert store.session(thread(2)).parent_id == SESSION
