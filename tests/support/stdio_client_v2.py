"""A client for tests that speaks version 2 of the protocol."""

from pathlib import Path

from stdio_client import EXAMPLE_AGENT, Client, Json, said

HELLO = {"protocolVersion": 2, "info": {"name": "test", "version": "0"}}
START = {"replayFrom": {"type": "start"}}


class ClientV2(Client):
    """A client whose turns start with a response and end with an idle state."""

    def __init__(self, *command: str | Path) -> None:
        super().__init__(*(command or (*EXAMPLE_AGENT, "--protocol", "2")))
        self._validator.version = 2

    def insert(self, session_id: str, *texts: str) -> str:
        """Start a turn; return the id of its user message."""
        return self.answer(self.start(session_id, *texts))["result"]["messageId"]

    def state(self, session_id: str, state: str) -> Json:
        """Wait for a session to reach a state; return that update."""
        found = self.until(
            lambda m: (
                m.get("method") == "session/update"
                and m["params"]["sessionId"] == session_id
                and m["params"]["update"].get("state") == state
            )
        )
        return found["params"]["update"]

    def prompt(self, session_id: str, *texts: str) -> list[Json]:
        """Run a turn that ends normally; return its updates without the first two and the last."""
        self.received.clear()
        message_id = self.insert(session_id, *texts)
        assert self.state(session_id, "idle")["stopReason"] == "end_turn"
        message, running, *updates, _idle = self.updates(session_id)
        assert message["messageId"] == message_id
        assert running == {"sessionUpdate": "state_update", "state": "running"}
        return updates

    def reply(self, session_id: str, *texts: str) -> str:
        """Run a turn; return the agent's text."""
        return said(self.prompt(session_id, *texts))

    def cancel(self, session_id: str, turn: int = 0) -> None:
        """Cancel a turn, and wait until the session is idle."""
        del turn
        self.send(method="session/cancel", params={"sessionId": session_id})
        assert self.state(session_id, "idle")["stopReason"] == "cancelled"

    def resume(self, session_id: str, cwd: str, **params: object) -> list[Json]:
        """Resume a session; return the updates that arrive before the response."""
        self.received.clear()
        self.call("session/resume", {"sessionId": session_id, "cwd": cwd, **params})
        return self.updates(session_id)
