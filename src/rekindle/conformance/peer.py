"""The agent under examination: its process, and every line that went to it and came from it.

Knows JSON-RPC, and how a client answers that has nothing to offer; it judges nothing.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Self

from rekindle.acp import methods
from rekindle.acp.jsonrpc import METHOD_NOT_FOUND
from rekindle.client.process import ChildProcess, ProcessExit
from rekindle.conformance.rules import names
from rekindle.conformance.trace import Answer, Json, Line, received, same_id, sent
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.process import group

# What no agent says in an examination; one that does is not listened to any longer.
_MOST_LINES = 100_000
_MOST_BYTES = 64 << 20
# Who is never silent is not waited for longer than so many times the silence that was hoped for.
_MOST_WAITS = 10


class Peer:
    """One process of the agent. What it asks for is refused: nothing here may be changed."""

    def __init__(self, began_at: float) -> None:
        self.lines: list[Line] = []
        self.ended: ProcessExit | None = None
        self._began_at = began_at
        self._news = asyncio.Event()
        self._last_id = 0
        self._process: ChildProcess | None = None
        self._cancelled: set[str] = set()
        self._is_ended_by_us = False
        self._is_left = False
        self._heard = 0
        self.is_flooding = False

    @classmethod
    async def start(cls, command: tuple[str, ...], began_at: float) -> Self:
        """Start the agent. Raises AgentNotStarted."""
        peer = cls(began_at)
        started = group.start(command)
        peer._process = ChildProcess(started, peer._take, None, peer._end, max_line=_MOST_BYTES)
        try:
            await peer._process.connect()
        except BaseException:
            peer._process.kill()
            raise
        return peer

    # -- what we say --------------------------------------------------------------------

    def request(self, method: str, params: Json, request_id: object = None) -> Line:
        """Send a request, under the next number if no id is given."""
        if request_id is None:
            self._last_id += 1
            request_id = self._last_id
        return self._send({"id": request_id, "method": method, "params": params})

    def notify(self, method: str, params: Json) -> Line:
        """Send a notification."""
        if method == methods.CANCEL:
            self._cancelled.add(as_str(params.get("sessionId")) or "")
        return self._send({"method": method, "params": params})

    def write(self, data: bytes) -> Line:
        """Send a line that may be anything."""
        line = Line(is_sent=True, at=self.now, data=data, message={})
        return self._write(line)

    def _send(self, message: Json) -> Line:
        return self._write(sent({"jsonrpc": "2.0", **message}, self.now))

    def _write(self, line: Line) -> Line:
        self.lines.append(line)
        if self._process is not None:
            self._process.write(line.data)
        return line

    # -- what we hear -------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        at = self.now
        self._heard += len(data)
        if self._heard > _MOST_BYTES or len(self.lines) > _MOST_LINES:
            self._stop_flood()
            return
        for piece in data.split(b"\n"):
            line = received(piece, at)
            self.lines.append(line)
            if line.is_request:
                self._refuse(line)
        self._news.set()

    def _stop_flood(self) -> None:
        self.is_flooding = True
        if process := self._leave():
            process.kill()

    @property
    def is_echo(self) -> bool:
        """Whether it says nothing but what it is told."""
        said = {it.data for it in self.lines if it.is_sent}
        heard = [it.data for it in self.lines if not it.is_sent]
        return bool(heard) and said.issuperset(heard)

    def _refuse(self, line: Line) -> None:
        if line.method == methods.REQUEST_PERMISSION:
            self._send({"id": line.id, "result": {"outcome": self._outcome(line)}})
        else:
            error = {"code": METHOD_NOT_FOUND, "message": f"this client has no {line.method}"}
            self._send({"id": line.id, "error": error})

    def _outcome(self, line: Line) -> Json:
        """Say no to a question, or that the turn was cancelled."""
        options = [as_object(it) for it in as_array(line.params.get("options"))]
        refusals = [it for it in options if it.get("kind") in {"reject_once", "reject_always"}]
        if not refusals or line.session_id in self._cancelled:
            return {"outcome": "cancelled"}
        return {"outcome": "selected", "optionId": refusals[0].get("optionId")}

    def _end(self, ended: ProcessExit) -> None:
        self.ended = ended
        self._news.set()

    @property
    def now(self) -> float:
        """The time, as lines have it."""
        return time.monotonic() - self._began_at

    # -- waiting ------------------------------------------------------------------------

    async def first(
        self, is_it: Callable[[Line], bool], since: int, patience: float
    ) -> Line | None:
        """Return the first line from the agent that `is_it`; None if there is none in time."""
        place = since
        try:
            async with asyncio.timeout(patience):
                while True:
                    self._news.clear()
                    for line in self.lines[place:]:
                        if not line.is_sent and is_it(line):
                            return line
                    place = len(self.lines)
                    if self.ended is not None:
                        return None
                    await self._news.wait()
        except TimeoutError:
            return None

    async def answer(self, request: Line, patience: float) -> Answer:
        """Wait for the answer to a request."""
        since = self.lines.index(request)
        line = await self.first(
            lambda it: it.is_answer and same_id(it.id, request.id), since, patience
        )
        return Answer(request, line)

    async def settle(self, session_id: str, seconds: float) -> None:
        """Wait until nothing of a conversation has come for a while, but not for ever."""
        until = time.monotonic() + _MOST_WAITS * seconds
        since = len(self.lines)

        def is_news(line: Line) -> bool:
            return line.kind in names.CONVERSATION and line.session_id == session_id

        while time.monotonic() < until:
            line = await self.first(is_news, since, seconds)
            if line is None:
                return
            since = self.lines.index(line, since) + 1

    # -- the end ------------------------------------------------------------------------

    async def kill(self) -> None:
        """End it with SIGKILL, and all that it has started."""
        if process := self._leave():
            process.kill()
            await asyncio.sleep(0)

    async def end(self, grace: float) -> None:
        """End it as clients do, by closing its input; what does not end then is killed."""
        if process := self._leave():
            await process.end(grace)

    def _leave(self) -> ChildProcess | None:
        """Return the process, once: its id may be another's as soon as it has been ended."""
        if self._is_left:
            return None
        self._is_left = True
        self._is_ended_by_us = self.ended is None
        return self._process

    def in_words(self) -> str:
        """Say how it ended; empty if it did not, by itself."""
        if self.is_flooding:
            return "the agent was ended, as it wrote without end"
        if self.ended is None or self._is_ended_by_us:
            return ""
        how = f"by {self.ended.signal}" if self.ended.signal else f"with {self.ended.exit_code}"
        last = f" ({self.ended.stderr[-1]})" if self.ended.stderr else ""
        return f"the agent ended {how}{last}"
