"""Scans for files: unreadable or deleted paths do not stop them."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from claude_files import SESSION, ClaudeFile
from other_user import as_stranger
from rekindle.importers.base import FoundSession
from rekindle.importers.claude.session import IMPORTER
from rekindle.importers.scan import error_text, found_session, scan_each
from rekindle.store.memory import MemoryStore
from rekindle.transfer.import_scan import ImportFilter, ImportReport, ToolScanner
from tool_imports import NOW, Run, everything

OTHER = SESSION.replace("1", "2")


@pytest.fixture
def home(open_folder: Path) -> Path:
    """Return a home with two projects. One session has sub-agents, some of them in a folder."""
    for session, cwd in ((SESSION, "/a"), (OTHER, "/b")):
        file = ClaudeFile(session, cwd)
        file.turn(1)
        path = file.write(open_folder)
    for name in ("agent-1.jsonl", "workflows/w/agent-2.jsonl"):
        child = path.with_suffix("") / "subagents" / name
        child.parent.mkdir(parents=True, exist_ok=True)
        child.write_bytes(file.data())
    return open_folder


def import_as_stranger(home: Path) -> tuple[set[str], dict[str, str]]:
    """Import as another user; return the imported sessions, and the failed paths."""
    store = MemoryStore()
    with as_stranger():
        failed = Run(store, home / ".claude").report.failed
    return {session.id for session, _, _ in everything(store)}, failed


ALL = {SESSION, OTHER, f"{OTHER}.agent-1", f"{OTHER}.agent-w.2"}


@pytest.mark.parametrize(
    ("below", "missing"),
    [
        (f"-a/{SESSION}.jsonl", {SESSION}),
        ("-a", {SESSION}),
        (f"-b/{OTHER}/subagents", ALL - {SESSION, OTHER}),
        (f"-b/{OTHER}/subagents/agent-1.jsonl", {f"{OTHER}.agent-1"}),
        (f"-b/{OTHER}/subagents/workflows/w", {f"{OTHER}.agent-w.2"}),
        ("", ALL),
    ],
)
def test_unreadable_path_is_reported_and_does_not_stop_the_scan(
    home: Path, below: str, missing: set[str]
) -> None:
    assert import_as_stranger(home) == (ALL, {})
    path = home / ".claude" / "projects" / below
    mode = path.stat().st_mode
    path.chmod(0)
    ids, failed = import_as_stranger(home)
    path.chmod(mode)
    assert ids == ALL - missing
    ((location, error),) = failed.items()
    assert (str(path) in f"{location} {error}", error.count("Permission denied")) == (True, 1)


def test_sessions_found_before_an_error_are_kept(home: Path) -> None:
    def find(path: Path, cwd: str | None) -> Iterator[FoundSession]:
        yield from IMPORTER.find(path, cwd)
        raise PermissionError(errno.EACCES, "Permission denied")

    report = ImportReport(tool="claude")
    scanner = ToolScanner(replace(IMPORTER, find=find), ImportFilter())
    assert len(scanner.find_changed(home / ".claude", report, NOW)) == len(ALL)
    assert report.failed == {str(home / ".claude"): "Permission denied"}


def test_deleted_path_is_skipped(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths[::2]:
        path.touch()
    (tmp_path / "loop").symlink_to("loop")

    def find(path: Path) -> Iterator[FoundSession]:
        yield found_session([path])

    assert [found.path for found in scan_each([*paths, tmp_path / "a" / "x"], find)] == paths[::2]
    (found,) = scan_each([tmp_path / "loop"], find)
    assert found.error == os.strerror(errno.ELOOP)


def test_stamp_changes_with_each_file_of_a_session(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for number, path in enumerate(paths, 1):
        path.write_bytes(b"x" * number)
        os.utime(path, (number, number))
    file = found_session(paths, is_child=True)
    assert (file.path, file.size, file.updated_us, file.is_child) == (paths[0], 3, 2_000_000, True)
    for path in paths:
        os.utime(path, (9, 9))
        assert found_session(paths).stamp != file.stamp
        file = found_session(paths)


def test_error_text_names_only_other_files() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/a")
    assert error_text(error, "/a") == "Permission denied"
    assert error_text(error, Path("/b")) == "[Errno 13] Permission denied: '/a'"
    assert error_text(OSError("the disk is on fire"), "/a") == "the disk is on fire"
