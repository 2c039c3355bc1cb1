"""The clients of one session: how each uses it, and the parts of the session that serve them.

Holds state; decides nothing about messages.
"""

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2
from rekindle.proxy.peers import NO_CLIENT, Peer


class SessionSetup(Struct, frozen=True):
    """The params with which a client opened a session. They hold secrets: never record them."""

    params: dict[str, Any] = {}
    protocol: int = 1
    """The protocol version of that client."""
    client: Peer = NO_CLIENT
    """That client, which supplies the MCP servers that speak over its connection."""


class Attachment(Struct):
    """One client that has a session open."""

    wants_permissions: bool = False
    """Whether it answers permission requests of turns that other clients have prompted."""
    is_observer: bool = False
    """Whether it only watches: it does not act, and does not keep the session open."""
    is_joining: bool = False
    """Whether it receives the history now, and live updates only after that."""


class HeldPrompt(Struct, frozen=True):
    """A prompt of a version 1 client, which waits for the end of the turn."""

    client: Peer
    id: bytes


class SuffixedIds(Struct, frozen=True):
    """The ids that messages and tool calls had before the last handover.

    An agent may use such an id for something else. On its way to the client it gets the suffix.
    """

    taken: frozenset[str] = frozenset()
    suffix: str = ""


class Translators(Struct):
    """The translators of a session's updates, one for each version that is not the agent's."""

    to_v1: LiveToV1 | None = None
    """For version 1 clients of a version 2 agent."""
    to_v2: LiveToV2 | None = None
    """For version 2 clients of a version 1 agent."""

    @property
    def are_in_use(self) -> bool:
        """Whether there is any."""
        return self.to_v1 is not None or self.to_v2 is not None

    def forget(self, removed: Collection[str]) -> None:
        """Forget messages and tool calls that a rewind has removed."""
        for translator in (self.to_v1, self.to_v2):
            if translator is not None:
                translator.forget(removed)
