"""Changes that cannot be recorded outlive the process in a pending file."""

import errno
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from rekindle.composition import HOOKS, open_store
from rekindle.model import Counted, Entry, EntryBatch, Kind, Opened, Page, Side, Titled, TitleSource
from rekindle.runtime import recorder as module, write_buffer
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.store.sqlite.filelock import FileLock
from rekindle.store.sqlite.files import lock_path, pending_files
from rekindle.store.sqlite.pending import PendingFile, pending_infos
from rekindle.store.sqlite.quarantine import reports
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client
from store_damage import fill, overwrite

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
def path(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make recorders retry at once, and keep little in memory."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "_MAX_PAUSE", 0.0)
    monkeypatch.setattr(write_buffer, "_MAX_BYTES", 100)
    monkeypatch.setattr(write_buffer, "_OTHER_CHANGE_BYTES", 25)
    return store_path


def recorder_for(
    path: Path, report_log: ReportLog, pending: Callable[[str], PendingFile | None] | None = None
) -> Recorder:
    return Recorder(
        lambda: SqliteStore(path, timeout=0.01, hooks=HOOKS),
        report_log,
        open_pending=pending or (lambda token: PendingFile(path, token)),
    )


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


def recorded(path: Path) -> list[bytes]:
    with SqliteStore(path) as store:
        return [entry.line for entry in store.read("s")]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    other = apsw.Connection(str(path))
    other.set_busy_timeout(5000)
    other.execute("begin exclusive")
    try:
        yield
    finally:
        other.close()


# -- the recorder ------------------------------------------------------------------------


def test_waiting_changes_are_in_a_pending_file(path: Path, report_log: ReportLog) -> None:
    recorder = recorder_for(path, report_log)
    recorder.record(batch(b"1"), sync=False)
    assert pending_files(path) == []
    with locked(path):
        recorder.record(batch(b"2"), sync=False)
        recorder.record(batch(b"3", b"4"), sync=True)
        (found,) = pending_infos(path)
        assert (found.entries, found.is_alive) == (3, True)
    recorder.record(batch(b"5"), sync=False)
    assert pending_files(path) == []
    recorder.close()
    assert recorded(path) == [b"1", b"2", b"3", b"4", b"5"]
    assert report_log.reports[1:] == ["recording again"]


def test_the_end_of_a_turn_syncs_the_pending_file(
    path: Path, report_log: ReportLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(PendingFile, "sync", lambda waiting: synced.append(waiting.entries))
    recorder = recorder_for(path, report_log)
    recorder.record(batch(b"1"), sync=True)
    with locked(path):
        recorder.record(batch(b"2"), sync=False)
        recorder.record(batch(b"3"), sync=True)
        recorder.record(batch(b"4"), sync=False)
    assert synced == [2]
    recorder.close()


def test_the_pending_file_is_not_limited_by_memory(path: Path, report_log: ReportLog) -> None:
    recorder = recorder_for(path, report_log)
    recorder.record(batch(b"0"), sync=False)
    long = [b"%d" % n * 60 for n in range(10)]
    with locked(path):
        for line in long:
            recorder.record(batch(line), sync=False)
    recorder.close()
    assert recorded(path) == [b"0", *long]
    assert report_log.reports[1:] == ["recording again"]


def test_remaining_changes_are_left_to_the_next_process(path: Path, report_log: ReportLog) -> None:
    recorder = recorder_for(path, report_log)
    recorder.record(batch(b"1"), sync=True)
    with locked(path):
        recorder.record(batch(b"2", b"3"), sync=True)
        recorder.close()
    (file,) = pending_files(path)
    assert report_log.reports[1:] == [
        f"2 entries wait in {file}, to be recorded when the store works again"
    ]
    with open_store(path, create=True) as store:
        assert [entry.line for entry in store.read("s")] == [b"1", b"2", b"3"]
    assert pending_files(path) == []


def test_a_kill_after_catching_up_duplicates_nothing(
    path: Path, report_log: ReportLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorder_for(path, report_log)
    recorder.record(batch(b"1"), sync=True)
    with locked(path):
        recorder.record(batch(b"2"), sync=True)

    def killed(waiting: PendingFile) -> None:
        waiting.leave()
        raise KeyboardInterrupt

    monkeypatch.setattr(PendingFile, "remove", killed)
    with pytest.raises(KeyboardInterrupt):
        recorder.catch_up()
    assert [it.entries for it in pending_infos(path)] == [1]
    with open_store(path, create=True) as store:
        assert [entry.line for entry in store.read("s")] == [b"1", b"2"]
    assert pending_files(path) == []


def test_without_a_pending_file_changes_wait_in_memory(path: Path, report_log: ReportLog) -> None:
    def full(_: str) -> PendingFile:
        raise OSError(errno.ENOSPC, "no room")

    recorder = recorder_for(path, report_log, full)
    recorder.record(batch(b"1"), sync=True)
    with locked(path):
        recorder.record(batch(b"2" * 60), sync=True)
        recorder.record(batch(b"3" * 60), sync=True)
    recorder.record(batch(b"4"), sync=True)
    assert recorded(path) == [b"1", b"2" * 60, b'{"lostEntries":1}', b"4"]
    with locked(path):
        recorder.record(batch(b"5", b"6"), sync=True)
        recorder.close()
    assert report_log.reports[-1] == "2 entries could not be recorded and are lost"


def test_lost_titles_and_counts_are_reported(path: Path, report_log: ReportLog) -> None:
    recorder = recorder_for(path, report_log, lambda _: None)
    recorder.record([Opened(session_id="s", at_us=1, cwd="/p")], sync=True)
    with locked(path):
        recorder.record(batch(b"1" * 100), sync=False)
        recorder.record(batch(b"2"), sync=False)
        for words in ("a", "b"):
            title = Titled(session_id="s", at_us=1, source=TitleSource.AGENT, title=words)
            recorder.record([title], sync=False)
        for _ in range(5):
            recorder.record([Counted(session_id="s", at_us=1, turns=1)], sync=False)
    recorder.close()
    lost = "1 entries were lost and are marked as a gap; 3 titles and counts were lost"
    assert report_log.reports[1:] == [f"recording again; {lost}"]
    with SqliteStore(path) as store:
        session = store.session("s")
    assert (session.title, session.turns, session.last_seq) == ("b", 2, 2)


def test_changes_move_from_memory_to_the_file_in_order(path: Path, report_log: ReportLog) -> None:
    is_full = [True, True, False]

    def full(token: str) -> PendingFile:
        if is_full.pop(0):
            raise OSError(errno.ENOSPC, "no room")
        return PendingFile(path, token)

    recorder = recorder_for(path, report_log, full)
    recorder.record(batch(b"1"), sync=True)
    with locked(path):
        for number in range(2, 6):
            recorder.record(batch(b"%d" % number), sync=True)
        assert [it.entries for it in pending_infos(path)] == [4]
        recorder.close()
    with open_store(path, create=True) as store:
        assert [entry.line for entry in store.read("s")] == [b"%d" % n for n in range(1, 6)]


def test_later_changes_do_not_overtake_those_in_memory(path: Path, report_log: ReportLog) -> None:
    is_full = [True, False]

    def full(token: str) -> PendingFile:
        if is_full.pop(0):
            raise OSError(errno.ENOSPC, "no room")
        return PendingFile(path, token)

    waiting = write_buffer.WriteBuffer(full, report_log)
    for number in range(1, 4):
        waiting.add(batch(b"%d" % number), sync=False)
    with SqliteStore(path) as store:
        waiting.write_to(store, 1.0)
    assert recorded(path) == [b"1", b"2", b"3"]


def test_changes_that_moved_to_the_file_leave_their_room_in_memory(
    path: Path, report_log: ReportLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full = [True, False]

    def open_file(token: str) -> PendingFile:
        if is_full.pop(0):
            raise OSError(errno.ENOSPC, "no room")
        return PendingFile(path, token)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    titled = [Titled(session_id="s", at_us=1, source=TitleSource.USER, title="a")]
    waiting = write_buffer.WriteBuffer(open_file, report_log)
    waiting.add([*batch(b"1" * 60), *titled * 3], sync=False)
    waiting.move_to_file()
    with monkeypatch.context() as patch:
        patch.setattr(PendingFile, "add", full)
        waiting.add([*batch(b"2" * 60), *titled * 3], sync=False)
    with SqliteStore(path) as store:
        assert waiting.write_to(store, 1.0) == ""
    assert recorded(path) == [b"1" * 60, b"2" * 60]


def test_a_full_disk_keeps_the_written_part_of_the_file(
    path: Path, report_log: ReportLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorder_for(path, report_log)
    recorder.record(batch(b"1"), sync=True)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with locked(path):
        recorder.record(batch(b"2"), sync=True)
        with monkeypatch.context() as patch:
            patch.setattr(PendingFile, "_write", full)
            recorder.record(batch(b"3"), sync=True)
            recorder.record(batch(b"4"), sync=True)
            assert [it.entries for it in pending_infos(path)] == [1]
    recorder.close()
    assert recorded(path) == [b"1", b"2", b"3", b"4"]
    assert pending_files(path) == []


def test_a_deleted_pending_file_is_still_applied(path: Path, report_log: ReportLog) -> None:
    recorder = recorder_for(path, report_log)
    recorder.record(batch(b"1"), sync=True)
    with locked(path):
        recorder.record(batch(b"2"), sync=True)
    shutil.rmtree(path.parent)
    recorder.record(batch(b"3"), sync=True)
    recorder.close()
    assert recorded(path) == [b"2", b"3"]


def test_an_invalid_change_does_not_stop_the_pending_file(
    path: Path, report_log: ReportLog
) -> None:
    recorder = recorder_for(path, report_log)
    recorder.record(batch(b"1"), sync=True)
    with locked(path):
        recorder.record([Opened(session_id="\ud800", at_us=1), *batch(b"2")], sync=True)
        assert [it.entries for it in pending_infos(path)] == [1]
    recorder.close()
    assert recorded(path) == [b"1", b"2"]
    assert report_log.reports.count("could not record one entry") == 1


# -- real processes ---------------------------------------------------------------------


@pytest.fixture
def damaged(store_path: Path) -> Path:
    """Create a store without its header, of which everything can be recovered."""
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(5))
    with store_path.open("r+b") as file:
        file.write(b"\xff" * 50)
    return store_path


@contextmanager
def recovery_blocked(path: Path) -> Iterator[None]:
    """Hold the lock of a store, so that no process can recover it."""
    lock = FileLock(lock_path(path))
    assert lock.acquire(TIMEOUT)
    try:
        yield
    finally:
        lock.close()


def kill(client: Client) -> None:
    client.process.send_signal(signal.SIGKILL)
    client.process.wait(TIMEOUT)


def entries(path: Path, session_id: str) -> list[Entry]:
    with SqliteStore(path, create=False) as store:
        return list(store.read(session_id))


def check_turns(path: Path, session_id: str, *prompts: str) -> None:
    """Check that all turns are recorded once, in order, with their ends and without a gap."""
    found = entries(path, session_id)
    assert [it.seq for it in found] == list(range(1, len(found) + 1))
    turns = [it for it in found if it.kind in {Kind.PROMPT, Kind.ANSWER, Kind.GAP}]
    assert [it.kind for it in turns] == [Kind.PROMPT, Kind.ANSWER] * len(prompts)
    for words, turn in zip(prompts, turns[::2], strict=True):
        assert words.encode() in turn.line
    with SqliteStore(path, create=False) as store:
        assert store.session(session_id).turns == len(prompts)


def wait_until_recorded(start: Start) -> None:
    """Start another Rekindle, and wait until it records."""
    client = start(*EXAMPLE_AGENT)
    client.prompt(client.new(), "next")
    code, stderr = client.end()
    assert code == 0
    assert "lost" not in stderr


def test_a_kill_during_recovery_loses_nothing(start: Start, damaged: Path) -> None:
    with recovery_blocked(damaged):
        client = start(*EXAMPLE_AGENT)
        session_id = client.new()
        assert client.reply(session_id, "hello").startswith("You said: hello")
        kill(client)
        assert not any(it.is_alive for it in pending_infos(damaged))
    wait_until_recorded(start)
    check_turns(damaged, session_id, "hello")
    assert pending_files(damaged) == []
    (report,) = reports(damaged)
    assert (report.sessions_saved, report.sessions_lost) == (5, 0)
    with SqliteStore(damaged, create=False) as store:
        assert store.session(session_id).cwd is not None
        assert len(store.sessions(Page())) == 7


def test_a_session_continues_after_its_recovered_entries(start: Start, store_path: Path) -> None:
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    client.prompt(session_id, "before")
    with SqliteStore(store_path) as store:
        store._truncate_wal()  # noqa: SLF001 - the damage would else be hidden by it
    for index in ("session_by_time", "session_by_cwd", "sqlite_autoindex_session_1"):
        overwrite(store_path, index)
    with recovery_blocked(store_path):
        client.prompt(session_id, "during")
        client.prompt(session_id, "later")
        kill(client)
    wait_until_recorded(start)
    check_turns(store_path, session_id, "before", "during", "later")
    assert len(reports(store_path)) == 1


@pytest.mark.slow
def test_leaving_during_recovery_names_the_pending_file(start: Start, damaged: Path) -> None:
    with recovery_blocked(damaged):
        client = start(*EXAMPLE_AGENT)
        session_id = client.new()
        client.prompt(session_id, "hello")
        code, stderr = client.end()
        (file,) = pending_files(damaged)
    assert code == 0
    (found,) = pending_infos(damaged)
    told = f"rekindle: {found.entries} entries wait in {file}, to be recorded when the store works"
    assert told in stderr
    wait_until_recorded(start)
    check_turns(damaged, session_id, "hello")
    assert pending_files(damaged) == []


def test_two_killed_processes_leave_two_pending_files(start: Start, damaged: Path) -> None:
    with recovery_blocked(damaged):
        clients = [start(*EXAMPLE_AGENT) for _ in range(2)]
        ids = [client.new() for client in clients]
        for client, id_ in zip(clients, ids, strict=True):
            client.prompt(id_, "hello")
            client.prompt(id_, "again")
        assert len(pending_infos(damaged)) == 2
        for client in clients:
            kill(client)
    wait_until_recorded(start)
    for id_ in ids:
        check_turns(damaged, id_, "hello", "again")
    assert pending_files(damaged) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_losses_are_reported_if_nothing_can_be_written(start: Start, store_path: Path) -> None:
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    assert client.reply(session_id, "hello").startswith("You said: hello")
    code, stderr = client.end()
    assert code == 0
    assert "rekindle: not recording" in stderr
    assert "entries could not be recorded and are lost" in stderr
    assert pending_files(store_path) == []


def test_a_changing_command_applies_pending_changes(start: Start, damaged: Path) -> None:
    with recovery_blocked(damaged):
        client = start(*EXAMPLE_AGENT)
        session_id = client.new()
        client.prompt(session_id, "hello")
        kill(client)

    def rekindle(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*REKINDLE, *words, "--store", str(damaged)]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    assert "records it" not in rekindle("doctor").stdout
    fixed = rekindle("doctor", "--fix")
    assert "fixed\tpending" in fixed.stdout
    assert rekindle("doctor").returncode == 0
    check_turns(damaged, session_id, "hello")
