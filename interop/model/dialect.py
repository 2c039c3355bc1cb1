"""The messages of the model, and the protocol of a dialect that reads and writes them."""

from collections.abc import Iterator
from typing import Any, Literal, Protocol
from zlib import crc32

from msgspec import Struct

Json = dict[str, Any]
Event = tuple[str | None, Json | str]
"""The name of an event, if the dialect has names, and its data."""


Role = Literal["user", "model", "tool"]


class ModelMessage(Struct, frozen=True):
    """A message of the user or the model, or the result of a tool."""

    role: Role
    text: str


class Tool(Struct, frozen=True):
    """A tool that the agent offers, with the JSON schema of its arguments."""

    name: str
    schema: Json


class ModelRequest(Struct, frozen=True, kw_only=True):
    """The content of one request to the model."""

    messages: tuple[ModelMessage, ...]
    tools: tuple[Tool, ...]
    is_streamed: bool
    model: str


class TextReply(Struct, frozen=True):
    """An answer in text. If it `hangs`, only the first half is ever sent.

    If it `pauses`, the second half comes some seconds later.
    """

    text: str
    hangs: bool = False
    pauses: bool = False
    thought: str = ""
    """The thought before the answer."""


class ToolReply(Struct, frozen=True):
    """A tool call of the model."""

    name: str
    arguments: Json
    thought: str = ""


Reply = TextReply | ToolReply


class Dialect(Protocol):
    """The HTTP API of one vendor."""

    def read(self, body: Json) -> ModelRequest:
        """Parse a request."""
        ...

    def whole(self, reply: Reply, shown: ModelRequest) -> Json:
        """Return a reply as one response."""
        ...

    def stream(self, reply: Reply, shown: ModelRequest) -> Iterator[Event]:
        """Yield a reply as events."""
        ...


def halves(text: str) -> tuple[str, str]:
    """Split a text in two, so that a stream has more than one chunk."""
    middle = len(text) // 2
    return text[:middle], text[middle:]


def number(shown: ModelRequest) -> int:
    """Return a number for ids that is unique per request of a conversation.

    The texts count: the request after an interrupted turn may have as many messages.
    """
    texts = "\0".join(message.text for message in shown.messages)
    return len(shown.messages) * 10**5 + crc32(texts.encode()) % 10**5
