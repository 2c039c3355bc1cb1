"""`rekindle prompt`: one prompt without a terminal."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import IO

import pytest

import warm_start
from claude_files import SESSION, ClaudeFile
from prepared_sessions import HARMFUL, STOPPING, alter, cli, install, record
from pty_terminal import Terminal
from rekindle.model import Deleted, LeaseHolder
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, is_running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def session(store: Path, tmp_path: Path) -> str:
    """Return a recorded session of the example agent, which does not remember it."""
    return record(store, tmp_path, "My name is Ada.")


def test_only_the_answer_is_printed(store: Path, session: str) -> None:
    done = cli("prompt", "--store", store, session[:12], "What did I say first?")
    assert (done.returncode, done.stdout) == (0, "You said first: My name is Ada.\n")
    assert done.stderr.startswith("rekindle: note: the agent had lost this session")
    again = cli("prompt", "--store", store, session, "How", "many", "prompts?")
    assert again.stdout == "You sent 2 prompts before this one.\n"
    assert cli("show", "--store", store, session, "--last").stdout.splitlines()[4:6] == [
        "> How many prompts?",
        "(the agent had lost this session; Rekindle sent it the history)",
    ]


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["Explain", "this:"], "a\nb\n", "Explain this:\n\na\nb"),
        ([], "from a pipe\n", "from a pipe"),
        (["from arguments"], "", "from arguments"),
    ],
)
def test_piped_text_is_added_to_the_prompt(
    store: Path, session: str, arguments: list[str], stdin: str, said: str
) -> None:
    done = cli("prompt", "--store", store, session, *arguments, stdin=stdin)
    assert done.stdout == f"You said: {said}. That makes 2 messages so far.\n"


def test_session_is_chosen_as_last_or_by_title(store: Path, session: str, tmp_path: Path) -> None:
    asking = ["prompt", "--store", store, "how many prompts"]
    expected = "You sent 1 prompt before this one.\n"
    assert cli(*asking, "--last", cwd=tmp_path).stdout == expected
    by_title = cli("prompt", "--store", store, "--title", "ADA", "what did I say first")
    assert by_title.stdout == "You said first: My name is Ada.\n"
    listed = json.loads(cli("list", "--store", store, "--json").stdout)
    assert [(row["id"], row["turns"]) for row in listed] == [(session, 3)]


def test_ambiguous_title_lists_the_sessions(store: Path, tmp_path: Path) -> None:
    ids = [record(store, tmp_path, f"The {item} one") for item in ("first", "second")]
    done = cli("prompt", "--store", store, "--title", "one", "Hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "rekindle: error: 'one' matches 2 sessions; type more of a title or of an id\n"
    )
    for own_id, words in zip(ids, ("first", "second"), strict=True):
        assert re.search(rf"  {own_id[:16]}  +\d+ \w+  The {words} one\n", done.stderr)


@pytest.fixture
def stopping(store: Path, tmp_path: Path) -> str:
    return record(store, tmp_path, agent=STOPPING)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("end_turn", 0),
        ("fail", 1),
        ("max_tokens", 3),
        ("max_turn_requests", 4),
        ("refusal", 5),
        ("cancelled", 6),
        ("something_new", 7),
    ],
)
def test_exit_code_depends_on_the_stop_reason(
    store: Path, stopping: str, reason: str, code: int
) -> None:
    done = cli("prompt", "--store", store, stopping, reason)
    assert done.returncode == code
    assert not any(sequence in done.stdout + done.stderr for sequence in HARMFUL)


def test_permission_without_terminal_needs_yes(store: Path, stopping: str) -> None:
    refused = cli("prompt", "--store", store, stopping, "end_turn")
    assert refused.stdout.endswith("it.\n\nno!\n")
    assert refused.stderr.startswith(
        "rekindle: warning: refused, because --yes was not given: Do\\x1b]0;"
    )
    allowed = cli("prompt", "--store", store, stopping, "-y", "end_turn")
    assert allowed.stdout.endswith("it.\n\nyes!\n")
    assert allowed.stderr == ""


def test_permission_is_asked_on_a_terminal(store: Path, stopping: str) -> None:
    with Terminal("prompt", "--store", store, stopping, "refusal") as terminal:
        terminal.wait_for("2  Never (n)")
        terminal.answer("2")
        terminal.wait_for("no!")
        assert terminal.end() == 5
        assert "(refusal)" in terminal.shown
        assert not any(sequence in terminal.raw for sequence in HARMFUL)


def test_json_has_the_whole_turn(store: Path, session: str) -> None:
    done = cli("prompt", "--store", store, session, "--json", "--yes", "Edit")
    turn = json.loads(done.stdout)
    assert (turn["sessionId"], turn["stopReason"], turn["error"]) == (session, "end_turn", None)
    kinds = [(item["type"], item.get("permission")) for item in turn["items"]]
    expected = ["message", "handover", "tool_call", "message"]
    assert [kind for kind, _ in kinds] == expected
    assert kinds[2] == ("tool_call", "Allow once")


def test_agent_command_can_be_given(store: Path, session: str) -> None:
    done = cli("prompt", "--store", store, session, "max_tokens", "--", *STOPPING)
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["Hello", "Ada", "--", *EXAMPLE_AGENT], ""),
        (["--", *EXAMPLE_AGENT], "Hello Ada\n"),
    ],
)
def test_new_session_is_started(store: Path, tmp_path: Path, words: list[str], stdin: str) -> None:
    done = cli("prompt", "--new", "--store", store, *words, stdin=stdin, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "You said: Hello Ada. That makes 1 message so far.\n"
    (session,) = json.loads(cli("list", "--store", store, "--json").stdout)
    assert done.stderr == f"rekindle: note: new session {session['id']}\n"
    assert (session["cwd"], session["turns"]) == (str(tmp_path), 1)


def test_quoted_words_after_the_agent_are_the_prompt(store: Path, tmp_path: Path) -> None:
    new = [*REKINDLE, "prompt", "--new", "--store", str(store), "--", *EXAMPLE_AGENT]
    with Path(os.devnull).open() as stdin:
        done = _run(new, "Hello Ada", stdin=stdin, cwd=tmp_path)
    assert done.stdout == "You said: Hello Ada. That makes 1 message so far.\n"
    (session,) = json.loads(cli("list", "--store", store, "--json").stdout)
    assert session["agent"]["command"] == list(EXAMPLE_AGENT)


@pytest.mark.parametrize(
    ("words", "device"),
    [
        (["Hello"], os.devnull),
        (["--delay", "0 or more"], os.devnull),
        (["Hello Ada"], "an empty file"),
    ],
)
def test_no_other_words_after_the_agent_are_a_prompt(
    store: Path, tmp_path: Path, words: list[str], device: str
) -> None:
    empty = tmp_path / "an empty file"
    empty.touch()
    new = [*REKINDLE, "prompt", "--new", "--store", str(store), "--", *EXAMPLE_AGENT]
    with (tmp_path / device).open() as stdin:
        done = _run(new, *words, stdin=stdin, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing to send: give TEXT before --" in done.stderr


def _run(
    command: list[str], *words: str, stdin: IO[str], cwd: Path
) -> "subprocess.CompletedProcess[str]":
    return warm_start.run(
        [*command, *words],
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        cwd=cwd,
    )


def test_new_session_uses_the_agent_used_last(store: Path, tmp_path: Path) -> None:
    new = ("prompt", "--new", "--store", store, "--json", "--cwd", tmp_path, "Hello")
    record(store, tmp_path)
    done = cli(*new)
    turn = json.loads(done.stdout)
    assert done.stderr == f"rekindle: note: new session {turn['sessionId']}\n"
    listed = json.loads(cli("list", "--store", store, "--json").stdout)
    assert [(row["id"], row["agent"]["command"]) for row in listed] == [
        (turn["sessionId"], list(EXAMPLE_AGENT))
    ]


def test_new_session_without_any_agent_names_the_list_of_agents(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "REKINDLE_STORE": ""}
    done = cli("prompt", "--new", "Hello", **home)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'as in `rekindle prompt --new "…" -- claude`; `rekindle agents` lists' in done.stderr
    done = cli("prompt", "--last", "Hello", **home)
    assert done.returncode == 1
    assert "start a session with `rekindle new AGENT`" in done.stderr


def test_unknown_session_names_the_option_for_a_new_one(store: Path, session: str) -> None:
    assert session
    done = cli("prompt", "--store", store, "Explain", "this")
    assert done.returncode == 1
    assert "`rekindle prompt --new TEXT` starts a session" in done.stderr


def test_imported_session_is_continued_with_the_agent_of_its_tool(
    store: Path, tmp_path: Path
) -> None:
    conversation = ClaudeFile(SESSION, str(tmp_path))
    conversation.turn(1)
    conversation.write(tmp_path)
    environ = {"HOME": str(tmp_path), "PATH": str(install(tmp_path / "bin"))}
    assert cli("import", "--store", store, "claude", **environ).returncode == 0
    prompt = ("prompt", "--store", store, SESSION, "How many prompts?")
    done = cli(*prompt, **environ)
    assert (done.returncode, done.stdout) == (127, "")
    assert "this session is one of Claude Code, whose agent claude-agent-acp is not" in done.stderr
    assert "claude-agent-acp` installs it; or continue with another agent: `-- C" in done.stderr
    install(tmp_path / "bin", "opencode")
    assert "continue with another agent: `-- opencode`" in cli(*prompt, **environ).stderr
    assert cli(*prompt, "--", "opencode", **environ).returncode == 0
    install(tmp_path / "bin", "claude-agent-acp")
    store.unlink()
    cli("import", "--store", store, "claude", **environ)
    done = cli(*prompt, **environ)
    assert done.stdout == "You sent 1 prompt before this one.\n"
    assert "rekindle: note: continuing with claude-agent-acp\n" in done.stderr


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (["agent", "--token", "***"], 2, "had secrets, which are never recorded (agent --token **"),
        (["env", "API_KEY=***", "agent"], 2, "give the whole command after --"),
        (["no-such-agent"], 127, "command not found: no-such-agent"),
        (["false"], 1, "the agent exited with 1 before it "),
    ],
)
def test_unusable_agent_command_is_reported(
    store: Path, session: str, command: list[str], code: int, text: str
) -> None:
    alter(store, session, *command)
    done = cli("prompt", "--store", store, session, "Hello")
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert done.stderr.count("rekindle:") == 1
    assert "Traceback" not in done.stderr


def test_missing_session_folder_is_reported(store: Path, session: str) -> None:
    alter(store, session, "x", cwd="/no/such/folder")
    done = cli("prompt", "--store", store, session, "Hello")
    assert done.returncode == 1
    assert "the session's folder /no/such/folder is gone: `rekindle relocate" in done.stderr


def test_deleted_or_leased_session_is_reported(store: Path, session: str) -> None:
    holder = LeaseHolder(token="t", pid=os.getpid(), machine="here")  # noqa: S106 - not that kind
    with SqliteStore(store) as opened:
        opened.acquire_lease(session, holder)
        done = cli("prompt", "--store", store, session, "Hello")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"is in use by process {os.getpid()} on here" in done.stderr
        taken = cli("prompt", "--store", store, session, "--takeover", "Hello")
        assert taken.returncode == 0
        opened.write([Deleted(session_id=session, at_us=1)])
    done = cli("prompt", "--store", store, session, "Hello")
    assert f"is deleted; `rekindle undelete {session}` restores it" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["prompt"], "nothing to send: give SESSION and TEXT, or pipe TEXT in; `rekindle prompt"),
        (["prompt", "hello"], "`rekindle prompt --new TEXT` starts a session"),
        (["prompt", "--new"], 'nothing to send: give TEXT before --, as in `--new "…" -- claude`'),
        (["prompt", "--new", "--", "claude"], "nothing to send"),
        (["prompt", "--new", "--", "opencode", "acp"], "nothing to send"),
        (["prompt", "--new", "--", "/bin/echo", "acp"], "nothing to send: give TEXT before --"),
        (["prompt", "--new", "", "--", "/bin/echo", "acp"], "nothing to send"),
        (["prompt", "--new", "--last", "x"], "leave out --last, --title and --takeover"),
        (["prompt", "--last", "--title", "x", "hello"], "exclude each other"),
        (["prompt", "--title", " ", "hello"], "--title: the text is empty"),
        (["resume", "x"], "needs a terminal: without one, use `rekindle prompt`\n"),
        (["new"], "needs a terminal: without one, use `rekindle prompt --new`\n"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], text: str) -> None:
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert done.stderr.startswith("rekindle: error: ")


def test_ctrl_c_cancels_the_turn(store: Path, session: str) -> None:
    with _start_slow_turn(store, session) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    shown = cli("show", "--store", store, session).stdout
    assert shown.endswith("I am waiting until you cancel.\n(cancelled)\n")


def test_second_ctrl_c_leaves_if_the_agent_does_not_stop(
    store: Path, stopping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A forked agent is not a child of the command.
    monkeypatch.setenv("REKINDLE_TESTS", "all")
    with _start_slow_turn(store, stopping, "ignore", "no!") as process:
        children = _children(process.pid)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.3)
            except subprocess.TimeoutExpired:
                continue
        assert process.returncode == 130
    assert children
    assert not any(is_running(pid) for pid in children)


def test_detached_turn_continues_without_the_command(store: Path, session: str) -> None:
    done = cli("prompt", "--store", store, "--detach", session, "slow")
    assert (done.returncode, done.stdout) == (0, f"{session}\n")
    (host,) = json.loads(cli("hosts", "--store", store, "--json").stdout)
    (hosted,) = host["sessions"]
    assert (hosted["sessionId"], hosted["state"]) == (session, "running")
    assert hosted["clients"] == []
    stopped = cli("stop", "--store", store, session)
    assert stopped.returncode == 0, stopped.stderr
    shown = cli("show", "--store", store, session).stdout
    assert shown.endswith("I am waiting until you cancel.\n(cancelled)\n")


@pytest.mark.parametrize("option", ["--yes", "--json"])
def test_detached_prompt_answers_and_prints_nothing(store: Path, session: str, option: str) -> None:
    done = cli("prompt", "--store", store, "--detach", option, session, "Hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert "leave out --yes and --json" in done.stderr


def test_closed_pipe_is_not_an_error(store: Path, session: str) -> None:
    with _start_slow_turn(store, session, "count to 1000000", "1 2") as process:
        assert process.stdout
        process.stdout.close()
        assert process.wait(TIMEOUT) == 141


def _start_slow_turn(
    store: Path, session: str, text: str = "slow", until: str = "until you cancel."
) -> "subprocess.Popen[bytes]":
    """Start a turn, and return once the output contains `until`."""
    process = warm_start.Popen(
        [*REKINDLE, "prompt", "--store", store, session, text],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    said = b""
    while until.encode() not in said:
        piece = os.read(process.stdout.fileno(), 4096)
        assert piece, said
        said += piece
    return process


def _children(pid: int) -> list[int]:
    """Return the descendants of a process."""
    listed = subprocess.run(["/bin/ps", "-eo", "pid=,ppid="], capture_output=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.decode().splitlines()]
    own = [child for child, parent in pairs if parent == pid]
    return [*own, *(it for child in own for it in _children(child))]


AGENT_FILE = """
import os, sys
print("{name}", file=open({mark!r}, "a"))
os.execv(sys.executable, [sys.executable, *{agent!r}])
"""


def agent_file(folder: Path, mark: Path) -> None:
    """Write an agent that notes its folder's name when it is started."""
    folder.mkdir()
    agent = list(EXAMPLE_AGENT[1:])
    text = AGENT_FILE.format(name=folder.name, mark=str(mark), agent=agent)
    (folder / "agent.py").write_text(text)
    (folder / "agent_module.py").write_text(text)


def imported_into(store: Path, session: str, folder: Path) -> str:
    """Import a session as a bundle whose author has chosen this folder; return its id."""
    cli("export", "--store", store, session, "--format", "bundle", "-o", folder / "b.rekindle")
    lines = gzip.decompress((folder / "b.rekindle").read_bytes()).splitlines(keepends=True)
    own = json.loads(lines[1])
    own["session"] |= {"id": "theirs", "cwd": str(folder), "agentSessionId": ""}
    body = b"".join([lines[0], json.dumps(own).encode() + b"\n", *lines[2:-1]])
    end = json.loads(lines[-1]) | {"sha256": sha256(body).hexdigest()}
    (folder / "b.rekindle").write_bytes(body + json.dumps(end).encode() + b"\n")
    assert cli("import", "--store", store, folder / "b.rekindle").returncode == 0
    return "theirs"


@pytest.mark.parametrize("words", [["agent.py"], ["-m", "agent_module"]])
def test_a_bundle_does_not_decide_which_code_runs(
    store: Path, tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, ours, theirs = tmp_path / "mark", tmp_path / "ours", tmp_path / "theirs"
    agent_file(ours, mark)
    agent_file(theirs, mark)
    monkeypatch.chdir(ours)
    session = record(store, ours, "Hello", agent=(sys.executable, *words))
    imported = imported_into(store, session, theirs)
    done = cli("prompt", "--store", store, imported, "How many prompts?", cwd=ours)
    assert mark.read_text().splitlines()[-1] == "ours"
    assert set(mark.read_text().splitlines()) == {"ours"}, done.stderr


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ((sys.executable, "agent.py"), "agent.py"),
        ((sys.executable, "-m", "agent"), "agent"),
        (("sh", "-c", "exec ./agent.py"), "./agent.py"),
    ],
)
def test_a_recorded_command_that_depends_on_the_folder_is_refused(
    store: Path, session: str, tmp_path: Path, command: tuple[str, ...], file: str
) -> None:
    (tmp_path / "agent.py").write_text("")
    alter(store, session, *command)
    done = cli("prompt", "--store", store, session, "Hello", cwd=tmp_path)
    assert done.returncode == 2
    assert f"the current folder has the file of its argument {file}:" in done.stderr
    assert "give the whole command after --" in done.stderr
