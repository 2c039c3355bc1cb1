"""Store addresses, and the capabilities of the back ends that they lead to."""

from pathlib import Path

import pytest

from rekindle.composition import open_store
from rekindle.errors import StoreMissing, UsageError
from rekindle.store import address as module
from rekindle.store.address import (
    StoreAddress,
    default_address,
    locate,
    maintenance_for,
    open_search_index,
    parse_address,
    path_address,
    store_exists,
)
from rekindle.store.maintenance import SpaceManager, space_manager
from rekindle.store.memory import MemoryStore


def test_a_path_and_a_url_name_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = StoreAddress("sqlite", str(tmp_path / "s.db"))
    for text in ("s.db", "sqlite:///s.db", f"sqlite:///{tmp_path}/s.db", str(tmp_path / "s.db")):
        assert parse_address(text) == expected
    assert str(expected) == str(tmp_path / "s.db")


@pytest.mark.parametrize("text", ["oracle://host/db", "sqlite:///"])
def test_a_malformed_address_raises_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="give a path"):
        parse_address(text)


def test_the_option_outranks_the_environment_and_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REKINDLE_STORE", str(tmp_path / "environment.db"))
    assert locate(str(tmp_path / "option.db")) == path_address(tmp_path / "option.db")
    assert locate(None) == path_address(tmp_path / "environment.db")
    monkeypatch.delenv("REKINDLE_STORE")
    assert locate(None) == default_address()


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "s.db")
    assert path_address(tmp_path / "link.db") == path_address(tmp_path / "s.db")


def test_opening_creates_the_store_only_on_request(tmp_path: Path) -> None:
    address = path_address(tmp_path / "s.db")
    with pytest.raises(StoreMissing):
        open_store(address, create=False)
    assert not store_exists(address)
    open_store(str(tmp_path / "s.db")).close()
    assert store_exists(address)
    with open_store(address, create=False) as store, open_search_index(address) as index:
        assert isinstance(store, SpaceManager)
        assert index.counts() == (0, 0)
    assert maintenance_for(address).recovery_reports() == []


def test_a_missing_capability_raises_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    address = StoreAddress("plain", "nowhere")
    monkeypatch.setitem(module._BACKENDS, "plain", lambda _: object())  # noqa: SLF001
    with pytest.raises(UsageError, match="cannot be searched"):
        open_search_index(address)
    with pytest.raises(UsageError, match="cannot be diagnosed"):
        maintenance_for(address)
    assert space_manager(MemoryStore())
    with pytest.raises(UsageError, match="manages its disk space by itself"):
        space_manager(object())  # type: ignore[arg-type]
