"""Agents that exit, close a pipe or do not exit, and readers that are cancelled."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

import pytest

from rekindle.client import (
    AgentGone,
    AgentNotStarted,
    Event,
    MessageChunk,
    Turn,
    UsageError,
    connect,
)
from stdio_client import EXAMPLE_AGENT, TIMEOUT, is_running

AGENTS = Path(__file__).parents[1] / "agents"
MISBEHAVING_AGENT = [sys.executable, AGENTS / "agent_misbehaves_on_request.py"]
IMITATIONS = [sys.executable, AGENTS / "agent_imitations.py"]


def with_pid_file(path: Path, *command: object) -> list[str]:
    """Return a command that writes the agent's process id to a file."""
    return ["sh", "-c", f'echo $$ > {path}; exec "$0" "$@"', *map(str, command)]


async def test_exit_with_pipes_held_open_raises_no_asyncio_error() -> None:
    errors: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    # A child in another process group keeps the agent's pipes open for a moment.
    code = "import os, time; os.fork() and os._exit(1); os.setsid(); time.sleep(3)"
    with pytest.raises(AgentGone):
        async with connect([sys.executable, "-c", code], behind_rekindle=False):
            pass
    await asyncio.sleep(0)
    assert errors == []


async def test_rekindle_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "argparse.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # A forked process has imported everything already.
    monkeypatch.setenv("REKINDLE_TESTS", "all")
    agent = [sys.executable, AGENTS / "agent_chosen_stop_reason.py"]
    async with connect(agent, store=tmp_path / "s.db") as connected:
        assert connected.offers("load")


async def read(turn: Turn) -> list[Event]:
    return [event async for event in turn]


@pytest.mark.parametrize("version", ["1", "2"])
async def test_agent_exit_fails_the_turn_with_exit_code_and_stderr(version: str) -> None:
    command = [*EXAMPLE_AGENT, "--protocol", version]
    lines: list[str] = []
    async with connect(
        command, behind_rekindle=False, protocol=int(version), on_stderr=lines.append
    ) as agent:
        session = await agent.new(".")
        turn = session.prompt("crash")
        with pytest.raises(AgentGone) as caught:
            await read(turn)
        assert turn.text == "I am about to"
        assert caught.value.exit_code == 3
        assert caught.value.stderr == ("rekindle example-agent: crashed, as the prompt asked",)
        assert lines == list(caught.value.stderr)
        assert "exited with 3" in str(caught.value)
        assert "crashed, as the prompt asked" in str(caught.value)
        with pytest.raises(AgentGone, match=r"exited with 3 before it answered session/new"):
            await agent.new(".")
        with pytest.raises(AgentGone):
            await turn


async def test_kill_fails_all_open_calls_and_turns(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = with_pid_file(pid, *IMITATIONS, "silent-list", tmp_path)
    async with connect(command, behind_rekindle=False) as agent:
        turns = [(await agent.new(".")).prompt("slow") for _ in range(2)]
        for turn in turns:
            await anext(aiter(turn))
        listing = asyncio.ensure_future(anext(agent.sessions()))
        await asyncio.sleep(0)
        os.kill(int(pid.read_text()), signal.SIGKILL)
        ends = await asyncio.gather(*turns, listing, return_exceptions=True)
    assert [type(it) for it in ends] == [AgentGone] * 3
    assert {it.signal for it in ends if isinstance(it, AgentGone)} == {"SIGKILL"}
    assert "was killed by SIGKILL before it answered session/list" in str(ends[-1])


async def test_rekindle_restarts_an_agent_that_exited(tmp_path: Path) -> None:
    async with connect(EXAMPLE_AGENT, store=tmp_path / "s.db") as agent:
        session = await agent.new(".")
        await session.ask("My name is Ada.")
        with pytest.raises(AgentGone, match="exited with 3") as caught:
            await session.ask("crash")
        assert (caught.value.exit_code, caught.value.is_final) == (3, False)
        assert await session.ask("what did I say first?") == "You said first: My name is Ada."


@pytest.mark.parametrize("prompt", ["hang_up", "stop_reading"])
async def test_agent_that_closes_a_pipe_counts_as_gone(prompt: str) -> None:
    async with connect([*MISBEHAVING_AGENT, "1"], behind_rekindle=False, grace=0) as agent:
        session = await agent.new(".")
        with pytest.raises(AgentGone, match="closed its output before it answered session/prompt"):
            await session.ask(prompt)


async def test_orphan_with_open_pipes_does_not_hide_the_exit() -> None:
    async with connect([*MISBEHAVING_AGENT, "1"], behind_rekindle=False) as agent:
        session = await agent.new(".")
        with pytest.raises(AgentGone, match="exited with 7") as caught:
            await session.ask("orphan")
        child = int(caught.value.stderr[0].split()[-1])
        assert is_running(child)
    assert not is_running(child)


async def test_agent_that_ignores_end_of_input_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = with_pid_file(pid, *IMITATIONS, "no-exit", tmp_path)
    async with connect(command, behind_rekindle=False, grace=0.1) as agent:
        await agent.new(".")
    assert not is_running(int(pid.read_text()))


async def test_timeout_in_connect_ends_the_agent(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = with_pid_file(pid, sys.executable, AGENTS / "agent_ignores_signals.py")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), connect(command, behind_rekindle=False, grace=0):
            pytest.fail("it does not speak")
    assert not is_running(int(pid.read_text()))


async def test_exception_in_the_block_ends_the_agent(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(LookupError):
        async with connect(with_pid_file(pid, *EXAMPLE_AGENT), behind_rekindle=False):
            raise LookupError
    assert not is_running(int(pid.read_text()))


CLIENT = """
import asyncio, signal, sys
from rekindle.client import connect
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
async def main():
    async with connect(sys.argv[1:], behind_rekindle=False, grace=60) as agent:
        turn = (await agent.new(".")).prompt("slow")
        await anext(aiter(turn))
        print("ready", flush=True)
        await turn
asyncio.run(main())
"""


@contextmanager
def interrupted_client(*agent: object) -> Iterator["subprocess.Popen[str]"]:
    """Run a client in another process, and interrupt it in a turn."""
    command = [sys.executable, "-c", CLIENT, *map(str, agent)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as client:
        watchdog = Timer(TIMEOUT, client.kill)
        watchdog.start()
        try:
            assert client.stdout
            assert client.stderr
            assert client.stdout.readline() == "ready\n"
            client.send_signal(signal.SIGINT)
            yield client
            assert client.wait() == -signal.SIGINT
            assert "KeyboardInterrupt" in client.stderr.read()
        finally:
            watchdog.cancel()
            client.kill()


def test_interrupt_ends_the_agent(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with interrupted_client(*with_pid_file(pid, *EXAMPLE_AGENT)):
        pass
    assert not is_running(int(pid.read_text()))


def test_second_interrupt_kills_the_agent(tmp_path: Path) -> None:
    pid, fifo = tmp_path / "pid", tmp_path / "fifo"
    os.mkfifo(fifo)
    # It keeps running after the end of its input.
    script = f'echo $$ > {pid}; "$0" "$@"; echo > {fifo}; sleep 60'
    with interrupted_client("sh", "-c", script, *EXAMPLE_AGENT) as client:
        fifo.read_text()
        client.send_signal(signal.SIGINT)
    assert not is_running(int(pid.read_text()))


async def test_start_error_names_the_command() -> None:
    with pytest.raises(AgentNotStarted, match="no-such-agent"):
        async with connect(["no-such-agent"], behind_rekindle=False):
            pass
    with pytest.raises(AgentNotStarted, match=r"^command not found: no-such-agent") as caught:
        async with connect(["no-such-agent"]):
            pass
    assert caught.value.exit_code == 127
    with pytest.raises(UsageError, match="--frobnicate"):
        async with connect(["true"], options=["--frobnicate"]):
            pass
    with pytest.raises(AgentGone, match="exited with 127 before it"):
        async with connect(["sh", "-c", "read line; exit 127"]):
            pass
    with pytest.raises(AgentGone, match="exited with 5 before it answered initialize: oh no"):
        async with connect(["sh", "-c", "echo oh no >&2; exit 5"], behind_rekindle=False):
            pass


async def test_usage_errors_are_raised_before_the_agent_starts() -> None:
    with pytest.raises(UsageError, match="no agent given"):
        async with connect([]):
            pass
    with pytest.raises(UsageError, match="need behind_rekindle=True"):
        async with connect(EXAMPLE_AGENT, behind_rekindle=False, store="s.db"):
            pass
    with pytest.raises(UsageError, match="no version 3"):
        async with connect(EXAMPLE_AGENT, behind_rekindle=False, protocol=3):
            pass


@pytest.mark.parametrize("version", [1, 2])
async def test_cancelled_reader_does_not_block_the_connection(version: int) -> None:
    command = [*EXAMPLE_AGENT, "--protocol", "2"]
    async with connect(command, behind_rekindle=False, protocol=version) as agent:
        session = await agent.new(".")
        turn = session.prompt("count to 3000")
        begun = asyncio.Event()
        texts: list[str] = []

        async def read() -> None:
            async for event in turn:
                if isinstance(event, MessageChunk):
                    texts.append(event.text)
                    begun.set()
                    await asyncio.sleep(0)

        reader = asyncio.ensure_future(read())
        await begun.wait()
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader
        assert await (await agent.new(".")).ask("Hello")
        # Unread events are still available.
        await read()
        assert "".join(texts) == " ".join(map(str, range(1, 3001)))
        assert turn.stop_reason == "end_turn"


async def test_cancelled_call_does_not_block_the_connection(tmp_path: Path) -> None:
    async with connect([*IMITATIONS, "silent-list", tmp_path], behind_rekindle=False) as agent:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(agent.sessions())
        session = await agent.new(".")
        assert await session.ask("Hello") == "Heard: Hello"
