"""`rekindle check`: its output, exit code and leftover processes."""

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

import warm_start
from conformance_runs import example, imitation
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, is_running

DOCUMENT = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
ONLY_V2 = (*EXAMPLE_AGENT, "--protocol", "2", "--only-v2")
IGNORES_SIGNALS = Path(__file__).parents[1] / "agents" / "agent_ignores_signals.py"


def run(
    folder: Path, *options: str, command: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the command with its own folder for temporary files."""
    (folder / "tmp").mkdir()
    return warm_start.run(
        [*REKINDLE, "check", *options, "--", *command],
        env=os.environ | {"TMPDIR": str(folder / "tmp")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT * 3,
        check=False,
    )


def test_output_has_verdicts_summary_and_conclusion(tmp_path: Path) -> None:
    command = example(tmp_path, "--offer", "list")
    done = run(tmp_path, "--only", "greeting", "--only", "fork", command=command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert re.search(r"✓ the version that is asked for .* greeting\.version\n", done.stdout)
    assert re.search(r"\nfork\n  . `session/fork` is not offered\n", done.stdout)
    heads = r"\n +pass +fail +not offered +not seen +skipped\n"
    assert re.search(rf"{heads}MUST +\d+ +0 +\d+ +\d+ +0\n", done.stdout)
    assert re.search(r"\nexample-agent .*: every MUST is met \([\d.]+ s\)\n$", done.stdout)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_failure_is_shown_with_its_lines(tmp_path: Path) -> None:
    command = imitation("claude", tmp_path)
    done = run(tmp_path, "--only", "close", "--long-prompt", "slow", command=command)
    assert done.returncode == 1
    message = done.stdout.partition("MUSTs that are not met")[2]
    assert (
        "✗ wire.fields\n  rule   nothing is added to the protocol's types but `_meta`\n" in message
    )
    assert "\n  found  the answer to session/load has `sessionId`" in message
    assert re.search(r"→ \{.*\"method\":\"session/load\"", message)
    assert re.search(r"← \{.*\"result\": \{\"sessionId\"", message)
    assert re.search(r": 1 MUST not met \(", message)


def test_failed_should_is_a_warning(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "greeting", command=imitation("pi", tmp_path))
    assert done.returncode == 0
    assert "! greeting.parse" in done.stdout.partition("SHOULDs that are not met")[2]
    assert "every MUST is met, 1 warning" in done.stdout


def shape(value: Any) -> object:  # noqa: ANN401 - JSON
    """Return JSON with each value replaced by its type."""
    if isinstance(value, dict):
        return {name: shape(it) for name, it in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and value is not True else type(value).__name__
    )


def test_json_output_has_the_documented_shape(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "greeting", "--json", command=imitation("banner", tmp_path))
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
    assert printed["command"] == list(imitation("banner", tmp_path))
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


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("options", "command", "code", "message"),
    [
        ([], (), 2, "no agent given"),
        (["--only", "nothing"], ("true",), 2, "invalid choice: 'nothing'"),
        ([], ("true",), 3, "`initialize` was not answered: the agent ended with 0"),
        (["--patience", "0.2"], ("sleep", "60"), 3, "`initialize` was not answered: not in time"),
        (["--patience", "0.2"], ("sh", "-c", "echo hi; sleep 60"), 3, "`initialize` was not answ"),
        ([], ("cat",), 3, "it repeats what it is told, and is no agent"),
        pytest.param(
            *([], ("yes",), 3, "the agent was ended, as it wrote without end"),
            marks=pytest.mark.slow,
        ),
        ([], ("cat", "/dev/zero"), 3, "the agent was ended, as it wrote without end"),
        ([], ONLY_V2, 3, "it speaks version 2 of ACP, and not 1"),
        ([], ("/nowhere/agent",), 127, "command not found: /nowhere/agent"),
        ([], ("/etc/passwd",), 126, "cannot run /etc/passwd"),
    ],
)
def test_reason_is_printed_if_an_agent_cannot_be_checked(
    options: list[str], command: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    done = run(tmp_path, *options, command=command)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_agent_and_its_children(number: int, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    command = f"exec {sys.executable} {IGNORES_SIGNALS} > {pids}"
    with tempfile.TemporaryDirectory() as folder:
        process = warm_start.Popen(
            [*REKINDLE, "check", "--", "sh", "-c", command],
            env=os.environ | {"TMPDIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with pids.open(encoding="utf-8") as message:
            agent, child = map(int, message.readline().split())
        process.send_signal(number)
        _, said = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, said) == (130, b"")
        assert not is_running(agent)
        assert not is_running(child)
        assert list(Path(folder).iterdir()) == []


@pytest.mark.parametrize("protocol", ["1", "2"])
def test_agent_that_never_answers_passes_nothing(protocol: str, tmp_path: Path) -> None:
    options = ("--patience", "0.2", "--json", "--protocol", protocol)
    done = run(tmp_path, *options, command=("sleep", "60"))
    printed = json.loads(done.stdout)
    verdicts = {it["id"]: it["verdict"] for it in printed["requirements"]}
    assert verdicts.pop("wire.answered") == "fail"
    assert set(verdicts.values()) == {"skipped", "notSeen"}


def test_summary_counts_requirements_skipped_without_a_turn(tmp_path: Path) -> None:
    command = example(tmp_path, "--offer", "all")
    done = run(tmp_path, "--prompt", "error", "--only", "turn", "--only", "cancel", command=command)
    assert done.returncode == 0
    assert re.search(
        r"every MUST that could be judged is met; \d+ of \d+ MUSTs could not be judged: "
        r"the agent cannot run a turn: it was refused with -32603",
        done.stdout,
    )


def test_require_turn_fails_without_a_turn(tmp_path: Path) -> None:
    command = example(tmp_path, "--offer", "all")
    options = ("--require-turn", "--only", "turn")
    assert run(tmp_path, *options, command=command).returncode == 0
    (tmp_path / "tmp").rmdir()
    done = run(tmp_path, *options, "--prompt", "error", command=command)
    assert done.returncode == 3
    assert "the agent cannot run a turn" in done.stderr


DAEMON = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
started = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
with open(sys.argv[1], "a") as pids:
    print(os.getpid(), started.pid, file=pids)
while True:
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of orphans")
def test_processes_outside_the_agents_group_are_killed(tmp_path: Path) -> None:
    agent, pids = tmp_path / "agent.py", tmp_path / "pids"
    agent.write_text(DAEMON)
    inner = (sys.executable, str(agent), str(pids))
    command = (*REKINDLE, "run", "--store", str(tmp_path / "s.db"), "--", *inner)
    done = run(tmp_path, "--patience", "1", "--only", "greeting", command=command)
    assert done.returncode == 3
    left = [pid for pid in pids.read_text().split() if is_running(int(pid))]
    assert left == []
