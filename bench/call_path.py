"""Count the calls that one `session/load` with handover makes inside `rekindle.proxy`.

The figure shows how far a reader has to jump to follow one request: calls, distinct modules, and
calls that go from one module of the package to another. Run it as `python bench/call_path.py`.
"""

import json
import sys
from collections.abc import Callable
from types import FrameType

from rekindle.model import LeaseHolder
from rekindle.proxy.connection_state import EngineSettings
from rekindle.proxy.engine import Engine
from rekindle.proxy.peers import AGENT
from rekindle.proxy.step import Step
from rekindle.runtime.query_handler import QueryHandler
from rekindle.store.memory import MemoryStore

PACKAGE = "rekindle.proxy"
MAX_MODULES = 18
MAX_SWITCHES = 100


class CallCounter:
    """Counts Python calls inside the package while it is active."""

    def __init__(self) -> None:
        self.calls = 0
        self.switches = 0
        self.modules: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count one event of the profiler."""
        callee = _module(frame)
        if event != "call" or callee is None:
            return
        self.calls += 1
        self.modules.add(callee)
        caller = _module(frame.f_back)
        if caller is not None and caller != callee:
            self.switches += 1


def _module(frame: FrameType | None) -> str | None:
    name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    return name if name.startswith(f"{PACKAGE}.") else None


class Bench:
    """An engine with a store in memory, and an agent that this class plays."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.now_us = 1
        self.engine = Engine(EngineSettings(command=("agent",), version="0"))
        self.client = self.engine.add_client()
        holder = LeaseHolder(token="bench", pid=1, machine="here")  # noqa: S106 - no password
        self.queries = QueryHandler(self, holder, lambda: None)

    def ask(self, question: Callable[[MemoryStore], object]) -> object:
        """Answer as a recorder does."""
        return question(self.store)

    def send(self, *messages: object, from_agent: bool = False) -> list[bytes]:
        """Have the engine receive messages; return the lines for the agent."""
        lines = b"\n".join(json.dumps(message).encode() for message in messages)
        self.now_us += 1
        if from_agent:
            return self._carry_out(self.engine.receive(AGENT, lines, self.now_us))
        return self._carry_out(self.engine.receive(self.client, lines, self.now_us))

    def _carry_out(self, step: Step) -> list[bytes]:
        self.store.write(step.changes)
        to_agent = list(step.to_agent)
        for pending in step.queries:
            answer = self.queries.answer(pending.query)
            to_agent += self._carry_out(self.engine.answer(pending.flow, answer, self.now_us))
        return to_agent

    def exchange(self, request_id: int, method: str, params: object, result: object) -> None:
        """Have the client ask and the agent answer."""
        sent = self.send({"id": request_id, "method": method, "params": params})
        asked = json.loads(sent[-1])
        self.send({"id": asked["id"], "result": result}, from_agent=True)


def count() -> CallCounter:
    """Record a session, start again with an agent that has lost it, and count one load.

    The agent refuses its own `session/load`, so the engine falls back to a handover.
    """
    store = MemoryStore()
    hello = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    first = Bench(store)
    first.exchange(1, "initialize", {"protocolVersion": 1}, hello)
    first.exchange(2, "session/new", {"cwd": "/p", "mcpServers": []}, {"sessionId": "s1"})
    prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "Hello"}]}
    first.exchange(3, "session/prompt", prompt, {"stopReason": "end_turn"})
    second = Bench(store)
    second.exchange(1, "initialize", {"protocolVersion": 1}, hello)
    params = {"sessionId": "s1", "cwd": "/p", "mcpServers": []}
    counter = CallCounter()
    sys.setprofile(counter)
    try:
        (load,) = second.send({"id": 2, "method": "session/load", "params": params})
        error = {"code": -32602, "message": "unknown session"}
        (new,) = second.send({"id": json.loads(load)["id"], "error": error}, from_agent=True)
        second.send({"id": json.loads(new)["id"], "result": {"sessionId": "a2"}}, from_agent=True)
    finally:
        sys.setprofile(None)
    return counter


def main() -> int:
    """Print the figures; return 1 if they are above the bar."""
    counter = count()
    print(f"calls     {counter.calls}")
    print(f"modules   {len(counter.modules)} (at most {MAX_MODULES})")
    print(f"switches  {counter.switches} (at most {MAX_SWITCHES})")
    for name in sorted(counter.modules):
        print(f"  {name}")
    is_within = len(counter.modules) <= MAX_MODULES and counter.switches <= MAX_SWITCHES
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
