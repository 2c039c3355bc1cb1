"""Connections to hosts: other processes that have a session which a client of this engine opened.

Each connection serves one client of this engine. So the ids of the client's requests stay as they
are, and the host sees the client's own version and capabilities. Requests of the host's agent get
new ids, because the agent of this engine may use the same ones.

Holds state; decides nothing about messages.
"""

from collections.abc import Hashable

from msgspec import Raw, Struct

from rekindle.acp.jsonrpc import notification, request_key
from rekindle.acp.methods import PROMPT
from rekindle.model import LeaseHolder
from rekindle.proxy.peers import Peer
from rekindle.proxy.session_clients import Attachment, SessionSetup

POSITION = "_rekindle/position"
"""The notification that announces the lines of some entries, and the seq of the last entry."""


def position(seqs: dict[str, int], *, lines: int) -> bytes:
    """Return the notification that `lines` lines follow, which bring sessions to these seqs."""
    return notification(POSITION, {"seqs": seqs, "lines": lines})


class AttachedSession(Struct, frozen=True):
    """A session of a host that a client of this engine has open."""

    setup: SessionSetup
    attachment: Attachment


class HostRequest(Struct):
    """A request of the client that the host has to answer."""

    id: Raw
    method: str
    session_id: str | None
    line: bytes = b""
    """The whole request, if it is a prompt."""
    after_seq: int = 0
    """The last entry of the session that the client had."""
    is_cancelled: bool = False
    """Whether the client has cancelled it since."""
    may_be_unrecorded: bool = False
    """Whether the host could not record meanwhile: the agent may have it, unlike the record."""


class HostQuestion(Struct, frozen=True):
    """A request of the host that the client has to answer."""

    sent_id: Raw
    """The id under which the client received it."""
    host_id: Raw


class LineGroup(Struct):
    """The lines that belong to some entries of a session's record.

    The host announces them. A group that a dying host has sent in part is dropped: its entries are
    read from the record instead.
    """

    seqs: dict[str, int]
    """The seq of the last entry, by session."""
    missing: int
    lines: list[bytes] = []


class HostConnection(Struct, kw_only=True):
    """The connection to one host for one client."""

    peer: Peer
    client: Peer
    holder: LeaseHolder
    sessions: dict[str, AttachedSession] = {}
    subagents: set[str] = set()
    """The ids of other sessions in the host's updates: sub-agents of the sessions."""
    seqs: dict[str, int] = {}
    """By session, the last entry of the record whose effects the client has received."""
    requests: dict[Hashable, HostRequest] = {}
    """The open requests of the client, by id."""
    questions: dict[Hashable, HostQuestion] = {}
    """The open requests of the host, by the id that the client received."""
    group: LineGroup | None = None
    """The group whose lines arrive now, if any."""
    is_accepted: bool = False
    """Whether the agent of the host can replace the own one."""
    held: dict[str, list[bytes]] = {}
    """By session, the lines that wait until the client has the entries before them."""

    def serves(self, session_id: str | None) -> bool:
        """Return whether a session of the client is the host's."""
        return session_id in self.sessions or session_id in self.subagents

    def prompts_of(self, session_id: str) -> list[HostRequest]:
        """Return the open prompts of the client in a session."""
        requests = self.requests.values()
        return [it for it in requests if it.method == PROMPT and it.session_id == session_id]

    def question_of(self, host_id: Raw) -> HostQuestion | None:
        """Return the open request with this id of the host."""
        key = request_key(host_id)
        found = (it for it in self.questions.values() if request_key(it.host_id) == key)
        return next(found, None)


class HostConnections:
    """All connections to hosts of one engine."""

    def __init__(self) -> None:
        self.by_peer: dict[Peer, HostConnection] = {}
        self.left: dict[Peer, list[HostRequest]] = {}
        """By client, the open prompts of sessions whose host has ended, until they continue."""

    def add(self, connection: HostConnection) -> None:
        """Add a connection that was made."""
        self.by_peer[connection.peer] = connection

    def get(self, peer: Peer) -> HostConnection | None:
        """Return the connection with this peer number."""
        return self.by_peer.get(peer)

    def pop(self, peer: Peer) -> HostConnection | None:
        """Return and remove a connection."""
        return self.by_peer.pop(peer, None)

    def leave(self, client: Peer, prompts: list[HostRequest]) -> None:
        """Note the prompts that a host which has ended left open."""
        self.left.setdefault(client, []).extend(prompts)

    def continued(self, client: Peer, prompts: list[HostRequest]) -> None:
        """Forget prompts that are answered, or wait here."""
        rest = [it for it in self.left.pop(client, []) if it not in prompts]
        if rest:
            self.left[client] = rest

    def cancel_left(self, client: Peer, request_id: Raw) -> bool:
        """Note that a client cancels a prompt that a host left open; return whether it does."""
        key = request_key(request_id)
        for prompt in self.left.get(client, []):
            if request_key(prompt.id) == key:
                prompt.is_cancelled = True
                return True
        return False

    def of_client(self, client: Peer) -> list[HostConnection]:
        """Return the connections that serve a client."""
        return [it for it in self.by_peer.values() if it.client == client]

    def to_host(self, holder: LeaseHolder, client: Peer) -> HostConnection | None:
        """Return the connection to a host that serves a client, if there is one."""
        found = (it for it in self.of_client(client) if it.holder.token == holder.token)
        return next((it for it in found if it.is_accepted), None)

    def serving(self, client: Peer, session_id: str | None) -> HostConnection | None:
        """Return the connection that serves a session of a client, if any."""
        found = (it for it in self.of_client(client) if it.serves(session_id))
        return next(found, None)

    def asking(self, client: Peer, request_id: Raw) -> HostConnection | None:
        """Return the connection whose host waits for a client's response with this id."""
        key = request_key(request_id)
        return next((it for it in self.of_client(client) if key in it.questions), None)

    def answering(self, client: Peer, request_id: Raw) -> HostConnection | None:
        """Return the connection whose host has to answer a client's request with this id."""
        key = request_key(request_id)
        return next((it for it in self.of_client(client) if key in it.requests), None)
