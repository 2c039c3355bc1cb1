"""What waits to be recorded is recorded once, wherever its file was cut and whoever was killed."""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import cast
from zlib import crc32

import apsw
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from rekindle.errors import SessionNotFound, StoreError, StoreUnavailable
from rekindle.model import (
    AgentIdentity,
    Archived,
    Change,
    Counted,
    Deleted,
    EntryBatch,
    Forked,
    Kind,
    Opened,
    Page,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.address import open_store, pending_files
from rekindle.store.base import Store
from rekindle.store.sqlite import pending as module
from rekindle.store.sqlite.filelock import FileLock
from rekindle.store.sqlite.pending import MARK, Pending, left, take_in
from rekindle.store.sqlite.store import SqliteStore
from test_selection import some

NOW = 1_700_000_000_000_000
WORDS = st.text(st.characters(codec="utf-8"))
TIMES = st.integers(-(2**63), 2**63 - 1)


def said(*lines: bytes, session: str = "s", at_us: int = NOW) -> EntryBatch:
    return EntryBatch(
        session_id=session,
        side=Side.AGENT,
        kind=Kind.UPDATE,
        at_us=at_us,
        data=b"\n".join(lines),
        count=len(lines),
    )


def lines(store: Store, session: str = "s") -> list[bytes]:
    try:
        return [entry.line for entry in store.read(session)]
    except SessionNotFound:
        return []


# -- what every store does --------------------------------------------------------------


def test_what_has_waited_is_taken_once(store: Store) -> None:
    store.write([said(b"before")])
    assert store.take_pending("t", [said(b"1"), said(b"2", b"3")]) == []
    assert store.take_pending("t", [said(b"1"), said(b"2", b"3")]) == []
    store.write([said(b"between")])
    assert store.take_pending("t", [said(b"1"), said(b"2", b"3"), said(b"4")]) == []
    assert store.take_pending("other", [said(b"1")]) == []
    assert lines(store) == [b"before", b"1", b"2", b"3", b"between", b"4", b"1"]
    store.drop_pending("t")
    assert store.take_pending("t", [said(b"5")]) == []
    assert lines(store)[-1] == b"5"


def test_what_can_never_be_taken_keeps_nothing_from_it(store: Store) -> None:
    fork = Forked(session_id="f", at_us=NOW, parent_id="nobody", until_seq=1)
    for _ in range(2):
        wrong = store.take_pending("t", [said(b"1"), fork, said(b"2")])
        assert ["SessionNotFound" in it for it in wrong] in ([True], [])
    assert lines(store) == [b"1", b"2"]


def test_what_cannot_be_drawn_to_its_end_is_not_taken(store: Store) -> None:
    def failing() -> Iterator[Change]:
        yield said(b"1")
        raise StoreUnavailable("no")

    with pytest.raises(StoreUnavailable):
        store.take_pending("t", failing())
    assert lines(store) == []
    store.take_pending("t", [said(b"1"), said(b"2")])
    assert lines(store) == [b"1", b"2"]


def test_what_was_said_before_a_session_was_purged_stays_away(store: Store) -> None:
    for name in ("purged", "deleted"):
        store.write([Opened(session_id=name, at_us=1, cwd="/p"), said(b"0", session=name)])
        store.write([Deleted(session_id=name, at_us=10)])
    store.purge("purged")
    early = [Counted(session_id="purged", at_us=9, turns=1), said(b"1", session="purged", at_us=10)]
    store.take_pending("t", [*early, said(b"1", session="deleted", at_us=10)])
    assert store.session("purged").is_purged
    assert (lines(store, "purged"), lines(store, "deleted")) == ([], [b"0", b"1"])
    again = Opened(session_id="purged", at_us=11, cwd="/p")
    store.take_pending("t", [*early, said(b"1"), again, said(b"2", session="purged", at_us=12)])
    assert lines(store, "purged") == [b"2"]
    assert store.session("purged").deleted_us is None


# -- files ------------------------------------------------------------------------------

CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(
        EntryBatch,
        session_id=WORDS,
        side=st.sampled_from(Side),
        kind=st.sampled_from(Kind),
        at_us=TIMES,
        data=st.binary().map(lambda it: it.replace(b"\n", b"")),
        protocol=st.integers(1, 2),
    ),
    st.builds(
        Opened,
        session_id=WORDS,
        at_us=TIMES,
        agent=st.none() | st.builds(AgentIdentity, name=WORDS, command=st.tuples(WORDS)),
        cwd=st.none() | WORDS,
        directories=st.none() | st.tuples(WORDS, WORDS),
    ),
    st.builds(
        Titled,
        session_id=WORDS,
        at_us=TIMES,
        source=st.sampled_from(TitleSource),
        title=st.none() | WORDS,
    ),
    st.builds(Counted, session_id=WORDS, at_us=TIMES, turns=st.integers(0, 9)),
    st.builds(Deleted, session_id=WORDS, at_us=TIMES),
    st.builds(Archived, session_id=WORDS, at_us=TIMES, is_archived=st.booleans()),
    st.builds(Forked, session_id=WORDS, at_us=TIMES, parent_id=WORDS, until_seq=st.integers(0, 9)),
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    folder = Path(mkdtemp())
    yield folder / "s.db"
    shutil.rmtree(folder)


@given(st.lists(st.lists(CHANGES, max_size=3), max_size=4))
def test_whatever_waits_is_read_as_it_was(shared: Path, batches: list[list[Change]]) -> None:
    waiting = Pending(shared)
    for batch in batches:
        assert waiting.add(batch) == []
    changes = [change for batch in batches for change in batch]
    assert list(waiting.changes()) == changes
    assert waiting.entries == sum(isinstance(it, EntryBatch) for it in changes)
    waiting.remove()
    assert pending_files(shared) == []


def whole(count: int) -> tuple[list[Change], list[bytes]]:
    """Return changes, and the file's content after each of them."""
    changes: list[Change] = [said(b"%d" % n * (n * 7 % 40 + 1)) for n in range(count)]
    records = [module._record(change) for change in changes]  # noqa: SLF001
    return changes, [MARK + b"".join(records[:n]) for n in range(count + 1)]


@given(st.data())
def test_any_cut_leaves_what_is_whole(shared: Path, data: st.DataObject) -> None:
    changes, contents = whole(8)
    cut = data.draw(st.integers(0, len(contents[-1])))
    file = shared.with_name("s.db.pending-cut")
    tail = data.draw(st.sampled_from([b"", b"\0" * 20, b"\xff" * 20, MARK]))
    file.write_bytes(contents[-1][:cut] + (tail if cut >= len(MARK) else b""))
    expected = sum(len(content) <= cut for content in contents[1:])
    for _ in range(2):
        with open_store(shared) as store:
            written = [b"%d" % n * (n * 7 % 40 + 1) for n in range(expected)]
            assert lines(store) == written, (cut, tail)
    assert not file.exists()
    with SqliteStore(shared) as store:
        assert len(changes) == 8
        store.erase("s")


@given(st.integers(0, 400), st.integers(0, 7))
def test_a_flipped_bit_does_no_more_than_take_a_change_away(
    shared: Path, at: int, bit: int
) -> None:
    changes, contents = whole(8)
    content = bytearray(contents[-1])
    content[at % len(content)] ^= 1 << bit
    file = shared.with_name("s.db.pending-flip")
    file.write_bytes(content)
    fd = os.open(file, os.O_RDONLY)
    try:
        found = list(module._changes_in(fd, file))  # noqa: SLF001
    except StoreError:
        assert at % len(content) < len(MARK)
    else:
        assert [it for it in changes if it in found] == found
        assert len(found) >= len(changes) - 1
    finally:
        os.close(fd)
        file.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "s.db"


def test_a_file_is_private_and_says_whether_its_owner_lives(path: Path) -> None:
    umask = os.umask(0)
    try:
        waiting = Pending(path)
    finally:
        os.umask(umask)
    waiting.add([said(b"1", b"2"), Deleted(session_id="t", at_us=1)])
    waiting.sync()
    assert stat.S_IMODE(waiting.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (found,) = left(path)
    assert (found.path, found.is_alive, found.entries) == (waiting.path, True, 2)
    assert found.sessions == {"s", "t"}
    with open_store(path) as store:
        assert lines(store) == []
    waiting.leave()
    assert [it.is_alive for it in left(path)] == [False]
    with open_store(path, create=False) as store:
        assert lines(store) == []
    with open_store(path) as store:
        assert lines(store) == [b"1", b"2"]
        assert cast("SqliteStore", store)._query("select * from pending") == []  # noqa: SLF001
    assert left(path) == []


def test_a_file_of_a_newer_rekindle_is_left_alone(path: Path) -> None:
    with SqliteStore(path):
        for name, content in (
            ("mark", b"rekindle pending 2\nsomething"),
            ("kind", MARK + module._HEAD.pack(1, crc32(b"\x95")) + b"\x95"),  # noqa: SLF001
        ):
            path.with_name(f"s.db.pending-{name}").write_bytes(content)
    waiting = Pending(path)
    waiting.add([said(b"1")])
    waiting.leave()
    with open_store(path) as store:
        assert lines(store) == [b"1"]
    found = left(path)
    assert len(found) == 2
    assert all("Rekindle" in it.why_not for it in found)


def test_no_store_is_opened_that_cannot_take_in_what_was_said_before(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([said(b"1")])
    waiting = Pending(path)
    waiting.add([said(b"2")])
    with closing(apsw.Connection(str(path))) as other:
        other.execute("begin exclusive")
        open_store(path).close()
        waiting.leave()
        with pytest.raises(StoreUnavailable, match="locked"):
            open_store(path)
    with open_store(path) as store:
        assert lines(store) == [b"1", b"2"]


def test_a_file_that_is_taken_for_a_dead_ones_before_it_is_locked_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    acquire = FileLock.acquire

    def late(lock: FileLock, patience: float) -> bool:
        # Whoever looks just before the lock is had removes the file.
        if not removed:
            removed.extend(pending_files(path))
            removed[0].unlink()
        return acquire(lock, patience)

    with monkeypatch.context() as patch:
        patch.setattr(FileLock, "acquire", late)
        waiting = Pending(path)
    waiting.add([said(b"1")])
    assert removed == [waiting.path]
    assert [it.entries for it in left(path)] == [1]
    waiting.remove()


def test_a_write_that_fails_halfway_leaves_what_was_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Pending(path)
    waiting.add([said(b"1")])
    write = os.pwrite

    def halfway(fd: int, data: bytes, at: int) -> int:
        if len(data) < 10:
            raise OSError(28, "no room")
        return write(fd, data[: len(data) // 2], at)

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "pwrite", halfway)
        with pytest.raises(OSError, match="no room"):
            waiting.add([said(b"2" * 100)])
    waiting.add([said(b"3")])
    assert list(waiting.changes()) == [said(b"1"), said(b"3")]
    waiting.remove()


def test_damage_takes_nothing_of_what_is_known_to_be_taken(path: Path) -> None:
    from rekindle.store.sqlite.quarantine import salvage  # noqa: PLC0415

    waiting = Pending(path)
    waiting.add([said(b"%d" % n) for n in range(3)])
    with SqliteStore(path) as store:
        store.take_pending(waiting.token, waiting.changes())
    # Killed before the file was removed; then the store is damaged.
    waiting.leave()
    with path.open("r+b") as file:
        file.write(b"\xff" * 50)
    salvage(path)
    with open_store(path) as store:
        assert lines(store) == [b"0", b"1", b"2"]


# -- any interleaving of kills ----------------------------------------------------------


class Killed(BaseException):
    """Somebody is killed: nothing that follows is done, but the kernel lets go of locks."""


MOMENTS = st.sampled_from(
    ["never", "before it commits", "when it has", "before it removes", "before it forgets"]
)


class Dying:
    """A store, to one who is killed at some moment."""

    def __init__(self, store: Store, moment: str) -> None:
        self._store = store
        self._moment = moment

    def take_pending(self, token: str, changes: Iterable[Change]) -> list[str]:
        self._store.take_pending(token, self._drawn(changes))
        if self._moment == "when it has":
            raise Killed
        return []

    def _drawn(self, changes: Iterable[Change]) -> Iterator[Change]:
        yield from changes
        if self._moment == "before it commits":
            raise Killed

    def drop_pending(self, token: str) -> None:
        if self._moment == "before it forgets":
            raise Killed
        self._store.drop_pending(token)


def killed(_: Path) -> None:
    raise Killed


class AnyKills(RuleBasedStateMachine):
    """Owners that hold back, catch up and are killed, and others that take in and are killed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp())
        self.path = self.folder / "s.db"
        self.store = SqliteStore(self.path)
        self.owners: list[Pending] = []
        self.held: dict[str, list[bytes]] = {}
        self.serial = 0

    @precondition(lambda self: len(self.owners) < 3)
    @rule()
    def fail(self) -> None:
        self.owners.append(Pending(self.path))
        self.held[self.owners[-1].token] = []

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), count=st.integers(1, 4))
    def hold_back(self, data: st.DataObject, count: int) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        new = [b"%d" % (self.serial + n) for n in range(count)]
        self.serial += count
        owner.add([said(line) for line in new])
        self.held[owner.token] += new

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), moment=MOMENTS)
    def catch_up(self, data: st.DataObject, moment: str) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        self.owners.remove(owner)
        dying = Dying(self.store, moment)
        try:
            dying.take_pending(owner.token, owner.changes())
            owner.remove()
            dying.drop_pending(owner.token)
        except Killed:
            with suppress(OSError):
                owner.leave()

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), torn=st.integers(0, 60))
    def die(self, data: st.DataObject, torn: int) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        self.owners.remove(owner)
        with owner.path.open("ab") as file:
            file.write(module._record(said(b"never told" * 10))[:torn])  # noqa: SLF001
        owner.leave()

    @rule(moment=MOMENTS)
    def take_in(self, moment: str) -> None:
        with suppress(Killed), pytest.MonkeyPatch.context() as patch:
            if moment == "before it removes":
                patch.setattr(module, "_remove", killed)
            take_in(self.path, cast("Store", Dying(self.store, moment)), lambda _: None)
        self.check(all_of=[] if moment != "never" else self.dead())

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteStore(self.path)

    def dead(self) -> list[str]:
        living = {owner.token for owner in self.owners}
        return [token for token in self.held if token not in living]

    def check(self, all_of: list[str]) -> None:
        recorded = lines(self.store)
        assert len(set(recorded)) == len(recorded)
        assert b"never told" * 10 not in recorded
        for token in all_of:
            assert [line for line in recorded if line in self.held[token]] == self.held[token]

    def teardown(self) -> None:
        for owner in self.owners:
            owner.leave()
        self.owners.clear()
        self.store.close()
        with open_store(self.path) as store:
            self.store = cast("SqliteStore", store)
            self.check(all_of=list(self.held))
            assert len(lines(store)) == sum(map(len, self.held.values()))
        assert pending_files(self.path) == []
        shutil.rmtree(self.folder)


AnyKills.TestCase.settings = settings(max_examples=some(40), stateful_step_count=20, deadline=None)
TestAnyKills = AnyKills.TestCase


def test_the_oldest_file_is_taken_in_first(path: Path) -> None:
    for number in (2, 1, 3):
        waiting = Pending(path)
        waiting.add([said(b"%d" % number)])
        waiting.leave()
        os.utime(waiting.path, (number, number))
    with open_store(path) as store:
        assert lines(store) == [b"1", b"2", b"3"]
        assert len(store.sessions(Page(with_unopened=True))) == 1
