"""The outlets of a driver: to the agent, to its clients, and to hosts of other sessions.

Change them with the driver's lock held. The tuples are replaced and never changed, so that they can
be read without the lock.
"""

from collections.abc import Callable
from typing import NamedTuple

from rekindle.model import LeaseHolder
from rekindle.proxy.flow import ConnectToHost
from rekindle.proxy.peers import AGENT, Peer
from rekindle.runtime.query_handler import NOT_POSSIBLE
from rekindle.runtime.transports.base import Outlet


class Outlets:
    """The outlets to the agent and to the clients."""

    def __init__(self) -> None:
        self.by_peer: dict[Peer, Outlet] = {}
        self.clients: tuple[Outlet, ...] = ()
        self.agents: tuple[Outlet, ...] = ()

    def set_agent(self, outlet: Outlet) -> None:
        """Set the outlet to the agent, or to the next process of it."""
        self.by_peer[AGENT] = outlet
        self.agents = (outlet,)

    def add_client(self, client: Peer, outlet: Outlet) -> None:
        """Add the outlet to a client. Of several clients, none holds the others back."""
        self.by_peer[client] = outlet
        self.clients = (*self.clients, outlet)
        if len(self.clients) > 1:
            for one in self.clients:
                one.never_wait()

    def remove_client(self, client: Peer) -> None:
        """Remove the outlet to a client that has left."""
        outlet = self.by_peer.pop(client)
        self.clients = tuple(it for it in self.clients if it is not outlet)
        if len(self.clients) == 1:
            self.clients[0].wait_again()


class HostOutlet(NamedTuple):
    """The outlet to a host, and a function that closes the connection after the last line."""

    outlet: Outlet
    close: Callable[[], None]


ConnectHost = Callable[[LeaseHolder, Callable[[bytes], None], Callable[[], None]], HostOutlet]
"""Connects to a host. It is given functions that receive its lines, and the end. Raises OSError."""


class HostOutlets:
    """The connections to hosts. `connect` makes them; None if that is not possible."""

    def __init__(self, connect: ConnectHost | None) -> None:
        self._connect = connect
        self._by_peer: dict[Peer, HostOutlet] = {}
        self.outlets: tuple[Outlet, ...] = ()

    def connect(
        self, query: ConnectToHost, receive: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> str | None:
        """Connect to a host; return why it failed, if it did."""
        if self._connect is None:
            return NOT_POSSIBLE
        try:
            self._by_peer[query.peer] = self._connect(query.holder, receive, on_end)
        except OSError as error:
            return str(error)
        self.outlets = tuple(it.outlet for it in self._by_peer.values())
        return None

    def outlet(self, host: Peer) -> Outlet | None:
        """Return the outlet to a host, if it is connected."""
        found = self._by_peer.get(host)
        return None if found is None else found.outlet

    def forget(self, host: Peer) -> HostOutlet | None:
        """Return and remove the connection to a host, if there is one."""
        found = self._by_peer.pop(host, None)
        self.outlets = tuple(it.outlet for it in self._by_peer.values())
        return found
