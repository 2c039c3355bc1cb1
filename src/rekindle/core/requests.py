"""Which requests still wait for their answer."""

from collections.abc import Hashable
from typing import Any

from msgspec import UNSET, Struct

from rekindle.model import Side
from rekindle.wire.envelope import Message, request_key


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

    def ask(self, side: Side, message: Message, params: dict[str, Any]) -> None:
        """Note a request that `side` sends."""
        if message.id is UNSET or message.method is UNSET:
            return
        key = request_key(message.id)
        if key is not None:
            self._open[side][key] = OpenRequest(
                bytes(message.id), message.method, message.session_id, params
            )

    def answer(self, side: Side, message: Message) -> OpenRequest | None:
        """Return the request that this answer of `side` ends; None when nobody asked."""
        if message.id is UNSET:
            return None
        key = request_key(message.id)
        return self._open[side.peer].pop(key, None) if key is not None else None

    def take_all(self, side: Side) -> list[OpenRequest]:
        """Return, and drop, what `side` still waits for, in the order asked."""
        waiting = list(self._open[side].values())
        self._open[side].clear()
        return waiting
