"""A small ACP client: starts an agent, asks it things, and hears what it has to tell.

Subclass it, say in `on_update` what becomes of updates and in `choose` who decides on
permissions. It knows nothing of Rekindle: to the client, `rekindle run -- AGENT` is the agent.
"""

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]


class AgentError(Exception):
    """The agent refused a request, or ended before it answered."""


class Client:
    """One connection to an agent, used by one thread. `messages` counts both directions."""

    def __init__(self, command: list[str], folder: Path, environ: dict[str, str]) -> None:
        self.messages = 0
        self._last_id = 0
        self._stderr = folder / "stderr.txt"
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C is for the client, which then ends the agent
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def on_update(self, update: Json) -> None:
        """Take a `session/update` of the agent."""

    def choose(self, call: Json, options: list[Json]) -> Json:
        """Return the option that the user chooses when the agent asks for permission."""
        raise NotImplementedError

    def kill(self) -> None:
        """End the agent, if it runs."""
        self.process.kill()
        self.process.wait()

    def open_session(self, folder: Path) -> str:
        """Introduce ourselves, and return the id of a new session."""
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        return self.ask("session/new", {"cwd": str(folder), "mcpServers": []})["sessionId"]

    def load_session(self, session_id: str, folder: Path) -> None:
        """Introduce ourselves, and have an earlier session told again."""
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        params = {"sessionId": session_id, "cwd": str(folder), "mcpServers": []}
        self.ask("session/load", params)

    def prompt(self, session_id: str, words: str) -> str:
        """Say something in a session; return why the turn ended."""
        block = {"type": "text", "text": words}
        answer = self.ask("session/prompt", {"sessionId": session_id, "prompt": [block]})
        return answer["stopReason"]

    def ask(self, method: str, params: Json) -> Json:
        """Send a request and return its result, seeing to all that comes before it.

        Raises AgentError.
        """
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        for line in self.process.stdout:
            if not line.endswith(b"\n"):
                break  # it ended in the middle of a line
            self.messages += 1
            match json.loads(line):
                case {"method": "session/update", "params": {"update": update}}:
                    self.on_update(update)
                case {"method": "session/request_permission", "id": asked, "params": wanted}:
                    option = self.choose(wanted["toolCall"], wanted["options"])
                    outcome = {"outcome": "selected", "optionId": option["optionId"]}
                    self._send({"id": asked, "result": {"outcome": outcome}})
                case {"method": other, "id": asked}:
                    error = {"code": -32601, "message": f"no method {other!r}"}
                    self._send({"id": asked, "error": error})
                case {"id": self._last_id, "result": result}:
                    return result
                case {"id": self._last_id, "error": {"message": reason}}:
                    raise AgentError(f"{method} failed: {reason}")
                case _:
                    pass  # a notification that we do not know
        raise AgentError(f"the agent ended before it answered {method}{self._last_words()}")

    def _send(self, message: Json) -> None:
        self.messages += 1
        with suppress(BrokenPipeError):  # an agent that has ended: reading will tell
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()

    def _last_words(self) -> str:
        lines = self._stderr.read_text(encoding="utf-8", errors="replace").splitlines()
        return f": {lines[-1]}" if lines else ""
