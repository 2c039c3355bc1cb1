"""Which requests still wait for their answer."""

from collections.abc import Hashable
from typing import Any

from msgspec import Raw, Struct

from rekindle.model import Side
from rekindle.wire.envelope import request_key


class OpenRequest(Struct, frozen=True):
    """A request without its answer; `params` only where the answer needs them."""

    id: bytes
    method: str
    session_id: str | None
    params: dict[str, Any]


class OpenRequests:
    """The open requests of both sides. An id belongs to the side that chose it."""

    def __init__(self) -> None:
        self._open: dict[Side, dict[Hashable, OpenRequest]] = {Side.CLIENT: {}, Side.AGENT: {}}

    def ask(self, side: Side, request_id: Raw, asked: OpenRequest) -> None:
        """Note a request that `side` sends."""
        key = request_key(request_id)
        if key is not None:
            self._open[side][key] = asked

    def answer(self, side: Side, request_id: Raw) -> OpenRequest | None:
        """Return the request that this answer of `side` ends; None when nobody asked."""
        return self._open[side.peer].pop(request_key(request_id), None)

    def take_all(self, side: Side) -> list[OpenRequest]:
        """Return, and drop, what `side` still waits for, in the order asked."""
        waiting = list(self._open[side].values())
        self._open[side].clear()
        return waiting
