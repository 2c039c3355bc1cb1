"""A relay, a store, and nobody who forgives: looks at all that the relay does."""

import msgspec

from playbook import CLIENT, Playbook
from rekindle.acp.jsonrpc import update_line
from rekindle.model import Page, Side
from rekindle.proxy.journal import side_of
from rekindle.proxy.step import AGENT, Peer, Step
from rekindle.transcript.reducer import fold
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2

_AMPLIFIED = 200
_AMPLE = 4_000_000
_PEERS = {Side.CLIENT: CLIENT, Side.AGENT: AGENT}


class Ring(Playbook):
    """A playbook for lines of any bytes."""

    def __init__(self) -> None:
        self.received = 0
        self.heard: dict[Side, list[bytes]] = {Side.CLIENT: [], Side.AGENT: []}
        """What each side got, since it was last looked at."""
        super().__init__()

    def receive(self, peer: Peer, lines: list[str]) -> None:
        """Let the relay receive lines of a script."""
        self.take(side_of(peer), "\n".join(lines).encode("utf-8", "surrogatepass"))

    def take(self, side: Side, data: bytes) -> None:
        """Let the relay receive what one read brings."""
        self.now += 1
        self.received += len(data)
        self.run_step(self.engine.receive(_PEERS[side], data, self.now), [])

    def run_step(self, step: Step, received: list[bytes]) -> None:
        """Carry a step out, and what its questions lead to."""
        del received
        steps = [step]
        size = 0
        while steps:
            step = steps.pop()
            size += self._look_at(step)
            self.wake_us = step.wake_us
            answers = [
                self.engine.answer(it.flow, self.query_handler.answer(it.query), self.now)
                for it in step.queries[:1]
            ]
            # One after the other: what follows from an answer may change the next.
            later = step.queries[1:]
            steps += [Step(queries=later)] if later else []
            steps += answers
        assert size <= _AMPLIFIED * self.received + _AMPLE, f"{size} bytes of {self.received}"

    def _look_at(self, step: Step) -> int:
        faults = [it for it in step.reports if "fault in Rekindle" in it.text]
        assert not faults, faults
        # What cannot be written as UTF-8, no store could take.
        msgspec.json.encode(step.changes)
        if not self.record.is_lost:
            self.record.store.write(step.changes)
        for side in Side:
            peer = _PEERS[side]
            for lines in step.to(peer):
                for line in lines.split(b"\n"):
                    self.heard[side].append(line)
                    self.on_sent(peer, line)
        return sum(len(line) for peer in _PEERS.values() for line in step.to(peer))

    def look_at_record(self) -> None:
        """See that all that was recorded can be told again, in either version."""
        store = self.record.store
        every = Page(limit=1_000_000, with_archived=True, with_unopened=True)
        for session_id in [session.id for session in store.sessions(every)]:
            whole = fold(store.read(session_id))
            for update in replay_v1(whole, title="T"):
                update_line(session_id, update)
            for update in replay_v2(whole.turns, whole):
                update_line(session_id, update)
