"""The check of editor configurations: one finding for each agent that Rekindle starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from rekindle.cli.editors.doctor_checks import check_editors
from rekindle.store.maintenance import Diagnosis, Severity

ZED = ".config/zed/settings.json"


class Home:
    """A home folder with files of editors and with programs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def program(self, name: str, mode: int = 0o755) -> str:
        file = self.write(f"bin/{name}", "#!/bin/sh\n")
        file.chmod(mode)
        return str(file)

    def agents(self, key: str = "agent_servers", **commands: list[str]) -> str:
        entries: dict[str, Any] = {
            name: {"command": words[0], "args": words[1:]} for name, words in commands.items()
        }
        return json.dumps({key: entries})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / ".local/share"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return Home(tmp_path)


def found() -> list[tuple[Severity, str]]:
    return [(it.severity, it.text) for it in check_editors()]


def problem() -> Diagnosis:
    (diagnosis,) = check_editors()
    assert diagnosis.severity is Severity.PROBLEM
    return diagnosis


def test_each_wrapped_agent_has_a_line(home: Home) -> None:
    ours, agent = home.program("rekindle"), home.program("agent")
    run = [ours, "run", "--", agent]
    home.program("uvx")
    three = ["uvx", "rekindle-acp", "run", "--", "agent"]
    home.write(ZED, home.agents(One=run, Two=[*run, "x"], Three=three))
    home.write(".jetbrains/acp.json", home.agents(Four=[ours, "run", "agent"]))
    home.write(".config/Code/User/settings.json", home.agents("acp.agents", Five=run))
    home.write(".config/nvim/init.lua", f'x = {{ "{ours}", "run", "--", "agent" }}')
    full_path = f"; if it does not start, use the full path {home.path}/bin/uvx"
    assert found() == [
        (Severity.OK, "Zed starts One behind Rekindle"),
        (Severity.OK, "Zed starts Two behind Rekindle"),
        (Severity.OK, f"Zed starts Three behind Rekindle{full_path}"),
        (Severity.OK, "JetBrains starts Four behind Rekindle"),
        (Severity.OK, "VS Code starts Five behind Rekindle"),
        (Severity.OK, "Neovim starts agent behind Rekindle"),
    ]
    first = next(check_editors())
    facts = {"file": str(home.path / ZED), "command": ours, "editor": "zed", "agent": "One"}
    assert first.facts == facts


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["agent-one", "acp"], "agent-one is not installed, or not on the PATH"),
        (["HOME/bin/agent-one"], "HOME/bin/agent-one does not exist"),
        (["HOME/bin/text"], "HOME/bin/text is not executable"),
        (["env", "A=b", "nice", "-n", "5", "agent-one"], "agent-one is not installed"),
        ([], "`rekindle run` has no agent"),
    ],
)
def test_agent_that_cannot_start_is_a_problem(home: Home, words: list[str], why: str) -> None:
    home.program("text", 0o644)
    words = [word.replace("HOME", str(home.path)) for word in words]
    file = home.write(ZED, home.agents(A=[home.program("rekindle"), "run", "--", *words]))
    diagnosis = problem()
    assert f"Zed cannot start A: {why.replace('HOME', str(home.path))}" in diagnosis.text
    assert diagnosis.remedy == f"install the agent, or correct its command in {file}"


def test_agent_behind_a_launcher_is_not_looked_for(home: Home) -> None:
    home.program("npx")
    words = [home.program("rekindle"), "run", "--", "env", "A=b", "npx", "-y", "@acme/agent"]
    home.write(ZED, home.agents(A=words))
    assert found() == [(Severity.OK, "Zed starts A behind Rekindle")]


@pytest.mark.parametrize("name", ["rekindle", "other"])
def test_missing_rekindle_is_a_problem(home: Home, name: str) -> None:
    ours = f"{home.path}/gone/rekindle"
    home.write(ZED, home.agents(**{name: [ours, "run", "--", "sh"]}))
    diagnosis = problem()
    assert diagnosis.text == f"Zed cannot start {name}: {ours} does not exist"
    assert diagnosis.remedy == "`rekindle setup zed --all` corrects the path of Rekindle"
    assert diagnosis.facts["command"] == ours


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".emacs", '(setq x \'("GONE" "run" "--" "sh"))'),
        (".emacs", '(acp-make-client :command "GONE" :command-params \'("run" "--" "sh"))'),
        (".config/nvim/init.lua", 'a = { command = "GONE", args = { "run", "--", "sh" } }'),
        (".config/nvim/init.lua", 'local rekindle = "GONE"'),
    ],
)
def test_missing_rekindle_in_code_is_a_problem(home: Home, name: str, text: str) -> None:
    home.write(name, text.replace("GONE", "/gone/rekindle"))
    diagnosis = problem()
    assert ": /gone/rekindle does not exist" in diagnosis.text
    assert diagnosis.remedy.endswith("-- COMMAND` corrects the path of Rekindle")


def test_agents_without_rekindle_are_named(home: Home) -> None:
    entries = {"A": {"command": "sh"}, "B": {"type": "registry"}, "C": {}}
    home.write(ZED, json.dumps({"agent_servers": entries}))
    home.write(".jetbrains/acp.json", "{}")
    assert found() == [
        (Severity.OK, "Zed starts A, B without Rekindle"),
        (Severity.OK, "JetBrains does not use Rekindle"),
    ]


def test_unclear_file_is_a_warning(home: Home) -> None:
    file = home.write(ZED, "{ broken")
    ((severity, text),) = found()
    assert severity is Severity.WARNING
    assert text.startswith(f"Zed: {file} cannot be checked: the file is not valid JSON")


def test_vscode_without_the_extension_is_not_mentioned(home: Home) -> None:
    home.write(".config/Code/User/settings.json", '{"editor.fontSize": 14}')
    assert found() == []
