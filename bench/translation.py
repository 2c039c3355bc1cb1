"""The cost of translating a stream, compared with forwarding it."""

import json
from pathlib import Path
from time import perf_counter

import lines
from client import WrongResult
from setups import connected

Figures = dict[str, float]


def stream(agent: str, store: Path, client_version: int, what: str, count: int) -> Figures:
    """Return the rate of updates for a client of a version, after a warm-up."""
    with connected(agent, store) as connection:
        client = connection.client
        client.initialize_version(client_version)
        client.new_session()
        client.receive_turn(f"stream {what} {count // 10} 0")
        begin = perf_counter()
        received = client.receive_turn(f"stream {what} {count} 0")
        taken = perf_counter() - begin
    _check(what, count, received)
    return {"rate": count / taken}


def _check(what: str, count: int, received: bytes) -> None:
    """Raise WrongResult unless all text has arrived."""
    messages = map(json.loads, received.splitlines())
    updates = [message.get("params", {}).get("update", {}) for message in messages]
    texts = "".join(_texts(what, updates))
    period = [json.loads(line)["params"]["update"] for line in lines.stream(what, "")]
    expected = "".join(_texts(what, period)) * (count // len(period))
    if what != "terminal" and texts != expected:
        raise WrongResult(f"{len(texts)} characters of {what} arrived, not the sent ones")
    if what == "terminal" and not any("content" in update for update in updates):
        raise WrongResult("no output of the terminal arrived")


def _texts(what: str, updates: list[dict]) -> list[str]:
    if what == "results":
        calls = [
            update for update in updates if str(update.get("sessionUpdate")).startswith("tool_call")
        ]
        return [part["content"]["text"] for call in calls for part in call["content"]]
    chunks = [update for update in updates if update.get("sessionUpdate") == "agent_message_chunk"]
    return [chunk["content"]["text"] for chunk in chunks]
