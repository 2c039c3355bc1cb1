"""The messages that wait inside the engine, all in one place.

| queue   | holds                                                       | released            |
|---------|-------------------------------------------------------------|---------------------|
| prompts | prompts of clients that wait for the end of a turn          | when the turn ended |
| waiting | other messages of clients that wait for a flow or an agent  | after each event    |
| held    | updates of a session that is being restored                 | when a flow ends    |
| early   | updates of sessions whose id the engine does not know yet   | when a flow ends    |

After each event the engine releases prompts first, then waiting messages. At the end of a flow it
releases held updates first, then early ones.
"""

from collections.abc import Callable

from msgspec import Struct

from rekindle.proxy.peers import Peer

MAX_EARLY_BYTES = 16 * 1024 * 1024
"""More than any agent sends for a session before it answers with the id of the session."""


class ClientLine(Struct, frozen=True):
    """A line, and the client that sent it."""

    client: Peer
    line: bytes


class MessageQueues:
    """The four queues of one engine."""

    def __init__(self) -> None:
        self.prompts: dict[str, list[ClientLine]] = {}
        """By session. A session without queued prompts has no key."""
        self.waiting: list[ClientLine] = []
        self.waiting_sessions: set[str | None] = set()
        self._held: dict[str, list[bytes]] = {}
        self._early: dict[str, list[bytes]] = {}
        self._early_bytes = 0

    # -- prompts ----------------------------------------------------------------------------

    def queue_prompt(self, session_id: str, client: Peer, line: bytes) -> None:
        """Queue a prompt behind the running turn."""
        self.prompts.setdefault(session_id, []).append(ClientLine(client, line))

    def next_prompt(self, session_id: str) -> ClientLine:
        """Return and remove the first queued prompt of a session."""
        prompts = self.prompts[session_id]
        first = prompts.pop(0)
        if not prompts:
            del self.prompts[session_id]
        return first

    def take_prompts(self, session_id: str, client: Peer | None = None) -> list[ClientLine]:
        """Return and remove the queued prompts of a session: those of one client, or all."""
        prompts = self.prompts.pop(session_id, [])
        others = [it for it in prompts if client not in {None, it.client}]
        if others:
            self.prompts[session_id] = others
        return [it for it in prompts if client in {None, it.client}]

    def take_prompt(self, is_wanted: Callable[[ClientLine], bool]) -> ClientLine | None:
        """Return and remove the first queued or waiting prompt for which `is_wanted` is true."""
        for session_id, prompts in self.prompts.items():
            found = next(filter(is_wanted, prompts), None)
            if found is not None:
                prompts.remove(found)
                if not prompts:
                    del self.prompts[session_id]
                return found
        waiting = next(filter(is_wanted, self.waiting), None)
        if waiting is not None:
            self.waiting.remove(waiting)
        return waiting

    def has_prompt_of(self, session_id: str, client: Peer) -> bool:
        """Return whether a client has a queued prompt in a session."""
        return any(it.client == client for it in self.prompts.get(session_id, ()))

    # -- waiting ----------------------------------------------------------------------------

    def wait(self, session_id: str | None, client: Peer, line: bytes) -> None:
        """Let a client's message wait. Later messages of the same session wait behind it."""
        self.waiting.append(ClientLine(client, line))
        self.waiting_sessions.add(session_id)

    def wait_first(self, session_id: str, client: Peer, lines: list[bytes]) -> None:
        """Let messages of a client wait before all others: a host did not process them."""
        self.waiting[:0] = [ClientLine(client, line) for line in lines]
        self.waiting_sessions.add(session_id)

    def take_waiting(self) -> list[ClientLine]:
        """Return and remove the waiting messages, in the order in which they came."""
        lines, self.waiting = self.waiting, []
        self.waiting_sessions.clear()
        return lines

    # -- held and early ---------------------------------------------------------------------

    def hold(self, session_id: str, line: bytes) -> None:
        """Hold an update of a session."""
        self._held.setdefault(session_id, []).append(line)

    def hold_early(self, agent_id: str, line: bytes) -> bool:
        """Hold an update of an unknown session; return whether there was room."""
        if self._early_bytes + len(line) > MAX_EARLY_BYTES:
            return False
        self._early_bytes += len(line)
        self._early.setdefault(agent_id, []).append(line)
        return True

    def name_session(self, agent_id: str, session_id: str) -> None:
        """Turn the early updates of an agent's session into held updates of a known session."""
        early = self._early.pop(agent_id, None)
        if early is not None:
            self._early_bytes -= sum(map(len, early))
            self._held.setdefault(session_id, []).extend(early)

    def take_held(self, session_id: str) -> list[bytes]:
        """Return and remove the held updates of one session."""
        return self._held.pop(session_id, [])

    def take_released(self, is_blocked: Callable[[str], bool], *, with_early: bool) -> list[bytes]:
        """Return and remove the held updates of all sessions that are not blocked.

        With `with_early`, the updates of unknown sessions follow: no new id is expected any more.
        """
        lines: list[bytes] = []
        for session_id in [it for it in self._held if not is_blocked(it)]:
            lines += self._held.pop(session_id)
        if with_early:
            lines += [line for early in self._early.values() for line in early]
            self._drop_early()
        return lines

    def drop_session(self, session_id: str) -> None:
        """Drop the updates and prompts of a session that the engine forgets."""
        self._held.pop(session_id, None)
        self.prompts.pop(session_id, None)

    def drop_client(self, client: Peer) -> None:
        """Drop the prompts and the waiting messages of a client that has left."""
        for session_id in list(self.prompts):
            self.take_prompts(session_id, client)
        self.waiting = [it for it in self.waiting if it.client != client]
        if not self.waiting:
            self.waiting_sessions.clear()

    def drop_updates(self) -> None:
        """Drop all updates: the agent that sent them has exited."""
        self._held.clear()
        self._drop_early()

    def _drop_early(self) -> None:
        self._early.clear()
        self._early_bytes = 0
