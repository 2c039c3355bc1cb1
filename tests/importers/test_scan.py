"""Finding files: what nobody may look at, or is just going, keeps no other out."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from claude_files import SESSION, ClaudeFile
from other_user import as_stranger
from rekindle.importers.base import Found
from rekindle.importers.claude import TOOL
from rekindle.importers.scan import each, found_in, why
from rekindle.store.memory import MemoryStore
from rekindle.transfer.import_scan import ImportFilter, ImportReport, ToolScanner
from tool_imports import NOW, Run, everything

OTHER = SESSION.replace("1", "2")


@pytest.fixture
def home(open_folder: Path) -> Path:
    """Return a home with two projects; one session has sub-agents, some of them in a folder."""
    for session, cwd in ((SESSION, "/a"), (OTHER, "/b")):
        it = ClaudeFile(session, cwd)
        it.turn(1)
        path = it.write(open_folder)
    for name in ("agent-1.jsonl", "workflows/w/agent-2.jsonl"):
        child = path.with_suffix("") / "subagents" / name
        child.parent.mkdir(parents=True, exist_ok=True)
        child.write_bytes(it.data())
    return open_folder


def told(home: Path) -> tuple[set[str], dict[str, str]]:
    """Return the sessions that are imported, and what is not."""
    store = MemoryStore()
    with as_stranger():
        failed = Run(store, home / ".claude").report.failed
    return {session.id for session, _, _ in everything(store)}, failed


ALL = {SESSION, OTHER, f"{OTHER}.agent-1", f"{OTHER}.agent-w.2"}


@pytest.mark.parametrize(
    ("place", "missing"),
    [
        (f"-a/{SESSION}.jsonl", {SESSION}),
        ("-a", {SESSION}),
        (f"-b/{OTHER}/subagents", ALL - {SESSION, OTHER}),
        (f"-b/{OTHER}/subagents/agent-1.jsonl", {f"{OTHER}.agent-1"}),
        (f"-b/{OTHER}/subagents/workflows/w", {f"{OTHER}.agent-w.2"}),
        ("", ALL),
    ],
)
def test_what_nobody_may_look_at_is_told_and_keeps_no_other_out(
    home: Path, place: str, missing: set[str]
) -> None:
    assert told(home) == (ALL, {})
    path = home / ".claude" / "projects" / place
    mode = path.stat().st_mode
    path.chmod(0)
    ids, failed = told(home)
    path.chmod(mode)
    assert ids == ALL - missing
    ((named, words),) = failed.items()
    assert (str(path) in f"{named} {words}", words.count("Permission denied")) == (True, 1)


def test_what_was_found_before_something_failed_is_imported(home: Path) -> None:
    def find(path: Path, cwd: str | None) -> Iterator[Found]:
        yield from TOOL.find(path, cwd)
        raise PermissionError(errno.EACCES, "Permission denied")

    report = ImportReport(tool="claude")
    scanner = ToolScanner(replace(TOOL, find=find), ImportFilter())
    assert len(scanner.find_changed(home / ".claude", report, NOW)) == len(ALL)
    assert report.failed == {str(home / ".claude"): "Permission denied"}


def test_what_is_gone_when_it_is_looked_at_is_passed_over(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths[::2]:
        path.touch()
    (tmp_path / "loop").symlink_to("loop")

    def find(path: Path) -> Iterator[Found]:
        yield found_in([path])

    assert [it.path for it in each([*paths, tmp_path / "a" / "x"], find)] == paths[::2]
    (it,) = each([tmp_path / "loop"], find)
    assert it.trouble == os.strerror(errno.ELOOP)


def test_a_session_of_several_files_changes_with_each(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for number, path in enumerate(paths, 1):
        path.write_bytes(b"x" * number)
        os.utime(path, (number, number))
    it = found_in(paths, is_child=True)
    assert (it.path, it.size, it.updated_us, it.is_child) == (paths[0], 3, 2_000_000, True)
    for path in paths:
        os.utime(path, (9, 9))
        assert found_in(paths).stamp != it.stamp
        it = found_in(paths)


def test_why_names_the_file_only_if_that_is_another() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/a")
    assert why(error, "/a") == "Permission denied"
    assert why(error, Path("/b")) == "[Errno 13] Permission denied: '/a'"
    assert why(OSError("the disk is on fire"), "/a") == "the disk is on fire"
