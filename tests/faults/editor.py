"""An editor: a client process, the Rekindle that it talks to, and what has passed between them."""

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .held import Held
from .ledger import Ledger, Serial, said_in
from .nursery import HERE, Nursery
from .processes import MARK, PATIENCE, Process, ends, marked, until
from .violation import Violation

Json = dict[str, Any]

AGENT = (sys.executable, "-I", "-S", str(HERE / "agent.py"))


_LOADING = ("session/load", "session/resume")
_ENDED = ("the agent was killed", "the agent exited", "the agent ended")


class Editor:
    """One connection. Nothing is read but what the client process has noted."""

    def __init__(  # noqa: PLR0913 - where, what, with what
        self,
        nursery: Nursery,
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
        """Prompts of version 2 that were taken, by session: their turns end with a state."""
        self._answers: dict[int, Json] = {}
        self._told: dict[int, list[bytes]] = {}
        """What was told again for a request to load."""
        self.has_greeted = False
        self.held: Held | None = None
        """What its Rekindle had in hand at the beginning."""
        self._at = 0
        self._begun = b""
        arguments = ["run", "--store", str(store), "--grace", "0.2"]
        started = {
            "arguments": [*arguments, *options, "--", *agent],
            "environ": {MARK: self.mark},
            **order,
        }
        self._start(nursery, way, started)

    def _start(self, nursery: Nursery, way: str, order: Json) -> None:
        rekindle_in, to_rekindle = os.pipe()
        from_rekindle, rekindle_out = os.pipe()
        client_in, self._to_client = os.pipe()
        errors = os.open(self.stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        pid = nursery.start(way, (rekindle_in, rekindle_out, errors), order)
        self.rekindle = Process("rekindle", pid)
        noting = {"journal": str(self.journal), "environ": {}}
        pid = nursery.start("client", (client_in, to_rekindle, from_rekindle), noting)
        self.client = Process("client", pid)
        for fd in (rekindle_in, to_rekindle, from_rekindle, rekindle_out, client_in, errors):
            os.close(fd)

    # -- saying -------------------------------------------------------------------------

    @property
    def greeting(self) -> Json:
        """What it says of itself."""
        if self.version == 1:
            return {"protocolVersion": 1, "clientCapabilities": {}}
        return {"protocolVersion": 2, "info": {"name": "harness", "version": "1"}}

    def request(self, method: str, params: Json, prompt: Serial | None = None) -> int:
        """Have the client send a request; return its id."""
        number = next(self._ids)
        self._asked[number] = (method, params.get("sessionId"), prompt)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def notify(self, method: str, params: Json) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: Json) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            os.write(self._to_client, line)
        except BrokenPipeError:
            # The client was killed: nobody said that.
            return

    def prompt(self, session_id: str, words: str) -> int:
        """Begin a turn; return the id of its request."""
        serial = (self._token, next(self._prompts))
        self.ledger[session_id].asked.append(serial)
        text = f"do {words} <{serial[0]}.{serial[1]}>"
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
        return self.request("session/prompt", params, serial)

    def hang_up(self) -> None:
        """Close the client's side."""
        if self._to_client >= 0:
            os.close(self._to_client)
            self._to_client = -1

    # -- hearing ------------------------------------------------------------------------

    def take_in(self) -> None:
        """Read on in the journal."""
        with self.journal.open("rb") as journal:
            journal.seek(self._at)
            data = journal.read()
        self._at += len(data)
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            message: Json = json.loads(line)
            is_message = isinstance(message, dict)
        except ValueError:
            is_message = False
        if not is_message:
            # An agent's garbage goes by.
            return
        if message.get("method") == "session/update":
            self._hear_update(message["params"]["sessionId"], message["params"]["update"], line)
        elif "method" not in message and message.get("id") in self._asked:
            self._hear_answer(message["id"], message)

    def _hear_answer(self, number: int, message: Json) -> None:
        method, session_id, prompt = self._asked[number]
        if "result" in message:
            self._hear_success(method, session_id, message["result"])
        if prompt is not None and session_id is not None:
            if self.version > 1 and "result" in message:
                self._taken.setdefault(session_id, []).append(number)
                return
            self._hear_end(session_id, number, message)
        else:
            del self._asked[number]
            self._answers[number] = message

    def _hear_end(self, session_id: str, number: int, message: Json) -> None:
        """Note that a turn has ended."""
        _, _, prompt = self._asked.pop(number)
        self._answers[number] = message
        if prompt is not None:
            self.ledger[session_id].answered.add(prompt)
        self.ledger[session_id].ended += "result" in message

    def _hear_success(self, method: str, session_id: str | None, result: Json) -> None:
        match method:
            case "initialize":
                self.has_greeted = True
            case "session/new":
                self.opened.add(result["sessionId"])
            case "session/load" | "session/resume" if session_id is not None:
                self.opened.add(session_id)
            case _:
                pass

    def _hear_update(self, session_id: str, update: Json, line: bytes) -> None:
        for number, (method, of, _) in self._asked.items():
            if method in _LOADING and of == session_id:
                self._told.setdefault(number, []).append(line)
                return
        if session_id in self.ledger:
            self.ledger[session_id].pieces[self.name].extend(said_in(line))
        if update.get("state") == "idle" and self._taken.get(session_id):
            failed = update.get("stopReason") == "error"
            outcome = {"error": update.get("error")} if failed else {"result": update}
            self._hear_end(session_id, self._taken[session_id].pop(0), outcome)

    def told(self, request: int) -> list[bytes]:
        """Return what was told again before a request to load was answered."""
        return self._told.get(request, [])

    def is_open(self, request: int) -> bool:
        self.take_in()
        return request in self._asked

    def answer(self, request: int, patience: float = PATIENCE) -> Json:
        """Return the answer to a request. Raises Violation if none comes."""
        until(lambda: not self.is_open(request) or self.rekindle.is_over(), patience)
        self.take_in()
        if request not in self._answers:
            method = self._asked[request][0]
            raise Violation("a request is not answered", f"{method} by {self.name}")
        return self._answers.pop(request)

    def insist(self, ask: Callable[[], int]) -> tuple[int, Json]:
        """Return a request and its answer; ask again if it came before the agent's end was known.

        Nobody can say what a dying agent has made of it, so the client is told, and may ask again.
        """
        request = ask()
        answer = self.answer(request)
        if answer.get("error", {}).get("message", "").startswith(_ENDED):
            request = ask()
            answer = self.answer(request)
        return request, answer

    def result(self, method: str, params: Json) -> Json:
        """Return the result of a request. Raises Violation if it has none."""
        _, answer = self.insist(lambda: self.request(method, params))
        if "result" not in answer:
            raise Violation("a request is refused", f"{method}: {answer['error']}")
        return answer["result"]

    def settle(self) -> None:
        """See all open requests answered."""
        for request in list(self._asked):
            self.answer(request)

    def has_received(self, session_id: str, count: int) -> bool:
        """Tell whether so much of a session has come, all connections together."""
        self.take_in()
        return self.ledger[session_id].received >= count

    @property
    def has_hung_up(self) -> bool:
        return self._to_client < 0

    # -- the end ------------------------------------------------------------------------

    def agents(self) -> dict[int, str]:
        """Return all that lives of what Rekindle has started."""
        return {pid: it for pid, it in marked(self.mark).items() if pid != self.rekindle.pid}

    def wait_for_the_end(self, patience: float = PATIENCE) -> None:
        """See both processes end, and all that they have started."""
        self.rekindle.wait(patience)
        self.hang_up()
        self.client.strike(signal.SIGCONT)
        self.client.wait(patience)
        self.take_in()
        while left := self.agents():
            for pid, command in left.items():
                if not ends(pid, patience):
                    raise Violation("a process is left behind", f"{pid}: {command}")

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        self.hang_up()
        for process in (self.rekindle, self.client):
            process.close()
