"""One process of the agent under test, and every line to and from it.

It knows JSON-RPC, and answers the agent's requests as a client without capabilities does. It judges
nothing.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Self

from msgspec import Struct, field

from rekindle.acp import methods
from rekindle.acp.jsonrpc import METHOD_NOT_FOUND
from rekindle.client.process import ChildProcess, ProcessExit
from rekindle.conformance.rules import vocabulary
from rekindle.conformance.trace import (
    Exchange,
    TraceLine,
    members,
    received,
    same_id,
    sent,
)
from rekindle.jsonvalue import Json, as_array, as_object, as_str
from rekindle.process import group

UNKNOWN_OUTCOME = "_rekindle_check/none"
# Limits that no agent reaches in a check. Beyond them the agent is killed.
_MAX_LINES = 100_000
_MAX_BYTES = 64 << 20
# The longest wait for a silence, as a multiple of that silence.
_MAX_WAITS = 10


class PeerNotes(Struct):
    """The use of a process, and its behaviour beside its lines."""

    scenarios: list[str] = field(default_factory=list[str])
    """The scenarios that have used the process."""
    stderr_bytes: int = 0
    is_judged: bool = True
    """Whether the rules for all lines apply. They do not where the agent is provoked."""
    answers_oddly: bool = False
    """Whether permission requests get an unknown outcome."""
    exited_in_time: bool | None = None
    """Whether it has exited when its input was closed; None if that was not tried."""


class Peer:
    """One process of the agent. Its requests are refused: nothing on this machine may change."""

    def __init__(self, started_at: float) -> None:
        self.lines: list[TraceLine] = []
        self.exit: ProcessExit | None = None
        self.notes = PeerNotes()
        self._started_at = started_at
        self._changed = asyncio.Event()
        self._last_id = 0
        self._process: ChildProcess | None = None
        self._cancelled: set[str] = set()
        self._is_ended_by_us = False
        self._is_taken = False
        self._received_bytes = 0
        self.is_flooding = False

    @classmethod
    async def start(cls, command: tuple[str, ...], started_at: float) -> Self:
        """Start the agent. Raises AgentNotStarted."""
        peer = cls(started_at)
        started = group.start(command)
        peer._process = ChildProcess(
            started, peer._receive, peer._count_stderr, peer._on_exit, max_line=_MAX_BYTES
        )
        try:
            await peer._process.connect()
        except BaseException:
            peer._process.kill()
            raise
        return peer

    # -- sending ------------------------------------------------------------------------

    def request(self, method: str, params: Json, request_id: object = None) -> TraceLine:
        """Send a request, with the next number as its id if none is given."""
        if request_id is None:
            self._last_id += 1
            request_id = self._last_id
        return self._send({"id": request_id, "method": method, "params": params})

    def notify(self, method: str, params: Json) -> TraceLine:
        """Send a notification."""
        if method == methods.CANCEL:
            self._cancelled.add(as_str(params.get("sessionId")) or "")
        return self._send({"method": method, "params": params})

    def write(self, data: bytes) -> TraceLine:
        """Send arbitrary bytes as a line."""
        line = self._write(TraceLine(is_sent=True, at=self.now, data=data, message={}))
        self.lines += members(line)
        return line

    def _send(self, message: Json) -> TraceLine:
        return self._write(sent({"jsonrpc": "2.0", **message}, self.now))

    def _write(self, line: TraceLine) -> TraceLine:
        self.lines.append(line)
        if self._process is not None:
            self._process.write(line.data)
        return line

    # -- receiving ----------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        at = self.now
        self._received_bytes += len(data)
        if self._received_bytes > _MAX_BYTES or len(self.lines) > _MAX_LINES:
            self._stop_flood()
            return
        for piece in data.split(b"\n"):
            line = received(piece, at)
            self.lines.append(line)
            for it in [line] if line.message else members(line):
                if it.is_member:
                    self.lines.append(it)
                if it.is_request:
                    self._refuse(it)
        self._changed.set()

    def _stop_flood(self) -> None:
        self.is_flooding = True
        if process := self._take_process():
            process.kill()

    @property
    def is_echo(self) -> bool:
        """Whether the process only repeats the lines that it receives."""
        sent_lines = {it.data for it in self.lines if it.is_sent}
        received_lines = [it.data for it in self.lines if not it.is_sent]
        return bool(received_lines) and sent_lines.issuperset(received_lines)

    def _refuse(self, line: TraceLine) -> None:
        if line.method == methods.REQUEST_PERMISSION:
            self._send({"id": line.id, "result": {"outcome": self._outcome(line)}})
        else:
            error = {
                "code": METHOD_NOT_FOUND,
                "message": f"this client does not support {line.method}",
            }
            self._send({"id": line.id, "error": error})

    def _outcome(self, line: TraceLine) -> Json:
        """Return a rejection, or `cancelled` if the turn was cancelled or cannot be rejected."""
        if self.notes.answers_oddly:
            return {"outcome": UNKNOWN_OUTCOME}
        options = [as_object(it) for it in as_array(line.params.get("options"))]
        refusals = [it for it in options if it.get("kind") in {"reject_once", "reject_always"}]
        if not refusals or line.session_id in self._cancelled:
            return {"outcome": "cancelled"}
        return {"outcome": "selected", "optionId": refusals[0].get("optionId")}

    def _count_stderr(self, line: str) -> None:
        self.notes.stderr_bytes += len(line.encode("utf-8", "replace")) + 1

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines of stderr."""
        if self.exit is not None:
            return self.exit.stderr
        return self._process.stderr_tail if self._process is not None else ()

    def _on_exit(self, process_exit: ProcessExit) -> None:
        self.exit = process_exit
        self._changed.set()

    @property
    def now(self) -> float:
        """The seconds since the start of the check, as in the lines."""
        return time.monotonic() - self._started_at

    # -- waiting ------------------------------------------------------------------------

    async def wait_for(
        self, matches: Callable[[TraceLine], bool], since: int, seconds: float
    ) -> TraceLine | None:
        """Return the first matching line of the agent, or None if none comes in time."""
        place = since
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._changed.clear()
                    for line in self.lines[place:]:
                        if not line.is_sent and matches(line):
                            return line
                    place = len(self.lines)
                    if self.exit is not None:
                        return None
                    await self._changed.wait()
        except TimeoutError:
            return None

    async def response_to(self, request: TraceLine, seconds: float) -> Exchange:
        """Wait for the response to a request."""
        since = self.lines.index(request)
        line = await self.wait_for(
            lambda it: it.is_response and same_id(it.id, request.id), since, seconds
        )
        return Exchange(request, line)

    async def wait_until_quiet(self, session_id: str, seconds: float) -> None:
        """Wait until a session has had no conversation updates for some seconds.

        The whole wait is limited to a multiple of that.
        """
        until = time.monotonic() + _MAX_WAITS * seconds
        since = len(self.lines)

        def is_update(line: TraceLine) -> bool:
            return line.kind in vocabulary.CONVERSATION and line.session_id == session_id

        while time.monotonic() < until:
            line = await self.wait_for(is_update, since, seconds)
            if line is None:
                return
            since = self.lines.index(line, since) + 1

    # -- the end ------------------------------------------------------------------------

    async def kill(self) -> None:
        """Kill the process and its children with SIGKILL."""
        if process := self._take_process():
            process.kill()
            await asyncio.sleep(0)

    async def end(self, grace: float) -> None:
        """Close the input of the process, wait `grace` seconds for its exit, then kill it."""
        if process := self._take_process():
            has_exited = self.exit is not None
            in_time = await process.end(grace)
            self.notes.exited_in_time = None if has_exited else in_time

    def _take_process(self) -> ChildProcess | None:
        """Return the process, once. After its end, its process id may belong to another one."""
        if self._is_taken:
            return None
        self._is_taken = True
        self._is_ended_by_us = self.exit is None
        return self._process

    def describe_exit(self) -> str:
        """Describe how the process ended by itself; empty if it did not."""
        if self.is_flooding:
            return "the agent was stopped, because its output did not end"
        if self.exit is None or self._is_ended_by_us:
            return ""
        how = f"by {self.exit.signal}" if self.exit.signal else f"with {self.exit.exit_code}"
        last = f" ({self.exit.stderr[-1]})" if self.exit.stderr else ""
        return f"the agent ended {how}{last}"
