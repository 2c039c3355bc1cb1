"""Where Gemini CLI keeps its sessions, which project they are of, and which files are read."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from gemini_files import CWD, SESSION, GeminiFile, everything, older, sub_agents
from importer_results import entries_of, talks_of
from rekindle.importers.base import Notes
from rekindle.importers.claude import TOOL as CLAUDE
from rekindle.importers.gemini import TOOL
from rekindle.importers.gemini.locations import folders
from rekindle.store.memory import MemoryStore
from rekindle.transfer.merge import MergeOutcome
from tool_imports import Run, everything as everything_in

HASH = sha256(CWD.encode()).hexdigest()


def test_where_it_keeps_its_sessions() -> None:
    home = Path("/home/user")
    assert folders({}, home) == [home / ".gemini/tmp"]
    assert folders({"GEMINI_CLI_HOME": ""}, home) == [home / ".gemini/tmp"]
    assert folders({"GEMINI_CLI_HOME": "/g"}, home) == [Path("/g/.gemini/tmp")]


def turns(cwd: str = CWD, session: str = SESSION) -> GeminiFile:
    it = GeminiFile(session=session, cwd=cwd)
    it.turn(1)
    return it


def placed(home: Path, name: str, it: GeminiFile) -> Path:
    path = home / ".gemini" / "tmp" / name / "chats" / it.path(home).name
    path.parent.mkdir(parents=True)
    path.write_bytes(it.data())
    return path


def folder_of(path: Path) -> str | None:
    (talk,) = talks_of(TOOL, path)
    assert talk.arrived.cwd == talk.folder
    return talk.folder


def registered(home: Path, **projects: str) -> None:
    (home / ".gemini").mkdir(exist_ok=True)
    named = {path: name for name, path in projects.items()}
    (home / ".gemini" / "projects.json").write_text(json.dumps({"projects": named}))


def test_a_file_in_the_folder_names_the_project(tmp_path: Path) -> None:
    path = placed(tmp_path, "project", turns())
    registered(tmp_path, project="/somebody/elses")
    (path.parents[1] / ".project_root").write_text(f"{CWD}\n")
    assert folder_of(path) == CWD


def test_the_list_of_projects_names_it_otherwise(tmp_path: Path) -> None:
    path = placed(tmp_path, "project", turns())
    registered(tmp_path, project=CWD, other="/other")
    assert folder_of(path) == CWD


@pytest.mark.parametrize("known", [CWD, f"{CWD}/below/it"])
def test_a_hash_is_that_of_a_known_folder_or_of_one_above(known: str, tmp_path: Path) -> None:
    path = placed(tmp_path, HASH, turns())
    registered(tmp_path, other="/other", below=known)
    assert folder_of(path) == CWD


def test_a_hash_is_that_of_another_projects_folder(tmp_path: Path) -> None:
    path = placed(tmp_path, HASH, turns())
    other = path.parents[2] / "other"
    other.mkdir()
    (other / ".project_root").write_text(f"{CWD}/below")
    assert folder_of(path) == CWD


def test_a_hash_is_that_of_a_folder_that_the_session_names(tmp_path: Path) -> None:
    it = turns()
    it.call("read_file", {"file_path": f"{CWD}/src/a.py"}, "a")
    assert folder_of(placed(tmp_path, HASH, it)) == CWD


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_a_project_that_got_a_folder_by_its_name_is_not_there_twice(
    suffix: str, tmp_path: Path
) -> None:
    store = MemoryStore()
    it = older() if suffix == "json" else turns()
    path = placed(tmp_path, HASH, it).with_suffix(f".{suffix}")
    path.with_suffix(".jsonl").unlink()
    path.write_bytes(it.one_object() if suffix == "json" else it.data())
    gone = path.with_name("session-2025-01-01T00-00-88888888.jsonl")
    gone.write_bytes(turns(session="88888888-only-there").data())
    child = path.parent / SESSION / "helper-1.jsonl"
    child.parent.mkdir()
    child.write_bytes(turns(session="helper-1").data())
    root = tmp_path / ".gemini"
    assert len(Run(store, root, TOOL).outcomes) == 3
    before = [entries for _, _, entries in everything_in(store)]
    # The tool copies all of it, and goes on there.
    copy = root / "tmp" / "project"
    shutil.copytree(path.parents[1], copy)
    (copy / ".project_root").write_text(CWD)
    (copy / "chats" / gone.name).unlink()
    found = [it.path.parents[1].name for it in TOOL.find(root, None) if not it.is_child]
    assert found == [HASH, "project"]
    assert len([it for it in TOOL.find(root, None) if it.is_child]) == 1
    assert Run(store, root, TOOL).outcomes == []
    assert [entries for _, _, entries in everything_in(store)] == before
    assert store.session(SESSION).cwd == CWD
    it.turn(7)
    name = copy / "chats" / path.name
    name.write_bytes(it.one_object() if suffix == "json" else it.data())
    assert Run(store, root, TOOL).outcomes == [MergeOutcome.EXTENDED]
    assert len(everything_in(store)) == 3
    assert Run(store, root, TOOL).read == 1, "only the sub-agent's, which has not changed"


@pytest.mark.parametrize("registry", ["", "{", '{"projects": 5}', '{"projects": {"/a": []}}'])
def test_where_nothing_names_it_the_folder_is_not_known(registry: str, tmp_path: Path) -> None:
    path = placed(tmp_path, HASH, turns())
    (tmp_path / ".gemini" / "projects.json").write_text(registry)
    assert folder_of(path) is None


def test_no_path_is_too_odd(tmp_path: Path) -> None:
    it = turns()
    odd = ["", "x", "/a" * 1_000_000, *("/b" * number for number in range(3000))]
    it.put({"$set": {"directories": odd}})
    assert folder_of(placed(tmp_path, HASH, it)) is None


def test_only_a_projects_own_folder_is_looked_into(tmp_path: Path) -> None:
    placed(tmp_path, "project", turns())
    placed(tmp_path, "other", turns("/other", "55555555-other"))
    placed(tmp_path, HASH, turns(session="66666666-hash"))
    placed(tmp_path, "a" * 64, turns("/unknown", "77777777-unknown"))
    registered(tmp_path, project=CWD, other="/other")
    root = tmp_path / ".gemini"
    assert len(list(TOOL.find(root, None))) == 4
    names = [found.path.parents[1].name for found in TOOL.find(root, CWD)]
    assert sorted(names) == sorted(["project", HASH, "a" * 64])


@pytest.mark.parametrize(
    "below", [".gemini", ".gemini/tmp", ".gemini/tmp/project", ".gemini/tmp/project/chats"]
)
def test_any_folder_above_will_do(below: str, tmp_path: Path) -> None:
    sub_agents(tmp_path)
    root = tmp_path / below
    assert [it.is_child for it in TOOL.find(root, None)] == [False, False, False, True]


def test_any_folder_with_copies_will_do(tmp_path: Path) -> None:
    (tmp_path / "session-x-22222222.jsonl").write_bytes(turns().data())
    assert len(list(TOOL.find(tmp_path, None))) == 1


def test_what_is_not_its_own_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "session-a-1.jsonl").write_text('{"sessionId":"x","parentUuid":null}\n')
    (tmp_path / "session-b-1.json").write_text("{}\n")
    (tmp_path / "session-c-1.txt").write_bytes(everything().data())
    (tmp_path / "session-d-1.jsonl").mkdir()
    assert list(TOOL.find(tmp_path, None)) == []
    for path in tmp_path.iterdir():
        assert list(TOOL.find(path, None)) == []


def test_a_file_whose_beginning_is_lost_is_its_own_by_its_place(tmp_path: Path) -> None:
    path = turns().write(tmp_path)
    path.write_bytes(bytes(300) + turns().data()[300:])
    for place in (path, tmp_path / ".gemini"):
        (talk,) = talks_of(TOOL, place)
        assert (talk.arrived.id, talk.folder) == (path.stem, CWD)
    elsewhere = tmp_path / path.name
    elsewhere.write_bytes(path.read_bytes())
    assert list(TOOL.find(elsewhere, None)) == []


def test_nobody_else_takes_its_files_for_their_own(tmp_path: Path) -> None:
    path = everything().write(tmp_path)
    assert list(CLAUDE.find(path, None)) == []
    assert list(CLAUDE.find(path.parent, None)) == []


def test_a_file_that_is_named_stands_for_its_session(tmp_path: Path) -> None:
    first = turns().write(tmp_path)
    later = GeminiFile(minute=9)
    later.turn(2)
    (found,) = TOOL.find(later.write(tmp_path), None)
    assert found.path == first
    (talk,) = TOOL.read(found, Notes())
    assert talk.arrived.id == SESSION
    child = sub_agents(tmp_path) / SESSION / "helper-1.jsonl"
    (found,) = TOOL.find(child, None)
    assert (found.path, found.is_child) == (child, True)


def test_a_sub_agent_belongs_to_its_session(tmp_path: Path) -> None:
    talks = {talk.arrived.id: talk for talk in talks_of(TOOL, sub_agents(tmp_path))}
    child = talks[f"{SESSION}.helper-1"]
    assert (child.arrived.parent_id, child.arrived.cwd, child.folder) == (SESSION, None, CWD)
    assert child.arrived.agent_session_id == ""
    named = [b"childSessionId" in entry.line for entry in entries_of(talks[SESSION])]
    assert sum(named) == 1
