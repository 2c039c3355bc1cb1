"""The agent's command is recorded for any folder, and no folder decides what it runs."""

import os
from pathlib import Path

import pytest

from rekindle.cli.agent_command import folder_dependence, independent_of_folder

HAS = "the current folder has the file of its argument"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has some files."""
    for name in ("agent.py", "acp", "tools/run", "run", "serve.js", "package/__main__.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_in_a_command_become_absolute(folder: Path) -> None:
    command = ("python", "agent.py", "./agent.py", "tools/run", "--config=agent.py", "-f", ".")
    file = f"{folder}/agent.py"
    expected = ("python", file, file, f"{folder}/tools/run", f"--config={file}", "-f", str(folder))
    assert independent_of_folder(command) == expected
    assert independent_of_folder(("tools/run", "acp")) == (f"{folder}/tools/run", "acp")
    assert independent_of_folder(("env", "A=1", "bash", "-e", "run", "acp")) == (
        *("env", "A=1", "bash", "-e", f"{folder}/run", "acp"),
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "command",
    [
        ("opencode", "acp"),
        (
            "npx",
            "@org/agent@1.2",
            "--model=org/model-1.5",
            "--x",
            "missing.py",
            "a\0b",
            "x." * 9999,
        ),
        ("python", "/bin/agent.py", "A=agent.py"),
        ("python", "/bin/agent.py", "acp"),
        ("python", "-m", "acme.agent", "acp"),
        ("python", "-m"),
        ("python", "-c", "import acme; acme.main('acp')"),
        ("npx", "agent", "run"),
        ("uvx", "agent", "package"),
        ("node", "missing", "--acp"),
        ("node", "--eval", "require('acme')"),
        ("node", "x" * 9999),
        ("bash", "-lc", ". ~/.profile; exec agent acp --cwd $PWD -v $PWD:/run"),
        ("bash", "-lc", 'exec agent "$@"', "agent", "acp"),
    ],
)
def test_other_words_of_a_command_stay(command: tuple[str, ...]) -> None:
    assert independent_of_folder(command) == command
    assert folder_dependence(command) is None


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("tools/run",), "its program tools/run is a relative path"),
        (("./agent.py",), "its program ./agent.py is a relative path"),
        (("python", "agent.py"), "the current folder has the file of its argument agent.py"),
        (("python", "-f=agent.py"), "the current folder has the file of its argument -f=agent.py"),
        (("bash", "run"), "the current folder has the file of its argument run"),
        (("/usr/bin/env", "node", "--x", "serve"), f"{HAS} serve"),
        (("node", "-r", "./serve", "/bin/x"), f"{HAS} ./serve"),
        (("node", "-r", "/bin/x", "run"), f"{HAS} run"),
        (("python3.12", "-m", "agent"), f"{HAS} agent"),
        (("python", "-um", "package.cli"), f"{HAS} package.cli"),
        (("uv", "run", "python", "-mpackage"), f"{HAS} package"),
        (("python", "-c", "from agent import main; main()"), f"{HAS} agent"),
        (("bash", "-lc", "python agent.py"), f"{HAS} agent.py"),
        (("bash", "-lc", "exec python -m agent"), f"{HAS} agent"),
        (("sh", "-c", "exec ./run"), f"{HAS} ./run"),
        (("sh", "-c", "A=1;exec '$PWD/run'"), f"{HAS} ./run"),
        (("sh", "-c", "exec ${PWD}/run"), f"{HAS} ./run"),
        (("sh", "-c", "exec $(pwd)/run"), f"{HAS} ./run"),
        (("sh", "-c", "cd tools && exec agent"), f"{HAS} tools"),
        (("sh", "-c", "bash -c 'bash run'"), f"{HAS} run"),
    ],
)
def test_a_command_that_depends_on_the_folder_is_recognised(
    command: tuple[str, ...], reason: str
) -> None:
    assert folder_dependence(command) == reason


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("entry", ["", ".", "tools/.."])
def test_a_program_in_a_relative_entry_of_path_is_recognised(
    monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([entry, "/usr/bin", "/bin"]))
    shown = entry or "."
    reason = f"its program acp is found through the entry {shown!r} of PATH"
    assert folder_dependence(("acp",)) == reason
    assert folder_dependence(("sh",)) is None
    assert folder_dependence(("missing",)) is None
