"""A session that moves between machines: started on one, continued on another, and back."""

from collections.abc import Callable
from pathlib import Path

import warm_start
from stdio_client import EXAMPLE_AGENT, NEW, REKINDLE, TIMEOUT, Client, kind, said

Start = Callable[..., Client]

INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


def connect(start: Start, store: Path) -> Client:
    """Start an agent that remembers sessions, but only those on its own machine."""
    memory = store.with_suffix(".memory")
    agent = (*EXAMPLE_AGENT, "--offer", "all", "--memory", memory)
    client = start(*agent, options=("--store", store))
    client.call("initialize", INITIALIZE)
    return client


def rekindle(*arguments: str | Path) -> str:
    done = warm_start.run(
        [*REKINDLE, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    return done.stdout


def move(session_id: str, source: Path, target: Path) -> str:
    bundle = source.with_suffix(".rekindle")
    rekindle("export", "--store", source, session_id, "--format", "bundle", "-o", bundle, "--force")
    return rekindle("import", "--store", target, bundle).split("\t")[0]


def test_a_session_continues_on_another_machine(start: Start, tmp_path: Path) -> None:
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    client = connect(start, one)
    session_id = client.new()
    client.prompt(session_id, "My name is Ada.")
    client.end()

    assert move(session_id, one, other) == "new"
    client = connect(start, other)
    client.call("session/load", NEW | {"sessionId": session_id})
    assert said(client.prompt(session_id, "what did I say first?")).endswith("My name is Ada.")
    client.prompt(session_id, "The other machine is blue.")
    client.end()

    assert move(session_id, other, one) == "extended"
    assert move(session_id, other, one) == "unchanged"
    client = connect(start, one)
    client.call("session/load", NEW | {"sessionId": session_id})
    told = client.updates(session_id)
    users = [it["content"]["text"] for it in told if kind(it) == "user_message_chunk"]
    assert users == ["My name is Ada.", "what did I say first?", "The other machine is blue."]
    # The agent here remembers the first part, and gets the rest as a handover.
    answer = said(client.prompt(session_id, "what did I say last?"))
    assert answer.endswith("The other machine is blue.")
    client.end()
    assert move(session_id, one, other) == "extended"
