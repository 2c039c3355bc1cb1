"""`rekindle check`: what it prints, how it ends, and what it leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from acp import PATIENCE, REKINDLE, is_running
from examining import example, quirky

DOCUMENT = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
STUBBORN = Path(__file__).parents[1] / "agents" / "stubborn.py"


def run(
    folder: Path, *words: str, command: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the command in a place where what it leaves behind can be seen."""
    (folder / "tmp").mkdir()
    return subprocess.run(
        [*REKINDLE, "check", *words, "--", *command],
        env=os.environ | {"TMPDIR": str(folder / "tmp")},
        capture_output=True,
        text=True,
        timeout=PATIENCE * 3,
        check=False,
    )


def test_people_read_verdicts_a_table_and_a_conclusion(tmp_path: Path) -> None:
    command = example(tmp_path, "--offer", "list")
    done = run(tmp_path, "--only", "greeting", "--only", "fork", command=command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert re.search(r"✓ the version that is asked for .* greeting\.version\n", done.stdout)
    assert re.search(r"\nfork\n  . `session/fork` is not offered\n", done.stdout)
    assert re.search(r"\n +pass +fail +not offered +skipped\nMUST +\d+ +0 +\d+ +\d+\n", done.stdout)
    assert re.search(r"\nexample-agent .*: every MUST is met \([\d.]+ s\)\n$", done.stdout)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_failure_is_told_with_what_was_sent_and_what_came_back(tmp_path: Path) -> None:
    command = quirky("claude", tmp_path)
    done = run(tmp_path, "--only", "close", command=command)
    assert done.returncode == 1
    told = done.stdout.partition("What must be otherwise")[2]
    assert "✗ wire.fields\n  rule   nothing is added to the protocol's types but `_meta`\n" in told
    assert "\n  found  the answer to session/load has sessionId" in told
    assert re.search(r"→ \{.*\"method\":\"session/load\"", told)
    assert re.search(r"← \{.*\"result\": \{\"sessionId\"", told)
    assert re.search(r": 1 MUST not met \(", told)


def test_what_fails_and_only_should_not_is_a_warning(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "greeting", command=quirky("pi", tmp_path))
    assert done.returncode == 0
    assert "! greeting.parse" in done.stdout.partition("What should be otherwise")[2]
    assert "every MUST is met, 1 warning" in done.stdout


def shape(value: Any) -> object:  # noqa: ANN401 - JSON
    """Return the names of what JSON has, and the types of their values."""
    if isinstance(value, dict):
        return {name: shape(it) for name, it in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and value is not True else type(value).__name__
    )


def test_programs_read_what_is_documented(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "greeting", "--json", command=quirky("banner", tmp_path))
    printed = json.loads(done.stdout)
    found = re.search(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found
    documented = json.loads(found[1])
    failure = next(it for it in printed["requirements"] if it["verdict"] == "fail")
    expected = documented["requirements"][0]
    assert shape(printed | {"requirements": [], "command": []}) == shape(
        documented | {"requirements": [], "command": []}
    )
    assert shape(failure) == shape(expected)
    assert printed["command"] == list(quirky("banner", tmp_path))
    assert (done.returncode, printed["ok"]) == (1, False)
    wire = next(it for it in printed["requirements"] if it["id"] == "wire.json")
    assert wire["evidence"][0]["line"] == "Welcome! This line is not JSON."


def test_secrets_are_masked(tmp_path: Path) -> None:
    agent = tmp_path / "agent.sh"
    agent.write_text("echo api_key=0123456789abcdefghijABCDEFGHIJ123456; cat\n")
    command = ("sh", str(agent), "--token", "abcd1234efgh")
    done = run(tmp_path, "--patience", "1", "--json", command=command)
    assert "0123456789abcdefghij" not in done.stdout
    assert "abcd1234" not in done.stdout
    assert "api_key" in done.stdout


@pytest.mark.parametrize(
    ("words", "command", "code", "told"),
    [
        ([], (), 2, "no agent given"),
        (["--only", "nothing"], ("true",), 2, "invalid choice: 'nothing'"),
        ([], ("true",), 3, "`initialize` was not answered: the agent ended with 0"),
        (["--patience", "0.2"], ("sleep", "60"), 3, "`initialize` was not answered in time"),
        ([], ("/nowhere/agent",), 127, "command not found: /nowhere/agent"),
        ([], ("/etc/passwd",), 126, "cannot run /etc/passwd"),
    ],
)
def test_it_says_why_an_agent_cannot_be_checked(
    words: list[str], command: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    done = run(tmp_path, *words, command=command)
    assert (done.returncode, told in done.stderr) == (code, True), done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_process_outlives_it_when_it_is_ended(number: int, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    command = f"exec {sys.executable} {STUBBORN} > {pids}"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*REKINDLE, "check", "--", "sh", "-c", command],
            env=os.environ | {"TMPDIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with pids.open(encoding="utf-8") as told:
            agent, child = map(int, told.readline().split())
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (130, b"")
        assert not is_running(agent)
        assert not is_running(child)
        assert list(Path(folder).iterdir()) == []
