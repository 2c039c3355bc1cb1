"""Where Claude Code keeps its sessions, and which files are read at all."""

import re
from pathlib import Path

import pytest

from claude_files import CWD, SESSION, ClaudeFile, everything
from importer_results import entries_of, talks_of
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
def test_a_projects_folder_is_found_by_its_name(cwd: str, name: str) -> None:
    assert folder_name(cwd) == name


def test_where_it_keeps_its_sessions() -> None:
    home = Path("/home/user")
    assert folders({}, home)[0] == home / ".claude/projects"
    assert folders({"CLAUDE_CONFIG_DIR": "/c"}, home) == [Path("/c/projects")]
    assert folders({"XDG_CONFIG_HOME": "/x"}, home)[1] == Path("/x/claude/projects")


def test_only_a_projects_own_folder_is_looked_into(tmp_path: Path) -> None:
    for cwd in (CWD, "/home/user/other"):
        it = ClaudeFile(cwd=cwd, session=SESSION.replace("1", str(len(cwd) % 10)))
        it.turn(1)
        it.write(tmp_path)
    root = tmp_path / ".claude"
    assert len(list(IMPORTER.find(root, None))) == 2
    assert [found.path.parent.name for found in IMPORTER.find(root, CWD)] == [folder_name(CWD)]
    assert list(IMPORTER.find(root / "projects", "/nowhere")) == []


def test_what_is_not_its_own_is_left_alone(tmp_path: Path) -> None:
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
def test_no_other_file_is_read_whatever_a_record_says(tmp_path: Path, named: str) -> None:
    it = ClaudeFile()
    it.user("Go")
    it.call("msg_1", "toolu_1", "Bash", {"command": "x"})
    it.result("toolu_1", f"<persisted-output>\nFull output saved to: {named}\nPreview: x")
    path = it.write(tmp_path)
    secret = path.parent / "secret.txt"
    secret.write_text("SECRET")
    folder = path.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    (folder / "link.txt").symlink_to(secret)
    notes = ImportNotes()
    (talk,) = talks_of(IMPORTER, path, notes)
    assert all(b"SECRET" not in entry.line for entry in entries_of(talk))
    assert (sum(notes.skipped.values()) == 1) is bool(named)


@pytest.mark.parametrize("odd", ["../../x", "a b", "x" * 500, "\x1b[2J", ""])
def test_names_that_nobody_gives_are_not_taken_over(tmp_path: Path, odd: str) -> None:
    it = ClaudeFile(odd or SESSION)
    it._common["cwd"] = odd  # noqa: SLF001 - as a record could say it
    it._common["version"] = odd  # noqa: SLF001
    it.number = 0
    it.uuid = lambda number: f"u{number}"  # type: ignore[method-assign]
    it.turn(1)
    it.user("Help", parent=None, isSidechain=True, agentId=odd)
    path = tmp_path / "talk.jsonl"
    path.write_bytes(it.data())
    talks = talks_of(IMPORTER, path)
    assert talks[0].incoming.cwd == "/"
    for talk in talks:
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,250}", talk.incoming.id)
        assert len(talk.incoming.agent.version or "") <= 100
