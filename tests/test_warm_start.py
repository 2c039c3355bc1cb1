"""A forked Rekindle process behaves like a new one."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

import warm_start
from rekindle.store.sqlite.store import SqliteStore
from selection import is_everything
from stdio_client import EXAMPLE_AGENT, TIMEOUT, Client
from warm_start import REKINDLE

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or is_everything(), reason="all processes are new ones"
)


@pytest.fixture(params=["warm", "cold"])
def popen(request: pytest.FixtureRequest) -> type["subprocess.Popen[bytes]"]:
    """Return the class that starts a forked process, then the one that starts a new process."""
    return warm_start.Popen if request.param == "warm" else subprocess.Popen


def outcome(
    popen: type["subprocess.Popen[bytes]"], *words: str, **options: object
) -> tuple[int, bytes, bytes]:
    """Run a command; return its exit code and its output."""
    pipe = subprocess.PIPE
    with popen([*REKINDLE, *words], stdin=pipe, stdout=pipe, stderr=pipe, **options) as process:
        out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def test_command_is_forked_from_the_server() -> None:
    with warm_start.Popen([*REKINDLE, "example-agent"], stdin=subprocess.PIPE) as process:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        assert f"PPid:\t{os.getpid()}\n" not in status
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0


def test_an_agent_is_forked_from_the_server_into_a_group_of_its_own(tmp_path: Path) -> None:
    command = (*REKINDLE, "run", "--store", str(tmp_path / "s.db"), "--", *EXAMPLE_AGENT)
    server = warm_start._server()  # noqa: SLF001 - the process behind the public functions
    before = children_of(server._process.pid)  # noqa: SLF001 - as above
    client = Client(*command)
    try:
        client.call("initialize", {"protocolVersion": 1})
        forked = children_of(server._process.pid) - before  # noqa: SLF001 - as above
        (agent,) = forked - {client.process.pid}
        assert os.getpgid(agent) == agent
        assert os.getpgid(client.process.pid) != agent
        assert client.end()[0] == 0
    finally:
        client.close()


def children_of(pid: int) -> set[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return {int(word) for word in text.split()}


def test_a_script_of_an_agent_is_forked_from_the_server() -> None:
    script = Path(__file__).parent / "agents" / "agent_chosen_stop_reason.py"
    with warm_start.Popen([sys.executable, script], stdin=subprocess.PIPE) as process:
        assert process.pid in children_of(warm_start._server()._process.pid)  # noqa: SLF001
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0


def test_without_the_server_a_forked_process_starts_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with ours:
        monkeypatch.setattr(warm_start, "_inherited", warm_start._Connection(ours))  # noqa: SLF001
        with warm_start.Popen([*REKINDLE, "--version"], stdout=subprocess.DEVNULL) as process:
            assert process.wait(TIMEOUT) == 0
    assert process._order is None  # noqa: SLF001 - there is no other sign of it


@pytest.mark.parametrize("words", [["--version"], ["list", "--store", "/nowhere"], ["list", "-?"]])
def test_forked_process_has_the_same_output_and_exit_code(words: list[str]) -> None:
    assert outcome(warm_start.Popen, *words) == outcome(subprocess.Popen, *words)


def test_process_uses_the_given_environment_and_folder(
    popen: type["subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    with SqliteStore(tmp_path / "s.db"):
        pass
    environ = {"PATH": os.environ["PATH"], "REKINDLE_STORE": "s.db"}
    assert outcome(popen, "list", env=environ, cwd=tmp_path)[0] == 0
    assert outcome(popen, "list", env=environ)[0] == 1


def test_process_can_be_signalled(popen: type["subprocess.Popen[bytes]"]) -> None:
    with popen([*REKINDLE, "example-agent"], stdin=subprocess.PIPE) as process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait(TIMEOUT) == -signal.SIGKILL
        assert process.poll() == -signal.SIGKILL


def test_failed_write_of_buffered_output_is_an_error(
    popen: type["subprocess.Popen[bytes]"],
) -> None:
    with Path("/dev/full").open("wb") as full:
        environ = {"PATH": os.environ["PATH"]}
        process = popen(
            [*REKINDLE, "--version"], stdout=full, stderr=subprocess.DEVNULL, env=environ
        )
        assert process.wait(TIMEOUT) != 0


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["true"], {}),
        ([*REKINDLE, "--version"], {"env": {"PYTHONPATH": "/nowhere"}}),
        ([*REKINDLE, "--version"], {"env": {"LANG": "de_DE.ISO-8859-1"}}),
        ([*REKINDLE, "--version"], {"umask": 0}),
    ],
)
def test_unsupported_commands_start_a_new_process(
    words: list[str], options: dict[str, object]
) -> None:
    with warm_start.Popen(words, stdout=subprocess.DEVNULL, **options) as process:
        assert process.wait(TIMEOUT) == 0
    assert process._order is None  # noqa: SLF001 - there is no other sign of it


def test_a_server_that_was_ended_is_started_again() -> None:
    server = warm_start._server()  # noqa: SLF001 - the process behind the public functions
    server._process.kill()  # noqa: SLF001 - as above
    server._process.wait()  # noqa: SLF001 - as above
    done = warm_start.run([*warm_start.REKINDLE, "--version"], capture_output=True, text=True)
    assert done.returncode == 0


def receive_and_close(control: socket.socket) -> None:
    with control:
        control.recv(1)


@pytest.mark.parametrize("reply", ["broken pipe", "empty"])
def test_a_server_that_ends_during_a_call_is_started_again(
    reply: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = warm_start._server()  # noqa: SLF001 - as above
    former = server._process  # noqa: SLF001 - as above
    if reply == "broken pipe":
        former.kill()
    else:
        server._control.close()  # noqa: SLF001 - as above
        server._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # noqa: SLF001
        Thread(target=receive_and_close, args=[theirs]).start()
    former.wait()
    # It ends after the check whether it runs.
    monkeypatch.setattr(former, "poll", lambda: None)
    done = warm_start.run([*warm_start.REKINDLE, "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert server._process is not former  # noqa: SLF001 - as above


def test_an_unknown_python_starts_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "_CHILD_ARGUMENTS", ("self", "args"))
    with warm_start.Popen([*REKINDLE, "--version"], stdout=subprocess.DEVNULL) as process:
        assert process.wait(TIMEOUT) == 0
    assert process._order is None  # noqa: SLF001 - there is no other sign of it


def test_a_process_that_is_never_waited_for_leaves_no_file_open() -> None:
    process = warm_start.Popen([*REKINDLE, "example-agent"], stdin=subprocess.PIPE)
    status = process._status  # noqa: SLF001 - the file descriptor in question
    name = Path(f"/proc/self/fd/{status}").readlink().name
    assert name.startswith("pipe:")
    assert process.stdin
    process.stdin.close()
    with pytest.warns(ResourceWarning, match="was never waited for"):
        del process
    # Another thread may have opened a file with the same number meanwhile.
    link = Path(f"/proc/self/fd/{status}")
    assert not (link.is_symlink() and link.readlink().name == name)
