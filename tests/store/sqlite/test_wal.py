"""A damaged WAL is detected. A torn end, or a WAL in use, is not damage."""

import shutil
import struct
from pathlib import Path
from threading import Thread

import apsw
import pytest
from failing_disk import WAL, copy_after_kill, failing_disk
from hypothesis import given, settings, strategies as st

from rekindle.errors import StoreDamaged, StoreUnavailable
from rekindle.store.sqlite import wal
from rekindle.store.sqlite.inspect import is_store
from rekindle.store.sqlite.quarantine import is_damaged, recover
from rekindle.store.sqlite.store import SqliteStore
from rekindle.store.sqlite.wal import PAGE, hides_commits
from rekindle.transcript.titles import title_from_prompt
from selection import some
from store_damage import ALL, Original, chance_of, check_result, chunks, described, fill, lay_down

HEADER = 32
FRAME = 24 + PAGE


@pytest.fixture(scope="module")
def store_in_wal(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Return a store whose contents are all in its WAL, as a killed process leaves it."""
    folder = tmp_path_factory.mktemp("logged")
    path, copy = folder / "s.db", folder / "copy.db"
    with SqliteStore(path) as store:
        fill(store, range(20))
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{copy}{end}")
    files = {end: Path(f"{copy}{end}").read_bytes() for end in ("", "-wal")}
    assert len(files[""]) == PAGE
    whole = described(copy)
    return Original(files, whole.entries, whole.ids, {}, [], [])


def with_wal(store_in_wal: Original, log: bytes, folder: Path) -> Path:
    return lay_down(store_in_wal.files | {"-wal": log}, folder)


def frames(log: bytes) -> list[int]:
    return list(range(HEADER, len(log), FRAME))


def commits(log: bytes) -> list[int]:
    return [at for at in frames(log) if any(log[at + 4 : at + 8])]


def flipped(log: bytes, at: int, bit: int = 0) -> bytes:
    changed = bytearray(log)
    changed[at] ^= 1 << bit
    return bytes(changed)


@settings(deadline=None, max_examples=some(60))
@given(st.integers(0, 2**32))
def test_a_flipped_bit_in_the_wal_is_detected_before_writing(
    store_in_wal: Original, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance, log = chance_of(seed), store_in_wal.files["-wal"]
    # The header is small, and every bit of it counts.
    end = chance.choice([HEADER, commits(log)[-3]])
    log = flipped(log, chance.randrange(end), chance.randrange(8))
    path = with_wal(store_in_wal, log, tmp_path_factory.getbasetemp() / "flipped")
    for create in (False, True, False):
        with pytest.raises(StoreDamaged, match="write-ahead log"):
            SqliteStore(path, create=create)
    assert is_store(path)
    assert path.with_name("s.db-wal").read_bytes() == log
    report = recover(path, title_from_prompt)
    assert report
    saved = check_result(path, store_in_wal, report)
    assert len(saved) > len(store_in_wal.entries) - 20
    assert report.sessions_saved == 20


def with_big_endian_checksums(log: bytes) -> bytes:
    """Return a WAL as a machine with the other byte order writes it."""
    changed = bytearray(log)
    changed[:4] = (0x377F0683).to_bytes(4, "big")

    def checksum(before: tuple[int, int], data: bytes) -> tuple[int, int]:
        one, two = before
        for even, odd in struct.iter_unpack(">II", data):
            one = (one + even + two) & 0xFFFFFFFF
            two = (two + odd + one) & 0xFFFFFFFF
        return one, two

    last = checksum((0, 0), changed[:24])
    changed[24:32] = struct.pack(">II", *last)
    for at in frames(log):
        last = checksum(last, changed[at : at + 8] + changed[at + 24 : at + FRAME])
        changed[at + 16 : at + 24] = struct.pack(">II", *last)
    return bytes(changed)


def test_a_wal_of_the_other_byte_order_is_read_and_checked(
    store_in_wal: Original, tmp_path: Path
) -> None:
    log = with_big_endian_checksums(store_in_wal.files["-wal"])
    intact = with_wal(store_in_wal, log, tmp_path / "intact")
    assert not is_damaged(intact)
    with SqliteStore(intact) as store:
        assert len(store.sessions(ALL)) == 20
    at = commits(log)[-4] + FRAME + 100
    damaged = with_wal(store_in_wal, flipped(log, at), tmp_path / "damaged")
    with pytest.raises(StoreDamaged, match="write-ahead log"):
        SqliteStore(damaged)
    report = recover(damaged, title_from_prompt)
    assert report
    assert report.sessions_saved == 20


@settings(deadline=None, max_examples=some(40))
@given(st.integers(0, 2**32))
def test_a_torn_last_commit_is_not_damage(
    store_in_wal: Original, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance, log = chance_of(seed), bytearray(store_in_wal.files["-wal"])
    if chance.choice([True, False]):
        # As a killed process leaves it.
        del log[chance.randrange(len(log)) :]
    else:
        # As a power loss may leave it: in any order, and incomplete.
        last = [at for at in frames(log) if at > commits(log)[-2]]
        for at in chance.sample(last, chance.randint(1, len(last))):
            begin = at + chance.choice([0, 512, 2048])
            log[begin : at + FRAME] = bytes(at + FRAME - begin)
    path = with_wal(store_in_wal, bytes(log), tmp_path_factory.getbasetemp() / "torn")
    assert not is_damaged(path)
    with SqliteStore(path) as store:
        store.write([chunks("ses_new", 1, 1)], sync=True)
        assert store.session("ses_new")


def test_commits_after_a_torn_one_are_not_damage(store_in_wal: Original, tmp_path: Path) -> None:
    log = store_in_wal.files["-wal"]
    path = with_wal(store_in_wal, flipped(log, commits(log)[-2] + FRAME + 100), tmp_path / "x")
    for n in range(5):
        with SqliteStore(path) as store:
            store.write([chunks("ses_1", n, 1)])
            assert not hides_commits(store._db, path)  # noqa: SLF001


def test_a_damaged_checksum_before_the_last_commit_is_detected(
    store_in_wal: Original, tmp_path: Path
) -> None:
    log = store_in_wal.files["-wal"]
    path = with_wal(store_in_wal, flipped(log, commits(log)[-2] + 18), tmp_path / "x")
    with pytest.raises(StoreDamaged, match="write-ahead log"):
        SqliteStore(path)


def test_failed_commits_of_decreasing_size_are_not_damage(tmp_path: Path) -> None:
    (folder := tmp_path / "store").mkdir()
    path = folder / "s.db"
    with (
        failing_disk() as disk,
        SqliteStore(path) as one,
        SqliteStore(path) as two,
        SqliteStore(path) as three,
    ):
        for store, name in ((one, "ses_1"), (two, "ses_2"), (three, "ses_3")):
            store.write([chunks(name, 1, 1)], sync=True)
        disk.faults = {("sync", WAL)}
        for store, name, count in ((one, "ses_1", 4000), (two, "ses_2", 2000)):
            with pytest.raises(StoreUnavailable):
                store.write([chunks(name, 2, count)], sync=True)
        disk.faults = set()
        three.write([chunks("ses_3", 2, 1)], sync=True)
        for found in (path, copy_after_kill(path, tmp_path / "after")):
            with SqliteStore(found) as store:
                assert [store.session(f"ses_{n}").last_seq for n in (1, 2, 3)] == [1, 1, 2]


def test_a_wal_with_active_writers_is_not_damage(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store, SqliteStore(path) as other:
        writer = Thread(target=lambda: fill(other, range(30)))
        writer.start()
        while writer.is_alive():
            assert not hides_commits(store._db, path)  # noqa: SLF001
            SqliteStore(path, create=False).close()
        writer.join()
        # The next writer overwrites the rest of the WAL.
        store._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)  # noqa: SLF001
        assert not hides_commits(store._db, path)  # noqa: SLF001
        store.write([chunks("ses_1", 1, 1)])
        assert not hides_commits(store._db, path)  # noqa: SLF001
        assert len(store.sessions(ALL)) == 30


def test_a_commit_under_way_is_not_reported_as_locked(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store, SqliteStore(path) as other:
        fill(store, range(2))
        assert other.sessions(ALL)
        with store.writing(), path.with_name("s.db-shm").open("r+b", buffering=0) as shared:
            # The WAL index has two headers, written one after the other. In between they differ.
            first = shared.read(1)
            shared.seek(0)
            shared.write(bytes([first[0] ^ 1]))
            with pytest.raises(apsw.BusyError):
                other._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)  # noqa: SLF001
            assert not hides_commits(other._db, path)  # noqa: SLF001
            shared.seek(0)
            shared.write(first)
        assert len(other.sessions(ALL)) == 2


def test_damage_while_in_use_is_detected_by_every_process(
    store_in_wal: Original, tmp_path: Path
) -> None:
    path = with_wal(store_in_wal, store_in_wal.files["-wal"], tmp_path / "x")
    with SqliteStore(path) as store:
        log = path.with_name("s.db-wal")
        log.write_bytes(flipped(log.read_bytes(), 5))
        # SQLite knows all frames, and checkpoints them.
        with SqliteStore(path) as other:
            assert len(other.sessions(ALL)) == len(store.sessions(ALL)) == 20
    with SqliteStore(path) as store:
        assert len(store.sessions(ALL)) == 20


@pytest.mark.parametrize("bad", [None, HEADER + 5 * FRAME + 99])
def test_a_commit_that_sqlite_learns_late_is_not_hidden(
    store_in_wal: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int | None
) -> None:
    log = store_in_wal.files["-wal"]
    path = with_wal(store_in_wal, log if bad is None else flipped(log, bad), tmp_path / "x")
    # The state for a moment when the WAL is restarted while another process writes.
    known = iter([(0, b"")] if bad is None else [(0, b""), *[(len(frames(log)), b"")] * 2])
    monkeypatch.setattr(wal, "_known", lambda *_: next(known))
    assert not hides_commits(None, path)
