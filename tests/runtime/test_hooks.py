"""Hooks: the user's commands that run when a turn waits, has ended, or was cut off."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recorded_sessions import answered, asked, opened, told
from rekindle.errors import StoreUnavailable
from rekindle.model import Titled, TitleSource
from rekindle.proxy.step import TurnEvent, TurnEventKind
from rekindle.runtime import hooks
from rekindle.runtime.hooks import MAX_RUNNING, MAX_TEXT, HookRunner, HookVariables
from rekindle.runtime.log import Log
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, NEW, REKINDLE, TIMEOUT, Client
from warm_start import run

Start = Callable[..., Client]
Json = dict[str, Any]
KEY = "sk-ant-api03-" + "abcdefghij" * 9 + "AA"
YES = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}

# Writes its environment and its streams to a pipe, whose path is its last word.
HOOK = """
import json, os, sys
heard = {"variables": dict(os.environ), "words": sys.argv, "folder": os.getcwd()}
heard["pid"], heard["session"] = os.getpid(), os.getsid(0)
heard["streams"] = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in range(3)]
os.write(os.open(sys.argv[1], os.O_WRONLY), json.dumps(heard).encode() + b"\\n")
"""


class HookEvents:
    """The configuration file of hooks, and the events that they receive."""

    def __init__(self, folder: Path) -> None:
        self.pipe = folder / "events"
        self.configuration = folder / "config.toml"
        os.mkfifo(self.pipe)
        self._fd = os.open(self.pipe, os.O_RDWR)
        self._unread = b""
        self.command = (sys.executable, "-I", "-S", "-c", HOOK, str(self.pipe))

    def configure(self, **values: object) -> None:
        """Write the table of hooks. JSON's lists and booleans are those of TOML."""
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        self.configuration.write_text("\n".join(["[hooks]", *lines]), encoding="utf-8")

    def configure_all(self, **values: object) -> None:
        """Let each event run the script that writes to the pipe."""
        self.configure(**{f"on_{kind}": self.command for kind in TurnEventKind}, **values)

    def line(self) -> str:
        """Return the next line that a hook writes."""
        while b"\n" not in self._unread:
            assert select.select([self._fd], [], [], TIMEOUT)[0], "no hook has run"
            self._unread += os.read(self._fd, 65536)
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def next(self) -> Json:
        """Return what the next hook has received."""
        return json.loads(self.line())

    def next_event(self) -> tuple[str, str, str]:
        """Return the event, the reason and the number of clients that the next hook received."""
        variables = self.next()["variables"]
        names = ("REKINDLE_EVENT", "REKINDLE_REASON", "REKINDLE_CLIENTS")
        event, reason, clients = (variables[name] for name in names)
        return event, reason, clients

    def close(self) -> None:
        os.close(self._fd)


class Gate:
    """A pipe at which hooks wait: `read -r word < PIPE` reads one line.

    The lines are empty, because several readers would mix up the letters of words.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)

    def let_pass(self, count: int) -> None:
        """Let some hooks continue, including later ones."""
        os.write(self._fd, b"\n" * count)

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HookEvents]:
    made = HookEvents(tmp_path)
    monkeypatch.setenv("REKINDLE_CONFIG", str(made.configuration))
    yield made
    made.close()


def connect(start: Start, *agent: str, options: tuple[str | Path, ...] = ()) -> Client:
    client = start(*EXAMPLE_AGENT, *agent, options=options)
    client.call("initialize", {"protocolVersion": 1})
    return client


def begin_turn(client: Client, session_id: str, text: str) -> int:
    """Start a turn; return when the agent has begun to answer."""
    turn = client.start(session_id, text)
    client.until(lambda m: "agent_message_chunk" in json.dumps(m))
    return turn


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended. It may be a zombie that no process reaps."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], TIMEOUT)[0], "it is still there"
    finally:
        os.close(fd)


# -- events ---------------------------------------------------------------------------------


def test_hooks_run_when_a_turn_waits_and_when_it_has_ended(
    start: Start, events: HookEvents, store_path: Path, tmp_path: Path
) -> None:
    events.configure_all()
    client = connect(start)
    session_id = client.new(str(tmp_path))
    client.prompt(session_id, f"API_KEY={KEY} is\nthe title")
    ended = events.next()
    turn = client.start(session_id, "edit")
    request = client.asked()
    waiting = events.next()
    client.send(id=request["id"], result=YES)
    assert client.answer(turn)["result"] == {"stopReason": "end_turn"}
    last = events.next()
    expected = {
        "REKINDLE_SESSION": session_id,
        "REKINDLE_TITLE": "API_KEY=*** is the title",
        "REKINDLE_CWD": str(tmp_path),
        "REKINDLE_AGENT_NAME": "example-agent",
        "REKINDLE_CLIENTS": "1",
        "REKINDLE_STORE": str(store_path),
    }
    facts = [("end", "end_turn"), ("waiting", "permission"), ("end", "end_turn")]
    for heard, (event, reason) in zip((ended, waiting, last), facts, strict=True):
        variables = heard["variables"]
        assert variables["REKINDLE_EVENT"] == event
        assert variables["REKINDLE_REASON"] == reason
        assert {name: variables[name] for name in expected} == expected
        assert heard["folder"] == str(tmp_path)
        # Nothing but the title comes from the conversation.
        assert heard["words"] == [*events.command[3:4], str(events.pipe)]
        assert "REKINDLE_TEXT" not in variables
        del variables["REKINDLE_TITLE"]
        assert not any(word in json.dumps(variables) for word in (KEY, "You said", "Edit"))
        # It can neither read nor write the streams of the protocol, and outlives the host's group.
        assert heard["session"] == heard["pid"]
        if sys.platform == "linux":
            assert heard["streams"] == [os.devnull] * 3
    assert client.end() == (0, "")


def test_the_title_is_the_one_of_the_list(
    start: Start, events: HookEvents, store_path: Path
) -> None:
    events.configure_all()
    client = connect(start)
    client.prompt(client.new(), f"a \x1b[31mred\u202e title with {KEY}")
    title = events.next()["variables"]["REKINDLE_TITLE"]
    done = run([*REKINDLE, "list", "--store", store_path], capture_output=True, text=True)
    assert title == done.stdout.rstrip("\n").split("\t")[-2]


def test_a_cancelled_turn_has_ended(start: Start, events: HookEvents) -> None:
    events.configure_all()
    client = connect(start)
    session_id = client.new()
    client.cancel(session_id, client.go_slow(session_id))
    assert events.next_event() == ("end", "cancelled", "1")


def test_a_killed_agent_is_a_death_and_no_end(
    start: Start, events: HookEvents, store_path: Path
) -> None:
    events.configure_all()
    client = connect(start, "--delay", "0.05")
    session_id = client.new()
    turn = begin_turn(client, session_id, "count to 200")
    with SqliteStore(store_path, create=False) as store:
        holder = store.lease_holder(session_id)
    assert holder is not None
    os.kill(holder.agent_group, signal.SIGKILL)
    assert client.answer(turn)["error"]["data"]["signal"] == "SIGKILL"
    assert events.next_event() == ("death", "the agent was killed by SIGKILL", "1")
    client.prompt(session_id, "Hello")
    assert events.next_event() == ("end", "end_turn", "1")


@pytest.mark.skipif(sys.platform != "linux", reason="waits with pidfd_open")
def test_the_end_of_a_detached_turn_has_no_clients(start: Start, events: HookEvents) -> None:
    events.configure_all()
    editor = connect(start, "--delay", "0.05", options=("--detach",))
    begin_turn(editor, editor.new(), "count to 20")
    editor.close()
    # The host ends right after the turn.
    assert events.next_event() == ("end", "end_turn", "0")


def test_the_process_that_continues_the_session_of_a_killed_host_notes_its_death(
    start: Start, events: HookEvents
) -> None:
    events.configure_all()
    host = connect(start, "--delay", "0.05")
    session_id = host.new()
    host.prompt(session_id, "Hello")
    assert events.next_event() == ("end", "end_turn", "1")
    others = [connect(start, "--delay", "0.05") for _ in range(2)]
    for other in others:
        other.call("session/load", NEW | {"sessionId": session_id})
    turn = others[0].start(session_id, "count to 200")
    others[0].until(lambda m: "agent_message_chunk" in json.dumps(m))
    host.process.kill()
    assert others[0].answer(turn)["error"]["data"] == {"agentEnded": True}
    event, reason, _ = events.next_event()
    assert (event, reason) == ("death", "the process that ran the agent has ended")
    reply = others[0].reply(session_id, "what did I say first?")
    assert reply.endswith("You said first: Hello")
    # One process has noted the death, and one the end of the next turn.
    assert events.next_event() == ("end", "end_turn", "2")


def test_a_hook_of_a_hook_does_not_run(
    start: Start, events: HookEvents, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events.configure_all()
    monkeypatch.setenv("REKINDLE_EVENT", "end")
    client = connect(start, options=("--log", tmp_path / "log"))
    client.prompt(client.new(), "Hello")
    assert client.end() == (0, "")
    assert "no hooks run" in (tmp_path / "log").read_text()
    assert "the hook on_" not in (tmp_path / "log").read_text()


# -- the text -------------------------------------------------------------------------------


def test_hooks_receive_text_only_if_the_user_wants_it(
    start: Start, events: HookEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REKINDLE_TEXT", "inherited")
    texts: list[str | None] = []
    for include_text in (True, False):
        events.configure_all(include_text=include_text)
        client = connect(start)
        session_id = client.new()
        client.prompt(session_id, "x" * 1000 + f" API_KEY={KEY}")
        texts.append(events.next()["variables"].get("REKINDLE_TEXT"))
        client.prompt(session_id, f"API_KEY={KEY}")
        texts.append(events.next()["variables"].get("REKINDLE_TEXT"))
        client.start(session_id, "edit")
        client.asked()
        texts.append(events.next()["variables"].get("REKINDLE_TEXT"))
        client.end()
        assert events.next()["variables"]["REKINDLE_EVENT"] in {"end", "death"}
    long, short, question, *others = texts
    assert long is not None
    assert long.startswith("You said: xxx")
    assert (len(long), long[-1]) == (MAX_TEXT, "…")
    assert short == "You said: API_KEY=***. That makes 2 messages so far."
    assert question == "Edit /home/user/project/notes.txt"
    assert others == [None, None, None]


def test_the_text_of_a_turn_that_was_cut_off_is_found(events: HookEvents, log: Log) -> None:
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "First"), told("s1", "one"), answered("s1")])
    store.write([asked("s1", "Second"), told("s1", "two, and then")])
    variables = HookVariables(store.second, log, store="", include_text=True)
    death = event(kind=TurnEventKind.DEATH)
    HookRunner({TurnEventKind.DEATH: events.command}, variables, log).notify([death])
    assert events.next()["variables"]["REKINDLE_TEXT"] == "two, and then"


def test_the_answer_of_a_long_turn_is_found(
    monkeypatch: pytest.MonkeyPatch, events: HookEvents, log: Log
) -> None:
    monkeypatch.setattr(hooks, "_FIRST_ENTRIES", 2)
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "First"), told("s1", "one"), answered("s1")])
    words = [told("s1", "two ") for _ in range(50)]
    store.write([asked("s1", "Second"), *words, answered("s1"), asked("s1", "Third")])
    variables = HookVariables(store.second, log, store="", include_text=True)
    HookRunner({TurnEventKind.END: events.command}, variables, log).notify([event()])
    assert events.next()["variables"]["REKINDLE_TEXT"] == ("two " * 50).strip()


# -- processes ------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as made:
        yield made


def event(session_id: str = "s1", kind: TurnEventKind = TurnEventKind.END) -> TurnEvent:
    return TurnEvent(session_id=session_id, kind=kind, reason="end_turn")


def runner_of(
    log: Log, command: tuple[str, ...], store: MemoryStore | None = None, limit: float = TIMEOUT
) -> HookRunner:
    """Return a runner of one command for all events."""

    def open_store() -> Store:
        if store is None:
            raise StoreUnavailable("the store is gone")
        return store.second()

    variables = HookVariables(open_store, log, store="/s.db", include_text=False)
    commands = dict.fromkeys(TurnEventKind, command)
    return HookRunner(commands, variables, log, time_limit=limit)


def test_a_hook_can_ask_the_hosts_and_read_the_list(start: Start, events: HookEvents) -> None:
    rekindle = f"{sys.executable} -m rekindle"
    script = (
        f"{{ {rekindle} hosts --json && {rekindle} list --json; }} | tr -d '\\n' > $0; echo > $0"
    )
    events.configure(on_end=["/bin/sh", "-c", script, str(events.pipe)])
    client = connect(start)
    session_id = client.new()
    client.prompt(session_id, "Hello")
    heard = events.line()
    assert f'"pid": {client.process.pid}' in heard
    assert session_id in heard


def test_a_hook_outlives_its_host(start: Start, events: HookEvents, gate: Gate) -> None:
    script = "echo started > $0; read -r word < $1; echo passed > $0"
    events.configure(on_end=["/bin/sh", "-c", script, str(events.pipe), str(gate.path)])
    client = connect(start)
    client.prompt(client.new(), "Hello")
    assert events.line() == "started"
    assert client.end() == (0, "")
    gate.let_pass(1)
    assert events.line() == "passed"


def test_a_host_that_ends_starts_the_hooks_that_wait(
    start: Start, events: HookEvents, gate: Gate
) -> None:
    script = "read -r word < $1; echo passed > $0"
    events.configure(on_end=["/bin/sh", "-c", script, str(events.pipe), str(gate.path)])
    client = connect(start)
    session_id = client.new()
    for _ in range(MAX_RUNNING + 2):
        client.prompt(session_id, "Hello")
    assert client.end() == (0, "")
    gate.let_pass(MAX_RUNNING + 2)
    assert [events.line() for _ in range(MAX_RUNNING + 2)] == ["passed"] * (MAX_RUNNING + 2)


def test_a_missing_command_is_reported_once(
    start: Start, events: HookEvents, tmp_path: Path
) -> None:
    events.configure(on_end=["no-such-command", "x"])
    client = connect(start, options=("--log", tmp_path / "log"))
    session_id = client.new()
    for _ in range(3):
        client.prompt(session_id, "Hello")
    code, stderr = client.end()
    text = "cannot run the hook on_end: no-such-command: command not found"
    assert (code, stderr.count(text)) == (0, 1)
    assert (tmp_path / "log").read_text().count(text) == 3


def test_commands_that_do_not_start_hold_no_others_back(events: HookEvents, log: Log) -> None:
    commands = {TurnEventKind.END: ("no-such-command",), TurnEventKind.WAITING: events.command}
    variables = HookVariables(MemoryStore, log, store="", include_text=False)
    runner = HookRunner(commands, variables, log)
    runner.notify([event()] * (MAX_RUNNING + 1) + [event(kind=TurnEventKind.WAITING)])
    assert events.next_event() == ("waiting", "end_turn", "0")


def test_the_folder_of_a_session_does_not_provide_the_command(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "notify"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}/nowhere")
    store = MemoryStore()
    store.write([opened("s1", cwd=str(tmp_path))])
    runner = runner_of(log, ("notify",), store)
    runner.notify([event()])
    runner.finish()
    assert "notify: command not found" in (tmp_path / "log").read_text()
    assert not (tmp_path / "pwned").exists()


def test_a_failing_command_is_noted_in_the_log_only(
    start: Start, events: HookEvents, tmp_path: Path
) -> None:
    script = "echo output; echo errors >&2; echo ran > $0; exit 3"
    events.configure(on_end=["/bin/sh", "-c", script, str(events.pipe)])
    client = connect(start, options=("--log", tmp_path / "log"))
    session_id = client.new()
    for _ in range(MAX_RUNNING + 1):
        client.prompt(session_id, "Hello")
        assert events.line() == "ran"
    assert client.end() == (0, "")
    # The last one may end after the host.
    assert (tmp_path / "log").read_text().count("the hook on_end ended with exit code 3") > 0


@pytest.mark.skipif(sys.platform != "linux", reason="waits with pidfd_open")
def test_a_hanging_command_is_killed_with_its_children(
    events: HookEvents, log: Log, tmp_path: Path
) -> None:
    script = "sleep 1000 & echo $$ $! > $0; wait"
    runner = runner_of(log, ("/bin/sh", "-c", script, str(events.pipe)), MemoryStore(), 0.2)
    for _ in range(MAX_RUNNING + 1):
        runner.notify([event()])
    for _ in range(MAX_RUNNING + 1):
        for pid in map(int, events.line().split()):
            wait_for_end(pid)
    assert "the hook on_end was killed: it took 0.2 s" in (tmp_path / "log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="waits with pidfd_open")
def test_a_hanging_command_is_killed_after_the_end_of_its_host(events: HookEvents) -> None:
    code = (
        "import sys; from rekindle.runtime.hooks import *; from rekindle.store.memory import *;"
        "variables = HookVariables(MemoryStore, Log(), store='', include_text=False);"
        "commands = {TurnEventKind.END: tuple(sys.argv[1:])};"
        "runner = HookRunner(commands, variables, Log(), time_limit=0.2);"
        "runner.notify([TurnEvent(session_id='s', kind=TurnEventKind.END, reason='')]);"
        "runner.finish(); os._exit(0)"
    )
    script = "echo $$ > $0; exec sleep 1000"
    command = ("/bin/sh", "-c", script, str(events.pipe))
    subprocess.run([sys.executable, "-c", code, *command], check=True, timeout=TIMEOUT)
    wait_for_end(int(events.line()))


def test_few_hooks_run_at_once(events: HookEvents, log: Log, gate: Gate) -> None:
    script = "echo $REKINDLE_SESSION > $0; read -r word < $1"
    command = ("/bin/sh", "-c", script, str(events.pipe), str(gate.path))
    runner = runner_of(log, command, MemoryStore())
    names = [f"s{number}" for number in range(MAX_RUNNING + 1)]
    runner.notify([event(name) for name in names])
    begun = {events.line() for _ in range(MAX_RUNNING)}
    assert begun == set(names[:-1])
    assert [it.session_id for it in runner._waiting] == names[-1:]  # noqa: SLF001 - it has no sign
    # A hook that ends makes room for the next one.
    gate.let_pass(1)
    assert events.line() == names[-1]
    gate.let_pass(MAX_RUNNING)


def test_too_many_events_are_dropped(log: Log, gate: Gate, tmp_path: Path) -> None:
    runner = runner_of(
        log, ("/bin/sh", "-c", "read -r word < $0", str(gate.path)), MemoryStore(), 0.2
    )
    runner.notify([event()] * 1000)
    assert "an event has none" in (tmp_path / "log").read_text()


def test_a_hook_runs_while_the_store_fails(events: HookEvents, log: Log, tmp_path: Path) -> None:
    runner_of(log, events.command).notify([event()])
    heard = events.next()
    assert heard["variables"]["REKINDLE_TITLE"] == "(no title)"
    assert heard["variables"]["REKINDLE_AGENT_NAME"] == "unknown"
    assert heard["folder"] == str(Path.cwd())
    assert "a hook learns no title: the store is gone" in (tmp_path / "log").read_text()


def test_a_folder_that_does_not_exist_is_not_used(events: HookEvents, log: Log) -> None:
    store = MemoryStore()
    store.write([opened("s1", cwd="/does/not/exist")])
    runner_of(log, events.command, store).notify([event()])
    heard = events.next()
    assert heard["variables"]["REKINDLE_CWD"] == "/does/not/exist"
    assert heard["folder"] == str(Path.cwd())


def test_values_that_no_environment_accepts_are_replaced(events: HookEvents, log: Log) -> None:
    store, session_id = MemoryStore(), "s\0\n" + "x" * 200_000
    store.write([opened(session_id)])
    title = Titled(session_id=session_id, at_us=1, source=TitleSource.AGENT, title="a\0b\nc")
    store.write([title])
    runner_of(log, events.command, store).notify([event(session_id)])
    variables = events.next()["variables"]
    assert variables["REKINDLE_SESSION"].startswith("s\N{REPLACEMENT CHARACTER}\nxxx")
    assert variables["REKINDLE_TITLE"] == "a\\x00b c"


def test_a_fault_in_one_hook_leaves_the_others_alone(
    events: HookEvents, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_of(log, events.command)
    describe = HookVariables.of

    def fail(variables: HookVariables, it: TurnEvent) -> dict[str, str]:
        if it.session_id == "bad":
            raise RuntimeError("a fault")
        return describe(variables, it)

    monkeypatch.setattr(HookVariables, "of", fail)
    runner.notify([event("bad")] * (MAX_RUNNING + 1) + [event("good")])
    assert events.next()["variables"]["REKINDLE_SESSION"] == "good"


def test_a_runner_knows_its_own_processes(events: HookEvents, log: Log, gate: Gate) -> None:
    script = "echo $$ > $0; read -r word < $1"
    command = ("/bin/sh", "-c", script, str(events.pipe), str(gate.path))
    runner = runner_of(log, command, MemoryStore())
    runner.notify([event()])
    pid = int(events.line())
    assert runner.owns(pid)
    assert not runner.owns(os.getpid())
    gate.let_pass(1)
    runner.finish()
