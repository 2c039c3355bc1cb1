"""Play both peers of a session, with any messages, and check the guarantees of the engine.

Every request of the client gets exactly one response, at the latest when the agent exits. A message
that needs no change is forwarded as the same bytes. Every record can be replayed.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from random import Random

from msgspec import UNSET, Raw

from fuzz.grammar import SESSIONS, MessageGenerator
from fuzz.hostile import corrupted, is_deep, value, written
from fuzz.seeds import scripts
from fuzz.strict_playbook import StrictPlaybook
from playbook import CLIENT
from rekindle.acp.jsonrpc import read_envelope, request_key, split_batch
from rekindle.errors import SessionNotFound
from rekindle.model import Page, Side
from rekindle.proxy.journal import side_of
from rekindle.proxy.step import Peer

_OFFERED = ["load", "resume", "list", "close", "delete", "fork", "embedded"]
_FLAGS = ["strict", "no-handover", "takeover"]
_MARKS = {"c>": Side.CLIENT, "c+": Side.CLIENT, "a>": Side.AGENT, "a+": Side.AGENT}
_MOST_TICKS = 1000
_WRITTEN_BY_ENGINE = {"#", "*", "<a", "<c", "!", "--", "meets", ""}


class Peers(StrictPlaybook):
    """Plays both peers, and counts the responses."""

    def __init__(self, choices: Random, error_rate: float) -> None:
        super().__init__()
        self.choices = choices
        self.generator = MessageGenerator(choices, error_rate)
        self.asked_last = 0
        self.unanswered: dict[Hashable, bytes] = {}
        """The lines of the client's requests that need a response, by id."""
        self.answered: Counter[Hashable] = Counter()
        self.unreliable_ids: set[Hashable] = set()
        """Ids that a peer has used in a wrong way, so that their responses cannot be counted."""
        self.open_requests: dict[Side, list[Raw]] = {Side.CLIENT: [], Side.AGENT: []}
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
            self.open_requests[side_of(to)].append(message.id)
        elif to == CLIENT and message.is_response:
            self.answered[request_key(message.id)] += 1

    # -- actions of the peers --------------------------------------------------------------

    def send(self, side: Side, *lines: bytes) -> None:
        """Let a peer send lines in one read."""
        if side is Side.AGENT and not self.is_alive:
            return
        for line in lines:
            self._note(side, line)
        self.receive_bytes(side, b"\n".join(lines))

    def _note(self, side: Side, line: bytes) -> None:
        for member in map(read_envelope, split_batch(line) or []):
            # Requests and responses inside a batch are not counted.
            if member is not None and isinstance(member.id, Raw):
                self.unreliable_ids.add(request_key(member.id))
        message = read_envelope(line)
        if message is None or not isinstance(message.id, Raw):
            return
        key = request_key(message.id)
        if side is Side.CLIENT and message.is_request:
            is_first = key not in self.unanswered and not self.answered[key]
            if key not in {None, ("number", None)} and is_first and not is_deep(line):
                self.unanswered[key] = line
            else:
                self.unreliable_ids.add(key)
        elif side is Side.AGENT and message.is_response:
            if message.id in self.open_requests[Side.AGENT]:
                self.open_requests[Side.AGENT].remove(message.id)
            else:
                self.unreliable_ids.add(key)
        elif message.is_response:
            if message.id in self.open_requests[Side.CLIENT]:
                self.open_requests[Side.CLIENT].remove(message.id)
        else:
            # Neither a request nor a response. The engine may refuse it under its id.
            self.unreliable_ids.add(key)

    def request_id(self) -> object:
        """Return an id for a request, usually a new one."""
        self.asked_last += 1
        return value(self.choices) if self.generator.goes_wrong() else self.asked_last

    def ask(self, side: Side) -> None:
        """Let a peer send a request or a notification."""
        message = self.generator.request(side, self.request_id())
        self.send(side, self.generator.encode(message))

    def answer(self, side: Side) -> None:
        """Let a peer answer an open request, or sometimes an unknown one."""
        open_ = self.open_requests[side]
        if not open_ or self.generator.goes_wrong() or (side is Side.AGENT and not self.is_alive):
            self.send(side, self.generator.encode(self.generator.response(value(self.choices))))
            return
        asked = open_[self.choices.randrange(len(open_))]
        self.send(side, self.generator.encode(self.generator.response(asked)))

    def send_updates(self) -> None:
        """Let the agent send updates, sometimes several in one read."""
        session_id = self.choices.choice(SESSIONS)
        update = self.generator.update()
        message = {
            "method": "session/update",
            "params": {"sessionId": session_id, "update": update},
        }
        line = self.generator.encode(message)
        self.send(Side.AGENT, *[line] * self.choices.choice([1, 1, 1, 2, 3]))

    def send_transcript_line(self) -> None:
        """Let a peer send a line of a golden transcript."""
        side = self.choices.choice(list(Side))
        self.send(side, self.generator.transcript_line(side))

    def send_garbage(self) -> None:
        """Let a peer send a line that is not a message."""
        side = self.choices.choice(list(Side))
        self.send(side, corrupted(self.choices, written(value(self.choices))))

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
        self.open_requests[Side.AGENT].clear()
        super().do_ended(words)

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
        for side in Side:
            self.open_requests[side].clear()

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
        for side in Side:
            line = b'{"params":{"x":[1.0,"\\u0041"]} ,  "method":"_%s/note"}' % str(side).encode()
            self.received_by[side.peer].clear()
            self.receive_bytes(side, line)
            assert line in self.received_by[side.peer]

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
        if self.is_alive and "strict" not in self.flags:
            self.check_forwarding()
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
        if mark in _MARKS:
            mutated_line = peers.generator.mutate_line(rest.encode())
            if not peers.generator.goes_wrong():
                peers.send(_MARKS[mark], mutated_line)
        elif mark not in _WRITTEN_BY_ENGINE:
            # Because of an earlier error, the session may not exist.
            with suppress(SessionNotFound):
                getattr(peers, f"do_{mark}")(rest)
        if peers.generator.goes_wrong() and peers.generator.goes_wrong():
            peers.act()
    peers.finish()
    return peers
