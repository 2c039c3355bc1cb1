from collections.abc import Callable
from typing import TypeVar

import pytest

from rekindle.errors import StoreUnavailable
from rekindle.model import LeaseHolder, LeaseResult, Opened
from rekindle.proxy.flow import AcquireLease, GetSession, LookupIds, QueryFailed, SameFolder
from rekindle.runtime.query_handler import QueryHandler
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore

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
    assert handler_for(store).answer(AcquireLease("s", may_take_over=True)) == LeaseResult()


def test_a_failing_store_does_not_refuse_a_lease() -> None:
    nothing = handler_for(None)
    assert nothing.answer(AcquireLease("s")) == LeaseResult()
    assert nothing.answer(LookupIds(("s",))) == set()
    assert nothing.answer(GetSession("s")) == QueryFailed("the record cannot be read: gone")


@pytest.mark.parametrize("path", ["/etc", "/etc/", "/etc/../etc", "//etc"])
def test_spellings_of_a_folder_are_the_same_folder(path: str) -> None:
    assert handler_for(None).answer(SameFolder("/etc", path)) is True
    assert handler_for(None).answer(SameFolder("/usr", path)) is False
