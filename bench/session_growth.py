"""The cost of a growing session: append, load, show its end, export."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import commands
import generate
from client import Client, WrongResult
from process_info import held_mb
from rekindle.store.sqlite.store import SqliteStore
from setups import connected

SHORTEST = 5 * generate.ENTRIES_PER_TURN
_TIMEOUT = 1800.0
_PER = 100_000

Figures = dict[str, float]


def grow(store: Path, lengths: list[int]) -> Iterator[tuple[int, Figures]]:
    """Grow one session to each length; yield the length and its figures."""
    with SqliteStore(store) as db:
        generate.open_long(db)
    begin = 0
    for length in lengths:
        figures = _lengthen(store, begin, length)
        figures |= _load(store, length)
        last = commands.run(store, "show", generate.LONG, "--last")
        figures |= {"last_s": last.seconds, "last_mb": last.peak_mb}
        document = commands.run(store, "export", generate.LONG)
        figures |= {"export_s": document.seconds, "export_mb": document.peak_mb}
        yield length, figures | {"file_mb": store.stat().st_size / 1e6}
        begin = length


def _lengthen(store: Path, begin: int, end: int) -> Figures:
    """Append to the session; return the entries per second of the last tenth."""
    turn = generate.ENTRIES_PER_TURN
    tenth = (end - end // 10) // turn * turn
    with SqliteStore(store) as db:
        generate.lengthen(db, begin, tenth)
        at = perf_counter()
        generate.lengthen(db, tenth, end)
        return {"append": (end - tenth) / (perf_counter() - at)}


def _load(store: Path, length: int) -> Figures:
    """Load the session; return the time and the memory."""
    with connected("rekindle", store, _TIMEOUT) as connection:
        client = connection.client
        client.initialize()
        idle = held_mb(connection.pid)["resident"]
        begin = perf_counter()
        updates, first = load_and_check(client, length)
        taken = perf_counter() - begin
        held = held_mb(connection.pid)
        return {
            "load_s": taken,
            "load_per": taken * _PER / length,
            "loaded": length / taken,
            "first_s": first - begin,
            "load_mb": held.get("peak", held["resident"]) - idle,
            "updates": updates,
        }


def load_and_check(client: Client, length: int) -> tuple[int, float]:
    """Load the session and compare its text; return the number of updates and the first time."""
    params = {"sessionId": generate.LONG, "cwd": generate.FOLDER, "mcpServers": []}
    request = client.send("session/load", params)
    updates, digest, first = 0, sha256(), 0.0
    for line in client.each_line():
        first = first or perf_counter()
        message = json.loads(line)
        if message.get("id") == request:
            break
        update = message["params"]["update"]
        if update["sessionUpdate"] == "agent_message_chunk":
            digest.update(update["content"]["text"].encode())
        updates += 1
    if "result" not in message:
        raise WrongResult(f"the session was not loaded: {message}")
    expected = sha256()
    for text in generate.agent_texts(length):
        expected.update(text.encode())
    if digest.digest() != expected.digest():
        raise WrongResult(f"a session of {length} entries was replayed with another text")
    return updates, first
