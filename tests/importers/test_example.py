"""The importer that docs/importers.md shows keeps what it says that every importer must."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from importer_results import check_any, check_growth, talks_of, told
from rekindle.importers.base import Notes, Tool
from rekindle.model import TitleSource
from rekindle.store.memory import MemoryStore
from rekindle.transfer.merge import MergeOutcome
from tool_imports import Run, everything

DOCUMENT = Path(__file__).parents[2] / "docs" / "importers.md"
RECORDS = [
    {"type": "asked", "time": "2025-10-09T00:00:01Z", "cwd": "/home/user", "text": "One"},
    {"type": "answered", "text": "1"},
    {"type": "asked", "text": "Two"},
    {"type": "answered", "text": "2"},
    {"type": "wondered"},
]
LINES = [json.dumps(it).encode() for it in RECORDS]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    shown = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    module = ModuleType("mytool")
    # What records are read into is looked up by the name of its module.
    monkeypatch.setitem(sys.modules, "mytool", module)
    exec(shown[1], module.__dict__)  # noqa: S102 - it is our own
    return module.TOOL


def test_it_imports_what_is_there_and_what_is_new(tool: Tool, tmp_path: Path) -> None:
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


def test_it_keeps_the_rules(tool: Tool, tmp_path: Path) -> None:
    path, notes = tmp_path / "s1.mytool", Notes()
    check_growth(tool, path, LINES)
    (talk,) = talks_of(tool, path, notes)
    assert told(talk) == ["One", "1", "Two", "2"]
    assert notes.skipped == {"a record of unknown type: wondered": 1}
    data = b"\n".join(LINES)
    for place in range(0, len(data), 7):
        check_any(tool, path, data[:place] + b"\0\xff" + data[place:])
