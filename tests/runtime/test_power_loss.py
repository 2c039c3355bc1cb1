"""Power loss while changes wait in a pending file: synced changes are recorded, each once."""

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from hypothesis import given, settings, strategies as st

from lossy_disk import File, lay_down, losing_disk
from rekindle.composition import HOOKS, open_store
from rekindle.errors import SessionNotFound
from rekindle.model import EntryBatch, Kind, Side
from rekindle.runtime import recorder as module
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.store.sqlite.files import pending_files
from rekindle.store.sqlite.pending import PendingFile
from rekindle.store.sqlite.store import SqliteStore
from selection import some

Write = tuple[int, bool, bool]
WRITES = st.lists(
    st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=6
)
"""The number of entries, whether they are synced, and whether the store fails meanwhile."""


class Moment(NamedTuple):
    """The contents of the disk, and the number of synced entries, if the power fails now."""

    files: dict[str, File]
    promised: int


def moments_of(path: Path, writes: list[Write]) -> list[Moment]:
    """Record; return the state before each operation of the disk, and at the end."""
    moments: list[Moment] = []
    written = promised = 0
    with losing_disk() as disk, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FIRST_PAUSE", 0.0)
        patch.setattr(module, "_MAX_PAUSE", 0.0)
        SqliteStore(path).close()
        disk.before_each = lambda _: moments.append(Moment(disk.snapshot(), promised))
        recorder = Recorder(
            lambda: SqliteStore(path, timeout=0.0, hooks=HOOKS),
            Log(),
            open_pending=lambda token: PendingFile(path, token),
        )
        for count, sync, fails in writes:
            with locked(path, is_locked=fails):
                recorder.record([batch(range(written, written + count))], sync=sync)
            written += count
            promised = written if sync else promised
        recorder.close()
        moments.append(Moment(disk.snapshot(), promised))
    return moments


@contextmanager
def locked(path: Path, *, is_locked: bool) -> Iterator[None]:
    other = apsw.Connection(str(path))
    try:
        if is_locked:
            other.execute("begin exclusive")
        yield
    finally:
        other.close()


def batch(numbers: range) -> EntryBatch:
    return EntryBatch(
        session_id="s",
        side=Side.AGENT,
        kind=Kind.UPDATE,
        at_us=1,
        data=b"\n".join(b"%d" % number for number in numbers),
        count=len(numbers),
    )


def numbers_in(path: Path) -> list[int]:
    """Let the next process apply pending changes; return the recorded numbers."""
    with open_store(path, create=True) as store:
        try:
            return [int(entry.line) for entry in store.read("s")]
        except SessionNotFound:
            return []


def check(moment: Moment, folder: Path, seed: int) -> None:
    lay_down(moment.files, folder, random.Random(seed))  # noqa: S311 - a seed that is given
    found = numbers_in(folder / "s.db")
    assert found[: moment.promised] == list(range(moment.promised))
    # Of unsynced changes that wait, any may be lost. The user is informed, and the file is kept.
    is_damaged = any(file.suffix == ".damaged" for file in pending_files(folder / "s.db"))
    assert found == (sorted(set(found)) if is_damaged else list(range(len(found))))


@settings(max_examples=some(150), deadline=None)
@given(writes=WRITES, part=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_synced_changes_that_wait_survive_a_power_loss(
    writes: list[Write], part: float, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        moments = moments_of(Path(name) / "s.db", writes)
        check(moments[round(part * (len(moments) - 1))], Path(name) / "after", seed)


@pytest.mark.parametrize(
    "writes",
    [
        [(1, True, False), (1, True, True)],
        [(1, True, False), (1, True, True), (1, True, False)],
        [(1, False, False), (1, True, True)],
    ],
)
def test_every_moment_of_a_failure_survives_a_power_loss(
    tmp_path: Path, writes: list[Write]
) -> None:
    """Check every moment of changes that wait, and of their way into the store."""
    for number, moment in enumerate(moments_of(tmp_path / "s.db", writes)):
        for seed in range(4):
            check(moment, tmp_path / f"after-{number}-{seed}", seed)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_every_moment_of_another_process_survives_a_power_loss(
    tmp_path: Path, *, is_damaged: bool
) -> None:
    """Check every moment in which the next process applies what a killed one has left."""
    path, moments = tmp_path / "s.db", list[Moment]()
    with losing_disk() as disk:
        with SqliteStore(path) as store:
            store.write([batch(range(1))], sync=True)
        waiting = PendingFile(path)
        for number in range(1, 4):
            waiting.add([batch(range(number, number + 1))])
        waiting.sync()
        waiting.leave()
        if is_damaged:
            overwrite_second_change(waiting.path)
        disk.before_each = lambda _: moments.append(Moment(disk.snapshot(), 4))
        with open_store(path, create=True) as store:
            store.write((), sync=True)
        moments.append(Moment(disk.snapshot(), 4))
    for number, moment in enumerate(moments):
        for seed in range(4):
            folder = tmp_path / f"after-{number}-{seed}"
            lay_down(moment.files, folder, random.Random(seed))  # noqa: S311 - a seed that is given
            assert numbers_in(folder / "s.db") == ([0, 1, 3] if is_damaged else [0, 1, 2, 3])


def overwrite_second_change(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    at = path.read_bytes().rindex(b"\xc4\x012")
    os.pwrite(fd, b"\xc4\x01x", at)
    os.fsync(fd)
    os.close(fd)
