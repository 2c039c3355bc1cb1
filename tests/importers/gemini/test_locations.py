"""Where Gemini CLI keeps its sessions, and which project they belong to."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from gemini_files import CWD, SESSION, GeminiFile, everything, older, sub_agents
from importer_results import entries_of, read_sessions
from rekindle.importers.base import ImportNotes
from rekindle.importers.claude.session import IMPORTER as CLAUDE
from rekindle.importers.gemini.locations import folders
from rekindle.importers.gemini.session import IMPORTER
from rekindle.store.memory import MemoryStore
from rekindle.transfer.merge import MergeOutcome
from tool_imports import Run, everything as everything_in

HASH = sha256(CWD.encode()).hexdigest()


def test_projects_folder_comes_from_the_environment() -> None:
    home = Path("/home/user")
    assert folders({}, home) == [home / ".gemini/tmp"]
    assert folders({"GEMINI_CLI_HOME": ""}, home) == [home / ".gemini/tmp"]
    assert folders({"GEMINI_CLI_HOME": "/g"}, home) == [Path("/g/.gemini/tmp")]


def turns(cwd: str = CWD, session: str = SESSION) -> GeminiFile:
    file = GeminiFile(session=session, cwd=cwd)
    file.turn(1)
    return file


def placed(home: Path, name: str, file: GeminiFile) -> Path:
    path = home / ".gemini" / "tmp" / name / "chats" / file.path(home).name
    path.parent.mkdir(parents=True)
    path.write_bytes(file.data())
    return path


def folder_of(path: Path) -> str | None:
    (source,) = read_sessions(IMPORTER, path)
    assert source.incoming.cwd == source.folder
    return source.folder


def registered(home: Path, **projects: str) -> None:
    (home / ".gemini").mkdir(exist_ok=True)
    named = {path: name for name, path in projects.items()}
    (home / ".gemini" / "projects.json").write_text(json.dumps({"projects": named}))


def test_project_file_has_the_path_of_the_project(tmp_path: Path) -> None:
    path = placed(tmp_path, "project", turns())
    registered(tmp_path, project="/somebody/elses")
    (path.parents[1] / ".project_root").write_text(f"{CWD}\n")
    assert folder_of(path) == CWD


def test_project_list_has_the_path_of_the_project(tmp_path: Path) -> None:
    path = placed(tmp_path, "project", turns())
    registered(tmp_path, project=CWD, other="/other")
    assert folder_of(path) == CWD


@pytest.mark.parametrize("known", [CWD, f"{CWD}/below/it"])
def test_hash_matches_a_listed_path_or_its_parent(known: str, tmp_path: Path) -> None:
    path = placed(tmp_path, HASH, turns())
    registered(tmp_path, other="/other", below=known)
    assert folder_of(path) == CWD


def test_hash_matches_the_path_of_another_project(tmp_path: Path) -> None:
    path = placed(tmp_path, HASH, turns())
    other = path.parents[2] / "other"
    other.mkdir()
    (other / ".project_root").write_text(f"{CWD}/below")
    assert folder_of(path) == CWD


def test_hash_matches_a_path_in_the_session(tmp_path: Path) -> None:
    file = turns()
    file.call("read_file", {"file_path": f"{CWD}/src/a.py"}, "a")
    assert folder_of(placed(tmp_path, HASH, file)) == CWD


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_copied_project_folder_is_imported_once(suffix: str, tmp_path: Path) -> None:
    store = MemoryStore()
    file = older() if suffix == "json" else turns()
    path = placed(tmp_path, HASH, file).with_suffix(f".{suffix}")
    path.with_suffix(".jsonl").unlink()
    path.write_bytes(file.one_object() if suffix == "json" else file.data())
    gone = path.with_name("session-2025-01-01T00-00-88888888.jsonl")
    gone.write_bytes(turns(session="88888888-only-there").data())
    child = path.parent / SESSION / "helper-1.jsonl"
    child.parent.mkdir()
    child.write_bytes(turns(session="helper-1").data())
    root = tmp_path / ".gemini"
    assert len(Run(store, root, IMPORTER).outcomes) == 3
    before = [entries for _, _, entries in everything_in(store)]
    # The tool copies all files, and continues in the copy.
    copy = root / "tmp" / "project"
    shutil.copytree(path.parents[1], copy)
    (copy / ".project_root").write_text(CWD)
    (copy / "chats" / gone.name).unlink()
    found = [hit.path.parents[1].name for hit in IMPORTER.find(root, None) if not hit.is_child]
    assert found == [HASH, "project"]
    assert len([hit for hit in IMPORTER.find(root, None) if hit.is_child]) == 1
    assert Run(store, root, IMPORTER).outcomes == []
    assert [entries for _, _, entries in everything_in(store)] == before
    assert store.session(SESSION).cwd == CWD
    file.turn(7)
    name = copy / "chats" / path.name
    name.write_bytes(file.one_object() if suffix == "json" else file.data())
    assert Run(store, root, IMPORTER).outcomes == [MergeOutcome.EXTENDED]
    assert len(everything_in(store)) == 3
    assert Run(store, root, IMPORTER).read == 1, "only the unchanged sub-agent is read"


@pytest.mark.parametrize("registry", ["", "{", '{"projects": 5}', '{"projects": {"/a": []}}'])
def test_folder_is_unknown_without_any_path(registry: str, tmp_path: Path) -> None:
    path = placed(tmp_path, HASH, turns())
    (tmp_path / ".gemini" / "projects.json").write_text(registry)
    assert folder_of(path) is None


def test_odd_candidate_paths_are_harmless(tmp_path: Path) -> None:
    file = turns()
    odd = ["", "x", "/a" * 1_000_000, *("/b" * number for number in range(3000))]
    file.put({"$set": {"directories": odd}})
    assert folder_of(placed(tmp_path, HASH, file)) is None


def test_find_returns_only_sessions_of_the_project(tmp_path: Path) -> None:
    placed(tmp_path, "project", turns())
    placed(tmp_path, "other", turns("/other", "55555555-other"))
    placed(tmp_path, HASH, turns(session="66666666-hash"))
    placed(tmp_path, "a" * 64, turns("/unknown", "77777777-unknown"))
    registered(tmp_path, project=CWD, other="/other")
    root = tmp_path / ".gemini"
    assert len(list(IMPORTER.find(root, None))) == 4
    names = [found.path.parents[1].name for found in IMPORTER.find(root, CWD)]
    assert sorted(names) == sorted(["project", HASH, "a" * 64])


@pytest.mark.parametrize(
    "below", [".gemini", ".gemini/tmp", ".gemini/tmp/project", ".gemini/tmp/project/chats"]
)
def test_find_accepts_any_parent_folder(below: str, tmp_path: Path) -> None:
    sub_agents(tmp_path)
    root = tmp_path / below
    assert [found.is_child for found in IMPORTER.find(root, None)] == [False, False, False, True]


def test_find_accepts_a_folder_with_copied_files(tmp_path: Path) -> None:
    (tmp_path / "session-x-22222222.jsonl").write_bytes(turns().data())
    assert len(list(IMPORTER.find(tmp_path, None))) == 1


def test_files_of_other_programs_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "session-a-1.jsonl").write_text('{"sessionId":"x","parentUuid":null}\n')
    (tmp_path / "session-b-1.json").write_text("{}\n")
    (tmp_path / "session-c-1.txt").write_bytes(everything().data())
    (tmp_path / "session-d-1.jsonl").mkdir()
    assert list(IMPORTER.find(tmp_path, None)) == []
    for path in tmp_path.iterdir():
        assert list(IMPORTER.find(path, None)) == []


def test_file_without_its_start_is_recognised_by_its_folder(tmp_path: Path) -> None:
    path = turns().write(tmp_path)
    path.write_bytes(bytes(300) + turns().data()[300:])
    for place in (path, tmp_path / ".gemini"):
        (source,) = read_sessions(IMPORTER, place)
        assert (source.incoming.id, source.folder) == (path.stem, CWD)
    elsewhere = tmp_path / path.name
    elsewhere.write_bytes(path.read_bytes())
    assert list(IMPORTER.find(elsewhere, None)) == []


def test_claude_importer_ignores_gemini_files(tmp_path: Path) -> None:
    path = everything().write(tmp_path)
    assert list(CLAUDE.find(path, None)) == []
    assert list(CLAUDE.find(path.parent, None)) == []


def test_any_file_of_a_session_finds_the_session(tmp_path: Path) -> None:
    first = turns().write(tmp_path)
    later = GeminiFile(minute=9)
    later.turn(2)
    (found,) = IMPORTER.find(later.write(tmp_path), None)
    assert found.path == first
    (source,) = IMPORTER.read(found, ImportNotes())
    assert source.incoming.id == SESSION
    child = sub_agents(tmp_path) / SESSION / "helper-1.jsonl"
    (found,) = IMPORTER.find(child, None)
    assert (found.path, found.is_child) == (child, True)


def test_sub_agent_is_linked_to_its_session(tmp_path: Path) -> None:
    sources = {
        source.incoming.id: source for source in read_sessions(IMPORTER, sub_agents(tmp_path))
    }
    child = sources[f"{SESSION}.helper-1"]
    assert (child.incoming.parent_id, child.incoming.cwd, child.folder) == (SESSION, None, CWD)
    assert child.incoming.agent_session_id == ""
    named = [b"childSessionId" in entry.line for entry in entries_of(sources[SESSION])]
    assert sum(named) == 1
