"""An editor: a client process, its Rekindle process, and the messages between them."""

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .fork_server import HERE, ForkServer
from .ledger import Ledger, Serial, agent_serials
from .processes import MARK, TIMEOUT, Process, ends, processes_with_mark, until
from .resource_usage import ResourceUsage
from .violation import Violation

Json = dict[str, Any]

AGENT = (sys.executable, "-I", "-S", str(HERE / "agent.py"))


_LOADING = ("session/load", "session/resume")
_CANCELLED = -32800
_INVALID_REQUEST = -32600
_ENDED = ("the agent was killed", "the agent exited", "the agent ended")


class Editor:
    """One connection. It knows only the messages in the journal of the client process."""

    def __init__(  # noqa: PLR0913 - where, what, with what
        self,
        fork_server: ForkServer,
        folder: Path,
        name: str,
        store: Path,
        ledger: Ledger,
        *,
        options: tuple[str, ...] = (),
        agent: tuple[str, ...] = AGENT,
        way: str = "warm",
        version: int = 1,
        **order: object,
    ) -> None:
        self.name = name
        self.mark = f"{folder}/{name}"
        self.ledger = ledger
        self.opened: set[str] = set()
        """The sessions that it has opened."""
        self.stderr = folder / f"{name}.stderr"
        self.journal = folder / f"{name}.journal"
        self.journal.touch()
        self.version = version
        self._token = f"p{int(name.rpartition('-')[2]):07x}"
        self._ids = itertools.count(1)
        self._prompts = itertools.count(1)
        self._asked: dict[int, tuple[str, str | None, Serial | None]] = {}
        """Open requests: method, session, prompt."""
        self._taken: dict[str, list[int]] = {}
        """Accepted prompts of version 2, by session. Their turns end with an idle state."""
        self._answers: dict[int, Json] = {}
        self._replayed: dict[int, list[bytes]] = {}
        """The replayed lines for each request to load."""
        self.questions: list[object] = []
        """The ids of the open permission requests."""
        self.answers_questions = True
        """Whether its user answers each permission request at once."""
        self.is_initialized = False
        self.usage_at_start: ResourceUsage | None = None
        """The resources of the Rekindle process at its start."""
        self._at = 0
        self._begun = b""
        arguments = ["run", "--store", str(store), "--grace", "0.2"]
        started = {
            "arguments": [*arguments, *options, "--", *agent],
            "environ": {MARK: self.mark},
            **order,
        }
        self._start(fork_server, way, started)

    def _start(self, fork_server: ForkServer, way: str, order: Json) -> None:
        rekindle_in, to_rekindle = os.pipe()
        from_rekindle, rekindle_out = os.pipe()
        client_in, self._to_client = os.pipe()
        errors = os.open(self.stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        pid = fork_server.start(way, (rekindle_in, rekindle_out, errors), order)
        self.rekindle = Process("rekindle", pid)
        noting = {"journal": str(self.journal), "environ": {}}
        pid = fork_server.start("client", (client_in, to_rekindle, from_rekindle), noting)
        self.client = Process("client", pid)
        for fd in (rekindle_in, to_rekindle, from_rekindle, rekindle_out, client_in, errors):
            os.close(fd)

    # -- sending -------------------------------------------------------------------------

    @property
    def initialize_params(self) -> Json:
        """The params of `initialize`."""
        if self.version == 1:
            return {"protocolVersion": 1, "clientCapabilities": {}}
        return {"protocolVersion": 2, "info": {"name": "harness", "version": "1"}}

    def request(self, method: str, params: Json, prompt: Serial | None = None) -> int:
        """Let the client send a request; return its id."""
        number = next(self._ids)
        self._asked[number] = (method, params.get("sessionId"), prompt)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def notify(self, method: str, params: Json) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: Json) -> None:
        if self.has_hung_up:
            return
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            os.write(self._to_client, line)
        except BrokenPipeError:
            # The client was killed, so the message was not sent.
            return

    def prompt(self, session_id: str, words: str) -> int:
        """Start a turn; return the id of its request."""
        serial = (self._token, next(self._prompts))
        self.ledger[session_id].asked.append(serial)
        text = f"do {words} <{serial[0]}.{serial[1]}>"
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
        return self.request("session/prompt", params, serial)

    def approve(self) -> None:
        """Answer the open permission requests."""
        while self.questions:
            outcome = {"outcome": "selected", "optionId": "yes"}
            message = {
                "jsonrpc": "2.0",
                "id": self.questions.pop(0),
                "result": {"outcome": outcome},
            }
            self._send(message)

    def hang_up(self) -> None:
        """Close the client's side."""
        if self._to_client >= 0:
            os.close(self._to_client)
            self._to_client = -1

    # -- receiving ------------------------------------------------------------------------

    def read_journal(self) -> None:
        """Read the new part of the journal."""
        with self.journal.open("rb") as journal:
            journal.seek(self._at)
            data = journal.read()
        self._at += len(data)
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._receive(line)

    def _receive(self, line: bytes) -> None:
        try:
            message: Json = json.loads(line)
            is_message = isinstance(message, dict)
        except ValueError:
            is_message = False
        if not is_message:
            # Ignore lines of the agent that are not messages.
            return
        if message.get("method") == "session/update":
            self._receive_update(message["params"]["sessionId"], message["params"]["update"], line)
        elif message.get("method") == "session/request_permission":
            self.questions.append(message["id"])
            if self.answers_questions:
                self.approve()
        elif message.get("method") == "$/cancel_request":
            # An answer may be on its way already.
            withdrawn = message["params"]["requestId"]
            self.questions = [it for it in self.questions if it != withdrawn]
        elif "method" not in message and message.get("id") in self._asked:
            self._receive_response(message["id"], message)

    def _receive_response(self, number: int, message: Json) -> None:
        method, session_id, prompt = self._asked[number]
        if "result" in message:
            self._receive_result(method, session_id, message["result"])
        if prompt is not None and session_id is not None:
            if self.version > 1 and "result" in message:
                self._taken.setdefault(session_id, []).append(number)
                return
            self._turn_ended(session_id, number, message)
        else:
            del self._asked[number]
            self._answers[number] = message

    def _turn_ended(self, session_id: str, number: int, message: Json) -> None:
        """Record the end of a turn."""
        _, _, prompt = self._asked.pop(number)
        self._answers[number] = message
        conversation = self.ledger[session_id]
        if conversation.is_shared and (_is_cancelled(message) or _is_refused(message)):
            # No agent may have received it: it waited for the turn of another client, or another
            # process has the session now.
            return
        if prompt is not None:
            conversation.answered.add(prompt)
        conversation.ended += "result" in message

    def _receive_result(self, method: str, session_id: str | None, result: Json) -> None:
        match method:
            case "initialize":
                self.is_initialized = True
            case "session/new":
                self.opened.add(result["sessionId"])
            case "session/load" | "session/resume" if session_id is not None:
                self.opened.add(session_id)
            case _:
                pass

    def _receive_update(self, session_id: str, update: Json, line: bytes) -> None:
        for number, (method, of, _) in self._asked.items():
            if method in _LOADING and of == session_id:
                self._replayed.setdefault(number, []).append(line)
                return
        # Rekindle ends the tool calls of a dead agent, whose titles have been received already.
        if session_id in self.ledger and update.get("status") != "failed":
            piece = self.ledger[session_id].pieces[self.name]
            serials = agent_serials(line)
            if b'"replayed":true' in line:
                # A version 2 client receives messages again, as a whole, after a change of host.
                known = set(piece)
                serials = [serial for serial in serials if serial not in known]
            piece.extend(serials)
        if update.get("state") == "idle" and self._taken.get(session_id):
            # Without a reason, the process that continues the session knows of no running turn.
            failed = update.get("stopReason") in {"error", None}
            outcome = {"error": update.get("error") or {}} if failed else {"result": update}
            self._turn_ended(session_id, self._taken[session_id].pop(0), outcome)

    def replayed(self, request: int) -> list[bytes]:
        """Return the lines that were replayed before the response to a request to load."""
        return self._replayed.get(request, [])

    def is_open(self, request: int) -> bool:
        self.read_journal()
        return request in self._asked

    def answer(self, request: int, timeout: float = TIMEOUT) -> Json:
        """Wait for the response to a request. Raises Violation if none comes."""
        until(lambda: not self.is_open(request) or self.rekindle.has_ended(), timeout)
        self.read_journal()
        if request not in self._answers:
            method = self._asked[request][0]
            raise Violation("a request is not answered", f"{method} by {self.name}")
        return self._answers.pop(request)

    def insist(self, ask: Callable[[], int]) -> tuple[int, Json]:
        """Send a request, and repeat it once if the agent exited; return its id and response.

        It is unknown whether a dying agent handled a request, so the client gets an error and may
        try again.
        """
        request = ask()
        answer = self.answer(request)
        if answer.get("error", {}).get("message", "").startswith(_ENDED):
            request = ask()
            answer = self.answer(request)
        return request, answer

    def result(self, method: str, params: Json) -> Json:
        """Send a request; return its result. Raises Violation if it fails."""
        _, answer = self.insist(lambda: self.request(method, params))
        if "result" not in answer:
            raise Violation("a request is refused", f"{method}: {answer['error']}")
        return answer["result"]

    def settle(self) -> None:
        """Wait for the responses to all open requests."""
        for request in list(self._asked):
            self.answer(request)

    def has_open_requests(self) -> bool:
        """Return whether a request is not answered yet."""
        self.read_journal()
        return bool(self._asked)

    def has_received(self, session_id: str, count: int) -> bool:
        """Return whether all connections together have received `count` updates of a session."""
        self.read_journal()
        return self.ledger[session_id].received >= count

    @property
    def has_hung_up(self) -> bool:
        return self._to_client < 0

    # -- the end ------------------------------------------------------------------------

    def agents(self) -> dict[int, str]:
        """Return the running processes that Rekindle has started."""
        return {
            pid: it
            for pid, it in processes_with_mark(self.mark).items()
            if pid != self.rekindle.pid
        }

    def wait_for_exit(self, timeout: float = TIMEOUT) -> None:
        """Wait for the end of both processes, and of all processes that they have started."""
        self.rekindle.wait(timeout)
        self.hang_up()
        self.client.send_signal(signal.SIGCONT)
        self.client.wait(timeout)
        self.read_journal()
        while left := self.agents():
            for pid, command in left.items():
                if not ends(pid, timeout):
                    raise Violation("a process is left behind", f"{pid}: {command}")

    def close(self) -> None:
        """End both processes."""
        self.hang_up()
        for process in (self.rekindle, self.client):
            process.close()


def _is_refused(response: Json) -> bool:
    return response.get("error", {}).get("code") == _INVALID_REQUEST


def _is_cancelled(response: Json) -> bool:
    reason = response.get("result", {}).get("stopReason")
    return reason == "cancelled" or response.get("error", {}).get("code") == _CANCELLED
