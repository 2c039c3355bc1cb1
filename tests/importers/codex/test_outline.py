"""The two passes over the files of a Codex session."""

from pathlib import Path

import pytest

from codex_files import CodexFile
from rekindle.importers.base import ImportNotes
from rekindle.importers.codex import outline
from rekindle.importers.codex.outline import CodexSegment, read_outline, remaining_lines


def test_progress_grows_over_all_files_and_both_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "_LINES_PER_REPORT", 1)
    segments: list[CodexSegment] = []
    for number in (1, 2):
        file = CodexFile()
        for turn in range(number):
            file.turn(turn)
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(file.data())
        segments.append(CodexSegment(path=path, size=len(file.data())))
    first, second = (segment.path.stat().st_size for segment in segments)
    reports: list[int] = []
    notes = ImportNotes(reports.append)
    found = read_outline(segments, notes)
    assert (
        len(list(remaining_lines(segments, found.rollbacks, notes, found.size)))
        == len(reports) // 2
    )
    assert reports == sorted(reports)
    # Offsets are only updated now and then, so within a small file the progress does not change.
    whole = first + second
    assert sorted(set(reports)) == [0, first // 2, whole // 2, (whole + first) // 2]
