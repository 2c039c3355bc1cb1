"""Connect to the host of a session, and ask it to release the session."""

from rekindle.acp import methods
from rekindle.model import LeaseHolder
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import AgentReply, CallHost, ConnectToHost, DisconnectFromHost, SubFlow
from rekindle.proxy.host_connections import HostConnection
from rekindle.proxy.peers import NO_CLIENT, Peer

_STATUS_TIMEOUT_US = 2_000_000
RELEASE_TIMEOUT_US = 25_000_000
"""Longer than a host waits for its agent."""


def open_connection(conn: ConnectionState, client: Peer, holder: LeaseHolder) -> SubFlow:
    """Return a new connection to a host; None if it cannot be reached."""
    if not holder.socket:
        return None
    connection = HostConnection(peer=conn.new_peer(), client=client, holder=holder)
    conn.hosts.add(connection)
    problem: str | None = yield ConnectToHost(connection.peer, holder)
    if problem is None:
        return connection
    conn.hosts.pop(connection.peer)
    return None


def ask_for_release(conn: ConnectionState, session_id: str, holder: LeaseHolder) -> SubFlow:
    """Ask the host of a session to end its turn and to release it, if the host can be asked."""
    connection: HostConnection | None = yield from open_connection(conn, NO_CLIENT, holder)
    if connection is None:
        return
    # A stopped process accepts connections too. It is not waited for as long as for an agent.
    status: AgentReply = yield CallHost(
        connection.peer, methods.HOST_STATUS, {}, _STATUS_TIMEOUT_US
    )
    if status.error is None:
        params = {"sessionId": session_id}
        yield CallHost(connection.peer, methods.HOST_RELEASE, params, RELEASE_TIMEOUT_US)
    yield DisconnectFromHost(connection.peer)
