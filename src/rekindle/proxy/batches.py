"""JSON-RPC batches: take each apart, and collect the answers to its requests.

A peer never receives a batch of the other peer: each member goes its own way. Only the answers to
a peer's own batch go to it as one array, in version 2. Version 1 of ACP has no batches, so such a
peer receives single messages (docs/design/translation.md).
"""

from collections.abc import Hashable

from msgspec import UNSET, Raw, Struct

from rekindle.acp.jsonrpc import INVALID_REQUEST, error_response, read_envelope, request_key
from rekindle.jsonvalue import encode
from rekindle.proxy.peers import Peer


class TakenApart(Struct, frozen=True):
    """The parts of a batch."""

    messages: list[bytes] = []
    """The members that are messages, in order."""
    errors: list[bytes] = []
    """An error response for each member that is not a message."""
    request_keys: list[Hashable] = []
    """The keys of the requests among the messages."""


def take_apart(members: list[bytes]) -> TakenApart:
    """Separate the messages of a batch from its other members."""
    parts = TakenApart()
    for member in members:
        envelope = read_envelope(member)
        if envelope is None or (envelope.method is UNSET and not envelope.is_response):
            parts.errors.append(
                error_response(
                    None, INVALID_REQUEST, "a member of the batch is not a JSON-RPC message"
                )
            )
            continue
        parts.messages.append(member)
        key = request_key(envelope.id) if isinstance(envelope.id, Raw) else None
        if envelope.is_request and key is not None:
            parts.request_keys.append(key)
    return parts


class _OpenBatch(Struct):
    """A batch that lacks answers."""

    awaited: list[Hashable]
    """The keys of the requests without an answer."""
    answers: list[bytes]


class OpenBatches:
    """The batches of the peers that have requests without an answer."""

    def __init__(self) -> None:
        self.open: dict[Peer, list[_OpenBatch]] = {}

    def add(self, peer: Peer, parts: TakenApart) -> None:
        """Collect the answers to a batch. It must have at least one request."""
        batch = _OpenBatch(list(parts.request_keys), list(parts.errors))
        self.open.setdefault(peer, []).append(batch)

    def drop(self, peer: Peer) -> None:
        """Forget the batches of a peer that has exited."""
        self.open.pop(peer, None)

    def collect(self, peer: Peer, lines: list[bytes]) -> list[bytes]:
        """Return the lines for a peer with the answers to its batches held back.

        An array takes the place of the last answer that a batch has waited for.
        """
        if peer not in self.open:
            return lines
        kept = [it for line in lines if (it := self._collect_line(peer, line)) is not None]
        if not self.open[peer]:
            del self.open[peer]
        return kept

    def _collect_line(self, peer: Peer, line: bytes) -> bytes | None:
        envelope = read_envelope(line)
        if envelope is None or not envelope.is_response or not isinstance(envelope.id, Raw):
            return line
        key = request_key(envelope.id)
        batches = self.open[peer]
        batch = next((it for it in batches if key in it.awaited), None)
        if batch is None:
            return line
        batch.awaited.remove(key)
        batch.answers.append(line)
        if batch.awaited:
            return None
        batches.remove(batch)
        return as_array_line(batch.answers)


def as_array_line(answers: list[bytes]) -> bytes:
    """Return answers as one array."""
    return encode([Raw(answer) for answer in answers])
