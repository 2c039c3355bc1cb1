"""A sub-agent of the example agent: a session of its own that works for a turn."""

from rekindle.example_agent.rpc import Json
from rekindle.example_agent.session import Turn, split_text
from rekindle.example_agent.updates import call_update, chunk, text_block


class Subagent:
    """A sub-agent. Its parent reports its state; in version 2 it reports that itself, too."""

    def __init__(self, turn: Turn, title: str, description: str) -> None:
        self._turn = turn
        self.session_id = turn.conversation.new_id("subagent").replace("/", "-")
        self._message_count = 0
        self._report(title=title, description=description)
        self.set_state("running")

    def set_state(self, state: str, **details: object) -> None:
        """Change the state, and report it."""
        self._report(state={"state": state, **details})
        self.send({"sessionUpdate": "state_update", "state": state, **details})

    def _report(self, **fields: object) -> None:
        update = {"sessionUpdate": "subagent_update", "sessionId": self.session_id, **fields}
        self._turn.send_update(update)

    def send(self, update: Json) -> None:
        """Send an update of the sub-agent's session."""
        self._turn.pause()
        for it in self._turn.session.update_format.live(update):
            params = {"sessionId": self.session_id, "update": it}
            self._turn.session.connection.notify("session/update", params)

    def say(self, text: str) -> None:
        """Stream a message of the sub-agent."""
        self._message_count += 1
        message_id = f"{self.session_id}/message-{self._message_count}"
        for piece in split_text(text):
            self.send(chunk("agent_message_chunk", message_id, text_block(piece)))

    def edit(self, path: str, diff: Json, options: list[Json]) -> None:
        """Edit a file, if the user allows it."""
        call: Json = {
            "sessionUpdate": "tool_call",
            "toolCallId": f"{self.session_id}/call",
            "title": f"Edit {path}",
            "kind": "edit",
            "status": "pending",
            "locations": [{"path": path}],
            "content": [diff],
        }
        self.send(call)
        chosen = self._turn.ask_permission(call, options, session_id=self.session_id)
        is_allowed = chosen in ("allow-once", "allow-always")
        status = "completed" if is_allowed else "failed"
        self.send(call_update(call["toolCallId"], status=status))

    def exchange(self, text: str, *, is_answer: bool = False) -> None:
        """Send a message from the parent to the sub-agent, or the answer to it."""
        parties = [self._turn.conversation.session_id, self.session_id]
        sender, recipient = reversed(parties) if is_answer else parties
        message_id = self._turn.conversation.new_id("session-message")
        update: Json = {
            "sessionUpdate": "session_message",
            "messageId": message_id,
            "senderSessionId": sender,
            "recipientSessionId": recipient,
        }
        self._turn.send_update(update)
        update = chunk("session_message_chunk", message_id, text_block(text))
        self._turn.send_update(update)
