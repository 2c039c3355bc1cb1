"""Sessions that a client opens and leaves without a prompt."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.errors import SessionNotFound, StoreUnavailable
from rekindle.model import Counted, EntryBatch, Kind, LeaseHolder, Opened, Page, Side
from rekindle.runtime import unused_sessions as module
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.runtime.unused_sessions import KEPT_UNUSED_US, UnusedSessions
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, NEW, Client

Start = Callable[..., Client]

EVERYTHING = Page(with_unopened=True, with_archived=True)
US = LeaseHolder(token="us", pid=1, machine="here")  # noqa: S106 - no password
OTHER = LeaseHolder(token="other", pid=2, machine="here")  # noqa: S106 - no password
LATER_US = KEPT_UNUSED_US + 10


def recorded(path: Path) -> list[str]:
    with SqliteStore(path) as store:
        return [session.id for session in store.sessions(EVERYTHING)]


def connect(start: Start) -> Client:
    client = start(*EXAMPLE_AGENT)
    client.call("initialize", {"protocolVersion": 1})
    return client


def hang_up(client: Client) -> None:
    client.end()


def terminate(client: Client) -> None:
    client.process.send_signal(signal.SIGTERM)
    client.end(hang_up=False)


@pytest.mark.parametrize("leave", [hang_up, terminate])
def test_a_client_that_leaves_forgets_what_it_did_not_use(
    start: Start, store_path: Path, leave: Callable[[Client], None]
) -> None:
    client = connect(start)
    client.new()
    used = client.new()
    closed = client.new()
    client.prompt(used, "Hello")
    client.call("session/close", {"sessionId": closed})
    assert len(recorded(store_path)) == 2
    leave(client)
    assert recorded(store_path) == [used]
    other = connect(start)
    assert other.error("session/load", NEW | {"sessionId": closed})[0] == -32002


def test_a_session_of_a_killed_process_stays_hidden(start: Start, store_path: Path) -> None:
    client = connect(start)
    unused = client.new()
    client.process.kill()
    client.process.wait()
    assert recorded(store_path) == [unused]
    other = connect(start)
    assert other.call("session/list", {}) == {"sessions": []}
    other.call("session/load", NEW | {"sessionId": unused})
    other.end()
    assert recorded(store_path) == []


# -- sessions of killed processes -------------------------------------------------------------


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def unused(store: MemoryStore) -> UnusedSessions:
    log = Log()
    return UnusedSessions(Recorder(lambda: store, log), US, log)


def open_session(store: MemoryStore, name: str, *, at_us: int = 1, update: str = "") -> None:
    line = b'{"method":"session/new"}'
    kind, side = Kind.SETUP, Side.CLIENT
    setup = EntryBatch(session_id=name, side=side, kind=kind, at_us=at_us, data=line)
    store.write([Opened(session_id=name, at_us=at_us, cwd="/p"), setup])
    if update:
        data = b'{"params":{"update":{"sessionUpdate":"%b","toolCallId":"t"}}}' % update.encode()
        kind, side = Kind.UPDATE, Side.AGENT
        store.write([EntryBatch(session_id=name, side=side, kind=kind, at_us=at_us + 1, data=data)])


def ids(store: MemoryStore) -> set[str]:
    return {session.id for session in store.sessions(EVERYTHING)}


def test_old_unused_sessions_are_forgotten(store: MemoryStore, unused: UnusedSessions) -> None:
    open_session(store, "old")
    open_session(store, "working", update="tool_call")
    open_session(store, "new", at_us=10)
    open_session(store, "leased")
    store.acquire_lease("leased", OTHER)
    open_session(store, "used")
    store.write([Counted(session_id="used", at_us=1, turns=1)])
    assert unused.forget_some(LATER_US)
    assert ids(store) == {"working", "new", "leased", "used"}
    assert store.leased_ids() == {"leased"}
    assert store.forgotten_ids(["old"]) == {"old": 1}


def test_many_are_forgotten_in_parts(
    store: MemoryStore, unused: UnusedSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SESSIONS_PER_CALL", 2)
    for name in "abc":
        open_session(store, name, update="tool_call")
    for name in "de":
        open_session(store, name)
    results = [unused.forget_some(LATER_US) for _ in range(3)]
    assert results == [False, False, True]
    assert ids(store) == {"a", "b", "c"}


def test_a_lease_that_is_acquired_meanwhile_is_respected(
    store: MemoryStore, unused: UnusedSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_session(store, "s")
    found = store.unused_sessions(LATER_US)
    store.acquire_lease("s", OTHER)
    monkeypatch.setattr(store, "unused_sessions", lambda *_, **__: found)
    assert unused.forget_some(LATER_US)
    assert ids(store) == {"s"}


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), SessionNotFound("s")])
def test_a_store_that_fails_ends_the_search(
    store: MemoryStore, unused: UnusedSessions, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    open_session(store, "s")
    monkeypatch.setattr(store, "acquire_lease", fail)
    assert unused.forget_some(LATER_US)
    assert ids(store) == {"s"}
