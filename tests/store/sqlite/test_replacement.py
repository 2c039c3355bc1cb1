"""A commit during a quarantine is neither lost nor duplicated."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from recorded_sessions import NOW, asked
from rekindle.composition import HOOKS
from rekindle.errors import StoreUnavailable
from rekindle.model import Counted, LeaseHolder
from rekindle.store.sqlite import quarantine
from rekindle.store.sqlite.filelock import FileLock
from rekindle.store.sqlite.files import lock_path
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transcript.titles import title_from_prompt
from store_damage import chunks, fill

HOLDER = LeaseHolder(token="t", pid=1, machine="h")  # noqa: S106 - no password
CHANGES = (
    asked("ses_1", "once"),
    Counted(session_id="ses_1", at_us=NOW, turns=1, messages=1),
    chunks("ses_1", 7, 3),
    chunks("ses_2", 8, 1),
    chunks("ses_1", 9, 1),
)


def quarantine_now(path: Path, lock: FileLock) -> None:
    damaged = quarantine._move_to_quarantine(path, lock)  # noqa: SLF001
    assert quarantine._recover(path, damaged, title_from_prompt, print)  # noqa: SLF001


def at_check(store: SqliteStore, number: int, act: Callable[[], object]) -> None:
    """Call `act` at the n-th check whether the store's file was replaced."""
    check, checks = store._identity.check, iter(range(1, 9))  # noqa: SLF001

    def check_identity() -> None:
        is_due = next(checks) == number
        if is_due and number == AFTER:
            act()
        check()
        if is_due and number != AFTER:
            act()

    store._identity.check = check_identity  # noqa: SLF001 # type: ignore[method-assign]


WITHIN, AFTER = 3, 4
"""The number of the check: inside the transaction, and after it."""


@pytest.mark.parametrize("when", [WITHIN, AFTER])
@pytest.mark.parametrize("claimed", [["ses_1", "ses_2"], []])
def test_an_uncertain_commit_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int, claimed: list[str]
) -> None:
    # A committing process holds SQLite's lock, and may be stopped for long.
    monkeypatch.setattr(quarantine, "_COMMIT_TIMEOUT_MS", 1)
    path = tmp_path / "s.db"
    with SqliteStore(path, hooks=HOOKS) as store, closing(FileLock(lock_path(path))) as lock:
        fill(store, range(3))
        for id_ in claimed:
            store.acquire_lease(id_, HOLDER)
        before = {id_: list(store.read(id_)) for id_ in ("ses_1", "ses_2")}
        turns = store.session("ses_1").turns
        assert lock.acquire(0)
        at_check(store, when, lambda: quarantine_now(path, lock))
        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            store.write(CHANGES, sync=True, timeout=0.01)
        lock.release()
        with SqliteStore(path, hooks=HOOKS) as new:
            new.continue_from(store)
            uncertain = store.uncertain_write(CHANGES)
            assert uncertain
            assert uncertain.is_applied(new) is (when == AFTER)
            new.apply_pending("t", [uncertain, *CHANGES])
            for id_, entries in before.items():
                assert list(new.read(id_))[: len(entries)] == entries
            assert len(list(new.read("ses_1"))) == len(before["ses_1"]) + 5
            assert len(list(new.read("ses_2"))) == len(before["ses_2"]) + 1
            assert new.session("ses_1").turns == turns + 1


def test_an_uncertain_commit_is_not_rescued_from_a_removed_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path, hooks=HOOKS) as store, closing(FileLock(lock_path(path))) as lock:
        fill(store, range(3))
        store.acquire_lease("ses_1", HOLDER)
        before, turns = list(store.read("ses_1")), store.session("ses_1").turns
        assert lock.acquire(0)
        at_check(store, AFTER, path.unlink)
        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            store.write(CHANGES, sync=True, timeout=0.01)
        lock.release()
        with SqliteStore(path, hooks=HOOKS) as new:
            new.continue_from(store)
            assert list(new.read("ses_1")) == before
            assert new.session("ses_1").turns == turns


def test_quarantine_waits_for_a_running_commit(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path, hooks=HOOKS) as store, closing(FileLock(lock_path(path))) as lock:
        fill(store, range(3))
        before = len(list(store.read("ses_2")))
        assert lock.acquire(0)
        db = quarantine._block_commits(path)  # noqa: SLF001
        assert db
        with closing(db), pytest.raises(StoreUnavailable, match="is locked"):
            store.write(CHANGES, timeout=0.01)
        store.write(CHANGES, timeout=0.01)
        assert len(list(store.read("ses_2"))) == before + 1
