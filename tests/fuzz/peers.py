"""Both peers of a session, who may say anything, and what they may expect all the same.

Every request of the client gets one answer, whatever the agent does, and when it ends at the
latest. What nobody has to change arrives as the same bytes. What was recorded can be told again.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from random import Random

from msgspec import UNSET, Raw

from fuzz.grammar import SESSIONS, Speaker
from fuzz.hostile import is_deep, mangled, value, written
from fuzz.ring import Ring
from fuzz.seeds import scripts
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
_SPOKEN_BY_US = {"#", "*", "<a", "<c", "!", "--", "meets", ""}


class Peers(Ring):
    """Plays both sides, and keeps count of what is owed."""

    def __init__(self, choices: Random, spite: float) -> None:
        super().__init__()
        self.choices = choices
        self.speaker = Speaker(choices, spite)
        self.asked_last = 0
        self.owed: dict[Hashable, bytes] = {}
        """The client's requests that have to be answered, by their ids."""
        self.answered: Counter[Hashable] = Counter()
        self.has_meddled: set[Hashable] = set()
        """Ids under which the agent has answered what it was not asked, or more than once."""
        self.questions: dict[Side, list[Raw]] = {Side.CLIENT: [], Side.AGENT: []}
        """What each side was asked and has not answered."""
        self.is_alive = True
        """Whether there is an agent that can say something."""

    # -- what the relay does ------------------------------------------------------------

    def start_agent(self) -> str | None:
        """Let the agent be started again."""
        self.is_alive = self.start_error is None
        return self.start_error

    def on_sent(self, to: Peer, line: bytes) -> None:
        """Take note of what a side gets."""
        message = read_envelope(line)
        if message is None or not isinstance(message.id, Raw):
            return
        if message.method is not UNSET:
            self.questions[side_of(to)].append(message.id)
        elif to == CLIENT and message.is_response:
            self.answered[request_key(message.id)] += 1

    # -- what the peers do --------------------------------------------------------------

    def say(self, side: Side, *lines: bytes) -> None:
        """Let a side say something."""
        if side is Side.AGENT and not self.is_alive:
            return
        for line in lines:
            self._note(side, line)
        self.take(side, b"\n".join(lines))

    def _note(self, side: Side, line: bytes) -> None:
        for member in map(read_envelope, split_batch(line)):
            # Nobody keeps count of what is asked or answered in these.
            if member is not None and isinstance(member.id, Raw):
                self.has_meddled.add(request_key(member.id))
        message = read_envelope(line)
        if message is None or not isinstance(message.id, Raw):
            return
        key = request_key(message.id)
        if side is Side.CLIENT and message.is_request:
            is_first = key not in self.owed and not self.answered[key]
            if key not in {None, ("number", None)} and is_first and not is_deep(line):
                self.owed[key] = line
            else:
                self.has_meddled.add(key)
        elif side is Side.AGENT and message.is_response:
            if message.id in self.questions[Side.AGENT]:
                self.questions[Side.AGENT].remove(message.id)
            else:
                self.has_meddled.add(key)
        elif message.is_response:
            if message.id in self.questions[Side.CLIENT]:
                self.questions[Side.CLIENT].remove(message.id)
        else:
            # Neither a request nor an answer; that may be refused under its id.
            self.has_meddled.add(key)

    def request_id(self) -> object:
        """Return an id for a request: mostly a new one."""
        self.asked_last += 1
        return value(self.choices) if self.speaker.is_spiteful() else self.asked_last

    def ask(self, side: Side) -> None:
        """Let a side ask, or tell."""
        says = self.speaker.asks(side, self.request_id())
        self.say(side, self.speaker.says(says))

    def answer(self, side: Side) -> None:
        """Let a side answer what it was asked; a spiteful one, something else as well."""
        open_ = self.questions[side]
        if not open_ or self.speaker.is_spiteful() or (side is Side.AGENT and not self.is_alive):
            self.say(side, self.speaker.says(self.speaker.answers(value(self.choices))))
            return
        asked = open_[self.choices.randrange(len(open_))]
        self.say(side, self.speaker.says(self.speaker.answers(asked)))

    def tell(self) -> None:
        """Let the agent tell updates, perhaps several of them in one read."""
        session_id = self.choices.choice(SESSIONS)
        update = self.speaker.update()
        told = {"method": "session/update", "params": {"sessionId": session_id, "update": update}}
        line = self.speaker.says(told)
        self.say(Side.AGENT, *[line] * self.choices.choice([1, 1, 1, 2, 3]))

    def quote(self) -> None:
        """Let a side say what somebody said in a golden transcript."""
        side = self.choices.choice(list(Side))
        self.say(side, self.speaker.quotes(side))

    def babble(self) -> None:
        """Let a side say what is no message."""
        side = self.choices.choice(list(Side))
        self.say(side, mangled(self.choices, written(value(self.choices))))

    def wait(self) -> None:
        """Let time pass."""
        self.do_wait(self.choices.choice(["0.01", "0.3", "2", "30", "600"]))

    def end_agent(self) -> None:
        """Let the agent end."""
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
        """Let the agent end."""
        self.is_alive = False
        self.questions[Side.AGENT].clear()
        super().do_ended(words)

    def do_with(self, flags: str) -> None:
        """Start anew, with what the user asks for."""
        self.forget()
        super().do_with(flags)

    def do_killed(self, words: str) -> None:
        """Kill everything, and start anew: nothing is owed to a client that is gone."""
        self.forget()
        super().do_killed(words)

    def forget(self) -> None:
        """Owe nobody anything."""
        self.owed.clear()
        self.answered.clear()
        self.has_meddled.clear()
        self.is_alive = True
        for side in Side:
            self.questions[side].clear()

    def meddle(self) -> None:
        """Let somebody else do something to the store."""
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
        """Let something happen."""
        acts: list[tuple[int, Callable[[], None]]] = [
            (6, lambda: self.ask(Side.CLIENT)),
            (2, lambda: self.ask(Side.AGENT)),
            (6, lambda: self.answer(Side.AGENT)),
            (2, lambda: self.answer(Side.CLIENT)),
            (6, self.tell),
            (3, self.quote),
            (1, self.babble),
            (1, self.wait),
            (1, self.meddle),
        ]
        acts += [(1, self.end_agent)] * (self.choices.random() < 0.2)
        acts += [(1, lambda: self.do_killed(""))] * (self.choices.random() < 0.1)
        weighted = [act for weight, act in acts for _ in range(weight)]
        self.choices.choice(weighted)()

    @property
    def can_go_on(self) -> bool:
        """Whether there is an agent, or there can be one: else the conversation is over."""
        return self.is_alive or self.engine.can_restart_agent

    def greet_each_other(self) -> None:
        """Begin as peers do, mostly."""
        self.flags = {it for it in _FLAGS if self.choices.random() < 0.15}
        self.start()
        self.do_speaks(f"{self.choices.choice([1, 2])} {self.choices.choice([1, 2])}")
        offered = [it for it in _OFFERED if self.choices.random() < 0.5]
        if not self.speaker.is_spiteful():
            self.do_agent(" ".join(["Fake", *offered]))
        if not self.speaker.is_spiteful():
            self.do_open("s1 modes")
        self.forget()

    # -- what comes of it ---------------------------------------------------------------

    def pass_by(self) -> None:
        """See that what concerns nobody passes as the same bytes."""
        for side in Side:
            line = b'{"params":{"x":[1.0,"\\u0041"]} ,  "method":"_%s/note"}' % str(side).encode()
            self.heard[side.peer].clear()
            self.take(side, line)
            assert line in self.heard[side.peer]

    def let_time_pass(self) -> None:
        """Wait for as long as the relay waits for anything."""
        for _ in range(_MOST_TICKS):
            if self.wake_us is None:
                return
            self.now = max(self.now, self.wake_us)
            self.run_step(self.engine.tick(self.now), [])
        raise AssertionError("the relay waits for ever")

    def finish(self) -> None:
        """Let the agent end for good, and see that nothing is owed any more."""
        if self.is_alive and "strict" not in self.flags:
            self.pass_by()
        for _ in range(3):
            # A flow may start another agent, but not for ever.
            self.start_error = "no"
            self.do_ended("1")
            self.let_time_pass()
        for key, line in self.owed.items():
            count = self.answered[key]
            is_right = count == 1 if key not in self.has_meddled else True
            assert is_right, f"{count} answers to {key}: {line[:300]!r}"
        self.look_at_record()


def converse(choices: Random, spite: float, acts: int) -> Peers:
    """Have a conversation."""
    peers = Peers(choices, spite)
    peers.greet_each_other()
    for _ in range(acts):
        peers.act()
        if getattr(choices, "is_over", False) or not peers.can_go_on:
            break
    peers.finish()
    return peers


def act_out(choices: Random, spite: float) -> Peers:
    """Act a golden transcript out, in which the peers may forget themselves."""
    peers = Peers(choices, spite)
    for line in choices.choice(scripts()).splitlines():
        mark, _, rest = line.partition(" ")
        if mark in _MARKS:
            said = peers.speaker.says_again(rest.encode())
            if not peers.speaker.is_spiteful():
                peers.say(_MARKS[mark], said)
        elif mark not in _SPOKEN_BY_US:
            # What it is about may never have come to be.
            with suppress(SessionNotFound):
                getattr(peers, f"do_{mark}")(rest)
        if peers.speaker.is_spiteful() and peers.speaker.is_spiteful():
            peers.act()
    peers.finish()
    return peers
