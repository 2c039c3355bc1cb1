"""Which requests still wait for their answer."""

from collections.abc import Hashable
from typing import Any

from msgspec import Raw, Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import request_key
from rekindle.model import Side


class OpenRequest(Struct, frozen=True):
    """A request without its answer; `params` only where the answer needs them."""

    id: bytes
    """As the side that asked has it."""
    method: str
    session_id: str | None
    params: dict[str, Any]
    told_as: bytes = b""
    """As the other side was told it, if that is another."""


class OpenRequests:
    """The open requests of both sides. An id belongs to the side that chose it."""

    def __init__(self) -> None:
        self._open: dict[Side, dict[Hashable, OpenRequest]] = {Side.CLIENT: {}, Side.AGENT: {}}
        self._settled: dict[Side, set[Hashable]] = {Side.CLIENT: set(), Side.AGENT: set()}

    def ask(self, side: Side, request_id: Raw, asked: OpenRequest) -> None:
        """Note a request that `side` sends."""
        key = request_key(request_id)
        if key is not None:
            self._open[side][key] = asked
            self._settled[side].discard(key)

    def answer(self, side: Side, request_id: Raw) -> OpenRequest | None:
        """Return the request that this answer of `side` ends; None when nobody asked."""
        return self._open[side.peer].pop(request_key(request_id), None)

    def session_of(self, side: Side, request_id: Raw) -> str | None:
        """Return the session that an open request of `side` is about."""
        asked = self._open[side].get(request_key(request_id))
        return None if asked is None else asked.session_id

    def is_late(self, side: Side, request_id: Raw) -> bool:
        """Tell, once, whether this answer of `side` is to what was answered in its place."""
        key = request_key(request_id)
        settled = self._settled[side.peer]
        is_late = key in settled
        settled.discard(key)
        return is_late

    def is_waiting(self, side: Side) -> bool:
        """Tell whether `side` waits for anything."""
        return bool(self._open[side])

    def is_open(self, method: str, session_id: str) -> bool:
        """Tell whether the client still waits for such an answer."""
        return any(
            asked.method == method and asked.session_id == session_id
            for asked in self._open[Side.CLIENT].values()
        )

    def is_asked(self, session_id: str | None) -> bool:
        """Tell whether the agent still waits for the user."""
        return any(
            asked.method in methods.ASKS_USER and asked.session_id == session_id
            for asked in self._open[Side.AGENT].values()
        )

    def settle(
        self, side: Side, method: str | None = None, session_id: str | None = None
    ) -> list[OpenRequest]:
        """Return what `side` waits for, in the order asked: it is answered in its peer's place."""
        waiting = {
            key: asked
            for key, asked in self._open[side].items()
            if method in {None, asked.method} and session_id in {None, asked.session_id}
        }
        for key in waiting:
            del self._open[side][key]
        self._settled[side] |= waiting.keys()
        return list(waiting.values())
