"""A playbook that accepts any bytes and checks every step of the engine."""

from collections import defaultdict

import msgspec

from playbook import CLIENT, Playbook
from rekindle.acp.jsonrpc import update_line
from rekindle.errors import LeaseLost
from rekindle.model import Change, Page
from rekindle.proxy.peers import AGENT, Peer
from rekindle.proxy.step import Step
from rekindle.transcript.reducer import fold
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2

_MAX_FACTOR = 200
_MAX_EXTRA = 4_000_000


class StrictPlaybook(Playbook):
    """A playbook that fails at internal errors, unstorable changes and excessive output."""

    def __init__(self) -> None:
        self.received = 0
        self.received_by: defaultdict[Peer, list[bytes]] = defaultdict(list)
        """The lines that each peer received since the list was last cleared."""
        super().__init__()

    def receive(self, peer: Peer, lines: list[str]) -> None:
        """Let the engine receive lines of a script."""
        peer = self.clients["c"] if peer == CLIENT else peer
        self.receive_bytes(peer, "\n".join(lines).encode("utf-8", "surrogatepass"))

    def receive_bytes(self, peer: Peer, data: bytes) -> None:
        """Let the engine receive the bytes of one read."""
        self.now += 1
        self.received += len(data)
        is_host = peer in self.hosts.values()
        receive = self.engine.receive_from_host if is_host else self.engine.receive
        self.run_step(receive(peer, data, self.now), [])

    def run_step(self, step: Step, received: list[bytes]) -> None:
        """Apply a step, and the steps that its queries lead to."""
        del received
        steps = [step]
        size = 0
        while steps:
            step = steps.pop()
            size += self._check_step(step)
            self.wake_us = step.wake_us
            answers = [
                self.engine.answer(it.flow, self.query_handler.answer(it.query), self.now)
                for it in step.queries[:1]
            ]
            # One query at a time: the steps after an answer may change the next answer.
            later = step.queries[1:]
            steps += [Step(queries=later)] if later else []
            steps += answers
        assert size <= _MAX_FACTOR * self.received + _MAX_EXTRA, f"{size} bytes of {self.received}"

    def _check_step(self, step: Step) -> int:
        faults = [it for it in step.reports if "bug in Rekindle" in it.text]
        assert not faults, faults
        # A store cannot hold text that is not valid UTF-8.
        msgspec.json.encode(step.changes)
        if not self.record.is_lost:
            self._write(step.changes)
        assert set(step.to_clients) <= set(self.clients.values())
        sent = {**step.to_clients, AGENT: step.to_agent}
        for peer, queued in sent.items():
            for lines in queued:
                for line in lines.split(b"\n"):
                    self.received_by[peer].append(line)
                    self.on_sent(peer, line)
        sent.update(step.to_hosts)
        return sum(len(line) for lines in sent.values() for line in lines)

    def _write(self, changes: list[Change]) -> None:
        """Write changes. Changes of a lost session go to a branch."""
        store = self.record.store
        try:
            store.write(changes)
        except LeaseLost as lost:
            store.write(store.branch_changes(lost, changes))

    def check_record(self) -> None:
        """Check that every record can be replayed in both versions."""
        store = self.record.store
        every = Page(limit=1_000_000, with_archived=True, with_unopened=True)
        for session_id in [session.id for session in store.sessions(every)]:
            whole = fold(store.read(session_id))
            for update in replay_v1(whole, title="T"):
                update_line(session_id, update)
            for update in replay_v2(whole.turns, whole):
                update_line(session_id, update)
