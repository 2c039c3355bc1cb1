"""A fake client that compares every received byte with the expected one."""

import json
import os
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import lines

_READ_SIZE = 65536
_TAIL = 2048
"""The last line of a turn fits into this size, with the lines that may follow it."""

Arrivals = list[tuple[float, float]]
"""For each read, its time and the number of lines received by then."""


class WrongResult(Exception):
    """A result is wrong, so its figures are not reported."""


class Client:
    """A connection to an agent, with one session at a time."""

    def __init__(self, to_agent: int, from_agent: int) -> None:
        self._to_agent = to_agent
        self._from_agent = from_agent
        self._requests = 0
        self.session_id = ""

    def initialize(self) -> None:
        """Initialize the connection in version 1."""
        self.initialize_version(1)

    def initialize_version(self, version: int) -> None:
        """Initialize the connection in a version of the protocol."""
        info = {"name": "bench", "version": "1"}
        fields = {"clientCapabilities": {}} if version == 1 else {"info": info}
        self._call("initialize", {"protocolVersion": version, **fields})

    def new_session(self) -> None:
        """Open the session."""
        params = {"cwd": "/home/user/project", "mcpServers": []}
        self.session_id = self._call("session/new", params)["sessionId"]

    def begin(self, *, is_named: bool) -> None:
        """Run a first turn. Rekindle sends the session's title before the answer."""
        self._prompt("stream chunks 0 0")
        data = b""
        while data.count(b"\n") < 1 + is_named:
            data += self._read(_READ_SIZE)
        *rest, answer = data.splitlines()
        if b"end_turn" not in answer or any(b"session_info_update" not in line for line in rest):
            raise WrongResult(f"not the lines of a first turn: {data!r}")

    def stream(
        self,
        what: str,
        count: int,
        *,
        is_flushed: bool = False,
        before_reading: Callable[[], None] = lambda: None,
    ) -> Arrivals:
        """Run a turn that streams updates, each flushed or not; return their arrivals."""
        period = lines.stream(what, self.session_id)
        size = len(period[0])
        block = b"".join(period)
        # Long enough that a read which starts anywhere in the first block ends within it.
        expected = block * (2 + _READ_SIZE // len(block))
        total = count * size
        received = 0
        self._prompt(f"stream {what} {count} {is_flushed:d}")
        before_reading()
        arrivals = [(perf_counter(), 0.0)]
        while received < total:
            data = self._read(min(_READ_SIZE, total - received))
            if not expected.startswith(data, received % len(block)):
                raise WrongResult(f"not the sent bytes, after {received // size} {what}")
            received += len(data)
            arrivals.append((perf_counter(), received / size))
        self._end_turn()
        return arrivals

    def ask(self, what: str, count: int, core: int) -> tuple[float, float]:
        """Answer requests of an agent on a core; return median and 99th percentile in µs."""
        asks = lines.asks(what, self.session_id, count)
        answers = lines.answers(what, count)
        self._prompt(f"ask {what} {count} {core}")
        for ask, answer in zip(asks, answers, strict=True):
            if (line := self._read_line()) != ask:
                raise WrongResult(f"expected {ask!r}, got {line!r}")
            os.write(self._to_agent, answer)
        meta = self._end_turn()["_meta"]
        return meta["p50Us"], meta["p99Us"]

    def receive_until_answered(self, method: str, params: object) -> bytes:
        """Send a request; return all bytes up to the end of its answer."""
        self._request(method, params)
        pieces: list[bytes] = []
        tail = b""
        while f'"id":{self._requests},'.encode() not in tail or not tail.endswith(b"\n"):
            pieces.append(self._read(_READ_SIZE))
            tail = (tail + pieces[-1])[-_READ_SIZE:]
        return b"".join(pieces)

    def send(self, method: str, params: object) -> int:
        """Send a request; return its id."""
        self._request(method, params)
        return self._requests

    def send_prompt(self, session_id: str, text: str) -> int:
        """Send a prompt to a session; return the id of the request."""
        self.session_id = session_id
        self._prompt(text)
        return self._requests

    def each_line(self) -> Iterator[bytes]:
        """Yield the received lines without their ends."""
        rest = b""
        while True:
            *whole, rest = (rest + self._read(_READ_SIZE)).split(b"\n")
            yield from whole

    def receive_turn(self, text: str) -> bytes:
        """Run a turn in any version; return all bytes of it."""
        self._prompt(text)
        pieces: list[bytes] = []
        tail = b""
        while b'"stopReason"' not in tail or not tail.endswith(b"\n"):
            pieces.append(self._read(_READ_SIZE))
            tail = (tail + pieces[-1])[-_TAIL:]
        return b"".join(pieces)

    def _prompt(self, text: str) -> None:
        blocks = [{"type": "text", "text": text}]
        self._request("session/prompt", {"sessionId": self.session_id, "prompt": blocks})

    def _end_turn(self) -> dict[str, Any]:
        result = self._result()
        if result["stopReason"] != "end_turn":
            raise WrongResult(f"the turn ended with {result}")
        return result

    def _call(self, method: str, params: object) -> dict[str, Any]:
        self._request(method, params)
        return self._result()

    def _request(self, method: str, params: object) -> None:
        self._requests += 1
        os.write(self._to_agent, lines.encode(id=self._requests, method=method, params=params))

    def _result(self) -> dict[str, Any]:
        line = self._read_line()
        message = json.loads(line)
        if message.get("id") != self._requests or "result" not in message:
            raise WrongResult(f"expected the answer to request {self._requests}, got {line!r}")
        return message["result"]

    def _read_line(self) -> bytes:
        line = self._read(_READ_SIZE)
        while not line.endswith(b"\n"):
            line += self._read(_READ_SIZE)
        if line.count(b"\n") > 1:
            raise WrongResult(f"expected one line, got {line!r}")
        return line

    def _read(self, size: int) -> bytes:
        data = os.read(self._from_agent, size)
        if not data:
            raise WrongResult("the connection has ended, or has taken too long")
        return data
