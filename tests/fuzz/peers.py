"""Play both peers of a session, with any messages, and check the guarantees of the engine.

Every request of a client gets exactly one response, at the latest when the agent exits. A message
that needs no change is forwarded as the same bytes. Every record can be replayed.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from contextlib import suppress
from random import Random

from msgspec import UNSET, Raw

from fuzz.grammar import SESSIONS, MessageGenerator
from fuzz.hostile import corrupted, is_deep, value, written
from fuzz.seeds import scripts
from fuzz.strict_playbook import StrictPlaybook
from rekindle.acp.jsonrpc import read_envelope, request_key, split_batch
from rekindle.errors import SessionNotFound
from rekindle.model import Page, Side
from rekindle.proxy.peers import AGENT, FIRST_CLIENT, Peer

_OFFERED = ["load", "resume", "list", "close", "delete", "fork", "embedded"]
_FLAGS = ["strict", "no-handover", "takeover"]
_MOST_TICKS = 1000
_MAX_CLIENTS = 4
_NOT_PLAYED = {"#", "*", "!", "--", "meets", ""}
_RequestKey = tuple[Peer, Hashable]
"""The peer that sent a request, and the request's id."""


class Peers(StrictPlaybook):
    """Plays the agent and all clients, and counts the responses."""

    def __init__(self, choices: Random, error_rate: float) -> None:
        super().__init__()
        self.choices = choices
        self.generator = MessageGenerator(choices, error_rate)
        self.asked_last = 0
        self.unanswered: dict[_RequestKey, bytes] = {}
        """The lines of the clients' requests that need a response."""
        self.answered: Counter[_RequestKey] = Counter()
        self.unreliable_ids: set[_RequestKey] = set()
        """Ids that a peer has used in a wrong way, so that their responses cannot be counted."""
        self.open_requests: defaultdict[Peer, list[Raw]] = defaultdict(list)
        """The ids of the requests that each peer has not answered yet."""
        self.is_alive = True
        """Whether the agent runs."""

    # -- effects of the engine ------------------------------------------------------------

    def start_agent(self) -> str | None:
        """Start the agent again; return the error, if any."""
        self.is_alive = self.start_error is None
        return self.start_error

    def on_sent(self, to: Peer, line: bytes) -> None:
        """Note the requests and responses that a peer receives."""
        message = read_envelope(line)
        if message is None or not isinstance(message.id, Raw):
            return
        if message.method is not UNSET:
            self.open_requests[to].append(message.id)
        elif to != AGENT and message.is_response:
            self.answered[to, request_key(message.id)] += 1

    # -- actions of the peers --------------------------------------------------------------

    def one_of(self, side: Side) -> Peer:
        """Return the agent, or one of the clients."""
        return AGENT if side is Side.AGENT else self.choices.choice(list(self.clients.values()))

    def send(self, peer: Peer, *lines: bytes) -> None:
        """Let a peer send lines in one read."""
        if peer == AGENT and not self.is_alive:
            return
        for line in lines if peer not in self.hosts.values() else ():
            self._note(peer, line)
        self.receive_bytes(peer, b"\n".join(lines))

    def _note(self, peer: Peer, line: bytes) -> None:
        for member in map(read_envelope, split_batch(line) or []):
            # Requests and responses inside a batch are not counted.
            if member is not None and isinstance(member.id, Raw):
                self._distrust(request_key(member.id))
        message = read_envelope(line)
        if message is None or not isinstance(message.id, Raw):
            return
        key = request_key(message.id)
        if peer != AGENT and message.is_request:
            asked = (peer, key)
            is_first = asked not in self.unanswered and not self.answered[asked]
            if key not in {None, ("number", None)} and is_first and not is_deep(line):
                self.unanswered[asked] = line
            else:
                self._distrust(key)
        elif message.is_response:
            if message.id in self.open_requests[peer]:
                self.open_requests[peer].remove(message.id)
            elif peer == AGENT:
                self._distrust(key)
        else:
            # Neither a request nor a response. The engine may refuse it under its id.
            self._distrust(key)

    def _distrust(self, key: Hashable) -> None:
        self.unreliable_ids |= {(peer, key) for peer in self.clients.values()}

    def request_id(self) -> object:
        """Return an id for a request, usually a new one."""
        self.asked_last += 1
        return value(self.choices) if self.generator.goes_wrong() else self.asked_last

    def ask(self, side: Side) -> None:
        """Let a peer send a request or a notification."""
        message = self.generator.request(side, self.request_id())
        self.send(self.one_of(side), self.generator.encode(message))

    def answer(self, side: Side) -> None:
        """Let a peer answer an open request, or sometimes an unknown one."""
        peer = self.one_of(side)
        open_ = self.open_requests[peer]
        if not open_ or self.generator.goes_wrong() or (peer == AGENT and not self.is_alive):
            self.send(peer, self.generator.encode(self.generator.response(value(self.choices))))
            return
        asked = open_[self.choices.randrange(len(open_))]
        self.send(peer, self.generator.encode(self.generator.response(asked)))

    def send_updates(self) -> None:
        """Let the agent send updates, sometimes several in one read."""
        session_id = self.choices.choice(SESSIONS)
        update = self.generator.update()
        message = {
            "method": "session/update",
            "params": {"sessionId": session_id, "update": update},
        }
        line = self.generator.encode(message)
        self.send(AGENT, *[line] * self.choices.choice([1, 1, 1, 2, 3]))

    def send_transcript_line(self) -> None:
        """Let a peer send a line of a golden transcript."""
        side = self.choices.choice(list(Side))
        self.send(self.one_of(side), self.generator.transcript_line(side))

    def send_garbage(self) -> None:
        """Let a peer send a line that is not a message."""
        peer = self.one_of(self.choices.choice(list(Side)))
        self.send(peer, corrupted(self.choices, written(value(self.choices))))

    def come_or_leave(self) -> None:
        """Let a client connect, and usually open the first session, or let one leave."""
        if len(self.clients) < _MAX_CLIENTS and self.choices.random() < 0.6:
            self.asked_last += 1
            name = f"x{self.asked_last}"
            self.do_comes(f"{name} {self.choices.choice([1, 2])}")
            params = {"sessionId": SESSIONS[0], "cwd": "/p", "mcpServers": []}
            message = {"id": self.request_id(), "method": "session/resume", "params": params}
            self.send(self.clients[name], self.generator.encode(message))
        elif len(self.clients) > 1:
            self.do_left(self.choices.choice(list(self.clients)))

    def do_left(self, name: str) -> None:
        """Let a client close its connection. It gets no more responses."""
        if (name or "c") not in self.clients:
            return
        peer = self.clients[name or "c"]
        self.unanswered = {key: it for key, it in self.unanswered.items() if key[0] != peer}
        super().do_left(name)

    def wait(self) -> None:
        """Let time pass."""
        self.do_wait(self.choices.choice(["0.01", "0.3", "2", "30", "600"]))

    def end_agent(self) -> None:
        """Let the agent exit."""
        if self.is_alive:
            self.start_error = self.choices.choice([None, None, None, "no"])
            if self.choices.random() < 0.3:
                self.do_silent("")
            self.do_ended(self.choices.choice(["0", "1 oops", "SIGKILL"]))

    def do_silent(self, words: str) -> None:
        """Let the agent close its output."""
        self.is_alive = False
        super().do_silent(words)

    def do_ended(self, words: str) -> None:
        """Let the agent exit."""
        self.is_alive = False
        self.open_requests[AGENT].clear()
        super().do_ended(words)

    def do_hangs(self, name: str) -> None:
        """End the connection to a host, if the engine has connected to it."""
        if (name or "h") in self.hosts:
            super().do_hangs(name)

    def do_with(self, flags: str) -> None:
        """Start again with other options."""
        self.forget()
        super().do_with(flags)

    def do_killed(self, words: str) -> None:
        """Kill all processes and start again. The former client gets no more responses."""
        self.forget()
        super().do_killed(words)

    def forget(self) -> None:
        """Forget all requests."""
        self.unanswered.clear()
        self.answered.clear()
        self.unreliable_ids.clear()
        self.is_alive = True
        self.open_requests.clear()

    def change_store(self) -> None:
        """Let another process change the store."""
        known = [it.id for it in self.record.store.sessions(Page())]
        match self.choices.randrange(5):
            case 0 if known:
                self.do_held(self.choices.choice(known))
            case 1 if known:
                self.do_freed(self.choices.choice(known))
            case 2 if known:
                self.do_deleted(self.choices.choice(known))
            case 3:
                self.do_lost("")
            case _:
                self.do_found("")

    def act(self) -> None:
        """Perform one random action."""
        acts: list[tuple[int, Callable[[], None]]] = [
            (6, lambda: self.ask(Side.CLIENT)),
            (2, lambda: self.ask(Side.AGENT)),
            (6, lambda: self.answer(Side.AGENT)),
            (2, lambda: self.answer(Side.CLIENT)),
            (6, self.send_updates),
            (3, self.send_transcript_line),
            (1, self.send_garbage),
            (1, self.wait),
            (1, self.change_store),
            (1, self.come_or_leave),
        ]
        acts += [(1, self.end_agent)] * (self.choices.random() < 0.2)
        acts += [(1, lambda: self.do_killed(""))] * (self.choices.random() < 0.1)
        weighted = [act for weight, act in acts for _ in range(weight)]
        self.choices.choice(weighted)()

    @property
    def can_go_on(self) -> bool:
        """Whether the agent runs or can be started again. Otherwise the conversation is over."""
        return self.is_alive or self.engine.can_restart_agent

    def initialize_peers(self) -> None:
        """Initialize, and usually open a session."""
        self.flags = {it for it in _FLAGS if self.choices.random() < 0.15}
        self.start()
        self.do_speaks(f"{self.choices.choice([1, 2])} {self.choices.choice([1, 2])}")
        offered = [it for it in _OFFERED if self.choices.random() < 0.5]
        if not self.generator.goes_wrong():
            self.do_agent(" ".join(["Fake", *offered]))
        if not self.generator.goes_wrong():
            self.do_open("s1 modes")
        self.forget()

    # -- checks ---------------------------------------------------------------

    def check_forwarding(self) -> None:
        """Check that a message that needs no change is forwarded as the same bytes."""
        first = self.clients["c"]
        directions = [(first, AGENT)]
        if self.engine._conn.primary == first:  # noqa: SLF001 - another may have initialized first
            directions.append((AGENT, first))
        for sender, receiver in directions:
            line = b'{"params":{"x":[1.0,"\\u0041"]} ,  "method":"_%d/note"}' % sender
            self.received_by[receiver].clear()
            self.receive_bytes(sender, line)
            assert line in self.received_by[receiver]

    def let_time_pass(self) -> None:
        """Let time pass until the engine waits for nothing."""
        for _ in range(_MOST_TICKS):
            if self.wake_us is None:
                return
            self.now = max(self.now, self.wake_us)
            self.run_step(self.engine.tick(self.now), [])
        raise AssertionError("the engine waits for ever")

    def finish(self) -> None:
        """End the agent for good, and check that every request has its response."""
        is_first_here = self.clients["c"] == FIRST_CLIENT
        if self.is_alive and is_first_here and "strict" not in self.flags:
            self.check_forwarding()
        for name in list(self.hosts):
            self.do_hangs(name)
            self.let_time_pass()
        for _ in range(3):
            # A flow may start another agent, but only a few times.
            self.start_error = "no"
            self.do_ended("1")
            self.let_time_pass()
        for key, line in self.unanswered.items():
            count = self.answered[key]
            is_right = count == 1 if key not in self.unreliable_ids else True
            assert is_right, f"{count} answers to {key}: {line[:300]!r}"
        self.check_record()


def converse(choices: Random, error_rate: float, acts: int) -> Peers:
    """Run a random conversation."""
    peers = Peers(choices, error_rate)
    peers.initialize_peers()
    for _ in range(acts):
        peers.act()
        if getattr(choices, "is_over", False) or not peers.can_go_on:
            break
    peers.finish()
    return peers


def play_transcript(choices: Random, error_rate: float) -> Peers:
    """Play a golden transcript with random errors of the peers."""
    peers = Peers(choices, error_rate)
    for line in choices.choice(scripts()).splitlines():
        mark, _, rest = line.partition(" ")
        if mark.endswith((">", "+")) and mark[:-1] in {"a", *peers.clients, *peers.hosts}:
            mutated_line = peers.generator.mutate_line(rest.encode())
            if not peers.generator.goes_wrong():
                peers.send(peers.peer(mark[:-1]), mutated_line)
        elif mark not in _NOT_PLAYED and not mark.startswith("<") and mark[-1:] not in {">", "+"}:
            # Because of an earlier error, the session may not exist.
            with suppress(SessionNotFound):
                getattr(peers, f"do_{mark}")(rest)
        if peers.generator.goes_wrong() and peers.generator.goes_wrong():
            peers.act()
    peers.finish()
    return peers
