"""A client for tests: it runs a process as an editor does, and speaks ACP on its pipes."""

import itertools
import json
import queue
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import warm_start
from rekindle.model import Side
from schema import ConnectionValidator, why_missing
from warm_start import REKINDLE

TIMEOUT = 45.0
EXAMPLE_AGENT = (*REKINDLE, "example-agent")
CWD = "/home/user/project"
NEW = {"cwd": CWD, "mcpServers": []}

Json = dict[str, Any]


class Client:
    """A client of one process that speaks ACP. Every wait is bounded.

    If the published schemas are installed, they validate the messages of Rekindle and of its
    example agent. `excused` has methods that are not validated, because an agent invented them.
    """

    def __init__(self, *command: str | Path, read: bool = True) -> None:
        self._is_validated = command[: len(REKINDLE)] == REKINDLE and not why_missing()
        pipe = subprocess.PIPE
        self.process = warm_start.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.received: list[Json] = []
        self.skips_plain_text = False
        self.excused: set[str] = set()
        self._validator = ConnectionValidator()
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ids = 0
        self._reader = threading.Thread(target=self._read)
        if read:
            self.start_reading()

    def start_reading(self) -> None:
        """Start the thread that reads the output of the process."""
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def write(self, line: bytes) -> None:
        """Send raw bytes."""
        with suppress(ValueError, RecursionError):
            self._validator.observe(Side.CLIENT, json.loads(line))
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, **message: object) -> None:
        """Send a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def next_line(self) -> bytes:
        """Return the next raw line, or nothing at the end of the output."""
        return self._lines.get(timeout=TIMEOUT)

    def receive(self) -> Json:
        """Return the next message."""
        line = self.next_line()
        while self.skips_plain_text and not line.startswith(b"{"):
            line = self.next_line()
        assert line, "the agent has ended"
        message: Json = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        wrong = self._validator.problems(Side.AGENT, message) if self._is_validated else []
        assert not wrong or message.get("method") in self.excused, f"{wrong} in {line!r}"
        self.received.append(message)
        return message

    def until(self, is_it: Callable[[Json], bool]) -> Json:
        """Return the first message that `is_it` accepts."""
        while not is_it(message := self.receive()):
            pass
        return message

    def request(self, method: str, params: object) -> int:
        """Send a request, and return its id."""
        self._ids += 1
        self.send(id=self._ids, method=method, params=params)
        return self._ids

    def answer(self, request_id: object) -> Json:
        """Return the response to a request."""
        return self.until(lambda m: "method" not in m and m["id"] == request_id)

    def call(self, method: str, params: object) -> Json:
        """Send a request; return its result."""
        return self.answer(self.request(method, params))["result"]

    def error(self, method: str, params: object) -> tuple[int, Json]:
        """Send a request; return the code and the data of its error."""
        error = self.answer(self.request(method, params))["error"]
        return error["code"], error.get("data")

    def new(self, cwd: str = CWD) -> str:
        """Create a session; return its id."""
        return self.call("session/new", {"cwd": cwd, "mcpServers": []})["sessionId"]

    def start(self, session_id: str, *texts: str) -> int:
        """Start a turn; return the id of its request."""
        blocks = [{"type": "text", "text": text} for text in texts]
        return self.request("session/prompt", {"sessionId": session_id, "prompt": blocks})

    def prompt(self, session_id: str, *texts: str) -> list[Json]:
        """Run a turn that ends normally; return its updates."""
        self.received.clear()
        assert self.answer(self.start(session_id, *texts))["result"] == {"stopReason": "end_turn"}
        return self.updates(session_id)

    def reply(self, session_id: str, *texts: str) -> str:
        """Run a turn; return the agent's text."""
        return said(self.prompt(session_id, *texts))

    def asked(self) -> Json:
        """Return the agent's permission request."""
        return self.until(lambda m: m.get("method") == "session/request_permission")

    def go_slow(self, session_id: str) -> int:
        """Start a turn that does not end; return once the agent waits to be cancelled."""
        turn = self.start(session_id, "slow")
        self.until(lambda m: session_id in json.dumps(m) and "cancel." in json.dumps(m))
        return turn

    def cancel(self, session_id: str, turn: int) -> None:
        """Cancel a turn, and wait for the response."""
        self.send(method="session/cancel", params={"sessionId": session_id})
        assert self.answer(turn)["result"] == {"stopReason": "cancelled"}

    def updates(self, session_id: str) -> list[Json]:
        """Return the updates received so far, except those about slash commands."""
        params = [m["params"] for m in self.received if m.get("method") == "session/update"]
        updates = [it["update"] for it in params if it["sessionId"] == session_id]
        return [it for it in updates if kind(it) != "available_commands_update"]

    def end(self, *, hang_up: bool = True) -> tuple[int, str]:
        """Wait for the end of the process; return its exit code and its stderr."""
        assert self.process.stdin
        assert self.process.stderr
        if hang_up:
            self.process.stdin.close()
        self.process.wait(TIMEOUT)
        self._join()
        return self.process.returncode, self.process.stderr.read().decode()

    def _join(self) -> None:
        if self._reader.ident:
            self._reader.join(TIMEOUT)

    def close(self) -> None:
        """Kill the process, and close its pipes."""
        self.process.kill()
        self.process.wait(TIMEOUT)
        self._join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()


def is_running(pid: int) -> bool:
    """Return whether a process runs. A zombie does not run."""
    proc = Path("/proc")
    if (proc / "self").exists():
        try:
            stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return False
        state = stat.rpartition(")")[2].split()[0]
    else:
        asked = ["/bin/ps", "-o", "stat=", "-p", str(pid)]
        done = subprocess.run(asked, capture_output=True, check=False, text=True)
        state = done.stdout.strip()[:1]
    return state not in {"", "Z", "X"}


def kind(update: Json) -> str:
    return update["sessionUpdate"]


def kinds(updates: list[Json]) -> list[str]:
    """Return the kinds of the updates, with adjacent repetitions removed."""
    return [name for name, _ in itertools.groupby(map(kind, updates))]


def said(updates: list[Json], by: str = "agent_message_chunk") -> str:
    return "".join(it["content"]["text"] for it in updates if kind(it) == by)


def statuses(updates: list[Json]) -> list[str]:
    return [it["status"] for it in updates if kind(it).startswith("tool_call")]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def selected(option_id: str) -> Json:
    return {"result": {"outcome": {"outcome": "selected", "optionId": option_id}}}
