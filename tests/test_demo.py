"""The demo, `examples/demo.py`."""

import importlib
import os
import sysconfig
from pathlib import Path

import pytest

from rekindle.model import Counted, Opened, Titled, TitleSource
from rekindle.store.sqlite.store import SqliteStore

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_demo_shows_the_table_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    demo = importlib.import_module("demo")
    with SqliteStore(tmp_path / "s.db") as store:
        store.write([Opened(session_id="ses_1", at_us=1, cwd="/p")])
        store.write([Titled(session_id="ses_1", at_us=1, source=TitleSource.USER, title="Mine")])
        store.write([Counted(session_id="ses_1", at_us=1, turns=1)])
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environ = os.environ | {"PATH": path, "REKINDLE_STORE": str(tmp_path / "s.db")}
    demo.run_as_on_a_terminal(demo.Screen(is_fast=True), "rekindle list", environ)
    shown = capsys.readouterr().out
    assert "ID     AGE" in shown
    assert "TITLE\n" in shown
    assert "Mine\n" in shown
    assert "\t" not in shown
    assert "\x1b" not in shown
