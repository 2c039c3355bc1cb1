"""The requests that wait for a response, by the peer that has to answer them."""

from collections.abc import Hashable, Iterator
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from rekindle.acp import methods
from rekindle.acp.jsonrpc import request_key
from rekindle.proxy.peers import AGENT, NO_CLIENT, Peer


class OpenRequest(Struct, frozen=True):
    """A request without its response."""

    asked_by: Peer
    id: bytes
    """The id that the asking peer chose."""
    method: str
    session_id: str | None
    params: dict[str, Any]
    """Set only where the response cannot be recorded or forwarded without them."""
    sent_id: bytes = b""
    """The id under which the answering peer received the request."""
    is_answered: bool = False
    """Whether the asking client has its response already, or receives it as the end of the turn."""
    line: bytes = b""
    """The request as clients of the agent's version receive it, if several may answer it."""


class OpenRequests:
    """All open requests of an engine.

    The key is the answering peer and the id that this peer received. So the same id may be open at
    several peers, and a response always finds the request that it belongs to.
    """

    def __init__(self) -> None:
        self._open: dict[Peer, dict[Hashable, OpenRequest]] = {}
        self._answered_for: dict[Peer, set[Hashable]] = {}
        """Requests that the engine answered for a peer. A response of that peer comes too late."""

    def add(self, answering: Peer, sent_id: Raw, request: OpenRequest) -> None:
        """Note a request that is sent to a peer. A request with an unusable id is not noted."""
        key = request_key(sent_id)
        if key is not None:
            self._open.setdefault(answering, {})[key] = request
            self._answered_for.setdefault(answering, set()).discard(key)

    def close(self, answering: Peer, sent_id: Raw) -> OpenRequest | None:
        """Return and remove the request that a response of a peer answers; None if unknown."""
        return self._open.get(answering, {}).pop(request_key(sent_id), None)

    def find(self, answering: Peer, sent_id: Raw) -> OpenRequest | None:
        """Return the request that a response of a peer answers, and leave it open."""
        return self._open.get(answering, {}).get(request_key(sent_id))

    def is_late(self, answering: Peer, sent_id: Raw) -> bool:
        """Return, once, whether the engine has answered this request for the peer already."""
        key = request_key(sent_id)
        answered = self._answered_for.get(answering, set())
        is_late = key in answered
        answered.discard(key)
        return is_late

    def sent_id(self, asked_by: Peer, own_id: Raw) -> bytes | None:
        """Return the id under which the agent received an open request of a client."""
        key = request_key(own_id)
        for request in self._open.get(AGENT, {}).values():
            if request.asked_by == asked_by and request_key(Raw(request.id)) == key:
                return request.sent_id
        return None

    def asked(self, sent_id: Raw) -> list[Peer]:
        """Return the clients that a request of the agent was sent to, and that may answer it."""
        key = request_key(sent_id)
        peers = (peer for peer in self._open if peer not in {AGENT, NO_CLIENT})
        return [peer for peer in peers if key in self._open[peer]]

    def waiting_for(self, answering: Peer) -> list[OpenRequest]:
        """Return the requests that a peer has to answer."""
        return list(self._open.get(answering, {}).values())

    @property
    def is_agent_busy(self) -> bool:
        """Whether the agent has to answer a request of a client."""
        return bool(self._open.get(AGENT))

    def is_open(self, method: str, session_id: str) -> bool:
        """Return whether the agent has to answer such a request."""
        return any(
            request.method == method and request.session_id == session_id
            for request in self._open.get(AGENT, {}).values()
        )

    def is_user_asked(self, session_id: str | None) -> bool:
        """Return whether the agent waits for an answer of the user."""
        return any(
            request.method in methods.ASKS_USER and request.session_id == session_id
            for request in self._asked_by(AGENT)
        )

    def answer_for_agent(
        self, method: str | None = None, session_id: str | None = None
    ) -> list[OpenRequest]:
        """Return and remove requests that the engine now answers for the agent.

        They come in the order in which they were asked. Without arguments, these are all.
        """
        return self._answer_for(AGENT, method, session_id)

    def leave(
        self, client: Peer, method: str | None = None, session_id: str | None = None
    ) -> list[OpenRequest]:
        """Let no client wait for the requests of a client any more; return them.

        They stay open at the agent. Without a method and a session, these are all of the client.
        """
        left: list[OpenRequest] = []
        requests = self._open.get(AGENT, {})
        for key, request in requests.items():
            is_meant = method in {None, request.method} and session_id in {None, request.session_id}
            if is_meant and request.asked_by == client:
                requests[key] = replace(request, asked_by=NO_CLIENT)
                left.append(request)
        return left

    def withdraw(self, answering: Peer, sent_id: bytes) -> None:
        """Note that a peer need not answer a request any more. Its response comes too late."""
        key = request_key(Raw(sent_id))
        if self._open.get(answering, {}).pop(key, None) is not None:
            self._answered_for.setdefault(answering, set()).add(key)

    def note_late(self, answering: Peer, sent_id: Raw) -> None:
        """Note that a response of a peer, if any comes, is for no request of the agent."""
        self._answered_for.setdefault(answering, set()).add(request_key(sent_id))

    def drop_client(self, client: Peer) -> None:
        """Forget a client that has left."""
        self._open.pop(client, None)
        self._answered_for.pop(client, None)

    def answer_for_clients(self) -> list[tuple[Peer, OpenRequest]]:
        """Return and remove all requests of the agent, with the clients that have them."""
        clients = [peer for peer in self._open if peer != AGENT]
        return [(peer, it) for peer in clients for it in self._answer_for(peer, None, None)]

    def _answer_for(
        self, answering: Peer, method: str | None, session_id: str | None
    ) -> list[OpenRequest]:
        found = {
            key: request
            for key, request in self._open.get(answering, {}).items()
            if method in {None, request.method} and session_id in {None, request.session_id}
        }
        for key in found:
            del self._open[answering][key]
        self._answered_for.setdefault(answering, set()).update(found)
        return list(found.values())

    def _asked_by(self, peer: Peer) -> Iterator[OpenRequest]:
        for requests in self._open.values():
            yield from (it for it in requests.values() if it.asked_by == peer)
