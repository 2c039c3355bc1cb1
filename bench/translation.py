"""What it costs to translate a stream, against passing the same stream on."""

import json
from pathlib import Path
from time import perf_counter

import lines
from client import WrongResult
from setups import connected

Figures = dict[str, float]


def stream(agent: str, store: Path, client_version: int, what: str, count: int) -> Figures:
    """Return how many updates a second come through to a client of that version, once warm."""
    with connected(agent, store) as connection:
        client = connection.client
        client.greet(client_version)
        client.new_session()
        client.receive_turn(f"stream {what} {count // 10} 0")
        begin = perf_counter()
        told = client.receive_turn(f"stream {what} {count} 0")
        taken = perf_counter() - begin
    _demand(what, count, told)
    return {"rate": count / taken}


def _demand(what: str, count: int, told: bytes) -> None:
    """Raise WrongResult unless all that was said has arrived."""
    updates = [json.loads(line).get("params", {}).get("update", {}) for line in told.splitlines()]
    texts = "".join(_texts(what, updates))
    period = [json.loads(line)["params"]["update"] for line in lines.stream(what, "")]
    expected = "".join(_texts(what, period)) * (count // len(period))
    if what != "terminal" and texts != expected:
        raise WrongResult(f"{len(texts)} characters of {what} came, not what was said")
    if what == "terminal" and not any("content" in update for update in updates):
        raise WrongResult("nothing of the terminal came")


def _texts(what: str, updates: list[dict]) -> list[str]:
    if what == "results":
        calls = [it for it in updates if str(it.get("sessionUpdate")).startswith("tool_call")]
        return [part["content"]["text"] for call in calls for part in call["content"]]
    chunks = [it for it in updates if it.get("sessionUpdate") == "agent_message_chunk"]
    return [chunk["content"]["text"] for chunk in chunks]
