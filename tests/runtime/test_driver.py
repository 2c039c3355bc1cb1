"""The driver with peers in this process: no pipes, no child process, a store in memory."""

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty
from threading import Event
from typing import Any, cast

import pytest
from msgspec.structs import replace

from rekindle.errors import StoreUnavailable
from rekindle.model import LeaseHolder, Opened, Page
from rekindle.proxy.connection_state import EngineSettings
from rekindle.proxy.engine import Engine
from rekindle.proxy.peers import AGENT, Peer
from rekindle.proxy.step import AgentExit, TurnEvent
from rekindle.runtime.driver import Driver
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.runtime.transports.in_process import InProcessPeer
from rekindle.store.memory import MemoryStore

OURS = LeaseHolder(token="ours", pid=1, machine="here")  # noqa: S106 - not a password


class Pair:
    """A driver between a client and an agent, both played by the test."""

    def __init__(self, store: MemoryStore, log: Log) -> None:
        self.reason: str | None = None
        self.agent_capabilities: dict[str, Any] = {}
        self.starts = 0
        self.wakes = 0
        self.store = store
        self.may_read = Event()
        """Whether the store can be opened for a second time."""
        self.has_read, self.may_answer = Event(), Event()
        self.may_answer.set()
        self.is_second_store_broken = False
        self.events: list[tuple[str, int]] = []
        """The events in turns, each with the number of entries that were recorded then."""
        self.driver = Driver(
            Engine(EngineSettings(command=("agent",), version="9", has_hooks=True)),
            Recorder(lambda: store, log),
            log,
            holder=OURS,
            start_agent=self.start_agent,
            on_wake=self.woken,
            on_events=self.note_events,
            open_reader=cast("Any", self.read_store),
        )
        self.client, self.agent = InProcessPeer(), InProcessPeer()
        self.client_peer = self.driver.attach_client(self.client)
        self.driver.attach_agent(self.agent)
        self.client.connect(lambda line: self.driver.receive(self.client_peer, line))
        self.agent.connect(lambda line: self.driver.receive(AGENT, line))

    def start_agent(self) -> str | None:
        self.starts += 1
        return self.reason

    @contextmanager
    def read_store(self) -> Generator[MemoryStore]:
        """Open the store for a second time when that may begin, and close it when it may end."""
        assert self.may_read.wait(10)
        if self.is_second_store_broken:
            raise StoreUnavailable("gone")
        yield self.store.second()
        self.has_read.set()
        assert self.may_answer.wait(10)

    def woken(self) -> None:
        self.wakes += 1

    def note_events(self, events: Sequence[TurnEvent]) -> None:
        self.events += [(it.kind, self.store.session(it.session_id).last_seq) for it in events]

    def request(self, request_id: int, method: str, **params: object) -> None:
        self.client.send(
            json.dumps({"id": request_id, "method": method, "params": params}).encode()
        )

    def serve(self, result: object) -> dict[str, Any]:
        """Let the agent answer its next request; return that request."""
        asked = json.loads(self.agent.next_line(0))
        self.agent.send(json.dumps({"id": asked["id"], "result": result}).encode())
        return asked

    def response(self) -> dict[str, Any]:
        return json.loads(self.client.next_line(0))

    def initialize(self) -> None:
        self.request(1, "initialize", protocolVersion=1)
        self.serve({"protocolVersion": 1, "agentCapabilities": self.agent_capabilities})
        assert self.response()["result"]["agentCapabilities"]["loadSession"] is True

    def new(self) -> None:
        self.request(2, "session/new", cwd="/p", mcpServers=[])
        self.serve({"sessionId": "s1"})
        assert self.response()["result"]["sessionId"] == "s1"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def pair(store: MemoryStore) -> Iterator[Pair]:
    with Log() as log:
        yield Pair(store, log)


def test_a_turn_is_recorded_and_forwarded(pair: Pair, store: MemoryStore) -> None:
    pair.initialize()
    pair.new()
    pair.request(3, "session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "Hi"}])
    assert pair.serve({"stopReason": "end_turn"})["method"] == "session/prompt"
    title = json.loads(pair.client.next_line(0))
    assert title["params"]["update"]["title"] == "Hi"
    assert json.loads(pair.client.next_line(0)) == {"id": 3, "result": {"stopReason": "end_turn"}}
    kinds = [entry.kind for entry in store.read("s1")]
    assert kinds == ["setup", "ready", "prompt", "update", "answer"]


def test_a_message_is_recorded_before_the_peer_receives_it(
    pair: Pair, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.initialize()
    pair.new()
    seen: list[int] = []
    queue = pair.agent.queue

    def spy(data: bytes) -> None:
        seen.append(store.session("s1").last_seq)
        queue(data)

    monkeypatch.setattr(pair.agent, "queue", spy)
    pair.request(3, "session/prompt", sessionId="s1", prompt=[])
    assert seen == [3]


def test_an_event_in_a_turn_is_reported_after_it_is_recorded(pair: Pair) -> None:
    pair.initialize()
    pair.new()
    pair.request(3, "session/prompt", sessionId="s1", prompt=[])
    assert pair.events == []
    pair.serve({"stopReason": "end_turn"})
    assert pair.events == [("end", 4)]


def test_a_client_that_is_detached_leaves_no_unused_session(pair: Pair, store: MemoryStore) -> None:
    pair.initialize()
    pair.new()
    assert store.known_ids(["s1"]) == {"s1"}
    pair.driver.detach_client(pair.client_peer)
    assert store.known_ids(["s1"]) == set()


def test_a_clean_up_forgets_an_old_session_that_was_left_unused(
    pair: Pair, store: MemoryStore
) -> None:
    store.write([Opened(session_id="old", at_us=1, cwd="/p")])
    assert pair.driver.clean_up()
    assert store.known_ids(["old"]) == set()


def test_messages_for_a_peer_without_an_outlet_are_dropped(store: MemoryStore) -> None:
    with Log() as log:
        engine = Engine(EngineSettings())
        recorder = Recorder(lambda: store, log)
        driver = Driver(engine, recorder, log, holder=OURS, start_agent=lambda: None)
        driver.receive(Peer(1), b'{"method":"x"}')
        assert not driver.is_waiting_for_agent


def test_an_exit_answers_open_requests_and_the_agent_starts_again(pair: Pair) -> None:
    pair.initialize()
    pair.new()
    pair.request(3, "session/prompt", sessionId="s1", prompt=[])
    pair.agent.next_line(0)
    assert pair.driver.is_waiting_for_agent
    pair.driver.agent_exited(AgentExit(exit_code=1, signal=None, stderr_tail=("oops",)))
    error = pair.response()["error"]
    assert error["data"]["stderr"] == ["oops"]
    assert pair.driver.can_restart_agent
    pair.request(4, "session/prompt", sessionId="s1", prompt=[])
    assert pair.starts == 1
    assert pair.serve({"protocolVersion": 1})["method"] == "initialize"
    assert pair.serve({"sessionId": "a2"})["method"] == "session/new"
    assert json.loads(pair.agent.next_line(0))["params"]["sessionId"] == "a2"


def test_an_agent_that_does_not_start_again_gives_a_reason(pair: Pair) -> None:
    pair.initialize()
    pair.new()
    pair.reason = "no such file"
    pair.driver.agent_exited(AgentExit(exit_code=1, signal=None, stderr_tail=()))
    pair.request(3, "session/prompt", sessionId="s1", prompt=[])
    assert pair.response()["error"]["message"] == ("cannot restart the agent: no such file")


def test_a_deadline_wakes_the_driver_and_is_met_by_a_tick(pair: Pair) -> None:
    pair.request(1, "initialize", protocolVersion=1)
    pair.serve({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"list": {}}}})
    pair.response()
    assert pair.driver.seconds_until_tick is None
    assert not pair.driver.tick_if_due()
    pair.request(2, "session/list")
    assert pair.wakes == 1
    seconds = pair.driver.seconds_until_tick
    assert seconds is not None
    assert 0 < seconds <= 2
    assert not pair.driver.tick_if_due()


def test_after_a_fault_lines_reach_the_other_side_unchanged(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Engine, "receive", fail)
    pair.client.send(b"from the client")
    pair.agent.send(b"from the agent")
    assert pair.agent.next_line(0) == b"from the client"
    assert pair.client.next_line(0) == b"from the agent"


def test_a_query_that_fails_is_reported_to_the_client(
    pair: Pair, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    pair.initialize()
    monkeypatch.setattr(store, "sessions", fail)
    pair.request(2, "session/list")
    assert pair.response()["error"]["message"] == "a bug in Rekindle: see its stderr and log"


def test_nothing_is_processed_while_the_lock_is_held(pair: Pair) -> None:
    with pair.driver.exclusive():
        pair.driver.agent_closed_output()
    pair.initialize()
    with pytest.raises(Empty):
        pair.client.next_line(0)
    assert pair.driver.clean_up()
    pair.driver.close()


def test_a_lost_lease_ends_the_turn_and_the_rest_is_in_a_branch(
    pair: Pair, store: MemoryStore
) -> None:
    pair.initialize()
    pair.new()
    pair.request(3, "session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "Hi"}])
    pair.agent.next_line(0)
    theirs = LeaseHolder(token="theirs", pid=7, machine="there")  # noqa: S106 - not a password
    store.second().acquire_lease("s1", theirs, takeover=True)
    update = {"sessionUpdate": "plan", "entries": []}
    params = {"sessionId": "s1", "update": update}
    pair.agent.send(json.dumps({"method": "session/update", "params": params}).encode())
    assert json.loads(pair.client.next_line(0))["params"]["update"] == update
    assert json.loads(pair.client.next_line(0))["params"]["update"]["title"] == "Hi"
    assert "taken over" in json.loads(pair.client.next_line(0))["error"]["message"]
    assert json.loads(pair.agent.next_line(0))["method"] == "session/cancel"
    (branch,) = (it for it in store.sessions(Page()) if it.id != "s1")
    kinds = [entry.kind for entry in store.read(branch.id, after=3)]
    assert kinds == ["update", "update", "answer"]
    assert [entry.kind for entry in store.read("s1")] == ["setup", "ready", "prompt"]


def say(pair: Pair, text: str, session_id: str = "s1") -> None:
    update = {
        "sessionUpdate": "agent_message_chunk",
        "messageId": text,
        "content": {"type": "text", "text": text},
    }
    send_update(pair, update, session_id)


def send_update(pair: Pair, update: dict[str, Any], session_id: str = "s1") -> None:
    params = {"sessionId": session_id, "update": update}
    pair.agent.send(json.dumps({"method": "session/update", "params": params}).encode())


def join(pair: Pair, role: str = "controller") -> InProcessPeer:
    """Let a second client, which knows sub-agents, load the session in the middle of a turn."""
    second = InProcessPeer()
    peer = pair.driver.attach_client(second)
    second.connect(lambda line: pair.driver.receive(peer, line))
    initialize = {"protocolVersion": 1, "clientCapabilities": {"subagents": {}}}
    second.send(json.dumps({"id": 1, "method": "initialize", "params": initialize}).encode())
    second.next_line(10)
    meta = {"rekindle": {"role": role}}
    params = {"sessionId": "s1", "cwd": "/p", "mcpServers": [], "_meta": meta}
    second.send(json.dumps({"id": 2, "method": "session/load", "params": params}).encode())
    return second


def texts_until_response(client: InProcessPeer) -> list[str]:
    texts: list[str] = []
    while "result" not in (message := json.loads(client.next_line(10))):
        texts.append(message["params"]["update"].get("content", {}).get("text"))
    return [it for it in texts if it is not None]


def test_a_turn_goes_on_while_a_client_joins_a_long_session(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.runtime.query_handler._LONG", 0)
    pair.initialize()
    pair.new()
    pair.request(3, "session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "Hi"}])
    pair.agent.next_line(0)
    say(pair, "one")
    second = join(pair)
    say(pair, "two")
    with pytest.raises(Empty):
        second.next_line(0)
    sent = [json.loads(pair.client.next_line(0))["params"]["update"] for _ in range(2)]
    assert [it["content"]["text"] for it in sent] == ["one", "two"]
    pair.may_read.set()
    assert texts_until_response(second) == ["Hi", "one", "two"]
    say(pair, "three")
    assert json.loads(second.next_line(0))["params"]["update"]["messageId"] == "three"


def test_a_long_session_is_read_all_the_same_if_no_second_store_opens(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.runtime.query_handler._LONG", 0)
    pair.initialize()
    pair.new()
    pair.request(3, "session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "Hi"}])
    pair.is_second_store_broken = True
    pair.may_read.set()
    assert texts_until_response(join(pair)) == ["Hi"]


@pytest.fixture
def joining(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Return a pair with a turn, which reads the session in a thread for a client that joins."""
    monkeypatch.setattr("rekindle.runtime.query_handler._LONG", 0)
    pair.agent_capabilities = {"sessionCapabilities": {"close": {}}}
    pair.initialize()
    pair.new()
    pair.request(3, "session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "Hi"}])
    pair.agent.next_line(0)
    return pair


def test_a_subagent_that_begins_meanwhile_is_complete(joining: Pair) -> None:
    joining.may_read.set()
    joining.may_answer.clear()
    second = join(joining)
    assert joining.has_read.wait(10)
    send_update(joining, {"sessionUpdate": "subagent_update", "sessionId": "child", "title": "W"})
    say(joining, "one", "child")
    joining.may_answer.set()
    assert texts_until_response(second) == ["Hi", "one"]
    assert "subagent" in json.loads(second.next_line(0))["params"]["update"]["sessionUpdate"]
    say(joining, "two", "child")
    assert json.loads(second.next_line(0))["params"]["update"]["messageId"] == "two"


@pytest.mark.parametrize("role", ["observer", "controller"])
def test_a_session_that_another_process_takes_over_meanwhile_is_refused(
    joining: Pair, role: str
) -> None:
    second = join(joining, role)
    theirs = LeaseHolder(token="theirs", pid=7, machine="there")  # noqa: S106 - not a password
    joining.store.second().acquire_lease("s1", theirs, takeover=True)
    say(joining, "one")
    joining.may_read.set()
    assert "was closed meanwhile" in json.loads(second.next_line(10))["error"]["message"]


def test_a_session_that_is_closed_meanwhile_is_refused_to_an_observer(joining: Pair) -> None:
    joining.agent.send(b'{"id":3,"result":{"stopReason":"end_turn"}}')
    second = join(joining, "observer")
    joining.request(4, "session/close", sessionId="s1")
    assert joining.serve({})["method"] == "session/close"
    joining.may_read.set()
    assert "was closed meanwhile" in json.loads(second.next_line(10))["error"]["message"]


def test_other_facts_about_the_holder_reach_its_leases(pair: Pair, store: MemoryStore) -> None:
    pair.initialize()
    pair.new()
    moved = replace(OURS, agent_group=99)
    with pair.driver.exclusive():
        pair.driver.update_agent_group(99)
    assert store.lease_holder("s1") == moved


def test_a_failing_store_does_not_need_other_facts_about_the_holder(
    pair: Pair, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailable("locked")

    pair.initialize()
    pair.new()
    moved = replace(OURS, agent_group=99)
    with monkeypatch.context() as patch, pair.driver.exclusive():
        patch.setattr(store, "update_holder", fail)
        pair.driver.update_agent_group(99)
    assert store.lease_holder("s1") == OURS
    pair.request(3, "session/prompt", sessionId="s1", prompt=[])
    assert store.lease_holder("s1") == moved
