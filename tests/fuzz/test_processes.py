"""A real `rekindle run` survives hostile peers, and records the session."""

import random
import resource
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest
from msgspec import Raw

import warm_start
from command_runs import run
from fuzz.grammar import MessageGenerator
from rekindle.acp.jsonrpc import read_envelope
from rekindle.jsonvalue import encode
from rekindle.model import Page, Side
from rekindle.store.sqlite.store import SqliteStore
from safe_documents import INVISIBLE
from stdio_client import REKINDLE, TIMEOUT

AGENT = Path(__file__).parents[1] / "agents" / "agent_random_messages.py"
NEW = {"id": "new", "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}

FILES = {"s.db", "s.db.lock", "s.db.live", "s.db.hosts"}


def hostile_input(seed: int) -> bytes:
    """Return hostile lines of a client that has opened a session."""
    generator = MessageGenerator(random.Random(seed), 0.2)
    lines = [generator.encode(generator.request(Side.CLIENT, number)) for number in range(40)]
    return (
        b"\n".join([*lines, *(generator.transcript_line(Side.CLIENT) for _ in range(20))]) + b"\n"
    )


def converse(process: "subprocess.Popen[bytes]", seed: int, protocol: int) -> str:
    """Initialize, open a session, and send hostile lines; return the stderr of the process."""
    watchdog = Timer(3 * TIMEOUT, process.kill)
    watchdog.start()
    try:
        assert process.stdin
        assert process.stdout
        greeting = {"id": 0, "method": "initialize", "params": {"protocolVersion": protocol}}
        for request in (greeting, NEW):
            process.stdin.write(encode(request) + b"\n")
            process.stdin.flush()
            for line in process.stdout:
                answer = read_envelope(line)
                is_answer = answer is not None and isinstance(answer.id, Raw)
                if is_answer and bytes(answer.id) == encode(request["id"]):
                    break
        _, words = process.communicate(hostile_input(seed))
        return words.decode("utf-8", "replace")
    finally:
        watchdog.cancel()


@pytest.mark.parametrize(("client", "agent"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_hostile_peers_do_not_stop_rekindle(client: int, agent: int, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    seed = random.SystemRandom().getrandbits(32)
    command = (sys.executable, str(AGENT), str(seed), str(agent))
    with warm_start.Popen(
        [*REKINDLE, "run", "--store", str(store), "--grace", "15", "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        words = converse(process, seed, client)
    again = f"seed {seed}, versions {client} and {agent}: {words[-2000:]}"
    for sign in ("Traceback", "bug in Rekindle", "could not record one"):
        assert sign not in words, again
    assert process.returncode == 0, again
    assert {it.name for it in tmp_path.iterdir()} <= FILES, again
    with SqliteStore(store, create=False) as opened:
        pages = (Page(with_unopened=True), Page(with_unopened=True, deleted=True))
        ids = [session.id for page in pages for session in opened.sessions(page)]
    assert ids, again
    shown = run("show", "--store", store, "--", ids[0])
    assert (shown.returncode, INVISIBLE.findall(shown.stdout)) == (0, []), again


def test_quoted_input_has_no_control_codes(tmp_path: Path) -> None:
    says = r"print('\x1b]0;agent\x07', flush=True); import sys; sys.stdin.read()"
    done = warm_start.run(
        [*REKINDLE, "run", "--strict", "--store", str(tmp_path / "s.db"), "--",
         sys.executable, "-c", says],
        input=b'{"jsonrpc":"2.0","id":1,"method":"session/\\u001b]0;client\\u0007","params":{}}\n',
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )  # fmt: skip
    assert b"x1b]0;agent" in done.stderr
    assert b"x1b]0;client" in done.stderr
    assert b"\x1b" not in done.stderr


def _with_little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))


def test_long_line_is_held_in_memory_at_most_twice(tmp_path: Path) -> None:
    size = 50_000_000
    says = f"import sys; sys.stdout.write('x' * {size} + chr(10)); sys.stdout.flush()"
    # The client has left already, so the agent needs a long grace time.
    options = ["--store", str(tmp_path / "s.db"), "--grace", str(TIMEOUT)]
    with warm_start.Popen(
        [*REKINDLE, "run", *options, "--", sys.executable, "-c", says],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=_with_little_memory,
    ) as process:
        out, _ = process.communicate(timeout=TIMEOUT)
    assert len(out) == size + 1
