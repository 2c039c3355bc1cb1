"""A fixture that runs a test with each kind of store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    with opened:
        yield opened
