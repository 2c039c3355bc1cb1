"""What happens when somebody does not read: the other side waits, and memory stays as it was."""

import os
import select
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import lines
from client import Client, WrongResult
from measures import ready
from memory import held_mb
from setups import connected
from stored import count_stream

_MB = 1_000_000
_PADDING = 900
_QUIET = 1.0
_FLOOD = 50 * _MB

Figures = dict[str, float]


def deaf_client(store: Path, count: int, seconds: float) -> Figures:
    """Stream to a client that reads nothing for so long, and then everything."""
    figures: Figures = {}
    with connected("rekindle", store, seconds + 600) as connection:
        client = ready(connection.client)
        idle = held_mb(connection.pid)["resident"]

        def wait() -> None:
            # The measure is that nothing happens.
            time.sleep(seconds)
            figures["taken_mb"] = _recorded(store, client.session_id)
            figures["above_mb"] = held_mb(connection.pid)["resident"] - idle

        client.stream("chunks", count, before_reading=wait)
        figures["after_mb"] = held_mb(connection.pid)["resident"] - idle
    found = count_stream(store, client.session_id, "chunks")
    if found != count:
        raise WrongResult(f"the store has {found} of {count} chunks")
    return figures | {"sent_mb": count * len(lines.stream("chunks", client.session_id)[0]) / _MB}


def deaf_agent(store: Path, seconds: int) -> Figures:
    """Write prompts to an agent that reads nothing for so long; all of them must be answered."""
    with connected("rekindle", store, seconds + 600) as connection:
        client = ready(connection.client)
        idle = held_mb(connection.pid)["resident"]
        client.ask_for(client.session_id, f"rest now {seconds}")
        asked, written, rest = _write_while_it_is_taken(client, connection.to_agent)
        above = held_mb(connection.pid)["resident"] - idle
        # What is begun must be ended, while answers are read.
        Thread(target=os.write, args=(connection.to_agent, rest), daemon=True).start()
        answered = 0
        for line in client.each_line():
            answered += b'"stopReason"' in line
            if answered == asked + 1:
                break
    return {"taken_mb": written / _MB, "above_mb": above, "prompts": asked}


def _recorded(store: Path, session_id: str) -> float:
    """Return how many MB of chunks are on record."""
    chunks = count_stream(store, session_id, "chunks")
    return chunks * len(lines.stream("chunks", session_id)[0]) / _MB


def _write_while_it_is_taken(client: Client, fd: int) -> tuple[int, int, bytes]:
    """Write prompts until none is taken for a while; return how many, their size, and the rest."""
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
    raise WrongResult(f"{_FLOOD} bytes were taken that nobody has read")
