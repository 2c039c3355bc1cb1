"""A client for tests: drives a process as an editor does, on its pipes."""

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
from schema import Judge, why_missing
from warm_start import REKINDLE

PATIENCE = 20.0
EXAMPLE_AGENT = (*REKINDLE, "example-agent")
CWD = "/home/user/project"
NEW = {"cwd": CWD, "mcpServers": []}

Json = dict[str, Any]


class Client:
    """A client of one process that speaks ACP. Every wait is bounded.

    What Rekindle or its example agent writes is judged by the published schemas, where they
    are installed; `excused` are the methods that an agent behind it has made up.
    """

    def __init__(self, *command: str | Path, read: bool = True) -> None:
        self._is_judged = command[: len(REKINDLE)] == REKINDLE and not why_missing()
        pipe = subprocess.PIPE
        self.process = warm_start.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.passed: list[Json] = []
        self.skips_plain_text = False
        self.excused: set[str] = set()
        self._judge = Judge()
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ids = 0
        self._reader = threading.Thread(target=self._read)
        if read:
            self.start_reading()

    def start_reading(self) -> None:
        """Begin to take in what comes."""
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def write(self, line: bytes) -> None:
        """Send bytes as they are."""
        with suppress(ValueError, RecursionError):
            self._judge.hear(Side.CLIENT, json.loads(line))
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, **message: object) -> None:
        """Send a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def next_line(self) -> bytes:
        """Return the next line as it came; nothing at the end."""
        return self._lines.get(timeout=PATIENCE)

    def receive(self) -> Json:
        """Return the next message."""
        line = self.next_line()
        while self.skips_plain_text and not line.startswith(b"{"):
            line = self.next_line()
        assert line, "the agent has ended"
        message: Json = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        wrong = self._judge.complaints(Side.AGENT, message) if self._is_judged else []
        assert not wrong or message.get("method") in self.excused, f"{wrong} in {line!r}"
        self.passed.append(message)
        return message

    def until(self, is_it: Callable[[Json], bool]) -> Json:
        """Return the first message that `is_it`."""
        while not is_it(message := self.receive()):
            pass
        return message

    def request(self, method: str, params: object) -> int:
        """Send a request, and return its id."""
        self._ids += 1
        self.send(id=self._ids, method=method, params=params)
        return self._ids

    def answer(self, request_id: object) -> Json:
        """Return the answer to a request."""
        return self.until(lambda m: "method" not in m and m["id"] == request_id)

    def call(self, method: str, params: object) -> Json:
        """Return the result of a request."""
        return self.answer(self.request(method, params))["result"]

    def error(self, method: str, params: object) -> tuple[int, Json]:
        """Return the code and the data of a request's error."""
        error = self.answer(self.request(method, params))["error"]
        return error["code"], error.get("data")

    def new(self, cwd: str = CWD) -> str:
        """Return the id of a new session."""
        return self.call("session/new", {"cwd": cwd, "mcpServers": []})["sessionId"]

    def start(self, session_id: str, *texts: str) -> int:
        """Begin a turn, and return the id of its request."""
        blocks = [{"type": "text", "text": text} for text in texts]
        return self.request("session/prompt", {"sessionId": session_id, "prompt": blocks})

    def prompt(self, session_id: str, *texts: str) -> list[Json]:
        """Return the updates of a turn that ends as it should."""
        self.passed.clear()
        assert self.answer(self.start(session_id, *texts))["result"] == {"stopReason": "end_turn"}
        return self.updates(session_id)

    def reply(self, session_id: str, *texts: str) -> str:
        """Return what the agent says in a turn."""
        return said(self.prompt(session_id, *texts))

    def asked(self) -> Json:
        """Return the agent's question for permission."""
        return self.until(lambda m: m.get("method") == "session/request_permission")

    def go_slow(self, session_id: str) -> int:
        """Begin a turn that does not end, and return when it is waiting."""
        turn = self.start(session_id, "slow")
        self.until(lambda m: session_id in json.dumps(m) and "cancel." in json.dumps(m))
        return turn

    def cancel(self, session_id: str, turn: int) -> None:
        """Cancel a turn, and see it cancelled."""
        self.send(method="session/cancel", params={"sessionId": session_id})
        assert self.answer(turn)["result"] == {"stopReason": "cancelled"}

    def updates(self, session_id: str) -> list[Json]:
        """Return the updates received, those about slash commands aside."""
        params = [m["params"] for m in self.passed if m.get("method") == "session/update"]
        updates = [it["update"] for it in params if it["sessionId"] == session_id]
        return [it for it in updates if kind(it) != "available_commands_update"]

    def end(self, *, hang_up: bool = True) -> tuple[int, str]:
        """Return the exit status and what was written to stderr."""
        assert self.process.stdin
        assert self.process.stderr
        if hang_up:
            self.process.stdin.close()
        self.process.wait(PATIENCE)
        self._join()
        return self.process.returncode, self.process.stderr.read().decode()

    def _join(self) -> None:
        if self._reader.ident:
            self._reader.join(PATIENCE)

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()


def is_running(pid: int) -> bool:
    """Tell whether a process lives; one that waits to be reaped does not."""
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
    """Return the kinds of the updates, without repetition of neighbours."""
    return [name for name, _ in itertools.groupby(map(kind, updates))]


def said(updates: list[Json], by: str = "agent_message_chunk") -> str:
    return "".join(it["content"]["text"] for it in updates if kind(it) == by)


def statuses(updates: list[Json]) -> list[str]:
    return [it["status"] for it in updates if kind(it).startswith("tool_call")]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def selected(option_id: str) -> Json:
    return {"result": {"outcome": {"outcome": "selected", "optionId": option_id}}}
