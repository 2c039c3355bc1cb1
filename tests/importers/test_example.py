"""The example importer in docs/how-to/write-an-importer.md follows the rules for importers."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from importer_results import check_any, check_growth, items_of, read_sessions
from rekindle.importers.base import ImportNotes, ToolImporter
from rekindle.model import TitleSource
from rekindle.store.memory import MemoryStore
from rekindle.transfer.merge import MergeOutcome
from tool_imports import Run, everything

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "write-an-importer.md"
RECORDS = [
    {"type": "asked", "time": "2025-10-09T00:00:01Z", "cwd": "/home/user", "text": "One"},
    {"type": "answered", "text": "1"},
    {"type": "asked", "text": "Two"},
    {"type": "answered", "text": "2"},
    {"type": "wondered"},
]
LINES = [json.dumps(record).encode() for record in RECORDS]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ToolImporter:
    shown = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    module = ModuleType("mytool")
    # msgspec looks up the types of records by the name of their module.
    monkeypatch.setitem(sys.modules, "mytool", module)
    exec(shown[1], module.__dict__)  # noqa: S102 - our own document
    return module.IMPORTER


def test_example_imports_new_and_grown_sessions(tool: ToolImporter, tmp_path: Path) -> None:
    (folder,) = tool.folders({}, tmp_path)
    folder.mkdir(parents=True)
    path, store = folder / "s1.mytool", MemoryStore()
    path.write_bytes(b"\n".join(LINES[:2]) + b"\n{")
    assert Run(store, folder, tool).outcomes == [MergeOutcome.NEW]
    path.write_bytes(b"\n".join([*LINES, b"torn"]))
    assert Run(store, folder, tool).outcomes == [MergeOutcome.EXTENDED]
    assert Run(store, folder, tool).read == 0
    ((session, titles, _),) = everything(store)
    assert (session.id, session.cwd, session.turns) == ("s1", "/home/user", 2)
    assert titles == {TitleSource.PROMPT: "One"}


def test_example_follows_the_rules(tool: ToolImporter, tmp_path: Path) -> None:
    path, notes = tmp_path / "s1.mytool", ImportNotes()
    check_growth(tool, path, LINES)
    (source,) = read_sessions(tool, path, notes)
    assert items_of(source) == ["One", "1", "Two", "2"]
    assert notes.skipped == {"a record of unknown type: wondered": 1}
    data = b"\n".join(LINES)
    for place in range(0, len(data), 7):
        check_any(tool, path, data[:place] + b"\0\xff" + data[place:])
