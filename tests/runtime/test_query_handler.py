import os
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from rekindle.errors import StoreUnavailable
from rekindle.model import (
    AgentArchived,
    EntryBatch,
    Kind,
    LeaseHolder,
    LeaseResult,
    Opened,
    Side,
    subagent_record_id,
)
from rekindle.proxy.flow import (
    AcquireLease,
    CompareArchiveStates,
    GetLeaseHolder,
    GetSession,
    IsAgentGone,
    LoadTranscript,
    LookupIds,
    QueryFailed,
    SameFolder,
    WriteChanges,
)
from rekindle.runtime.query_handler import QueryHandler
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.transcript.reducer import Transcript

T = TypeVar("T")

OURS, THEIRS = (LeaseHolder(token=token, pid=1, machine="here") for token in ("ours", "theirs"))


class ReadOnlyStore(MemoryStore):
    """A store that can be read but not written."""

    def acquire_lease(self, *_: object, **__: object) -> LeaseResult:
        raise StoreUnavailable("locked")


class DirectRecorder:
    """A recorder that only answers queries."""

    def __init__(self, store: Store | None) -> None:
        self.store = store

    def last_seqs(self, session_ids: tuple[str, ...]) -> dict[str, int]:
        assert self.store is not None
        return {it: self.store.last_seq(it) for it in session_ids}

    def ask(self, query: Callable[[Store], T]) -> T:
        if self.store is None:
            raise StoreUnavailable("gone")
        return query(self.store)


def handler_for(store: Store | None) -> QueryHandler:
    return QueryHandler(DirectRecorder(store), OURS, lambda: None)  # type: ignore[arg-type]


def test_a_lease_is_respected_if_the_store_cannot_be_written() -> None:
    store = ReadOnlyStore()
    store.write([Opened(session_id="s", at_us=1)])
    assert handler_for(store).answer(AcquireLease("s")) == LeaseResult()
    MemoryStore.acquire_lease(store, "s", THEIRS)
    assert handler_for(store).answer(AcquireLease("s")) == LeaseResult(holder=THEIRS)


def test_a_takeover_fails_if_the_holder_cannot_be_fenced() -> None:
    store = ReadOnlyStore()
    store.write([Opened(session_id="s", at_us=1)])
    takeover = AcquireLease("s", may_take_over=True)
    assert handler_for(store).answer(takeover) == LeaseResult()
    MemoryStore.acquire_lease(store, "s", THEIRS)
    failed = handler_for(store).answer(takeover)
    assert isinstance(failed, QueryFailed)
    assert failed.reason.startswith("cannot take the session over from process 1: locked")


def test_a_failing_store_does_not_refuse_a_lease() -> None:
    nothing = handler_for(None)
    assert nothing.answer(AcquireLease("s")) == LeaseResult()
    assert nothing.answer(LookupIds(("s",))) == set()
    assert nothing.answer(GetSession("s")) == QueryFailed("cannot read the store: gone")


def test_changes_are_written_or_the_query_fails() -> None:
    store = MemoryStore()
    changes = WriteChanges([Opened(session_id="s", at_us=1, cwd="/p")])
    assert handler_for(store).answer(changes) is None
    assert store.session("s").cwd == "/p"
    failed = QueryFailed("cannot record the change: gone")
    assert handler_for(None).answer(changes) == failed


def test_the_lease_holder_is_looked_up_without_acquiring_the_lease() -> None:
    store = MemoryStore()
    handler = handler_for(store)
    assert handler.answer(GetLeaseHolder("s")) is None
    store.write([Opened(session_id="s", at_us=1)])
    assert handler.answer(GetLeaseHolder("s")) is None
    assert store.leased_ids() == set()
    store.acquire_lease("s", THEIRS)
    assert handler.answer(GetLeaseHolder("s")) == THEIRS


def test_archive_states_are_compared_with_the_record() -> None:
    store = MemoryStore()
    store.write([Opened(session_id="s", at_us=1, cwd="/p")])
    handler = handler_for(store)
    assert handler.answer(CompareArchiveStates({"s": True})) == [store.session("s")]
    store.write([AgentArchived(session_id="s", at_us=1, is_archived=True)])
    assert handler.answer(CompareArchiveStates({"s": True})) == []


@pytest.mark.parametrize("path", ["/etc", "/etc/", "/etc/../etc", "//etc"])
def test_spellings_of_a_folder_are_the_same_folder(path: str) -> None:
    assert handler_for(None).answer(SameFolder("/etc", path)) is True
    assert handler_for(None).answer(SameFolder("/usr", path)) is False


def test_a_lease_that_this_process_has_is_not_refused_while_the_store_fails() -> None:
    store = ReadOnlyStore()
    store.write([Opened(session_id="s", at_us=1)])
    MemoryStore.acquire_lease(store, "s", replace(OURS, agent_group=7))
    assert handler_for(store).answer(AcquireLease("s")) == LeaseResult()


def test_the_former_holder_is_returned_with_the_lease() -> None:
    store = MemoryStore()
    store.write([Opened(session_id="s", at_us=1)])
    store.acquire_lease("s", THEIRS)
    assert handler_for(store).answer(AcquireLease("s", may_take_over=True)) == LeaseResult(
        was_held_by_another=True, epoch=2, former=THEIRS, is_former_alive=True
    )


@pytest.mark.parametrize(
    ("former", "is_gone"),
    [
        (THEIRS, True),
        (replace(THEIRS, agent_group=2**22 + 1), True),
        (replace(THEIRS, agent_group=os.getpgid(0), machine="elsewhere"), True),
    ],
)
def test_an_agent_elsewhere_counts_as_gone(former: LeaseHolder, is_gone: bool) -> None:  # noqa: FBT001
    assert handler_for(None).answer(IsAgentGone(former)) is is_gone


def test_only_a_long_session_without_subagents_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    lines = b"\n".join([b"{}"] * 3)
    entries = EntryBatch(
        session_id="s", side=Side.AGENT, kind=Kind.UPDATE, at_us=1, data=lines, count=3
    )
    store.write([Opened(session_id="s", at_us=1), entries])
    recorder: Any = DirectRecorder(store)
    handler = QueryHandler(recorder, OURS, lambda: None, open_reader=store.second)
    shared = LoadTranscript("s", is_shared=True)
    answers: SimpleQueue[object] = SimpleQueue()
    assert not handler.answer_later(shared, answers.put)
    monkeypatch.setattr("rekindle.runtime.query_handler._LONG", 2)
    assert handler.answer_later(shared, answers.put)
    assert isinstance(answers.get(timeout=10), Transcript)
    assert not handler.needs_lock(shared)
    assert not handler.answer_later(LoadTranscript("s"), answers.put)
    store.write([Opened(session_id=subagent_record_id("s", "c"), at_us=2, parent_id="s")])
    assert not handler.answer_later(shared, answers.put)
    assert handler.needs_lock(shared)
    recorder.store = None
    assert handler.needs_lock(shared)
