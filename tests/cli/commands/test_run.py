"""The options of `rekindle run`, its agent by name, and the configuration file."""

import argparse
import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest

from prepared_sessions import cli, install
from rekindle.cli.arguments import with_optional_values
from rekindle.cli.commands import run
from rekindle.proxy.connection_state import EngineSettings
from rekindle.store.address import address_help
from rekindle.transcript.handover import BUDGET
from stdio_client import EXAMPLE_AGENT, REKINDLE, Client

# Writes a variable to stderr, then becomes the example agent.
SHOWS_VARIABLE = (
    "import os, sys; print('KEY is', os.environ.get('KEY'), file=sys.stderr, flush=True);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    run.configure(parser)
    return parser


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("REKINDLE_CONFIG", str(path))
    return path


def test_handover_budget_is_the_default_of_the_engine() -> None:
    # The command cannot import it: that would delay the start of the agent.
    settings = EngineSettings(command=("agent",), version="9")
    assert parser().get_default("handover_budget") == BUDGET == settings.handover_budget


@pytest.mark.parametrize(
    ("words", "wait", "command"),
    [
        (["--detach", "agent"], 14_400.0, ["agent"]),
        (["--detach=30min", "--grace", "2", "agent"], 1800.0, ["agent"]),
        (["--log", "y", "--detach", "agent"], 14_400.0, ["agent"]),
        (["--detach", "--", "agent"], 14_400.0, ["--", "agent"]),
        (["agent", "--detach", "now"], None, ["agent", "--detach", "now"]),
        (["--", "agent", "--detach"], None, ["--", "agent", "--detach"]),
        (["--detach", "--no-detach", "agent"], None, ["agent"]),
    ],
)
def test_detach_may_have_a_duration(
    words: list[str], wait: float | None, command: list[str]
) -> None:
    arguments = parser().parse_args(with_optional_values(parser(), words))
    assert (arguments.detach, arguments.command) == (wait, command)


def test_the_file_may_detach(path: Path) -> None:
    path.write_text("[run]\ndetach = '2h'")
    assert parser().parse_args(["agent"]).detach == 7200.0
    assert parser().parse_args(["--no-detach", "agent"]).detach is None
    path.write_text("[run]\ndetach = true")
    assert parser().parse_args(["agent"]).detach == 14_400.0


def test_flags_win_over_the_file_and_the_file_over_defaults(path: Path) -> None:
    path.write_text(
        "[run]\nstrict = true\nhandover = false\ntakeover = true\ngrace = 1\n"
        "handover_budget = 2000\nlog = '/tmp/x.log'"
    )
    arguments = parser().parse_args(["agent"])
    assert (arguments.strict, arguments.handover, arguments.takeover) == (True, False, True)
    assert (arguments.grace, arguments.handover_budget) == (1.0, 2000)
    assert arguments.log == Path("/tmp/x.log")  # noqa: S108 - it is not opened
    words = ["--no-strict", "--handover", "--no-takeover", "--grace", "3", "--log", "y", "agent"]
    arguments = parser().parse_args(words)
    assert (arguments.strict, arguments.handover, arguments.takeover) == (False, True, False)
    assert (arguments.grace, arguments.log) == (3.0, Path("y"))
    path.unlink()
    arguments = parser().parse_args(["agent"])
    assert {name: getattr(arguments, name) for name in run.DEFAULTS} == run.DEFAULTS


def recorded_command(store: Path) -> list[str]:
    (session,) = json.loads(cli("list", "--store", store, "--all", "--json").stdout)
    return session["agent"]["command"]


def converse(*arguments: str | Path) -> list[str]:
    """Start a session and end it; return the lines of stderr."""
    with closing(Client(*REKINDLE, "run", *arguments)) as client:
        client.call("initialize", {"protocolVersion": 1})
        # A session without a prompt would be forgotten.
        client.prompt(client.new("/"), "Hello")
        code, text = client.end()
    assert code == 0
    return text.splitlines()


def test_a_known_agent_is_started_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path / "bin", "claude-agent-acp")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    converse("--store", tmp_path / "s.db", "claude", "--model", "x")
    assert recorded_command(tmp_path / "s.db") == ["claude-agent-acp", "--model", "x"]
    # After --, a name counts if there is no such program.
    converse("--store", tmp_path / "t.db", "--", "claude")
    assert recorded_command(tmp_path / "t.db") == ["claude-agent-acp"]
    # A program is never replaced there.
    install(folder, "claude")
    converse("--store", tmp_path / "u.db", "--", "claude")
    assert recorded_command(tmp_path / "u.db") == ["claude"]


def test_an_agent_of_the_file_gets_its_variables_also_when_it_is_started_again(
    path: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", SHOWS_VARIABLE, *EXAMPLE_AGENT]
    log = tmp_path / "run.log"
    path.write_text(
        f"[run]\nlog = '{log}'\n[agents.mine]\ncommand = {json.dumps(command)}\n"
        "env = {KEY = 'the value'}"
    )
    with closing(Client(*REKINDLE, "run", "--store", tmp_path / "s.db", "mine")) as client:
        client.call("initialize", {"protocolVersion": 1})
        session = client.new(str(tmp_path))
        client.prompt(session, "Hello")
        pid = int(log.read_text().partition("started agent ")[2].partition(":")[0])
        os.kill(pid, signal.SIGKILL)
        # The first prompt may fail, if Rekindle has not noticed the death yet.
        client.answer(client.start(session, "Hello again"))
        client.prompt(session, "Hello again")
        _, text = client.end()
    assert text.count("KEY is the value\n") == 2
    # The whole command gets them, too: a session is resumed by its command.
    assert "KEY is the value" in converse("--store", tmp_path / "s.db", "--", *command)


def test_variables_go_to_the_agent_with_the_name_only(path: Path, tmp_path: Path) -> None:
    store, seen = tmp_path / "s.db", tmp_path / "seen"
    code = f"open({str(seen)!r}, 'w').write(os.environ.get('KEY', ''))"
    command = [sys.executable, "-c", f"import os; {code}; {SHOWS_VARIABLE}", *EXAMPLE_AGENT]
    path.write_text(
        "\n".join(
            f"[agents.{name}]\ncommand = {json.dumps(command)}\nenv = {{KEY = '{name}'}}"
            for name in ("work", "home")
        )
    )
    converse("--store", store, "home")
    assert seen.read_text() == "home"
    lines = converse("--store", store, "--", *command)
    assert seen.read_text() == ""
    (warning,) = (line for line in lines if line.startswith("rekindle: warning: "))
    assert "these agents have the same command: home, work;" in warning
    # A chat passes the name on.
    assert cli("prompt", "--store", store, "--new", "Hello", "--", "home").returncode == 0
    assert seen.read_text() == "home"


def test_a_broken_file_does_not_stop_the_agent(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REKINDLE_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path.write_text(f"store = 'mysql://x'\nx = 1\n[run]\nstrict = 1\nlog = '{tmp_path}'")
    default = tmp_path / "data" / "rekindle" / "sessions.db"
    kind = f"unknown kind of store 'mysql'; use {address_help()}"
    problem = f"cannot write the log {tmp_path}: Is a directory"
    assert sorted(converse("--", *EXAMPLE_AGENT)) == [
        f"rekindle: warning: {path}: `run.log`: {problem}; there is no log",
        f"rekindle: warning: {path}: `run.strict` must be `true` or `false`",
        f"rekindle: warning: {path}: `store`: {kind}; recording in {default}",
        f"rekindle: warning: {path}: unknown key `x`: `rekindle config` lists the keys",
    ]
    path.unlink()
    assert recorded_command(default) == list(EXAMPLE_AGENT)


def test_a_file_that_is_not_toml_is_a_warning_with_the_line(path: Path, tmp_path: Path) -> None:
    path.write_text("\n\n[run\n")
    (line,) = converse("--store", tmp_path / "s.db", "--", *EXAMPLE_AGENT)
    assert line.startswith(f"rekindle: warning: {path}: the file is not valid TOML: ")
    assert "(at line 3" in line


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["cladue"], "command not found: cladue: did you mean claude? `rekindle agents` lists"),
        (["--", "no-such-agent"], "command not found: no-such-agent: `rekindle agents` lists"),
        (
            ["codex"],
            "command not found: codex-acp: `npm install -g @agentclientprotocol/codex-acp`",
        ),
        (["--", "codex"], "command not found: codex-acp: `npm install -g @agentclientprotocol/"),
        (["/no/such/agent"], "command not found: /no/such/agent"),
    ],
)
def test_a_missing_agent_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], text: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli("run", "--store", tmp_path / "s.db", *words)
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.startswith("rekindle: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_agent_is_wrong_usage() -> None:
    done = cli("run")
    assert done.returncode == 2
    assert "name one, as in `rekindle run claude`; `rekindle agents` lists them" in done.stderr


def test_a_duration_needs_an_equals_sign() -> None:
    done = cli("run", "--detach", "30min", "agent")
    assert done.returncode == 2
    assert "--detach=30min" in done.stderr
