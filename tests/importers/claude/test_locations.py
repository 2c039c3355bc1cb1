"""Where Claude Code keeps its sessions, and which files are read."""

import re
from pathlib import Path

import pytest

from claude_files import CWD, SESSION, ClaudeFile, everything
from importer_results import entries_of, read_sessions
from rekindle.importers.base import ImportNotes
from rekindle.importers.claude.locations import folder_name, folders
from rekindle.importers.claude.session import IMPORTER


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/home/user/my project", "-home-user-my-project"),
        ("C:\\Users\\Me", "C--Users-Me"),
        ("/a/\N{GRINNING FACE}", "-a---"),
        ("/\xe9t\xe9_x.y", "--t--x-y"),
        ("/" + "a" * 199, "-" + "a" * 199),
        ("/" + "a" * 200, "-" + "a" * 199 + "-b6ymvl"),
    ],
)
def test_folder_name_is_computed_like_claude_code(cwd: str, name: str) -> None:
    assert folder_name(cwd) == name


def test_projects_folder_comes_from_the_environment() -> None:
    home = Path("/home/user")
    assert folders({}, home)[0] == home / ".claude/projects"
    assert folders({"CLAUDE_CONFIG_DIR": "/c"}, home) == [Path("/c/projects")]
    assert folders({"XDG_CONFIG_HOME": "/x"}, home)[1] == Path("/x/claude/projects")


def test_find_searches_only_the_folder_of_the_project(tmp_path: Path) -> None:
    for cwd in (CWD, "/home/user/other"):
        file = ClaudeFile(cwd=cwd, session=SESSION.replace("1", str(len(cwd) % 10)))
        file.turn(1)
        file.write(tmp_path)
    root = tmp_path / ".claude"
    assert len(list(IMPORTER.find(root, None))) == 2
    assert [found.path.parent.name for found in IMPORTER.find(root, CWD)] == [folder_name(CWD)]
    assert list(IMPORTER.find(root / "projects", "/nowhere")) == []


def test_files_of_other_programs_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "anything"
    folder.mkdir()
    (folder / "a.jsonl").write_text(
        '{"timestamp":"x","type":"session_meta","payload":{"sessionId":1}}\n'
    )
    (folder / "b.jsonl").write_text("{}\n")
    (folder / "c.txt").write_bytes(everything().data())
    (folder / "d.jsonl").mkdir()
    for path in (tmp_path, folder, *folder.iterdir()):
        assert list(IMPORTER.find(path, None)) == []


@pytest.mark.parametrize(
    "named",
    [
        "/etc/passwd",
        "../../../secret.txt",
        "tool-results/../../secret.txt",
        "..",
        "",
        "link.txt",
        "x" * 300,
        "a\0b",
    ],
)
def test_output_is_read_only_from_the_sessions_folder(tmp_path: Path, named: str) -> None:
    file = ClaudeFile()
    file.user("Go")
    file.call("msg_1", "toolu_1", "Bash", {"command": "x"})
    file.result("toolu_1", f"<persisted-output>\nFull output saved to: {named}\nPreview: x")
    path = file.write(tmp_path)
    secret = path.parent / "secret.txt"
    secret.write_text("SECRET")
    folder = path.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    (folder / "link.txt").symlink_to(secret)
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, path, notes)
    assert all(b"SECRET" not in entry.line for entry in entries_of(source))
    assert (sum(notes.skipped.values()) == 1) is bool(named)


@pytest.mark.parametrize("odd", ["../../x", "a b", "x" * 500, "\x1b[2J", ""])
def test_invalid_ids_and_folders_are_replaced(tmp_path: Path, odd: str) -> None:
    file = ClaudeFile(odd or SESSION)
    file._common["cwd"] = odd  # noqa: SLF001 - as a record could say it
    file._common["version"] = odd  # noqa: SLF001
    file.number = 0
    file.uuid = lambda number: f"u{number}"  # type: ignore[method-assign]
    file.turn(1)
    file.user("Help", parent=None, isSidechain=True, agentId=odd)
    path = tmp_path / "talk.jsonl"
    path.write_bytes(file.data())
    sources = read_sessions(IMPORTER, path)
    assert sources[0].incoming.cwd == "/"
    for source in sources:
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,250}", source.incoming.id)
        assert len(source.incoming.agent.version or "") <= 100
