"""What each dialect does: read a request, and write a reply, whole or as a stream."""

from collections.abc import Iterator
from typing import Any, Protocol

from interop.model.conversation import Reply, Shown

Json = dict[str, Any]
Event = tuple[str | None, Json | str]
"""A name, where the dialect names its events, and what it says."""


class Dialect(Protocol):
    """One way to talk to a model over HTTP."""

    def read(self, body: Json) -> Shown:
        """Return what a request shows."""
        ...

    def whole(self, reply: Reply, shown: Shown) -> Json:
        """Return an answer in one piece."""
        ...

    def stream(self, reply: Reply, shown: Shown) -> Iterator[Event]:
        """Yield an answer as events."""
        ...


def halves(words: str) -> tuple[str, str]:
    """Part words in two, so that a stream has more than one piece."""
    middle = len(words) // 2
    return words[:middle], words[middle:]


def number(shown: Shown) -> int:
    """Return a number that is new with each request of a conversation, and always the same."""
    return len(shown.said)
