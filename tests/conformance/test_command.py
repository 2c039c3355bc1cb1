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
from xml.etree import ElementTree as ET

import pytest

import warm_start
from conformance_runs import example, imitation
from prepared_sessions import install
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, is_running

_PATH = Path(__file__).parents[2] / "docs" / "reference" / "check.md"
DOCUMENT = _PATH.read_text(encoding="utf-8")
ONLY_V2 = (*EXAMPLE_AGENT, "--protocol", "2", "--only-v2")
IGNORES_SIGNALS = Path(__file__).parents[1] / "agents" / "agent_ignores_signals.py"


def run(
    folder: Path, *options: str, command: tuple[str, ...] = (), **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run the command with its own folder for temporary files."""
    (folder / "tmp").mkdir()
    return warm_start.run(
        [*REKINDLE, "check", *options, "--", *command],
        env=os.environ | {"TMPDIR": str(folder / "tmp")} | environ,
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
    assert re.search(r"✓ the agent answers with the requested .* greeting\.version\n", done.stdout)
    assert re.search(r"\nfork\n  . `session/fork` is not offered\n", done.stdout)
    heads = r"\n +pass +fail +not offered +not seen +not tested +recorded\n"
    assert re.search(rf"{heads}MUST +\d+ +0 +\d+ +\d+ +0 +0\nSHOULD .*\n\n", done.stdout)
    assert re.search(r"\nexample-agent .*: the agent meets every MUST \([\d.]+ s\)\n$", done.stdout)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_failure_is_shown_with_its_lines(tmp_path: Path) -> None:
    command = imitation("claude", tmp_path)
    done = run(tmp_path, "--only", "close", "--long-prompt", "slow", command=command)
    assert done.returncode == 1
    message = done.stdout.partition("Violated MUSTs")[2]
    assert (
        "✗ wire.fields\n  rule   the protocol's types have no additional fields but `_meta`\n"
        in message
    )
    assert "\n  found  the answer to session/load has `sessionId`" in message
    page = "https://agentclientprotocol.com/protocol/v1/extensibility"
    assert f"\n  page   {page} (agent-client-protocol@" in message
    assert re.search(r"→ \{.*\"method\":\"session/load\"", message)
    assert re.search(r"← \{.*\"result\": \{\"sessionId\"", message)
    assert re.search(r": 1 MUST violated \(", message)


def test_failed_should_is_a_warning(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "greeting", command=imitation("pi", tmp_path))
    assert done.returncode == 0
    assert "! greeting.parse" in done.stdout.partition("Violated SHOULDs")[2]
    assert "the agent meets every MUST, 1 warning" in done.stdout


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
    options = ("--only", "greeting", "--json", "--transcripts", str(tmp_path / "lines"))
    done = run(tmp_path, *options, command=imitation("banner", tmp_path))
    printed = json.loads(done.stdout)
    found = re.search(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found
    documented = json.loads(found[1])
    # This imitation exits on invalid JSON, and writes a traceback to stderr.
    failure = next(it for it in printed["requirements"] if it["id"] == "greeting.parse")
    failure["specification"] = failure["specification"][:1]
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
        (["--only", "nothing"], ("true",), 2, "--only cannot be 'nothing'"),
        ([], ("true",), 3, "`initialize` was not answered: the agent ended with 0"),
        (["--patience", "0.2"], ("sleep", "60"), 3, "`initialize` was not answered: not in time"),
        (["--patience", "0.2"], ("sh", "-c", "echo hi; sleep 60"), 3, "`initialize` was not answ"),
        ([], ("cat",), 3, "it echoes its input, so it is not an agent"),
        pytest.param(
            *([], ("yes",), 3, "the agent was stopped, because its output did not end"),
            marks=pytest.mark.slow,
        ),
        ([], ("cat", "/dev/zero"), 3, "the agent was stopped, because its output did not end"),
        ([], ONLY_V2, 3, "it supports version 2 of ACP, not 1"),
        ([], ("/nowhere/agent",), 127, "command not found: /nowhere/agent"),
        ([], ("cladue",), 127, "command not found: cladue: did you mean claude?"),
        ([], ("/etc/passwd",), 126, "cannot run /etc/passwd"),
    ],
)
def test_reason_is_printed_if_an_agent_cannot_be_checked(
    options: list[str], command: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    done = run(tmp_path, *options, command=command)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_agent_is_given_by_its_name(tmp_path: Path) -> None:
    environ = os.environ | {"PATH": str(install(tmp_path / "bin", "gemini"))}
    done = warm_start.run(
        [*REKINDLE, "check", "--only", "greeting", "--json", "gemini"],
        env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["command"] == ["gemini", "--acp"]


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
    assert verdicts.pop("wire.exits") == "fail"
    assert set(verdicts.values()) == {"skipped", "notSeen"}


def test_summary_counts_requirements_skipped_without_a_turn(tmp_path: Path) -> None:
    command = example(tmp_path, "--offer", "all")
    done = run(tmp_path, "--prompt", "error", "--only", "turn", "--only", "cancel", command=command)
    assert done.returncode == 3
    assert re.search(
        r"the agent meets every MUST that could be tested; "
        r"\d+ of \d+ MUSTs could not be tested: "
        r"the agent cannot run a turn: it was refused with -32603",
        done.stdout,
    )


def test_must_that_was_not_tested_does_not_pass(tmp_path: Path) -> None:
    command = example(tmp_path, "--offer", "all")
    options = ("--prompt", "error", "--only", "turn", "--junit", str(tmp_path / "junit.xml"))
    done = run(tmp_path, *options, "--json", command=command)
    printed = json.loads(done.stdout)
    assert (done.returncode, printed["ok"]) == (3, False)
    assert printed["summary"]["must"]["fail"] == 0
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]  # noqa: S314 - our own file
    assert int(suite.attrib["errors"]) == printed["summary"]["must"]["skipped"] > 0
    (tmp_path / "tmp").rmdir()
    allowed = run(tmp_path, *options, "--allow-untested", command=command)
    assert allowed.returncode == 0
    assert "turn\n  ? not tested: the agent cannot run a turn" in allowed.stdout


def test_transcripts_have_every_message_and_the_end_of_stderr(tmp_path: Path) -> None:
    folder = tmp_path / "all" / "transcripts"
    options = ("--only", "greeting", "--transcripts", str(folder), "--json")
    done = run(tmp_path, *options, command=imitation("banner", tmp_path))
    failures = {it["id"]: it for it in json.loads(done.stdout)["requirements"] if it["faults"]}
    place = failures["greeting.parse"]["faults"][0]["transcript"]
    lines = Path(place["file"]).read_text(encoding="utf-8").splitlines()
    first, *messages, last = map(json.loads, lines)
    assert first["scenarios"] == ["greeting"]
    assert first["command"] == list(imitation("banner", tmp_path))
    assert json.loads(lines[place["line"] - 1])["line"] == '{"jsonrpc": "2.0", "id": '
    assert {it["from"] for it in messages} == {"client", "agent"}
    # The agent may write its banner before or after the first request.
    sent = next(it for it in messages if it["from"] == "client")
    assert json.loads(sent["line"])["method"] == "initialize"
    assert "JSONDecodeError" in last["stderr"][-1]
    assert last["ended"].startswith("the agent ended with 1")
    assert failures["greeting.parse"]["stderr"] == last["stderr"]
    assert Path(place["file"]).name in {path.name for path in folder.iterdir()}


def test_failure_names_the_transcript_and_the_end_of_stderr(tmp_path: Path) -> None:
    options = ("--only", "greeting", "--transcripts", str(tmp_path))
    done = run(tmp_path, *options, command=imitation("pi", tmp_path))
    message = done.stdout.partition("! greeting.parse")[2]
    assert re.search(rf"\n  lines  {tmp_path}/process-\d\d\.jsonl, line \d+\n", message)
    assert re.search(r"\n  stderr json\.decoder\.JSONDecodeError", message)


ALLOWED_IN_JUNIT = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"testcase", "system-err"},
    ),
    "testcase": ({"classname", "name"}, {"failure", "error", "skipped", "system-out"}),
    "failure": ({"message", "type"}, set[str]()),
    "error": ({"message", "type"}, set[str]()),
    "skipped": ({"message"}, set[str]()),
    "system-out": (set[str](), set[str]()),
    "system-err": (set[str](), set[str]()),
}
"""The attributes and the children of each element, as the JUnit schema has them."""


def test_junit_report_is_valid_and_counts_its_cases(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    options = ("--only", "greeting", "--only", "title", "--junit", str(path), "--json")
    done = run(tmp_path, *options, command=imitation("banner", tmp_path))
    requirements = json.loads(done.stdout)["requirements"]
    root = ET.parse(path).getroot()  # noqa: S314 - our own file
    for element in root.iter():
        attributes, children = ALLOWED_IN_JUNIT[element.tag]
        assert element.attrib.keys() == attributes
        assert {it.tag for it in element} <= children
    (suite,) = root
    assert root.attrib["failures"] == suite.attrib["failures"] == "1"
    assert [it.attrib["name"] for it in suite] == [it["id"] for it in requirements]
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[name]) == len(suite.findall(f"testcase/{tag}"))
    (failure,) = suite.findall("testcase/failure")
    assert failure.attrib["type"] == "MUST"
    assert "https://agentclientprotocol.com/protocol/v1/transports" in (failure.text or "")
    cases = {it.attrib["name"]: it for it in suite}
    passed = [it["id"] for it in requirements if it["verdict"] == "pass"]
    assert all(len(cases[name]) == 0 for name in passed)
    assert cases["greeting.parse"][0].attrib["message"].startswith("warning: ")
    assert cases["title.works"][0].attrib["message"].startswith("not offered: ")


@pytest.mark.parametrize("option", ["--junit", "--transcripts"])
def test_unwritable_file_is_reported_before_the_check(option: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    started = tmp_path / "started"
    done = run(tmp_path, option, str(tmp_path / "file" / "below"), command=("touch", str(started)))
    assert done.returncode == 2
    assert re.match(r"rekindle: error: cannot (write|create the folder) /", done.stderr)
    assert not started.exists()


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
    # Orphans are found as descendants, so no process may be forked from the tests' server.
    options = ("--patience", "1", "--only", "greeting")
    done = run(tmp_path, *options, command=command, REKINDLE_TESTS="all")
    assert done.returncode == 3
    left = [pid for pid in pids.read_text().split() if is_running(int(pid))]
    assert left == []
