"""The updates of the example agent, in a form that does not depend on the protocol version.

Actions send these updates, and the memory keeps them. The form is that of version 1, with
`user_message` and `state_update` of version 2. Tool calls can be `cancelled`, and can show a
terminal: `{"type": "terminal", "terminalId", "command", "cwd", "output", "exitCode"}`.
"""

from collections.abc import Iterable
from typing import Protocol

from rekindle.example_agent.rpc import Json


class UpdateFormat(Protocol):
    """The format of updates in one version of the protocol."""

    @property
    def withdraws_requests(self) -> bool:
        """Whether the agent withdraws permission requests that need no answer any more."""
        ...

    def live(self, update: Json) -> Iterable[Json]:
        """Yield the messages for an update when it happens."""
        ...

    def replay(self, updates: Iterable[Json]) -> Iterable[Json]:
        """Yield the messages that replay the updates of a whole conversation."""
        ...

    def state(self, state: str) -> Json | None:
        """Return the state of a session for `session/status`; None if the version has none."""
        ...

    def permission_request(self, call: Json, options: list[Json]) -> Json:
        """Return the parameters of a permission request, without the session id."""
        ...


def text_block(text: str) -> Json:
    """Return a content block with `text`."""
    return {"type": "text", "text": text}


def chunk(kind: str, message_id: str, content: Json) -> Json:
    """Return the update for one chunk of a message."""
    return {"sessionUpdate": kind, "messageId": message_id, "content": content}


def number_chunk(message_id: str, number: int) -> Json:
    """Return the update for one number of a count."""
    text = "1" if number == 1 else f" {number}"
    return chunk("agent_message_chunk", message_id, text_block(text))


def user_message(message_id: str, blocks: list[Json]) -> Json:
    """Return the update for a whole prompt."""
    return {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}


def call_update(call_id: str, **changes: object) -> Json:
    """Return the update that changes a tool call."""
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **changes}
