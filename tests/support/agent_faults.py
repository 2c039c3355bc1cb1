"""Faults of an agent: each changes messages of the example agent so that it breaks one rule.

A fault is called with a message, the request that it answers (if it is a response) and the
connection. It yields the messages that the client receives instead. The agent runs in the test
process, because the tests need many of them.
"""

import asyncio
import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from rekindle.client.process import ProcessExit
from rekindle.conformance.peer import Peer
from rekindle.conformance.trace import TraceLine, same_id
from rekindle.example_agent import LIFECYCLE, NEWER, Options
from rekindle.example_agent.agent import Agent
from rekindle.example_agent.rpc import Connection
from rekindle.jsonvalue import Json

Fault = Callable[[Json, TraceLine | None, Peer], Iterator[object]]
Change = Callable[[Json], object]

AGAIN = ("session/load", "session/resume")
REFUSAL: Json = {"code": -32603, "message": "broken on purpose"}
counter = itertools.count(1)


class InProcess:
    """The example agent, as `rekindle.client.process.ChildProcess` would have it."""

    def __init__(
        self, memory: Path, take: Callable[[bytes], None], end: Callable[[ProcessExit], None]
    ) -> None:
        reading, self._writing = os.pipe()
        offers = frozenset((*LIFECYCLE, *NEWER))
        options = Options(versions=(1, 2), offers=offers, memory=memory)
        self._agent = Agent(Connection(self._writing), options)
        self._inbox = ThreadPoolExecutor(1)
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._end = end
        self._has_ended = False
        self._reader = threading.Thread(target=self._read, args=(reading,))
        self._reader.start()

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as output:
            for line in output:
                self._loop.call_soon_threadsafe(self._take, line.rstrip(b"\n"))

    def write(self, line: bytes) -> None:
        self._inbox.submit(self._agent.receive, line)

    def kill(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._inbox.shutdown()
            self._agent.stop()
            os.close(self._writing)
            self._reader.join()
            self._end(ProcessExit(None, "SIGKILL", ()))

    async def end(self, _: float) -> bool:
        self.kill()
        return True


class FaultyPeer(Peer):
    """An agent that follows every rule except one."""

    fault: Fault
    was_killed = False
    """Whether the last process was killed."""
    roots: tuple[str, ...] = ()
    """The additional directories of the last request."""

    @classmethod
    async def start(cls, command: tuple[str, ...], started_at: float) -> Self:
        peer = cls(started_at)
        peer._process = InProcess(Path(command[0]), peer._receive_broken, peer._on_exit)  # type: ignore[assignment]
        return peer

    def hang_up(self) -> None:
        """End of one's own accord."""
        self._on_exit(ProcessExit(0, None, ()))

    async def kill(self) -> None:
        if self.exit is None:
            type(self).was_killed = True
        await super().kill()

    async def end(self, grace: float) -> None:
        type(self).was_killed = False
        await super().end(grace)
        if getattr(type(self).fault, "stays", False):
            self.notes.exited_in_time = False

    def _receive_broken(self, line: bytes) -> None:
        message: Any = json.loads(line)
        if isinstance(message, list):
            change: Callable[[Any], Any] = getattr(type(self).fault, "on_batch", lambda it: [it])
            for changed in change(message):
                self._receive(json.dumps(changed).encode())
            return
        asked = [it for it in self.lines if it.is_sent and same_id(it.id, message.get("id"))]
        is_answer = "method" not in message and bool(asked)
        for told in type(self).fault(message, asked[-1] if is_answer else None, self):
            self._receive(told if isinstance(told, bytes) else json.dumps(told).encode())


# -- the lines that a fault changes ----------------------------------------------------------------


def answer(method: str, change: Change, *, if_: Callable[[Json], bool] = lambda _: True) -> Fault:
    """Change the responses to a method, if `if_` accepts the parameters of the request."""

    def fault(message: Json, asked: TraceLine | None, _: Peer) -> Iterator[object]:
        if asked is not None and asked.method == method and if_(asked.params):
            change(message)
        yield message

    return fault


def after(method: str, *more: object) -> Fault:
    """Send more messages after the responses to a method. `SESSION` stands for the session id."""

    def fault(message: Json, asked: TraceLine | None, _: Peer) -> Iterator[object]:
        yield message
        if asked is not None and asked.method == method:
            named = json.dumps(more).replace("SESSION", asked.session_id)
            yield from json.loads(named)

    return fault


def before(method: str, *more: object) -> Fault:
    """Send more messages before the responses to a method."""

    def fault(message: Json, asked: TraceLine | None, _: Peer) -> Iterator[object]:
        if asked is not None and asked.method == method:
            yield from json.loads(json.dumps(more).replace("SESSION", asked.session_id))
        yield message

    return fault


def drop(is_it: Callable[[Json, TraceLine | None, Peer], bool]) -> Fault:
    """Leave messages out."""

    def fault(message: Json, asked: TraceLine | None, peer: Peer) -> Iterator[object]:
        if not is_it(message, asked, peer):
            yield message

    return fault


def update(kind: str, change: Change, *, replayed: bool | None = None) -> Fault:
    """Change updates of a kind (or of all kinds), live or replayed."""

    def fault(message: Json, _: TraceLine | None, peer: Peer) -> Iterator[object]:
        told = kind_of(message)
        is_meant = told is not None and kind in ("", told)
        if is_meant and replayed in (None, is_replaying(peer)):
            change(message["params"]["update"])
        yield message

    return fault


def kind_of(message: Json) -> str | None:
    if message.get("method") != "session/update":
        return None
    return message["params"]["update"]["sessionUpdate"]


def is_replaying(peer: Peer) -> bool:
    """Return whether the last request reopens a session, and has no response yet."""
    asked = [it for it in peer.lines if it.is_sent and it.is_request]
    if not asked or asked[-1].method not in AGAIN:
        return False
    return not [it for it in peer.lines if it.is_response and same_id(it.id, asked[-1].id)]


def has_asked(method: str) -> Callable[[Json, TraceLine | None, Peer], bool]:
    """Return a test for an answer to a prompt: that method has succeeded before it."""

    def is_it(_: Json, asked: TraceLine | None, peer: Peer) -> bool:
        if asked is None or asked.method != "session/prompt":
            return False
        ids = [it.id for it in peer.lines if it.is_sent and it.method == method]
        return any(it.id in ids for it in peer.lines if it.is_response and "result" in it.message)

    return is_it


def refused_if(is_it: Callable[[Json, TraceLine | None, Peer], bool]) -> Fault:
    """Refuse the messages for which the test is true."""

    def fault(message: Json, asked: TraceLine | None, peer: Peer) -> Iterator[object]:
        if is_it(message, asked, peer):
            refuse(message)
        yield message

    return fault


# -- the changes -----------------------------------------------------------------


def refuse(message: Json) -> None:
    message.pop("result", None)
    message["error"] = REFUSAL


def refuse_with(code: int) -> Change:
    """Respond with an error that has this code."""

    def change(message: Json) -> None:
        refuse(message)
        message["error"] = REFUSAL | {"code": code}

    return change


def allow(message: Json) -> None:
    if message.pop("error", None):
        message["result"] = {}


def empty(message: Json) -> None:
    message["result"] = None


def result(**fields: object) -> Change:
    """Set fields of a result."""

    def change(message: Json) -> None:
        if "result" in message:
            message["result"] = (message["result"] or {}) | fields

    return change


def listed(change: Callable[[Json], object]) -> Change:
    """Change each session of a response to `session/list`."""

    def change_all(message: Json) -> None:
        for entry in message.get("result", {}).get("sessions", []):
            change(entry)

    return change_all


def put(**fields: object) -> Change:
    return lambda it: it.update(fields)


def leave_out(name: str) -> Change:
    return lambda it: it.pop(name, None)


def told(kind: str, session_id: str = "SESSION", **fields: object) -> Json:
    params = {"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def words(text: str) -> Json:
    return told("agent_message_chunk", messageId="m", content={"type": "text", "text": text})


def as_kind(kind: str) -> Change:
    return put(sessionUpdate=kind)


def is_state(name: str, *, replayed: bool | None = None) -> Fault:
    """Drop the updates of a state, or of every state if `name` is empty."""

    def is_it(message: Json, _: TraceLine | None, peer: Peer) -> bool:
        if kind_of(message) != "state_update" or replayed not in (None, is_replaying(peer)):
            return False
        return name in ("", message["params"]["update"]["state"])

    return drop(is_it)


def other_words(update: Any) -> None:  # noqa: ANN401 - JSON
    update["content"] = {"type": "text", "text": f"other words {next(counter)}"}
