"""A failing store never stops a conversation, and losses are reported."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import apsw
import pytest
from msgspec.structs import replace

from rekindle.composition import HOOKS
from rekindle.errors import LeaseLost, SessionNotFound, StoreUnavailable
from rekindle.model import Deleted, EntryBatch, Kind, LeaseHolder, Opened, Page, Side
from rekindle.runtime import recorder as module, write_buffer
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.store.base import Store
from rekindle.store.sqlite.pending import PendingFile, apply_abandoned
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transfer import rescue
from stdio_client import EXAMPLE_AGENT, Client

Start = Callable[..., Client]


class ReportLog(Log):
    """A log that keeps the reports to the user."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []

    def report(self, text: str, *, quote: str = "") -> None:  # noqa: ARG002
        self.reports.append(text)


@pytest.fixture
def report_log() -> ReportLog:
    return ReportLog()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder / "s.db"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let recorders retry at once."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "_MAX_PAUSE", 0.0)


@pytest.fixture
def recorder(
    path: Path,
    report_log: ReportLog,
    quick: None,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Recorder]:
    """Return a recorder that retries at once."""
    monkeypatch.setattr(write_buffer, "_MAX_BYTES", 100)
    monkeypatch.setattr(write_buffer, "_OTHER_CHANGE_BYTES", 40)
    made = Recorder(lambda: SqliteStore(path, timeout=0.05, hooks=HOOKS), report_log)
    yield made
    made.close()


def batch(*lines: bytes) -> list[EntryBatch]:
    return [
        EntryBatch(
            session_id="s",
            side=Side.AGENT,
            kind=Kind.UPDATE,
            at_us=1,
            data=b"\n".join(lines),
            count=len(lines),
        )
    ]


def recorded(path: Path) -> list[tuple[Kind, bytes]]:
    with SqliteStore(path) as store:
        return [(entry.kind, entry.line) for entry in store.read("s")]


def lock(path: Path) -> apsw.Connection:
    # Not with Python's own SQLite: two libraries in one process release each other's locks.
    other = apsw.Connection(str(path))
    other.set_busy_timeout(5000)
    other.execute("begin exclusive")
    return other


def test_changes_are_written_after_the_lock_is_gone(
    recorder: Recorder, path: Path, report_log: ReportLog
) -> None:
    recorder.record(batch(b"1"), sync=False)
    other = lock(path)
    recorder.record(batch(b"2"), sync=False)
    recorder.record(batch(b"3"), sync=True)
    other.close()
    recorder.record(batch(b"4"), sync=False)
    assert [line for _, line in recorded(path)] == [b"1", b"2", b"3", b"4"]
    assert len(report_log.reports) == 2
    assert "is locked by another process" in report_log.reports[0]
    assert report_log.reports[1] == "recording again"


def test_entries_beyond_the_limit_become_a_gap(
    recorder: Recorder, path: Path, report_log: ReportLog
) -> None:
    recorder.record(batch(b"1"), sync=False)
    other = lock(path)
    recorder.record(batch(b"2" * 60), sync=False)
    recorder.record(batch(b"3" * 60, b"4"), sync=False)
    other.close()
    recorder.record(batch(b"5"), sync=False)
    assert recorded(path) == [
        (Kind.UPDATE, b"1"),
        (Kind.UPDATE, b"2" * 60),
        (Kind.GAP, b'{"lostEntries":2}'),
        (Kind.UPDATE, b"5"),
    ]
    assert report_log.reports[1] == "recording again; 2 entries were lost and are marked as a gap"


def test_opening_the_store_is_retried(path: Path, report_log: ReportLog) -> None:
    path.mkdir()
    recorder = Recorder(lambda: SqliteStore(path, hooks=HOOKS), report_log)
    recorder.record(batch(b"1"), sync=True)
    with pytest.raises(StoreUnavailable, match="is not available"):
        recorder.ask(lambda store: store.session("s"))
    path.rmdir()
    recorder.catch_up()
    recorder.close()
    assert recorded(path) == [(Kind.UPDATE, b"1")]


def test_unwritten_entries_are_reported_on_close(path: Path, report_log: ReportLog) -> None:
    path.write_bytes(b"this is no database, but long enough to be taken for one" * 100)
    recorder = Recorder(lambda: SqliteStore(path, hooks=HOOKS), report_log)
    recorder.record(batch(b"1", b"2"), sync=True)
    recorder.close()
    assert "is damaged" in report_log.reports[0]
    assert report_log.reports[1:] == ["2 entries could not be recorded and are lost"]


def test_ask_returns_the_result_of_a_query(recorder: Recorder) -> None:
    recorder.record(batch(b"1"), sync=False)
    assert recorder.ask(lambda store: store.session("s")).last_seq == 1
    with pytest.raises(SessionNotFound):
        recorder.ask(lambda store: store.session("t"))


def test_recording_no_changes_does_nothing(recorder: Recorder, report_log: ReportLog) -> None:
    recorder.record([], sync=True)
    assert report_log.reports == []


@pytest.mark.parametrize("damage", ["folder", "garbage", "newer"])
def test_a_conversation_continues_without_a_store(
    start: Start, store_path: Path, damage: str
) -> None:
    store_path.parent.mkdir()
    if damage == "folder":
        store_path.mkdir()
    elif damage == "garbage":
        store_path.write_bytes(b"garbage" * 1000)
    else:
        with closing(apsw.Connection(str(store_path))) as db:
            db.execute("pragma user_version = 9999")
    client = start(*EXAMPLE_AGENT)
    assert client.reply(client.new(), "hello").startswith("You said: hello")
    code, stderr = client.end()
    assert code == 0
    assert stderr.count("rekindle: not recording:") == 1
    assert f"entries wait in {store_path}.pending-" in stderr
    assert "Traceback" not in stderr


def test_a_locked_store_loses_nothing(start: Start, store_path: Path) -> None:
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    other = lock(store_path)
    client.prompt(session_id, "hello")
    other.close()
    code, stderr = client.end()
    assert code == 0
    assert "not recording" in stderr
    assert "recording again" in stderr
    with SqliteStore(store_path) as store:
        (session,) = store.sessions(Page())
        assert [e.seq for e in store.read(session_id)] == list(range(1, session.last_seq + 1))
        assert session.turns == 1


def test_an_invalid_change_does_not_stop_recording(
    recorder: Recorder, path: Path, report_log: ReportLog
) -> None:
    poison = Opened(session_id="\ud800", at_us=1)
    recorder.record([*batch(b"1"), poison], sync=False)
    recorder.record(batch(b"2"), sync=False)
    recorder.record(batch(b"3"), sync=False)
    assert [line for _, line in recorded(path)] == [b"1", b"2", b"3"]
    assert "could not record one entry" in report_log.reports
    assert "recording again" in report_log.reports


def test_leases_stay_while_the_store_fails(
    recorder: Recorder, path: Path, report_log: ReportLog
) -> None:
    holder = LeaseHolder(token="t", pid=1, machine="h")  # noqa: S106 - no password
    recorder.record([Opened(session_id="s", at_us=1, cwd="/p")], sync=True)
    recorder.ask(lambda store: store.acquire_lease("s", holder))
    other = lock(path)
    recorder.record(batch(b"1"), sync=True)
    recorder.record(batch(b"2"), sync=True)
    other.close()
    assert report_log.reports
    with SqliteStore(path) as elsewhere:
        assert elsewhere.lease_holder("s") == holder
        recorder.record(batch(b"3"), sync=True)
        assert "recording again" in report_log.reports[-1]
        assert elsewhere.lease_holder("s") == holder
        recorder.close()
        assert elsewhere.lease_holder("s") is None


def _delete(path: Path) -> None:
    for file in path.parent.iterdir():
        if file.is_file():
            file.unlink()


def _delete_only_the_file(path: Path) -> None:
    path.unlink()


def _delete_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("remove", [_delete, _delete_only_the_file, _delete_the_folder])
def test_leased_sessions_survive_a_deleted_store(
    recorder: Recorder, path: Path, report_log: ReportLog, remove: Callable[[Path], None]
) -> None:
    holder = LeaseHolder(token="t", pid=1, machine="h")  # noqa: S106 - no password
    recorder.record([Opened(session_id="s", at_us=1, cwd="/p")], sync=True)
    recorder.record([Opened(session_id="other", at_us=1, cwd="/p")], sync=True)
    recorder.ask(lambda store: store.acquire_lease("s", holder))
    recorder.record(batch(b"1"), sync=True)
    remove(path)
    recorder.record(batch(b"2"), sync=False)
    recorder.record(batch(b"3"), sync=True)
    recorder.record(batch(b"4"), sync=True)
    assert "was removed or replaced" in report_log.reports[0]
    assert report_log.reports[1] == "recording again"
    assert [line for _, line in recorded(path)] == [b"1", b"2", b"3", b"4"]
    with SqliteStore(path) as elsewhere:
        assert elsewhere.session("s").cwd == "/p"
        assert elsewhere.lease_holder("s") == holder
        assert [session.id for session in elsewhere.sessions(Page())] == ["s"]
        recorder.close()
        assert elsewhere.lease_holder("s") is None


def test_the_last_turn_survives_a_store_deleted_later(recorder: Recorder, path: Path) -> None:
    holder = LeaseHolder(token="t", pid=1, machine="h")  # noqa: S106 - no password
    recorder.record([Opened(session_id="s", at_us=1, cwd="/p")], sync=True)
    recorder.ask(lambda store: store.acquire_lease("s", holder))
    _delete(path)
    recorder.record(batch(b"1"), sync=False)
    recorder.close()
    assert [line for _, line in recorded(path)] == [b"1"]


def test_an_older_copy_of_the_store_is_extended(
    recorder: Recorder, path: Path, tmp_path: Path
) -> None:
    holder = LeaseHolder(token="t", pid=1, machine="h")  # noqa: S106 - no password
    recorder.record([Opened(session_id="s", at_us=1, cwd="/p")], sync=True)
    recorder.ask(lambda store: store.acquire_lease("s", holder))
    recorder.record(batch(b"1"), sync=True)
    older = tmp_path / "older.db"
    with closing(apsw.Connection(str(path))) as db:
        db.execute("vacuum into ?", (str(older),))
    recorder.record(batch(b"2"), sync=True)
    # The WAL of the former store stays behind, as it does when a user moves a file.
    older.replace(path)
    recorder.record(batch(b"3"), sync=True)
    recorder.record(batch(b"4"), sync=True)
    recorder.close()
    assert [line for _, line in recorded(path)] == [b"1", b"2", b"3", b"4"]


def test_a_failed_rescue_is_repeated(
    recorder: Recorder, path: Path, report_log: ReportLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = LeaseHolder(token="t", pid=1, machine="h")  # noqa: S106 - no password
    recorder.record([Opened(session_id="s", at_us=1, cwd="/p")], sync=True)
    recorder.ask(lambda store: store.acquire_lease("s", holder))
    recorder.record(batch(b"1"), sync=True)
    _delete(path)

    def fail(*_: object) -> None:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patch:
        patch.setattr(rescue, "rescue", fail)
        recorder.record(batch(b"2"), sync=True)
        recorder.record(batch(b"3"), sync=True)
    assert "recording again" not in report_log.reports
    recorder.record(batch(b"4"), sync=True)
    assert [line for _, line in recorded(path)] == [b"1", b"2", b"3", b"4"]


def test_purging_is_split_into_parts(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SESSIONS_PER_PURGE", 2)
    with SqliteStore(path) as store:
        for number in range(3):
            name = f"s{number}"
            store.write([Opened(session_id=name, at_us=1, cwd="/p")])
            store.write([Deleted(session_id=name, at_us=number)])
        now_us = module.KEPT_DELETED_US + 10
        assert not recorder.purge_deleted(now_us)
        assert store.deleted_ids(now_us) == ["s2"]
        assert recorder.purge_deleted(now_us)
        assert store.deleted_ids(now_us) == []


def test_the_pause_between_two_attempts_grows_up_to_a_limit(
    path: Path, report_log: ReportLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, attempts, works = [0.0], list[float](), [True]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def open_store() -> SqliteStore:
        attempts.append(now[0])
        if works[0]:
            return SqliteStore(path, timeout=0.0, hooks=HOOKS)
        raise StoreUnavailable("the disk is gone")

    def pauses_until(end: int) -> list[float]:
        attempts[:] = [now[0]]
        while now[0] < end:
            now[0] += 1.0
            recorder.record(batch(b"x"), sync=False)
        return [second - first for first, second in pairwise(attempts)]

    recorder = Recorder(open_store, report_log)
    with closing(lock(path)):
        works[0] = False
        recorder.record(batch(b"x"), sync=False)
        assert pauses_until(130) == [1, 2, 4, 8, 16, 30, 30, 30]
    works[0] = True
    pauses_until(160)
    assert "recording again" in report_log.reports
    with closing(lock(path)):
        works[0] = False
        recorder.record(batch(b"x"), sync=False)
        assert pauses_until(164) == [1, 2]
    recorder.close()


# -- lost leases --------------------------------------------------------------------------------

OURS, THEIRS = (
    LeaseHolder(token=token, pid=pid, machine="here") for pid, token in ((1, "ours"), (2, "theirs"))
)


def lines_of(store: Store, session_id: str) -> list[bytes]:
    return [entry.line for entry in store.read(session_id)]


def taken_over(recorder: Recorder, path: Path) -> SqliteStore:
    """Let another process take the session over; return the store as it has it."""
    recorder.record(batch(b"1"), sync=False)
    recorder.ask(lambda store: store.acquire_lease("s", OURS))
    recorder.record(batch(b"2"), sync=False)
    other = SqliteStore(path, hooks=HOOKS)
    other.acquire_lease("s", THEIRS, takeover=True)
    other.write(batch(b"theirs"))
    return other


def test_entries_of_a_lost_lease_are_recorded_in_a_branch(
    recorder: Recorder, path: Path, report_log: ReportLog
) -> None:
    with taken_over(recorder, path) as other:
        recorder.record(batch(b"3"), sync=True)
        recorder.record(batch(b"4"), sync=False)
        (lost,) = recorder.losses.take()
        assert (lost.session_id, lost.holder, recorder.losses.take()) == ("s", THEIRS, [])
        assert lines_of(other, "s") == [b"1", b"2", b"theirs"]
        assert lines_of(other, lost.branch_id) == [b"1", b"2", b"3", b"4"]
        (report,) = report_log.reports
        assert report.startswith("session s was taken over by process 2 on here; its further")
        assert report.endswith(f" are in {lost.branch_id}")
        # Acquired again, and lost again: another branch.
        recorder.ask(lambda store: store.acquire_lease("s", OURS, takeover=True))
        recorder.record(batch(b"5"), sync=False)
        other.acquire_lease("s", THEIRS, takeover=True)
        recorder.record(batch(b"6"), sync=False)
        (again,) = recorder.losses.take()
        assert lines_of(other, "s") == [b"1", b"2", b"theirs", b"5"]
        assert lines_of(other, again.branch_id) == [b"1", b"2", b"theirs", b"5", b"6"]
    assert len(report_log.reports) == 2


def test_a_commit_of_several_lost_sessions_loses_nothing(recorder: Recorder, path: Path) -> None:
    sessions = ("s", "t", "u")
    batches = [replace(it, session_id=id_) for id_ in sessions for it in batch(b"1")]
    recorder.record(batches, sync=False)
    for id_ in sessions:
        recorder.ask(lambda store, it=id_: store.acquire_lease(it, OURS))
    with SqliteStore(path, hooks=HOOKS) as other:
        for id_ in sessions[:2]:
            other.acquire_lease(id_, THEIRS, takeover=True)
        recorder.record(batches, sync=True)
        lost = {it.session_id: it.branch_id for it in recorder.losses.take()}
        assert set(lost) == {"s", "t"}
        assert [lines_of(other, id_) for id_ in sessions] == [[b"1"], [b"1"], [b"1", b"1"]]
        assert [lines_of(other, id_) for id_ in lost.values()] == [[b"1", b"1"]] * 2


def test_a_query_that_is_fenced_reports_the_loss_without_a_branch(
    recorder: Recorder, path: Path, report_log: ReportLog
) -> None:
    with taken_over(recorder, path):
        with pytest.raises(LeaseLost):
            recorder.ask(lambda store: store.extend("s", 3, batch(b"x")))
        assert [it.session_id for it in recorder.losses.take()] == ["s"]
    assert report_log.reports == []


@pytest.mark.parametrize("has_file", [True, False])
@pytest.mark.usefixtures("quick")
def test_waiting_entries_of_a_lost_lease_become_the_same_branch(
    path: Path, report_log: ReportLog, *, has_file: bool
) -> None:
    recorder = Recorder(
        lambda: SqliteStore(path, timeout=0.05, hooks=HOOKS),
        report_log,
        open_pending=lambda token: PendingFile(path, token) if has_file else None,
    )
    with taken_over(recorder, path) as other:
        locked = lock(path)
        # The store fails before the loss is noticed.
        recorder.record(batch(b"3"), sync=False)
        recorder.record(batch(b"4"), sync=False)
        locked.close()
        recorder.record(batch(b"5"), sync=True)
        recorder.record(batch(b"6"), sync=True)
        (lost,) = recorder.losses.take()
        assert lines_of(other, "s") == [b"1", b"2", b"theirs"]
        assert lines_of(other, lost.branch_id) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    recorder.close()


@pytest.mark.usefixtures("quick")
def test_a_store_that_fails_while_a_branch_is_made_loses_nothing(
    path: Path, report_log: ReportLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(lambda: SqliteStore(path, timeout=0.05, hooks=HOOKS), report_log)

    def fail(*_: object) -> NoReturn:
        raise StoreUnavailable("gone")

    with taken_over(recorder, path) as other:
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "branch_changes", fail)
            recorder.record(batch(b"3"), sync=False)
        recorder.record(batch(b"4"), sync=False)
        (lost,) = recorder.losses.take()
        assert lines_of(other, lost.branch_id) == [b"1", b"2", b"3", b"4"]
    recorder.close()


@pytest.mark.usefixtures("quick")
def test_entries_of_a_killed_process_become_a_branch(path: Path, report_log: ReportLog) -> None:
    recorder = Recorder(
        lambda: SqliteStore(path, timeout=0.05, hooks=HOOKS),
        report_log,
        open_pending=lambda token: PendingFile(path, token),
    )
    with taken_over(recorder, path):
        locked = lock(path)
        recorder.record([Opened(session_id="t", at_us=1)], sync=False)
        recorder.record(batch(b"3"), sync=False)
        # The recorder never writes again: it is killed.
        recorder._buffer.leave()  # noqa: SLF001
        locked.close()
    with SqliteStore(path, hooks=HOOKS) as store:
        apply_abandoned(path, store, report_log.report)
        every = [it.id for it in store.sessions(Page(with_unopened=True))]
        branches = [it for it in every if it not in {"s", "t"}]
        assert lines_of(store, "s") == [b"1", b"2", b"theirs"]
        assert [lines_of(store, it) for it in branches] == [[b"1", b"2", b"3"]]
    recorder._store = None  # noqa: SLF001
