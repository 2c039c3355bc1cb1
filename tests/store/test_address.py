"""Store addresses, and the capabilities of the back ends that they lead to."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import rekindle
from recorded_sessions import opened
from rekindle.cli.main import main
from rekindle.composition import open_store, recover_store
from rekindle.errors import StoreMissing, UsageError
from rekindle.store import address as module
from rekindle.store.address import (
    StoreAddress,
    StoreKind,
    can_be_searched,
    default_address,
    is_store_file,
    locate,
    maintenance_for,
    open_search_index,
    parse_address,
    path_address,
    store_exists,
)
from rekindle.store.base import PendingChanges, PendingInfo, Reporter, StoreBackend, StoreHooks
from rekindle.store.maintenance import SpaceManager, space_manager
from rekindle.store.memory import MemoryStore


def register(
    monkeypatch: pytest.MonkeyPatch, scheme: str, create_backend: Callable[[str], StoreBackend]
) -> None:
    """Add a kind of store for the duration of a test."""
    kind = StoreKind(
        parse=lambda rest: StoreAddress(scheme, rest, f"{scheme} store {rest}"),
        create_backend=create_backend,
        address_help=f"{scheme}://name",
    )
    monkeypatch.setitem(module._BACKENDS, scheme, kind)  # noqa: SLF001 - the table of kinds


class MadeUpBackend:
    """The stores of a kind that has no files, by name."""

    def __init__(self, stores: dict[str, MemoryStore], name: str) -> None:
        self._stores = stores
        self._name = name

    def exists(self) -> bool:
        return self._name in self._stores

    def open(self, *, create: bool, report: Reporter, hooks: StoreHooks) -> MemoryStore:
        del report
        if not create and not self.exists():
            raise StoreMissing(self._name)
        return self._stores.setdefault(self._name, MemoryStore(hooks))

    def open_pending(self, token: str) -> PendingChanges:  # noqa: ARG002 - as in the contract
        raise OSError("there is no place for pending changes")

    def pending(self) -> list[PendingInfo]:
        return []


def test_a_path_and_a_url_name_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = StoreAddress("sqlite", str(tmp_path / "s.db"))
    for text in ("s.db", "sqlite:///s.db", f"sqlite:///{tmp_path}/s.db", str(tmp_path / "s.db")):
        assert parse_address(text) == expected
    assert str(expected) == str(tmp_path / "s.db")


@pytest.mark.parametrize("text", ["oracle://host/db", "sqlite:///", "sqlite://host/s.db"])
def test_a_malformed_address_raises_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="use a path"):
        parse_address(text)


def test_an_address_of_an_unknown_kind_raises_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown kind of store 'oracle'"):
        store_exists(StoreAddress("oracle", "host/db"))


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
    open_store(str(tmp_path / "s.db"), create=True).close()
    assert store_exists(address)
    with open_store(address, create=False) as store, open_search_index(address) as index:
        assert isinstance(store, SpaceManager)
        assert index.counts() == (0, 0)
    assert maintenance_for(address).recovery_reports() == []


def test_a_missing_capability_raises_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    address = StoreAddress("plain", "nowhere")
    register(monkeypatch, "plain", lambda _: object())  # type: ignore[arg-type,return-value]
    assert not can_be_searched(address)
    assert recover_store(address) is None
    with pytest.raises(UsageError, match="has no search index"):
        open_search_index(address)
    with pytest.raises(UsageError, match="has no diagnosis"):
        maintenance_for(address)
    assert space_manager(MemoryStore())
    with pytest.raises(UsageError, match="manages its disk space itself"):
        space_manager(object())  # type: ignore[arg-type]


def test_another_kind_of_store_is_a_class_and_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    register(monkeypatch, "made-up", partial(MadeUpBackend, {}))
    with pytest.raises(StoreMissing):
        rekindle.open_store("made-up://x")
    assert main(["list", "--store", "made-up://x"]) == 1
    assert "there is no store at made-up store x" in capsys.readouterr().err
    with open_store("made-up://x", create=True) as store:
        store.write([opened("s1")])
    with rekindle.open_store("made-up://x") as readable:
        assert [session.id for session in readable.sessions(rekindle.Page())] == ["s1"]
    for words in (["list"], ["show", "s1"], ["stats"], ["rename", "s1", "A title"]):
        assert main([*words, "--store", "made-up://x"]) == 0, words
    assert "s1" in capsys.readouterr().out
    for word in ("doctor", "reindex"):
        assert main([word, "--store", "made-up://x"]) == 2, word
        assert "made-up store x" in capsys.readouterr().err
    assert main(["delete", "--now", "--yes", "s1", "--store", "made-up://x"]) == 0
    assert parse_address("made-up://x").as_option == "made-up://x"
    with pytest.raises(UsageError, match="made-up://name"):
        parse_address("oracle://x")
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_passed_on_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    assert path_address(path).as_option == str(path)
    assert parse_address(path_address(path).as_option) == path_address(path)


def test_only_a_store_is_recognised_as_a_store_file(tmp_path: Path) -> None:
    open_store(tmp_path / "s.db", create=True).close()
    (tmp_path / "notes").write_text("text", encoding="utf-8")
    assert is_store_file(tmp_path / "s.db")
    assert not is_store_file(tmp_path / "notes")
