"""`rekindle agents`."""

import json
from pathlib import Path

import pytest

from prepared_sessions import install
from rekindle.cli.known_agents import KNOWN_AGENTS
from rekindle.cli.main import main


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = install(tmp_path / "bin", "opencode")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("REKINDLE_CONFIG", str(tmp_path / "config.toml"))
    return folder


def test_installed_agents_come_first(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents"]) == 0
    heading, first, second, *others = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "COMMAND", "INSTALLED"]
    assert first.split() == ["opencode", "opencode", "acp", str(programs / "opencode")]
    text = "claude      claude-agent-acp  no: npm install -g @agentclientprotocol/claude-agent-acp"
    assert second == text
    assert len(others) == len(KNOWN_AGENTS) - 2


def test_agents_of_the_configuration_file_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["opencode", "acp", "--api-key", "very-secret"]
    (tmp_path / "config.toml").write_text(f"[agents.mine]\ncommand = {command}")
    assert main(["agents"]) == 0
    line = next(it for it in capsys.readouterr().out.splitlines() if it.startswith("mine "))
    assert "opencode acp --api-key '***'" in line
    assert line.endswith("/bin/opencode (from the configuration file)")


def test_json_has_documented_fields(
    programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text("[agents.mine]\ncommand = 'my-agent'")
    assert main(["agents", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    document = Path(__file__).parents[3] / "docs" / "reference" / "agents.md"
    text = document.read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0]
    (documented,) = json.loads(text)
    assert listed[0] == documented | {"path": str(programs / "opencode")}
    assert listed[-1] == {
        "name": "mine",
        "title": None,
        "command": ["my-agent"],
        "installed": False,
        "path": None,
        "install": None,
        "source": "configuration",
    }
