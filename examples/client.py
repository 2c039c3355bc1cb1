"""A small ACP client without dependencies.

Subclass it: `on_update` receives updates, and `choose` answers permission requests. The client
knows nothing of Rekindle; to it, `rekindle run -- AGENT` is an agent.
"""

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]


class AgentError(Exception):
    """The agent refused a request, or exited before it responded."""


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
                start_new_session=True,  # Ctrl-C goes to the client, which then ends the agent
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def on_update(self, update: Json) -> None:
        """Receive an update of the agent."""

    def choose(self, call: Json, options: list[Json]) -> Json:
        """Return the user's answer to a permission request: one of `options`."""
        raise NotImplementedError

    def kill(self) -> None:
        """Kill the agent, if it is running."""
        self.process.kill()
        self.process.wait()

    def open_session(self, folder: Path) -> str:
        """Initialize the agent, create a session, and return its id."""
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        return self.ask("session/new", {"cwd": str(folder), "mcpServers": []})["sessionId"]

    def load_session(self, session_id: str, folder: Path) -> None:
        """Initialize the agent, and load a session with its history."""
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        params = {"sessionId": session_id, "cwd": str(folder), "mcpServers": []}
        self.ask("session/load", params)

    def prompt(self, session_id: str, words: str) -> str:
        """Send a prompt; return the stop reason."""
        block = {"type": "text", "text": words}
        answer = self.ask("session/prompt", {"sessionId": session_id, "prompt": [block]})
        return answer["stopReason"]

    def ask(self, method: str, params: Json) -> Json:
        """Send a request and return its result. Messages before it are handled.

        Raises AgentError.
        """
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        for line in self.process.stdout:
            if not line.endswith(b"\n"):
                break  # the agent exited within a line
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
                    pass  # an unknown notification
        raise AgentError(f"the agent ended before it answered {method}{self._stderr_tail()}")

    def _send(self, message: Json) -> None:
        self.messages += 1
        with suppress(BrokenPipeError):  # the agent has exited; the next read reports it
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()

    def _stderr_tail(self) -> str:
        lines = self._stderr.read_text(encoding="utf-8", errors="replace").splitlines()
        return f": {lines[-1]}" if lines else ""
