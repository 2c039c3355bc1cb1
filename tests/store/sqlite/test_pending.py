"""Pending changes are applied once, wherever the file is cut and whichever process is killed."""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import cast, get_args
from zlib import crc32

import apsw
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace

from rekindle.composition import open_store
from rekindle.errors import SessionNotFound, StoreError, StoreUnavailable
from rekindle.model import (
    AgentIdentity,
    AgentObserved,
    AgentSaved,
    AgentTrait,
    Archived,
    Change,
    Counted,
    Deleted,
    EntryBatch,
    Forgotten,
    Forked,
    Imported,
    Kind,
    Opened,
    Origin,
    Page,
    Side,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.store.base import LeaseMark, Store, UncertainWrite
from rekindle.store.sqlite import pending as module
from rekindle.store.sqlite.filelock import FileLock
from rekindle.store.sqlite.files import pending_files
from rekindle.store.sqlite.pending import MAGIC, PendingFile, apply_abandoned, pending_infos
from rekindle.store.sqlite.store import SqliteStore
from selection import some

NOW = 1_700_000_000_000_000
WORDS = st.text(st.characters(codec="utf-8"))
TIMES = st.integers(-(2**63), 2**63 - 1)


def batch(*lines: bytes, session: str = "s", at_us: int = NOW) -> EntryBatch:
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


# -- the contract ------------------------------------------------------------------------


def test_pending_changes_are_applied_once(store: Store) -> None:
    store.write([batch(b"before")])
    assert store.apply_pending("t", [batch(b"1"), batch(b"2", b"3")]) == []
    assert store.apply_pending("t", [batch(b"1"), batch(b"2", b"3")]) == []
    store.write([batch(b"between")])
    assert store.apply_pending("t", [batch(b"1"), batch(b"2", b"3"), batch(b"4")]) == []
    assert store.apply_pending("other", [batch(b"1")]) == []
    assert lines(store) == [b"before", b"1", b"2", b"3", b"between", b"4", b"1"]
    store.forget_pending("t")
    assert store.apply_pending("t", [batch(b"5")]) == []
    assert lines(store)[-1] == b"5"


UNCERTAIN: list[Change] = [
    Counted(session_id="s", at_us=1, turns=1, messages=1),
    batch(b"1", b"2"),
    batch(b"3", session="other"),
]


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize(("number", "after"), [(1, 1), (2, 0)])
def test_an_uncertain_write_is_applied_once(
    store: Store, number: int, after: int, *, is_applied: bool
) -> None:
    found = UNCERTAIN[number]
    assert isinstance(found, EntryBatch)
    mark = UncertainWrite.of(UNCERTAIN, found, after)
    assert mark
    store.write([batch(b"before")])
    if is_applied:
        store.write(UNCERTAIN)
    for _ in range(2):
        assert store.apply_pending("t", [mark, *UNCERTAIN, batch(b"4")]) == []
    assert lines(store) == [b"before", b"1", b"2", b"4"]
    assert lines(store, "other") == [b"3"]
    assert store.session("s").turns == 1


@pytest.mark.parametrize(
    "written",
    [
        batch(b"1", b"x"),
        batch(b"1"),
        batch(b"1", b"2", at_us=2),
        replace(batch(b"1", b"2"), side=Side.CLIENT),
        replace(batch(b"1", b"2"), kind=Kind.ECHO),
    ],
)
def test_another_write_is_not_mistaken_for_the_uncertain_one(
    store: Store, written: EntryBatch
) -> None:
    expected = batch(b"1", b"2")
    mark = UncertainWrite.of([expected], expected, 0)
    assert mark
    store.write([written])
    store.apply_pending("t", [mark, expected])
    assert lines(store)[-2:] == [b"1", b"2"]
    assert len(lines(store)) == written.count + 2


def test_an_uncertain_fork_is_recognised_by_its_session(store: Store) -> None:
    store.write([batch(b"1")])
    fork = Forked(session_id="fork", at_us=2, parent_id="s", until_seq=1)
    counted = Counted(session_id="fork", at_us=2, turns=1)
    mark = UncertainWrite.of([fork, counted], None, 0)
    assert mark
    for token in ("one", "two"):
        store.apply_pending(token, [mark, fork, counted])
    assert lines(store, "fork") == [b"1"]
    assert store.session("fork").turns == 1


def test_a_write_without_entries_needs_no_mark() -> None:
    assert UncertainWrite.of([Opened(session_id="s", at_us=1)], None, 0) is None


def test_a_change_that_cannot_be_encoded_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    title = Titled(session_id="s", at_us=1, source=TitleSource.USER, title="\ud800")
    changes: list[Change] = [batch(b"1"), title, batch(b"2")]
    mark = UncertainWrite.of(changes, batch(b"1"), 0)
    assert mark
    waiting = PendingFile(path)
    assert len(waiting.add([mark, *changes, batch(b"3")])) == 1
    with SqliteStore(path) as store:
        store.write([batch(b"1"), batch(b"2")])
        store.apply_pending("t", waiting.changes())
        assert lines(store) == [b"1", b"2", b"3"]
    assert [info.sessions for info in pending_infos(path)] == [frozenset({"s"})]
    waiting.remove()


def test_an_invalid_change_does_not_stop_the_others(store: Store) -> None:
    fork = Forked(session_id="f", at_us=NOW, parent_id="nobody", until_seq=1)
    for _ in range(2):
        wrong = store.apply_pending("t", [batch(b"1"), fork, batch(b"2")])
        assert ["SessionNotFound" in it for it in wrong] in ([True], [])
    assert lines(store) == [b"1", b"2"]


def test_no_pending_change_is_applied_if_the_iterable_raises(store: Store) -> None:
    def failing() -> Iterator[Change]:
        yield batch(b"1")
        raise StoreUnavailable("no")

    with pytest.raises(StoreUnavailable):
        store.apply_pending("t", failing())
    assert lines(store) == []
    store.apply_pending("t", [batch(b"1"), batch(b"2")])
    assert lines(store) == [b"1", b"2"]


def test_pending_changes_older_than_a_purge_are_skipped(store: Store) -> None:
    for name in ("purged", "deleted"):
        store.write([Opened(session_id=name, at_us=1, cwd="/p"), batch(b"0", session=name)])
        store.write([Deleted(session_id=name, at_us=10)])
    store.purge("purged")
    early = [
        Counted(session_id="purged", at_us=9, turns=1),
        batch(b"1", session="purged", at_us=10),
    ]
    store.apply_pending("t", [*early, batch(b"1", session="deleted", at_us=10)])
    assert store.session("purged").is_purged
    assert (lines(store, "purged"), lines(store, "deleted")) == ([], [b"0", b"1"])
    again = Opened(session_id="purged", at_us=11, cwd="/p")
    store.apply_pending("t", [*early, batch(b"1"), again, batch(b"2", session="purged", at_us=12)])
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
    st.builds(Truncated, session_id=WORDS, at_us=TIMES, until_seq=st.integers(0, 9)),
    st.builds(
        Imported,
        session_id=WORDS,
        at_us=TIMES,
        origin=st.builds(Origin, tool=WORDS, path=WORDS, entries=st.integers(0, 9)),
    ),
    st.builds(AgentSaved, session_id=WORDS, at_us=TIMES),
    st.builds(
        AgentObserved,
        session_id=WORDS,
        at_us=TIMES,
        release=WORDS,
        trait=st.sampled_from(AgentTrait),
    ),
    st.builds(Forgotten, session_id=WORDS, at_us=TIMES, hides_agents=st.booleans()),
)


def test_every_change_can_wait_in_a_pending_file() -> None:
    assert {*get_args(Change), UncertainWrite, LeaseMark} == set(module._TAGS)  # noqa: SLF001


@pytest.fixture(scope="module")
def shared_setup() -> Iterator[Path]:
    folder = Path(mkdtemp())
    yield folder / "s.db"
    shutil.rmtree(folder)


@given(st.lists(st.lists(CHANGES, max_size=3), max_size=4))
def test_a_pending_file_round_trips_all_changes(
    shared_setup: Path, batches: list[list[Change]]
) -> None:
    waiting = PendingFile(shared_setup)
    for batch in batches:
        assert waiting.add(batch) == []
    changes = [change for batch in batches for change in batch]
    assert list(waiting.changes()) == changes
    assert waiting.entries == sum(isinstance(it, EntryBatch) for it in changes)
    waiting.remove()
    assert pending_files(shared_setup) == []


def whole(count: int) -> tuple[list[Change], list[bytes]]:
    """Return changes, and the contents of the file after each."""
    changes: list[Change] = [batch(b"%d" % n * (n * 7 % 40 + 1)) for n in range(count)]
    records = [module._encode_record(change) for change in changes]  # noqa: SLF001
    return changes, [MAGIC + b"".join(records[:n]) for n in range(count + 1)]


@given(st.data())
def test_a_truncated_file_keeps_its_complete_changes(
    shared_setup: Path, data: st.DataObject
) -> None:
    changes, contents = whole(8)
    cut = data.draw(st.integers(0, len(contents[-1])))
    file = shared_setup.with_name("s.db.pending-cut")
    tail = data.draw(st.sampled_from([b"", b"\0" * 20, b"\xff" * 20, MAGIC]))
    file.write_bytes(contents[-1][:cut] + (tail if cut >= len(MAGIC) else b""))
    expected = sum(len(content) <= cut for content in contents[1:])
    for _ in range(2):
        with open_store(shared_setup, create=True) as store:
            written = [b"%d" % n * (n * 7 % 40 + 1) for n in range(expected)]
            assert lines(store) == written, (cut, tail)
    assert not file.exists()
    with SqliteStore(shared_setup) as store:
        assert len(changes) == 8
        store.erase("s")


@given(st.integers(0, 400), st.integers(0, 7))
def test_a_flipped_bit_loses_at_most_one_change(shared_setup: Path, at: int, bit: int) -> None:
    changes, contents = whole(8)
    content = bytearray(contents[-1])
    content[at % len(content)] ^= 1 << bit
    file = shared_setup.with_name("s.db.pending-flip")
    file.write_bytes(content)
    fd = os.open(file, os.O_RDONLY)
    try:
        found = list(module._changes_in(fd, file))  # noqa: SLF001
    except StoreError:
        assert at % len(content) < len(MAGIC)
    else:
        assert [it for it in changes if it in found] == found
        assert len(found) >= len(changes) - 1
    finally:
        os.close(fd)
        file.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "s.db"


def test_a_pending_file_is_private_and_shows_its_owner(path: Path) -> None:
    umask = os.umask(0)
    try:
        waiting = PendingFile(path)
    finally:
        os.umask(umask)
    waiting.add([batch(b"1", b"2"), Deleted(session_id="t", at_us=1)])
    waiting.sync()
    assert stat.S_IMODE(waiting.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (found,) = pending_infos(path)
    assert (found.location, found.is_alive, found.entries) == (waiting.location, True, 2)
    assert found.sessions == {"s", "t"}
    with open_store(path, create=True) as store:
        assert lines(store) == []
    waiting.leave()
    assert [it.is_alive for it in pending_infos(path)] == [False]
    with open_store(path, create=False) as store:
        assert lines(store) == []
    with open_store(path, create=True) as store:
        assert lines(store) == [b"1", b"2"]
        assert cast("SqliteStore", store)._query("select * from pending") == []  # noqa: SLF001
    assert pending_infos(path) == []


def test_a_pending_file_of_a_newer_rekindle_is_left_alone(path: Path) -> None:
    with SqliteStore(path):
        for name, content in (
            ("mark", b"rekindle pending 2\nsomething"),
            ("kind", MAGIC + module._HEAD.pack(1, crc32(b"\x95")) + b"\x95"),  # noqa: SLF001
        ):
            path.with_name(f"s.db.pending-{name}").write_bytes(content)
    waiting = PendingFile(path)
    waiting.add([batch(b"1")])
    waiting.leave()
    with open_store(path, create=True) as store:
        assert lines(store) == [b"1"]
    found = pending_infos(path)
    assert len(found) == 2
    assert all("Rekindle" in it.problem for it in found)


def test_a_store_does_not_open_if_pending_changes_cannot_be_applied(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([batch(b"1")])
    waiting = PendingFile(path)
    waiting.add([batch(b"2")])
    with closing(apsw.Connection(str(path))) as other:
        other.execute("begin exclusive")
        open_store(path, create=True).close()
        waiting.leave()
        with pytest.raises(StoreUnavailable, match="locked"):
            open_store(path, create=True)
    with open_store(path, create=True) as store:
        assert lines(store) == [b"1", b"2"]


def test_a_pending_file_removed_before_its_lock_is_created_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    acquire = FileLock.acquire

    def acquire_late(lock: FileLock, timeout: float) -> bool:
        # A process that looks just before the lock is acquired removes the file.
        if not removed:
            removed.extend(pending_files(path))
            removed[0].unlink()
        return acquire(lock, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(FileLock, "acquire", acquire_late)
        waiting = PendingFile(path)
    waiting.add([batch(b"1")])
    assert removed == [waiting.path]
    assert [it.entries for it in pending_infos(path)] == [1]
    waiting.remove()


def test_a_failed_write_keeps_the_earlier_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = PendingFile(path)
    waiting.add([batch(b"1")])
    write = os.pwrite

    def write_half(fd: int, data: bytes, at: int) -> int:
        if len(data) < 10:
            raise OSError(28, "no room")
        return write(fd, data[: len(data) // 2], at)

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "pwrite", write_half)
        with pytest.raises(OSError, match="no room"):
            waiting.add([batch(b"2" * 100)])
    waiting.add([batch(b"3")])
    assert list(waiting.changes()) == [batch(b"1"), batch(b"3")]
    waiting.remove()


def test_recovery_keeps_the_count_of_applied_changes(path: Path) -> None:
    from rekindle.store.sqlite.quarantine import recover  # noqa: PLC0415
    from rekindle.transcript.titles import title_from_prompt  # noqa: PLC0415

    waiting = PendingFile(path)
    waiting.add([batch(b"%d" % n) for n in range(3)])
    with SqliteStore(path) as store:
        store.apply_pending(waiting.token, waiting.changes())
    # Killed before the file was removed; then the store is damaged.
    waiting.leave()
    with path.open("r+b") as file:
        file.write(b"\xff" * 50)
    recover(path, title_from_prompt)
    with open_store(path, create=True) as store:
        assert lines(store) == [b"0", b"1", b"2"]


# -- any interleaving of kills ----------------------------------------------------------


class Killed(BaseException):
    """A process is killed: it does nothing more, and the kernel releases its locks."""


MOMENTS = st.sampled_from(
    ["never", "before it commits", "when it has", "before it removes", "before it forgets"]
)


class DyingStore:
    """A store used by a process that is killed at some moment."""

    def __init__(self, store: Store, moment: str) -> None:
        self._store = store
        self._moment = moment

    def apply_pending(self, token: str, changes: Iterable[Change]) -> list[str]:
        self._store.apply_pending(token, self._consume(changes))
        if self._moment == "when it has":
            raise Killed
        return []

    def _consume(self, changes: Iterable[Change]) -> Iterator[Change]:
        yield from changes
        if self._moment == "before it commits":
            raise Killed

    def forget_pending(self, token: str) -> None:
        if self._moment == "before it forgets":
            raise Killed
        self._store.forget_pending(token)


def killed(_: Path) -> None:
    raise Killed


class KilledProcesses(RuleBasedStateMachine):
    """Owners that buffer and catch up, others that apply, and kills at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp())
        self.path = self.folder / "s.db"
        self.store = SqliteStore(self.path)
        self.owners: list[PendingFile] = []
        self.held: dict[str, list[bytes]] = {}
        self.serial = 0

    @precondition(lambda self: len(self.owners) < 3)
    @rule()
    def fail(self) -> None:
        self.owners.append(PendingFile(self.path))
        self.held[self.owners[-1].token] = []

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), count=st.integers(1, 4))
    def buffer(self, data: st.DataObject, count: int) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        new = [b"%d" % (self.serial + n) for n in range(count)]
        self.serial += count
        owner.add([batch(line) for line in new])
        self.held[owner.token] += new

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), moment=MOMENTS)
    def catch_up(self, data: st.DataObject, moment: str) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        self.owners.remove(owner)
        dying = DyingStore(self.store, moment)
        try:
            dying.apply_pending(owner.token, owner.changes())
            owner.remove()
            dying.forget_pending(owner.token)
        except Killed:
            with suppress(OSError):
                owner.leave()

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), torn=st.integers(0, 60))
    def die(self, data: st.DataObject, torn: int) -> None:
        owner = data.draw(st.sampled_from(self.owners))
        self.owners.remove(owner)
        with owner.path.open("ab") as file:
            file.write(module._encode_record(batch(b"never told" * 10))[:torn])  # noqa: SLF001
        owner.leave()

    @rule(moment=MOMENTS)
    def apply_abandoned(self, moment: str) -> None:
        with suppress(Killed), pytest.MonkeyPatch.context() as patch:
            if moment == "before it removes":
                patch.setattr(module, "_remove", killed)
            apply_abandoned(
                self.path, cast("Store", DyingStore(self.store, moment)), lambda _: None
            )
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
        with open_store(self.path, create=True) as store:
            self.store = cast("SqliteStore", store)
            self.check(all_of=list(self.held))
            assert len(lines(store)) == sum(map(len, self.held.values()))
        assert pending_files(self.path) == []
        shutil.rmtree(self.folder)


KilledProcesses.TestCase.settings = settings(
    max_examples=some(40), stateful_step_count=20, deadline=None
)
TestKilledProcesses = KilledProcesses.TestCase


def test_the_oldest_pending_file_is_applied_first(path: Path) -> None:
    for number in (2, 1, 3):
        waiting = PendingFile(path)
        waiting.add([batch(b"%d" % number)])
        waiting.leave()
        os.utime(waiting.path, (number, number))
    with open_store(path, create=True) as store:
        assert lines(store) == [b"1", b"2", b"3"]
        assert len(store.sessions(Page(with_unopened=True))) == 1
