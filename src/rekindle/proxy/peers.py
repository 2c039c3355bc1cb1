"""The peers of an engine: the agent, and the client connections."""

from typing import Any, NewType

from msgspec import Struct

Peer = NewType("Peer", int)
"""One peer of the engine: the agent, or one client connection."""

AGENT = Peer(0)
"""The agent. Client connections have the numbers from 1 on."""

FIRST_CLIENT = Peer(1)
"""The first client. Its requests reach the agent under their own ids, others under new ones."""

NO_CLIENT = Peer(-1)
"""The number of no client."""

LEFT_CLIENT = Peer(-2)
"""The number that replaces that of a client which has left, or has closed the session."""


class ClientConnection(Struct, kw_only=True):
    """One client: its peer number, the protocol version it uses, and its capabilities."""

    peer: Peer
    protocol: int = 1
    takes_booleans: bool = False
    """Whether a version 1 client can show boolean config options."""
    takes_subagents: bool = False
    """Whether it knows sub-agents: every version 2 client does."""
    wants_seq: bool = False
    """Whether a version 2 client wants the position in the record after each turn."""
    wants_positions: bool = False
    """Whether it wants to know to which entries of the record the lines belong."""
    is_local_process: bool = False
    """Whether it is another process of the user, connected by a socket.

    It may use the methods for hosts. Files and terminals are never its own.
    """
    initialize_params: dict[str, Any] = {}
    """The params of its `initialize`."""
