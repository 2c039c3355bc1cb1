"""A fixture that runs a test with each kind of store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.composition import HOOKS
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = (
        MemoryStore(HOOKS)
        if request.param == "memory"
        else SqliteStore(tmp_path / "s.db", hooks=HOOKS)
    )
    with opened:
        yield opened


@pytest.fixture
def second(store: Store, tmp_path: Path) -> Iterator[Store]:
    """Return another instance of the same storage, as another process would open it."""
    if isinstance(store, MemoryStore):
        opened: Store = store.second()
    else:
        opened = SqliteStore(tmp_path / "s.db", hooks=HOOKS)
    with opened:
        yield opened
