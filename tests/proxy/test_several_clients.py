"""Any number of clients of both versions use one session, in any order."""

from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from shared_session import SharedSession

from rekindle.proxy.peers import NO_CLIENT
from selection import some

Json = dict[str, Any]
YES = {"result": {"outcome": {"outcome": "selected", "optionId": "y"}}}
NO = {"result": {"outcome": {"outcome": "cancelled"}}}
ERROR = {"error": {"code": -32601, "message": "unknown"}}
WORDS = st.sampled_from(["one ", "two ", "three "])
NUMBERS = st.integers(0, 9)
MAX_CLIENTS = 5


class SeveralClients(RuleBasedStateMachine):
    """Rules for clients and a version 1 agent."""

    agent = 1
    is_lasting = False
    """Whether turns continue after their clients have left."""

    def __init__(self) -> None:
        super().__init__()
        self.session = SharedSession(self.agent, is_lasting=self.is_lasting)

    def chosen(self, number: int, *, attached: bool = True, acting: bool = False) -> str | None:
        """Return the name of a client, if there is any such client."""
        names = [
            name
            for name, it in self.session.models.items()
            if it.is_attached is attached and not (acting and it.is_observer)
        ]
        return names[number % len(names)] if names else None

    # -- clients ------------------------------------------------------------------------------

    @precondition(lambda self: len(self.session.models) < MAX_CLIENTS)
    @rule(version=st.sampled_from([1, 2]))
    def come(self, version: int) -> None:
        self.session.come(version)

    @rule(
        number=NUMBERS,
        again=st.booleans(),
        ours=st.sampled_from([{}, {}, {"permissions": True}, {"role": "observer"}]),
    )
    def open(self, number: int, ours: Json, *, again: bool) -> None:
        # A client that opens its session again, and has to wait for that, receives live updates
        # before the replay.
        name = self.chosen(number, attached=again and not self.session.reads_later)
        if name is not None and not self.session.models[name].is_opening:
            self.session.open(name, ours)

    @rule(number=NUMBERS)
    def prompt(self, number: int) -> None:
        name = self.chosen(number, acting=True)
        if name is not None:
            self.session.prompt(name)

    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        name = self.chosen(number)
        if name is not None:
            self.session.cancel(name)

    @rule(number=NUMBERS, response=st.sampled_from([YES, NO, ERROR]))
    def answer(self, number: int, response: Json) -> None:
        models = [it for it in self.session.models.values() if it.questions]
        if models:
            model = models[number % len(models)]
            self.session.answer(model.name, min(model.questions, key=str), response)

    @rule(number=NUMBERS)
    def close(self, number: int) -> None:
        models = [it for it in self.session.models.values() if it.is_attached]
        acting = [it for it in models if not it.is_observer]
        chosen = models[number % len(models)] if models else None
        stays_open = len(acting) > 1 or (self.is_lasting and self.session.has_turn)
        if chosen is not None and (chosen.is_observer or stays_open):
            self.session.from_client(chosen.name, "session/close")

    @precondition(lambda self: len(self.session.models) > (0 if self.is_lasting else 1))
    @rule(number=NUMBERS)
    def leave(self, number: int) -> None:
        names = list(self.session.models)
        name = names[number % len(names)]
        self.session.leave(name)

    # -- the store ------------------------------------------------------------------------------

    @rule(later=st.booleans())
    def read(self, *, later: bool) -> None:
        """Give clients that join their history. The next ones may have to wait for theirs."""
        self.session.reads_later = later
        self.session.finish_reading()

    # -- the agent ------------------------------------------------------------------------------

    @precondition(lambda self: self.session.has_turn)
    @rule(words=WORDS)
    def speak(self, words: str) -> None:
        if self.agent == 2:
            self.session.acknowledge()
        chunk = {"type": "text", "text": words}
        ids = {} if self.agent == 1 else {"messageId": f"m{self.session.count}"}
        update = {"sessionUpdate": "agent_message_chunk", **ids, "content": chunk}
        self.session.update(update)

    @precondition(lambda self: self.session.has_turn)
    @rule()
    def ask(self) -> None:
        if self.agent == 2:
            self.session.acknowledge()
        self.session.ask()

    @precondition(lambda self: self.session.has_turn)
    @rule(reason=st.sampled_from(["end_turn", "cancelled"]))
    def end_turn(self, reason: str) -> None:
        if self.agent == 2:
            self.session.acknowledge()
        self.session.end_turn(reason)

    @invariant()
    def check_events(self) -> None:
        self.session.check_events()

    @precondition(lambda self: not self.session.has_turn and not self.session.unanswered)
    @precondition(lambda self: not self.session.read)
    @rule()
    def check_views(self) -> None:
        self.session.check_views()

    def teardown(self) -> None:
        """End the turn, and compare all views."""
        self.read(later=False)
        while self.session.has_turn:
            self.end_turn("end_turn")
        self.session.check_views()


class SeveralClientsOfVersion2Agent(SeveralClients):
    """Rules for clients and a version 2 agent."""

    agent = 2

    @precondition(lambda self: bool(self.session.prompts))
    @rule()
    def acknowledge(self) -> None:
        self.session.acknowledge()


class LastingTurns(SeveralClients):
    """Rules for a host that outlives its clients."""

    is_lasting = True

    def teardown(self) -> None:
        """End the turn: a session without clients has no work then."""
        self.read(later=False)
        while self.session.has_turn:
            self.end_turn("end_turn")
            self.session.open_or_close()
        super().teardown()
        for name in list(self.session.models):
            self.session.leave(name)
            self.session.open_or_close()
        # Flows that a client has left end by themselves.
        for _ in range(20):
            self.session.do_wait("60")
            self.session.open_or_close()
        assert not self.session.engine.has_work_without(NO_CLIENT)

    @invariant()
    def open_or_close(self) -> None:
        self.session.open_or_close()


class LastingTurnsOfVersion2Agent(LastingTurns, SeveralClientsOfVersion2Agent):
    """Rules for a host of a version 2 agent that outlives its clients."""


@pytest.mark.parametrize(
    "machine",
    [
        SeveralClients,
        SeveralClientsOfVersion2Agent,
        LastingTurns,
        LastingTurnsOfVersion2Agent,
    ],
)
def test_every_client_sees_what_the_record_has(machine: type[SeveralClients]) -> None:
    machine.TestCase.settings = settings(
        max_examples=some(300), stateful_step_count=40, deadline=None
    )
    machine.TestCase("runTest").runTest()
