"""A write whose result is unknown is recorded once, also if the process is killed next."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from failing_disk import (
    FAULTS,
    PENDING,
    STORE,
    WAL,
    FailingDisk,
    Fault,
    copy_after_kill,
    failing_disk,
)
from hypothesis import given, settings, strategies as st

from rekindle.composition import HOOKS, open_store
from rekindle.model import Change, Counted, EntryBatch, Forked, Kind, Opened, Side
from rekindle.runtime import recorder as module, write_buffer
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.store.sqlite import connection
from rekindle.store.sqlite.files import pending_files
from rekindle.store.sqlite.pending import PendingFile
from rekindle.store.sqlite.store import SqliteStore
from selection import some
from stdio_client import TIMEOUT

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    make_eager(monkeypatch)


def make_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let recorders try again at every change."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "_MAX_PAUSE", 0.0)


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    with failing_disk() as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (folder := tmp_path / "store").mkdir()
    return folder / STORE


@pytest.fixture
def after_kill(disk: FailingDisk, path: Path, tmp_path: Path) -> Callable[[], "Recorded"]:
    """Return the record that the next process finds if all are killed now."""

    def find() -> Recorded:
        copy = copy_after_kill(path, tmp_path / "after")
        disk.faults = set()
        return recorded(copy)

    return find


def recorder_for(path: Path) -> Recorder:
    return Recorder(
        lambda: SqliteStore(path, timeout=0.05, hooks=HOOKS),
        Log(),
        open_pending=lambda token: PendingFile(path, token),
    )


def entries(*numbers: int, kind: Kind = Kind.UPDATE, session_id: str = "s") -> EntryBatch:
    return EntryBatch(
        session_id=session_id,
        side=Side.AGENT,
        kind=kind,
        at_us=1,
        data=b"\n".join(b"%d" % number for number in numbers),
        count=len(numbers),
    )


def prompt(number: int) -> list[Change]:
    return [
        Counted(session_id="s", at_us=1, turns=1, messages=1),
        entries(number, kind=Kind.PROMPT),
    ]


Recorded = dict[str, tuple[list[int], int]]
"""The numbers of the entries, and the turns, by session."""


def recorded(path: Path) -> Recorded:
    """Let the next process apply pending changes; return the record."""
    with open_store(path, create=True) as store:
        found = {}
        for session_id in store.known_ids(["s", "fork", "other"]):
            numbers = [int(entry.line) for entry in store.read(session_id)]
            found[session_id] = numbers, store.session(session_id).turns
    assert pending_files(path) == []
    return found


# -- one failure ----------------------------------------------------------------------------


def test_a_commit_whose_sync_failed_is_found_after_a_kill(
    disk: FailingDisk, path: Path, after_kill: Callable[[], Recorded]
) -> None:
    """Check the test itself: SQLite reports a failure, and the next process has the commit."""
    recorder = recorder_for(path)
    recorder.record(prompt(1), sync=True)
    disk.faults = {("sync", WAL)}
    recorder.record(prompt(2), sync=True)
    assert disk.failures
    with SqliteStore(path) as store:
        assert store.session("s").turns == 1
    for file in pending_files(path):
        file.unlink()
    assert after_kill() == {"s": ([1, 2], 2)}
    recorder.close()


FORK = [
    Forked(session_id="fork", at_us=2, parent_id="s", until_seq=1),
    Counted(session_id="fork", at_us=2, turns=1, messages=1),
]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (prompt(2), {"s": ([1, 2], 2)}),
        ([entries(2, 3)], {"s": ([1, 2, 3], 1)}),
        ([*prompt(2), entries(3), entries(4, session_id="other")],
         {"s": ([1, 2, 3], 2), "other": ([4], 0)}),
        (FORK, {"s": ([1], 1), "fork": ([1], 1)}),
        ([Opened(session_id="s", at_us=2, cwd="/p")], {"s": ([1], 1)}),
    ],
)  # fmt: skip
def test_a_failed_sync_before_a_kill_doubles_nothing(
    disk: FailingDisk,
    path: Path,
    after_kill: Callable[[], Recorded],
    changes: Sequence[Change],
    expected: Recorded,
) -> None:
    recorder = recorder_for(path)
    recorder.record(prompt(1), sync=True)
    disk.faults = {("sync", WAL)}
    recorder.record(changes, sync=True)
    assert disk.failures
    assert after_kill() == expected
    recorder.close()


def test_changes_after_the_uncertain_ones_are_applied(
    disk: FailingDisk, path: Path, after_kill: Callable[[], Recorded]
) -> None:
    recorder = recorder_for(path)
    recorder.record(prompt(1), sync=True)
    disk.faults = {("sync", WAL)}
    recorder.record(prompt(2), sync=True)
    recorder.record([entries(3)], sync=False)
    recorder.record([entries(4)], sync=True)
    assert after_kill() == {"s": ([1, 2, 3, 4], 2)}
    recorder.close()


def test_an_uncertain_write_that_was_overwritten_is_applied(
    disk: FailingDisk, path: Path, after_kill: Callable[[], Recorded]
) -> None:
    recorder = recorder_for(path)
    recorder.record(prompt(1), sync=True)
    with SqliteStore(path) as other:
        disk.faults = {("sync", WAL)}
        recorder.record(prompt(2), sync=True)
        disk.faults.clear()
        other.write([entries(7, session_id="other")], sync=True)
        assert after_kill() == {"s": ([1, 2], 2), "other": ([7], 0)}
    recorder.close()


def test_another_entry_at_the_same_place_is_not_mistaken(
    disk: FailingDisk, path: Path, after_kill: Callable[[], Recorded]
) -> None:
    recorder = recorder_for(path)
    recorder.record(prompt(1), sync=True)
    with SqliteStore(path) as other:
        disk.faults = {("sync", WAL)}
        recorder.record([entries(2)], sync=True)
        disk.faults.clear()
        other.write([entries(3)], sync=True)
        assert after_kill() == {"s": ([1, 3, 2], 1)}
    recorder.close()


def test_a_failing_pending_file_does_not_double_either(
    disk: FailingDisk, path: Path, after_kill: Callable[[], Recorded]
) -> None:
    """The changes wait in memory, are tried again from there, and then reach the file."""
    recorder = recorder_for(path)
    recorder.record(prompt(1), sync=True)
    disk.faults = {("sync", WAL), ("write", PENDING)}
    recorder.record(prompt(2), sync=True)
    recorder.record(prompt(3), sync=True)
    disk.faults.remove(("write", PENDING))
    recorder.record(prompt(4), sync=True)
    assert len(pending_files(path)) == 1
    assert after_kill() == {"s": ([1, 2, 3, 4], 4)}
    recorder.close()


def test_a_gap_of_an_uncertain_write_does_not_hide_later_losses(
    disk: FailingDisk, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write is in the store, and its entries do not fit into memory."""
    monkeypatch.setattr(write_buffer, "_MAX_BYTES", 3)
    # The checkpoint after a commit fails, and the commit is reported as failed.
    monkeypatch.setattr(connection, "_PAGES_PER_CHECKPOINT", 1)
    recorder = recorder_for(path)
    recorder.record(prompt(1), sync=True)
    disk.faults = {("sync", STORE), ("write", PENDING)}
    recorder.record([entries(2000, 3000)], sync=True)
    disk.faults = {("sync", WAL), ("write", WAL), ("write", PENDING)}
    recorder.record([entries(4000)], sync=False)
    recorder.record([entries(5000, 6000)], sync=False)
    disk.faults = set()
    recorder.record([entries(7)], sync=True)
    recorder.close()
    with SqliteStore(path) as store:
        lines = [entry.line for entry in store.read("s")]
    lost = [b'{"lostEntries":1}', b'{"lostEntries":2}']
    assert lines == [b"1", b"2000", b"3000", *lost, b"7"]


# -- a real process -------------------------------------------------------------------------


def test_a_killed_process_leaves_no_doubled_entries(path: Path) -> None:
    program = SUPPORT / "dies_after_failed_sync.py"
    ended = subprocess.run([sys.executable, program, path], check=False, timeout=TIMEOUT)
    assert ended.returncode == -signal.SIGKILL
    assert len(pending_files(path)) == 1
    assert recorded(path) == {"s": ([1, 2], 2)}


# -- any failures ---------------------------------------------------------------------------

Action = tuple[str, object]
ACTIONS = st.one_of(
    st.tuples(st.just("record"), st.integers(1, 40)),
    st.tuples(st.just("prompt"), st.none()),
    st.tuples(st.just("another records"), st.booleans()),
    st.tuples(st.just("fail"), st.sets(st.sampled_from(FAULTS), max_size=3)),
)


@settings(max_examples=some(150), deadline=None)
@given(
    actions=st.lists(ACTIONS, min_size=1, max_size=14),
    moments=st.sets(st.integers(0, 14)),
    is_full=st.booleans(),
)
def test_each_change_is_recorded_once_whatever_fails(
    actions: list[Action], moments: set[int], *, is_full: bool
) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        failing_disk() as disk,
        pytest.MonkeyPatch.context() as patch,
    ):
        make_eager(patch)
        # Checkpoints should fail as well.
        patch.setattr(connection, "_PAGES_PER_CHECKPOINT", 8)
        (folder := Path(name) / "store").mkdir()
        world = _World(folder / STORE, disk)
        disk.is_full = is_full
        for at, (action, argument) in enumerate(actions):
            world.act(action, argument)
            if at in moments:
                world.check(Path(name) / f"after-{at}")
        world.check(Path(name) / "after")
        world.close()


class _World:
    """Two recorders of one store, each with a session, and the expected record."""

    def __init__(self, path: Path, disk: FailingDisk) -> None:
        self._path, self._disk = path, disk
        self._expected: dict[str, list[int]] = {"s": [], "other": []}
        self._turns = 0
        self._in_memory: set[str] = set()
        """The sessions that may have changes in memory only."""
        self._recorders = {"s": recorder_for(path), "other": recorder_for(path)}

    def act(self, action: str, argument: object) -> None:
        match action, argument:
            case "record", int(count):
                self._append("s", count, sync=False)
            case "another records", bool(sync):
                self._append("other", 1, sync=sync)
            case "prompt", _:
                number = len(self._expected["s"])
                self._turns += 1
                self._record("s", [number], prompt(number), sync=True)
            case _, set(faults):
                self._disk.faults = set[Fault](faults)

    def _append(self, session_id: str, count: int, *, sync: bool) -> None:
        first = len(self._expected[session_id])
        numbers = range(first, first + count)
        self._record(session_id, numbers, [entries(*numbers, session_id=session_id)], sync=sync)

    def _record(
        self, session_id: str, numbers: Iterable[int], changes: list[Change], *, sync: bool
    ) -> None:
        self._recorders[session_id].record(changes, sync=sync)
        self._expected[session_id] += numbers
        if ("write", PENDING) in self._disk.faults:
            self._in_memory.add(session_id)
        else:
            self._in_memory.discard(session_id)

    def check(self, folder: Path) -> None:
        """Check the record after a kill at this moment."""
        faults, self._disk.faults = self._disk.faults, set()
        found = recorded(copy_after_kill(self._path, folder))
        self._disk.faults = faults
        for session_id, expected in self._expected.items():
            numbers, turns = found.get(session_id, ([], 0))
            assert numbers == expected[: len(numbers)]
            if session_id not in self._in_memory:
                assert len(numbers) == len(expected)
                assert turns == (self._turns if session_id == "s" else 0)

    def close(self) -> None:
        """Check that all is recorded once the disk works again."""
        self._disk.faults = set()
        for recorder in self._recorders.values():
            recorder.close()
        found = recorded(self._path)
        for session_id, expected in self._expected.items():
            assert found.get(session_id, ([], 0))[0] == expected
        assert found.get("s", ([], 0))[1] == self._turns
