"""Power loss: synced changes are there, in order, and the store is intact."""

import random
import tempfile
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings, strategies as st

from lossy_disk import File, lay_down, losing_disk
from rekindle.errors import SessionNotFound
from rekindle.model import EntryBatch, Forgotten, Kind, Opened, Side
from rekindle.store.sqlite import connection
from rekindle.store.sqlite.inspect import Inspection
from rekindle.store.sqlite.store import SqliteStore
from selection import some

Write = tuple[int, int, bool, bool]
WRITES = st.lists(
    st.tuples(st.integers(1, 30), st.sampled_from([10, 500, 6000]), st.booleans(), st.booleans()),
    min_size=1,
    max_size=12,
)
"""The number of lines, their length, whether they are synced, and whether they are imported."""


class Failure:
    """The contents of the disk, and the synced entries, at the moment of a power loss."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.promised = 0


def write_all(path: Path, writes: list[Write], moment: int) -> tuple[Failure, int]:
    """Write; return the state at one moment, and the number of moments."""
    failure, written, promised = Failure(), 0, 0

    def state_at(at: int) -> None:
        if at == moment:
            failure.files, failure.promised = disk.snapshot(), promised

    with losing_disk() as disk, pytest.MonkeyPatch.context() as patch:
        # Checkpoints are the hardest part, so there should be some.
        patch.setattr(connection, "_PAGES_PER_CHECKPOINT", 8)
        disk.before_each = state_at
        with SqliteStore(path) as store:
            store.write([Opened(session_id="s", at_us=1, cwd="/p")], sync=True)
            for count, length, sync, is_imported in writes:
                changes = [batch(range(written, written + count), length)]
                if is_imported:
                    assert store.extend("s", written, changes, sync=sync)
                else:
                    store.write(changes, sync=sync)
                written += count
                promised = written if sync else promised
        moments = disk.operations
    return failure, moments


def batch(numbers: range, length: int) -> EntryBatch:
    data = b"\n".join(b"%d %s" % (number, b"x" * length) for number in numbers)
    return EntryBatch(
        session_id="s",
        side=Side.AGENT,
        kind=Kind.UPDATE,
        at_us=1,
        data=data,
        count=len(numbers),
    )


def numbers_in(path: Path) -> list[int]:
    with SqliteStore(path) as store:
        try:
            return [int(entry.line.split()[0]) for entry in store.read("s")]
        except SessionNotFound:
            return []


@settings(max_examples=some(150), deadline=None)
@given(writes=WRITES, part=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_synced_changes_survive_a_power_loss(writes: list[Write], part: float, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        (first := Path(name) / "first").mkdir()
        (second := Path(name) / "second").mkdir()
        _, moments = write_all(first / "s.db", writes, -1)
        failure, _ = write_all(second / "s.db", writes, round(part * (moments - 1)))
        after = Path(name) / "after"
        lay_down(failure.files, after, random.Random(seed))  # noqa: S311 - a seed that is given
        found = numbers_in(after / "s.db")
        assert found == list(range(len(found)))
        assert len(found) >= failure.promised
        with Inspection(after / "s.db") as store:
            assert store.complaints(full=True) + store.unreadable_entries() == []


def forget_all(path: Path, moment: int) -> tuple[dict[str, File], int]:
    """Record and forget a session; return the disk at one moment, and the number of moments."""
    files: dict[str, File] = {}

    def state_at(at: int) -> None:
        if at == moment:
            files.update(disk.snapshot())

    with losing_disk() as disk, SqliteStore(path) as store:
        store.write([Opened(session_id="s", at_us=1, cwd="/p"), batch(range(3), 6000)], sync=True)
        disk.before_each = state_at
        disk.operations = 0
        store.write([Forgotten(session_id="s", at_us=1, hides_agents=True)], sync=True)
        state_at(disk.operations)
        return files, disk.operations


def test_a_power_loss_leaves_a_session_whole_or_forgets_it(tmp_path: Path) -> None:
    _, moments = forget_all(tmp_path / "s.db", -1)
    outcomes: set[tuple[int, ...]] = set()
    for moment in range(moments + 1):
        (folder := tmp_path / str(moment)).mkdir()
        files, _ = forget_all(folder / "s.db", moment)
        for seed in range(5):
            after = folder / str(seed)
            lay_down(files, after, random.Random(seed))  # noqa: S311 - a seed that is given
            found = numbers_in(after / "s.db")
            outcomes.add(tuple(found))
            with SqliteStore(after / "s.db") as store:
                assert bool(store.forgotten_ids(["s"])) is not bool(found)
            with Inspection(after / "s.db") as store:
                assert store.complaints(full=True) + store.unreadable_entries() == []
    assert outcomes == {(0, 1, 2), ()}


def test_the_simulated_disk_loses_unsynced_writes(tmp_path: Path) -> None:
    """Check the test itself: without a sync, everything can be lost."""
    with losing_disk() as disk:
        db = apsw.Connection(str(tmp_path / "x.db"))
        db.execute("pragma synchronous = off; create table t (x); insert into t values (1)")
        db.close()
        files = disk.snapshot()
    kept = {files["x.db"].after_power_failure(random.Random(seed)) for seed in range(20)}  # noqa: S311
    assert b"" in kept
    assert (tmp_path / "x.db").read_bytes() in kept
