"""Backpressure: a peer that does not read slows the other side down, and nothing is lost."""

import json
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread, Timer

import pytest

from rekindle.model import Counted, EntryBatch, Kind, Opened, Side
from rekindle.runtime.transports import pipe_writer, stdio
from rekindle.runtime.transports.pipe_writer import PipeWriter
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import CWD, EXAMPLE_AGENT, NEW, REKINDLE, TIMEOUT, Client

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux tells how much memory another has"
)

MB = 1_000_000
LINE_SIZE = 1000
# Far more than pipes hold, and far more than the proxy needs in memory.
FLOOD = 60 * MB
MOST_GROWTH = 25 * MB
MOST_PASSED = 5 * MB

# Reports on stderr how many bytes it has written so far.
FLOODING = f"""
import json, sys
written = 0
def write(line):
    global written
    sys.stdout.write(line + "\\n")
    sys.stdout.flush()
    written += len(line) + 1
for line in sys.stdin:
    request = json.loads(line)
    match request["method"]:
        case "initialize":
            result = {{"protocolVersion": 1}}
        case "session/new":
            result = {{"sessionId": "flood"}}
        case "session/prompt":
            number = 0
            while written < {FLOOD}:
                content = {{"type": "text", "text": f"{{number:08}} " + "x" * 900}}
                update = {{"sessionUpdate": "agent_message_chunk", "content": content}}
                params = {{"sessionId": "flood", "update": update}}
                told = {{"method": "session/update", "params": params}}
                write(json.dumps({{"jsonrpc": "2.0", **told}}))
                number += 1
                if number % 100 == 0:
                    print(written, file=sys.stderr, flush=True)
            result = {{"stopReason": "end_turn"}}
    write(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}))
"""


def resident_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def peak_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def stable_value(figure: Iterator[int]) -> int:
    """Return a figure once it stops growing, because the writer waits."""
    patience = time.monotonic() + TIMEOUT
    last, since = -1, time.monotonic()
    for now in figure:
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 1:
            return now
        assert time.monotonic() < patience, "it goes on growing"
    raise AssertionError("it has ended")


def last_number(fd: int) -> Iterator[int]:
    """Yield the latest number that was written to a pipe, forever."""
    told, rest = 0, b""
    while True:
        if select.select([fd], [], [], 0.05)[0]:
            *lines, rest = (rest + os.read(fd, 65536)).split(b"\n")
            told = int(lines[-1]) if lines else told
        yield told


def start(store: Path, *agent: str | Path) -> Client:
    return Client(*REKINDLE, "run", "--store", store, "--", *agent, read=False)


def test_a_client_that_does_not_read_slows_the_agent_down(tmp_path: Path) -> None:
    client = start(tmp_path / "s.db", sys.executable, "-c", FLOODING)
    try:
        client.request("initialize", {"protocolVersion": 1})
        client.request("session/new", NEW)
        assert client.process.stdout
        assert client.process.stderr
        for _ in range(2):
            client.process.stdout.readline()
        before = resident_memory(client.process.pid)
        turn = client.start("flood", "go")
        assert stable_value(last_number(client.process.stderr.fileno())) < MOST_PASSED
        assert resident_memory(client.process.pid) - before < MOST_GROWTH
        client.start_reading()
        count = 0
        while (message := json.loads(client.next_line())).get("id") != turn:
            update = message["params"]["update"]
            if update["sessionUpdate"] == "session_info_update":
                continue
            text = update.get("content", {}).get("text", "")
            assert text.startswith(f"{count:08} ")
            count += 1
        assert count > FLOOD // LINE_SIZE // 2
        assert resident_memory(client.process.pid) - before < MOST_GROWTH
    finally:
        client.close()
    with SqliteStore(tmp_path / "s.db", create=False) as store:
        assert sum(entry.kind is Kind.UPDATE for entry in store.read("flood")) >= count


def write_some(client: Client, line: bytes) -> Iterator[int]:
    """Write the line repeatedly without blocking; yield the number of written bytes."""
    assert client.process.stdin
    fd = client.process.stdin.fileno()
    os.set_blocking(fd, False)
    written, rest = 0, b""
    while True:
        rest = rest or line * 64
        try:
            sent = os.write(fd, rest)
        except BlockingIOError:
            sent = 0
            select.select([], [fd], [], 0.05)
        rest = rest[sent:]
        written += sent
        assert written < FLOOD, "it takes all, and nobody reads"
        yield written


def test_an_agent_that_does_not_read_slows_the_client_down(tmp_path: Path) -> None:
    deaf = "import time; print('{}', flush=True); time.sleep(600)"
    client = start(tmp_path / "s.db", sys.executable, "-c", deaf)
    try:
        assert client.process.stdout
        client.process.stdout.readline()
        before = resident_memory(client.process.pid)
        line = json.dumps({"jsonrpc": "2.0", "method": "_x", "params": "x" * 900}).encode() + b"\n"
        assert stable_value(write_some(client, line)) < MOST_PASSED
        assert resident_memory(client.process.pid) - before < MOST_GROWTH
    finally:
        client.process.kill()
        client.close()


def test_a_client_that_sends_without_reading_is_slowed_down(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        for number in range(50):
            store.write([Opened(session_id=f"{number:050}", at_us=number, cwd=CWD + "x" * 900)])
            store.write([Counted(session_id=f"{number:050}", at_us=number, turns=1)])
    client = start(path, *EXAMPLE_AGENT)
    try:
        client.request("initialize", {"protocolVersion": 1})
        assert client.process.stdout
        client.process.stdout.readline()
        before = resident_memory(client.process.pid)
        # Rekindle answers each one with a much longer line.
        params = {"_meta": {"x": "x" * 900}}
        ask = {"jsonrpc": "2.0", "id": 9, "method": "session/list", "params": params}
        stable_value(write_some(client, json.dumps(ask).encode() + b"\n"))
        assert resident_memory(client.process.pid) - before < 16 * 1024 * 1024 + MOST_GROWTH
    finally:
        client.process.kill()
        client.close()


# Only the first time: after a restart, it answers.
ENDLESS = """
import json, pathlib, sys
seen = pathlib.Path(sys.argv[1])
for line in sys.stdin:
    request = json.loads(line)
    result = {"protocolVersion": 1, "sessionId": "s", "stopReason": "end_turn"}
    if request["method"] == "session/prompt" and not seen.exists():
        seen.touch()
        while True:
            sys.stdout.write("x" * 1_000_000)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def test_an_agent_with_an_endless_line_is_ended(tmp_path: Path) -> None:
    client = start(tmp_path / "s.db", sys.executable, "-c", ENDLESS, tmp_path / "seen")
    client.start_reading()
    try:
        client.call("initialize", {"protocolVersion": 1})
        session_id = client.new()
        error = client.answer(client.start(session_id, "go"))["error"]
        assert error["data"]["agentEnded"]
        assert peak_memory(client.process.pid) < 256 * MB + 100 * MB
        assert client.answer(client.start(session_id, "go"))["result"]["stopReason"] == "end_turn"
        _, stderr = client.end()
    finally:
        client.close()
    assert "the agent sent a line of more than 256 MiB, without an end: Rekindle ended it" in stderr


def test_a_client_with_an_endless_line_is_ignored(tmp_path: Path) -> None:
    client = start(tmp_path / "s.db", *EXAMPLE_AGENT)
    assert client.process.stdin
    try:
        with suppress(BrokenPipeError):
            while True:
                os.write(client.process.stdin.fileno(), b"x" * MB)
        _, stderr = client.end(hang_up=False)
    finally:
        client.close()
    assert "the client sent a line of more than 256 MiB, without an end" in stderr


def test_a_slow_client_receives_a_long_replay_completely(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    fill(path, chunks=30_000)
    client = start(path, *EXAMPLE_AGENT)
    try:
        client.request("initialize", {"protocolVersion": 1})
        request = client.request("session/load", NEW | {"sessionId": "long"})
        assert client.process.stdout
        pid, text, held = client.process.pid, [], 0
        for line in client.process.stdout:
            message = json.loads(line)
            if message.get("id") == request:
                break
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                text.append(update["content"]["text"])
                held = max(held, resident_memory(pid))
        assert "".join(text) == "".join(f"{number:08} " + "x" * 900 for number in range(30_000))
        # The memory for the transcript and its lines does not grow with a slow reader.
        assert held < 3 * 27 * MB + 50 * MB
    finally:
        client.close()


def fill(path: Path, chunks: int) -> None:
    def entry(kind: Kind, *messages: object) -> EntryBatch:
        data = b"\n".join(json.dumps(it).encode() for it in messages)
        side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
        return EntryBatch(
            session_id="long", side=side, kind=kind, at_us=1, data=data, count=len(messages)
        )

    def chunk(number: int) -> dict[str, object]:
        content = {"type": "text", "text": f"{number:08} " + "x" * 900}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        return {"method": "session/update", "params": {"sessionId": "long", "update": update}}

    with SqliteStore(path) as store:
        store.write([Opened(session_id="long", at_us=1, cwd=CWD)])
        prompt = {"sessionId": "long", "prompt": [{"type": "text", "text": "Go on"}]}
        store.write([entry(Kind.PROMPT, {"id": 1, "params": prompt})])
        for start in range(0, chunks, 64):
            numbers = range(start, min(start + 64, chunks))
            store.write([entry(Kind.UPDATE, *map(chunk, numbers))])
        store.write([entry(Kind.ANSWER, {"id": 1, "result": {"stopReason": "end_turn"}})])


def test_a_full_outlet_blocks_its_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_writer, "_MAX_QUEUED_BYTES", 10)
    reading, writing = os.pipe()
    try:
        sink = PipeWriter(writing, lambda: None)
        sink.queue(b"01234\n")
        assert not sink.is_full
        sink.queue(b"56789\n")
        assert sink.is_full
        sink.flush_or_wait()
        assert not sink.is_full
        assert os.read(reading, 100) == b"01234\n56789\n"
    finally:
        os.close(reading)
        os.close(writing)


def test_finish_waits_for_the_write_of_another_thread() -> None:
    reading, writing = os.pipe()
    writer = PipeWriter(writing, lambda: None)
    line = b"x" * 1_000_000 + b"\n"
    finishing = Thread(target=writer.finish)
    try:
        writer.queue(line)
        # The background thread has the line now, and waits for a reader.
        writer.flush_in_background()
        got = os.read(reading, 1)
        finishing.start()
        finishing.join(0.05)
        assert finishing.is_alive()
        while len(got) < len(line):
            got += os.read(reading, 65536)
        finishing.join(TIMEOUT)
        assert not finishing.is_alive()
        assert got == line
    finally:
        writer.close()
        os.close(reading)
        os.close(writing)


def test_non_blocking_pipes_are_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    broken: list[bool] = []
    sink = PipeWriter(writing, lambda: broken.append(True))
    line = b"x" * 1_000_000 + b"\n"
    try:
        # First there is no reader, then there is no data.
        sink.queue(line)
        sink.flush_in_background()
        lines = stdio.read_lines(reading)
        assert next(lines) == (line[:-1], True)
        Timer(0.05, sink.queue, [line]).start()
        Timer(0.1, sink.flush_in_background).start()
        assert next(lines) == (line[:-1], True)
        assert not broken
    finally:
        sink.close()
        os.close(reading)
        os.close(writing)
