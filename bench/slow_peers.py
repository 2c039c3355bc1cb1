"""A peer that does not read: the other peer waits, and memory does not grow."""

import os
import select
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import lines
from client import Client, WrongResult
from measures import count_stream, ready
from process_info import held_mb
from setups import connected

_MB = 1_000_000
_PADDING = 900
_QUIET = 1.0
_FLOOD = 50 * _MB

Figures = dict[str, float]


def slow_client(store: Path, count: int, seconds: float) -> Figures:
    """Stream to a client that reads nothing for some seconds, and then everything."""
    figures: Figures = {}
    with connected("rekindle", store, seconds + 600) as connection:
        client = ready(connection.client)
        idle = held_mb(connection.pid)["resident"]

        def wait() -> None:
            # A sleep is right here: the measure is that nothing happens.
            time.sleep(seconds)
            figures["taken_mb"] = _recorded(store, client.session_id)
            figures["above_mb"] = held_mb(connection.pid)["resident"] - idle

        client.stream("chunks", count, before_reading=wait)
        figures["after_mb"] = held_mb(connection.pid)["resident"] - idle
    found = count_stream(store, client.session_id, "chunks")
    if found != count:
        raise WrongResult(f"the store has {found} of {count} chunks")
    return figures | {"sent_mb": count * len(lines.stream("chunks", client.session_id)[0]) / _MB}


def slow_agent(store: Path, seconds: int) -> Figures:
    """Write prompts to an agent that reads nothing for some seconds. It must answer them all."""
    with connected("rekindle", store, seconds + 600) as connection:
        client = ready(connection.client)
        idle = held_mb(connection.pid)["resident"]
        client.send_prompt(client.session_id, f"rest now {seconds}")
        asked, written, rest = _write_until_blocked(client, connection.to_agent)
        above = held_mb(connection.pid)["resident"] - idle
        # The last prompt is written to its end while answers are read.
        Thread(target=os.write, args=(connection.to_agent, rest), daemon=True).start()
        answered = 0
        for line in client.each_line():
            answered += b'"stopReason"' in line
            if answered == asked + 1:
                break
    return {"taken_mb": written / _MB, "above_mb": above, "prompts": asked}


def _recorded(store: Path, session_id: str) -> float:
    """Return the size of the recorded chunks in MB."""
    chunks = count_stream(store, session_id, "chunks")
    return chunks * len(lines.stream("chunks", session_id)[0]) / _MB


def _write_until_blocked(client: Client, fd: int) -> tuple[int, int, bytes]:
    """Write prompts until the pipe is full; return their number and size, and the unsent rest."""
    blocks = [{"type": "text", "text": text} for text in ("stream chunks 0 0", "x" * _PADDING)]
    params = {"sessionId": client.session_id, "prompt": blocks}
    asked = written = 0
    os.set_blocking(fd, False)
    while written < _FLOOD:
        asked += 1
        rest = lines.encode(id=1000 + asked, method="session/prompt", params=params)
        while rest:
            if not select.select([], [fd], [], _QUIET)[1]:
                os.set_blocking(fd, True)
                return asked, written, rest
            with suppress(BlockingIOError):
                sent = os.write(fd, rest)
                written += sent
                rest = rest[sent:]
    raise WrongResult(f"{_FLOOD} bytes were accepted that the agent has not read")
