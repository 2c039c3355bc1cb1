"""A client for tests that speaks version 2 of the protocol."""

from pathlib import Path

from stdio_client import EXAMPLE_AGENT, Client, Json, said

HELLO = {"protocolVersion": 2, "info": {"name": "test", "version": "0"}}
START = {"replayFrom": {"type": "start"}}


class ClientV2(Client):
    """A client whose turns begin with an answer and end with a state."""

    def __init__(self, *command: str | Path) -> None:
        super().__init__(*(command or (*EXAMPLE_AGENT, "--protocol", "2")))
        self._judge.version = 2

    def insert(self, session_id: str, *texts: str) -> str:
        """Begin a turn, and return the id of its user message."""
        return self.answer(self.start(session_id, *texts))["result"]["messageId"]

    def state(self, session_id: str, state: str) -> Json:
        """Return the update by which a session comes into a state."""
        found = self.until(
            lambda m: (
                m.get("method") == "session/update"
                and m["params"]["sessionId"] == session_id
                and m["params"]["update"].get("state") == state
            )
        )
        return found["params"]["update"]

    def prompt(self, session_id: str, *texts: str) -> list[Json]:
        """Return the updates of a turn that ends as it should, without its first and last."""
        self.passed.clear()
        message_id = self.insert(session_id, *texts)
        assert self.state(session_id, "idle")["stopReason"] == "end_turn"
        message, running, *updates, _idle = self.updates(session_id)
        assert message["messageId"] == message_id
        assert running == {"sessionUpdate": "state_update", "state": "running"}
        return updates

    def reply(self, session_id: str, *texts: str) -> str:
        """Return what the agent says in a turn."""
        return said(self.prompt(session_id, *texts))

    def cancel(self, session_id: str, turn: int = 0) -> None:
        """Cancel a turn, and see it cancelled; its request was answered when it began."""
        del turn
        self.send(method="session/cancel", params={"sessionId": session_id})
        assert self.state(session_id, "idle")["stopReason"] == "cancelled"

    def resume(self, session_id: str, cwd: str, **params: object) -> list[Json]:
        """Return the updates that come before the answer to session/resume."""
        self.passed.clear()
        self.call("session/resume", {"sessionId": session_id, "cwd": cwd, **params})
        return self.updates(session_id)
