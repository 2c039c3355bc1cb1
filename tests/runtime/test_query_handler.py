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


class Locked(MemoryStore):
    """A store that can be read and not written."""

    def acquire_lease(self, *_: object, **__: object) -> LeaseResult:
        raise StoreUnavailable("locked")


class Direct:
    """A recorder that only asks."""

    def __init__(self, store: Store | None) -> None:
        self.store = store

    def ask(self, question: Callable[[Store], T]) -> T:
        if self.store is None:
            raise StoreUnavailable("gone")
        return question(self.store)


def answers(store: Store | None) -> QueryHandler:
    return QueryHandler(Direct(store), OURS, lambda: None)  # type: ignore[arg-type]


def test_who_drives_a_session_is_heeded_even_if_it_cannot_be_written() -> None:
    store = Locked()
    store.write([Opened(session_id="s", at_us=1)])
    assert answers(store).answer(AcquireLease("s")) == LeaseResult()
    MemoryStore.acquire_lease(store, "s", THEIRS)
    assert answers(store).answer(AcquireLease("s")) == LeaseResult(holder=THEIRS)
    assert answers(store).answer(AcquireLease("s", may_take_over=True)) == LeaseResult()


def test_without_a_store_nobody_speaks_against_a_conversation() -> None:
    nothing = answers(None)
    assert nothing.answer(AcquireLease("s")) == LeaseResult()
    assert nothing.answer(LookupIds(("s",))) == set()
    assert nothing.answer(GetSession("s")) == QueryFailed("the record cannot be read: gone")


@pytest.mark.parametrize("path", ["/etc", "/etc/", "/etc/../etc", "//etc"])
def test_a_folder_is_the_same_however_it_is_spelled(path: str) -> None:
    assert answers(None).answer(SameFolder("/etc", path)) is True
    assert answers(None).answer(SameFolder("/usr", path)) is False
