"""What the agent tells, and how a version of the protocol puts it.

Scenes tell updates of one vocabulary, and the memory keeps them so. It is that of version 1, with
`user_message` and `state_update` of version 2, and with tool calls that can be `cancelled` and
show a terminal: `{"type": "terminal", "terminalId", "command", "cwd", "output", "exitCode"}`.
"""

from collections.abc import Iterable
from typing import Protocol

from rekindle.example_agent.rpc import Json


class Dialect(Protocol):
    """A version's way of saying things."""

    @property
    def withdraws_questions(self) -> bool:
        """Whether the client is told that a question needs no answer any more."""
        ...

    def live(self, update: Json) -> Iterable[Json]:
        """Yield what is sent for an update when it happens."""
        ...

    def again(self, updates: Iterable[Json]) -> Iterable[Json]:
        """Yield what is sent for the updates of a whole conversation when it is told again."""
        ...

    def question(self, call: Json, options: list[Json]) -> Json:
        """Return what the user is asked before a tool call, without the session's id."""
        ...


def text_block(text: str) -> Json:
    """Return a content block that holds `text`."""
    return {"type": "text", "text": text}


def chunk(kind: str, message_id: str, content: Json) -> Json:
    """Return the update that carries one piece of a message."""
    return {"sessionUpdate": kind, "messageId": message_id, "content": content}


def number_chunk(message_id: str, number: int) -> Json:
    """Return the update that carries one number of a count."""
    text = "1" if number == 1 else f" {number}"
    return chunk("agent_message_chunk", message_id, text_block(text))


def user_message(message_id: str, blocks: list[Json]) -> Json:
    """Return the update that carries a whole prompt."""
    return {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}


def call_update(call_id: str, **changes: object) -> Json:
    """Return the update that changes a tool call."""
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **changes}
