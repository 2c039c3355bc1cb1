"""The check of editor configurations."""

import json
from pathlib import Path

import pytest

from rekindle.cli.editors.doctor_checks import check_editors
from rekindle.store.maintenance import Severity


def test_an_agent_named_rekindle_is_not_taken_for_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    file = tmp_path / ".config/zed/settings.json"
    file.parent.mkdir(parents=True)
    command = {"command": f"{tmp_path}/gone/rekindle", "args": ["run", "--", "x"]}
    file.write_text(json.dumps({"agent_servers": {"rekindle": command}}), encoding="utf-8")
    (diagnosis,) = check_editors()
    assert (diagnosis.severity, diagnosis.facts["command"]) == (
        Severity.PROBLEM,
        command["command"],
    )
