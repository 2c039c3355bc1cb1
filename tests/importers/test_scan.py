"""Finding files: what nobody may look at, or is just going, keeps no other out."""

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
from rekindle.transfer.import_scan import Gatherer, Report, Wanted
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
    def find(path: Path, cwd: str | None) -> Iterator[FoundSession]:
        yield from IMPORTER.find(path, cwd)
        raise PermissionError(errno.EACCES, "Permission denied")

    report = Report(tool="claude")
    gatherer = Gatherer(replace(IMPORTER, find=find), Wanted())
    assert len(gatherer.look(home / ".claude", report, NOW)) == len(ALL)
    assert report.failed == {str(home / ".claude"): "Permission denied"}


def test_what_is_gone_when_it_is_looked_at_is_passed_over(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths[::2]:
        path.touch()
    (tmp_path / "loop").symlink_to("loop")

    def find(path: Path) -> Iterator[FoundSession]:
        yield found_session([path])

    assert [it.path for it in scan_each([*paths, tmp_path / "a" / "x"], find)] == paths[::2]
    (it,) = scan_each([tmp_path / "loop"], find)
    assert it.error == os.strerror(errno.ELOOP)


def test_a_session_of_several_files_changes_with_each(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for number, path in enumerate(paths, 1):
        path.write_bytes(b"x" * number)
        os.utime(path, (number, number))
    it = found_session(paths, is_child=True)
    assert (it.path, it.size, it.updated_us, it.is_child) == (paths[0], 3, 2_000_000, True)
    for path in paths:
        os.utime(path, (9, 9))
        assert found_session(paths).stamp != it.stamp
        it = found_session(paths)


def test_why_names_the_file_only_if_that_is_another() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/a")
    assert error_text(error, "/a") == "Permission denied"
    assert error_text(error, Path("/b")) == "[Errno 13] Permission denied: '/a'"
    assert error_text(OSError("the disk is on fire"), "/a") == "the disk is on fire"
