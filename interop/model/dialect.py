"""What each dialect does: read a request, and write a reply, whole or as a stream."""

from collections.abc import Iterator
from typing import Any, Literal, Protocol

from msgspec import Struct

Json = dict[str, Any]
Event = tuple[str | None, Json | str]
"""A name, where the dialect names its events, and what it says."""


Role = Literal["user", "model", "tool"]


class ModelMessage(Struct, frozen=True):
    """One message: of the user, of the model, or what a tool brought."""

    role: Role
    text: str


class Tool(Struct, frozen=True):
    """A tool that the agent offers, with the JSON schema of its arguments."""

    name: str
    schema: Json


class ModelRequest(Struct, frozen=True, kw_only=True):
    """All that one request shows to the model."""

    said: tuple[ModelMessage, ...]
    tools: tuple[Tool, ...]
    is_streamed: bool
    model: str


class TextReply(Struct, frozen=True):
    """The model answers in words; if it `hangs`, half of them are all that ever comes."""

    text: str
    hangs: bool = False
    thought: str = ""
    """What it thinks before."""


class ToolReply(Struct, frozen=True):
    """The model wants a tool to be called."""

    name: str
    arguments: Json
    thought: str = ""


Reply = TextReply | ToolReply


class Dialect(Protocol):
    """One way to talk to a model over HTTP."""

    def read(self, body: Json) -> ModelRequest:
        """Return what a request shows."""
        ...

    def whole(self, reply: Reply, shown: ModelRequest) -> Json:
        """Return an answer in one piece."""
        ...

    def stream(self, reply: Reply, shown: ModelRequest) -> Iterator[Event]:
        """Yield an answer as events."""
        ...


def halves(words: str) -> tuple[str, str]:
    """Part words in two, so that a stream has more than one piece."""
    middle = len(words) // 2
    return words[:middle], words[middle:]


def number(shown: ModelRequest) -> int:
    """Return a number that is new with each request of a conversation, and always the same."""
    return len(shown.said)
