"""kill -9 at any moment: what the client has seen is in the store, in order, once."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from acp import EXAMPLE_AGENT, Client
from rekindle.model import Kind, Page
from rekindle.store.sqlite import SqliteStore

KILLS = int(os.environ.get("REKINDLE_KILLS", "40"))

Start = Callable[..., Client]


@pytest.mark.parametrize("seed", range(KILLS))
def test_what_the_client_has_seen_survives_kill_9(
    start: Start, store_path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a seed that can be given again
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    client.start(session_id, "count to 1000000")
    for _ in range(chance.randrange(1, 6000)):
        client.receive()
    client.process.kill()
    client.process.wait()
    # What had reached the pipe was sent, so it counts as seen.
    while line := client.next_line():
        if line.endswith(b"\n"):
            client.passed.append(json.loads(line))
    seen = [m for m in client.passed if m.get("method") == "session/update"]

    with SqliteStore(store_path, create=False) as store:
        (session,) = store.sessions(Page())
        entries = list(store.read(session_id))
    recorded = [json.loads(entry.line) for entry in entries if entry.kind is Kind.UPDATE]
    assert recorded[: len(seen)] == seen
    assert [entry.seq for entry in entries] == list(range(1, session.last_seq + 1))
    numbers = [
        int(update["params"]["update"]["content"]["text"])
        for update in recorded
        if update["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
    ]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_next_start_after_kill_9_just_works(start: Start, store_path: Path) -> None:
    for turn in range(3):
        client = start(*EXAMPLE_AGENT)
        client.start(client.new(), "count to 1000000")
        for _ in range(500):
            client.receive()
        client.process.kill()
        client.process.wait()
        with SqliteStore(store_path) as store:
            assert len(store.sessions(Page())) == turn + 1
    client = start(*EXAMPLE_AGENT)
    client.prompt(client.new(), "hello")
    assert client.end() == (0, "")
