"""Scanning the files of a tool: failures, invalid values, archived sessions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from claude_files import SESSION, ClaudeFile
from recorded_sessions import asked
from rekindle.importers.base import FoundSession, ImportNotes, SourceSession
from rekindle.importers.claude.session import IMPORTER
from rekindle.model import (
    LeaseHolder,
)
from rekindle.store.base import Store
from rekindle.transfer.import_apply import SessionImporter
from rekindle.transfer.import_scan import ImportFilter, ImportReport, ToolScanner
from rekindle.transfer.merge import MergeOutcome
from tool_imports import HOLDER, NOW, Run, everything

OTHER = LeaseHolder(token="other", pid=7, machine="there")  # noqa: S106 - no password


@pytest.fixture
def file() -> ClaudeFile:
    it = ClaudeFile()
    it.turn(1)
    return it


def test_failing_importer_is_reported_and_retried_later(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    (found,) = IMPORTER.find(path, None)

    def read(*_: object) -> Iterator[object]:
        raise KeyError("odd")
        yield

    scanner = ToolScanner(replace(IMPORTER, read=read), ImportFilter())
    report = ImportReport(tool="claude")
    assert (
        scanner.import_found(found, SessionImporter(store, HOLDER), report, NOW, lambda _: None)
        == []
    )
    assert report.failed == {str(path): "a bug in Rekindle: KeyError: 'odd'"}
    # It is tried again after a delay.
    assert scanner.find_changed(path, report, NOW + 1) == []
    assert scanner.find_changed(path, report, NOW + 60_000_000) == [found]


def test_branch_of_archived_session_is_not_archived(
    store: Store, file: ClaudeFile, tmp_path: Path
) -> None:
    def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
        return (replace(it, is_archived=True) for it in IMPORTER.read(found, notes))

    tool = replace(IMPORTER, read=read)
    file.write(tmp_path)
    Run(store, tmp_path / ".claude", tool)
    assert store.session(SESSION).archived_us is not None
    store.write([asked(SESSION, "Here")])
    file.turn(2)
    file.write(tmp_path)
    (branch,) = Run(store, tmp_path / ".claude", tool).results
    assert branch.outcome is MergeOutcome.BRANCHED
    assert store.session(branch.session_id).archived_us is None


@pytest.mark.parametrize("odd", ["../../etc", "\x1b[2J", "a\nb", "x" * 300, "\ud800", " ", "ses/1"])
def test_invalid_ids_and_folders_are_not_imported(
    store: Store, file: ClaudeFile, tmp_path: Path, odd: str
) -> None:
    def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
        for source_session in IMPORTER.read(found, notes):
            ids = {"id": odd, "agent_session_id": odd, "parent_id": odd}
            arrived = replace(source_session.incoming, **ids, cwd=odd, directories=(odd, "/d"))
            yield replace(source_session, incoming=arrived, folder=odd)

    path = file.write(tmp_path)
    run = Run(store, path, replace(IMPORTER, read=read))
    assert run.outcomes == [MergeOutcome.NEW]
    ((session, _, entries),) = everything(store)
    assert re.fullmatch(r"[0-9a-f]{16}", session.id)
    assert (session.parent_id, session.agent_session_id) == (session.id, "")
    assert (session.cwd, session.directories) == (None, ("/d",))
    assert len(entries) == 3
    assert Run(store, path, replace(IMPORTER, read=read)).read == 0
