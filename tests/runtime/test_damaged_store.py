"""A damaged store never blocks an editor: it is recovered, and recording continues."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import apsw
import pytest
from hypothesis import example, given, settings, strategies as st

import warm_start
from rekindle.composition import HOOKS, recover_store
from rekindle.errors import IndexDamaged, SessionNotFound, StoreDamaged, StoreUnavailable
from rekindle.model import Counted, Entry, Kind, LeaseHolder
from rekindle.runtime import recorder as module, write_buffer
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.store.address import path_address
from rekindle.store.sqlite.pending import PendingFile
from rekindle.store.sqlite.quarantine import reports
from rekindle.store.sqlite.schema import place
from rekindle.store.sqlite.store import SqliteStore
from rekindle.store.sqlite.wal import PAGE
from selection import some
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client
from store_damage import (
    ALL,
    HARMS,
    Original,
    chance_of,
    chunks,
    described,
    fill,
    lay_down,
    overwrite,
)

Start = Callable[..., Client]


class ReportLog(Log):
    """A log that keeps the reports to the user."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []

    def report(self, text: str, *, quote: str = "") -> None:
        self.reports.append(text + quote)


@pytest.fixture
def report_log() -> ReportLog:
    return ReportLog()


@pytest.fixture
def damaged(store_path: Path) -> Path:
    """Create a store without its header."""
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(5))
        store.write([Counted(session_id=name, at_us=1, turns=1) for name in sorted(OLD)])
    with store_path.open("r+b") as file:
        file.write(b"\xff" * 50)
    return store_path


def listed(client: Client) -> set[str]:
    return {it["sessionId"] for it in client.call("session/list", {})["sessions"]}


def entries(path: Path, session_id: str) -> list[Entry]:
    with SqliteStore(path, create=False) as store:
        return list(store.read(session_id))


def doctor(path: Path) -> list[dict[str, str]]:
    done = warm_start.run(
        [*REKINDLE, "doctor", "--store", path, "--json"],
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    found = json.loads(done.stdout)["findings"]
    return [it for it in found if it["check"] == "damage"]


OLD = {f"ses_{n}" for n in range(5)}


# -- real processes ---------------------------------------------------------------------------


def test_damage_at_the_start_of_the_file_is_recovered(start: Start, damaged: Path) -> None:
    client = start(*EXAMPLE_AGENT)
    client.call("initialize", {"protocolVersion": 1})
    session_id = client.new()
    assert client.reply(session_id, "hello").startswith("You said: hello")
    assert listed(client) == {*OLD, session_id}
    code, stderr = client.end()
    assert code == 0
    first, second, third = stderr.splitlines()
    assert first.startswith(f"rekindle: not recording: the store {damaged} is damaged")
    expected = "5 sessions and 30 entries were recovered, and no loss is known"
    assert second.startswith("rekindle: the damaged store was renamed to ")
    assert second.endswith(expected)
    assert third == "rekindle: recording again"
    recorded = entries(damaged, session_id)
    assert [it.seq for it in recorded] == list(range(1, len(recorded) + 1))
    assert [it.kind for it in recorded if it.kind is not Kind.UPDATE][-2:] == ["prompt", "answer"]
    (finding,) = doctor(damaged)
    assert expected in finding["what"]
    for command in (["list"], ["show", session_id], ["search", "hello"]):
        done = warm_start.run(
            [*REKINDLE, *command, "--store", damaged],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
        assert expected in done.stderr


def test_damage_during_sessions_is_recovered(start: Start, store_path: Path) -> None:
    clients = [start(*EXAMPLE_AGENT) for _ in range(3)]
    ids = [client.new() for client in clients]
    for client, id_ in zip(clients, ids, strict=True):
        client.prompt(id_, "before")
    counts = [len(entries(store_path, id_)) for id_ in ids]
    with SqliteStore(store_path) as store:
        store._truncate_wal()  # noqa: SLF001 - the damage would else be hidden by it
    for index in ("session_by_time", "session_by_cwd", "sqlite_autoindex_session_1"):
        overwrite(store_path, index)
    for client, id_ in zip(clients, ids, strict=True):
        for words in ("during", "after"):
            assert client.reply(id_, words).startswith(f"You said: {words}")
    ends = [client.end() for client in clients]
    assert [code for code, _ in ends] == [0, 0, 0]
    assert any("is damaged" in stderr for _, stderr in ends)
    assert not any("could not be recorded" in stderr for _, stderr in ends)
    (report,) = reports(store_path)
    assert (report.sessions_lost, report.entries_lost) == (0, 0)
    for id_, count in zip(ids, counts, strict=True):
        recorded = entries(store_path, id_)
        assert [it.seq for it in recorded] == list(range(1, len(recorded) + 1))
        prompts = [it.seq for it in recorded if it.kind is Kind.PROMPT]
        assert len(prompts) == 3
        assert prompts[1] > count
        assert all(it.kind is not Kind.GAP for it in recorded)


def test_eight_processes_recover_the_same_damage_once(start: Start, damaged: Path) -> None:
    clients = [start(*EXAMPLE_AGENT) for _ in range(8)]
    ids = [client.new() for client in clients]
    turns = [client.start(id_, "hello") for client, id_ in zip(clients, ids, strict=True)]
    for client, turn in zip(clients, turns, strict=True):
        assert client.answer(turn)["result"] == {"stopReason": "end_turn"}
    ends = [client.end() for client in clients]
    assert [code for code, _ in ends] == [0] * 8
    (report,) = reports(damaged)
    assert (report.sessions_saved, report.sessions_lost) == (5, 0)
    with SqliteStore(damaged, create=False) as store:
        assert {it.id for it in store.sessions(ALL)} == {*OLD, *ids}
    for id_ in ids:
        assert [it.kind for it in entries(damaged, id_)].count(Kind.ANSWER) == 1


def test_a_wal_that_hides_commits_is_reported_and_recovered(start: Start, store_path: Path) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(40))
        store_path.rename(f"{store_path}.kept")
        log = Path(f"{store_path}-wal").read_bytes()
    Path(f"{store_path}.kept").rename(store_path)
    changed = bytearray(log)
    changed[len(log) // 3] ^= 1
    Path(f"{store_path}-wal").write_bytes(changed)
    check_all_commands_report(store_path, "is damaged: its write-ahead log")
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    client.prompt(session_id, "hello")
    code, stderr = client.end()
    assert code == 0
    assert "40 sessions and" in stderr
    with SqliteStore(store_path, create=False) as store:
        assert len(store.sessions(ALL)) == 41
    assert doctor(store_path)


def test_an_emptied_store_is_reported_by_every_command(start: Start, damaged: Path) -> None:
    os.truncate(damaged, 0)
    check_all_commands_report(damaged, "is empty, and was not before")
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    client.prompt(session_id, "hello")
    code, stderr = client.end()
    assert code == 0
    assert Kind.ANSWER in {it.kind for it in entries(damaged, session_id)}
    assert "the file is empty, and was not before" in stderr
    assert "no session could be read" in stderr
    assert doctor(damaged)


def test_a_lost_wal_of_a_new_store_is_detected(start: Start, store_path: Path) -> None:
    client = start(*EXAMPLE_AGENT)
    client.prompt(client.new(), "hello")
    client.process.kill()
    client.process.wait()
    Path(f"{store_path}-wal").unlink()
    check_all_commands_report(store_path, "it is empty, and its write-ahead log is missing")
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    client.prompt(session_id, "hello")
    _, stderr = client.end()
    assert Kind.ANSWER in {it.kind for it in entries(store_path, session_id)}
    assert "no session could be read" in stderr
    assert doctor(store_path)


def check_all_commands_report(path: Path, words: str) -> None:
    for command in (["list"], ["doctor"], ["doctor", "--full"]):
        done = warm_start.run(
            [*REKINDLE, *command, "--store", path],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 1
        assert words in done.stdout + done.stderr
        assert "rekindle doctor --fix" in done.stdout + done.stderr


# -- the recorder -----------------------------------------------------------------------------


@pytest.fixture
def retry_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "_MAX_PAUSE", 0.0)


def test_a_long_recovery_does_not_delay_the_conversation(
    damaged: Path, report_log: ReportLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_QUERY_TIMEOUT", 0.0)
    monkeypatch.setattr(write_buffer, "_MAX_BYTES", 0)
    may_go_on = Event()

    def recover_slowly() -> str | None:
        assert may_go_on.wait(TIMEOUT)
        return recover_store(path_address(damaged))

    recorder = Recorder(
        lambda: SqliteStore(damaged, hooks=HOOKS),
        report_log,
        recover_slowly,
        lambda token: PendingFile(damaged, token),
    )
    for n in range(3):
        recorder.record([chunks("ses_2", n, 2)], sync=True)
        with pytest.raises(StoreUnavailable, match="the store is being recovered"):
            recorder.ask(lambda store: store.session("ses_2"))
    assert len(report_log.reports) == 1
    may_go_on.set()
    recorder.close()
    assert [words.split()[0] for words in report_log.reports] == ["not", "the", "recording"]
    with SqliteStore(damaged) as store:
        added = list(store.read("ses_2", after=6))
    assert [entry.seq for entry in added] == list(range(7, 13))


def test_damage_found_on_close_is_recovered(store_path: Path, report_log: ReportLog) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(3))
    holder = LeaseHolder(token=os.urandom(4).hex(), pid=1, machine="here")
    recorder = recovering_recorder(store_path, report_log)
    recorder.ask(lambda store: store.acquire_lease("ses_1", holder))
    recorder.record([chunks("ses_1", 1, 5)], sync=True)
    before = entries(store_path, "ses_1")
    store_path.unlink()
    store_path.touch()
    recorder.close()
    assert "recording again" in report_log.reports
    assert entries(store_path, "ses_1") == before


def recovering_recorder(path: Path, report_log: ReportLog) -> Recorder:
    return Recorder(
        lambda: SqliteStore(path, hooks=HOOKS),
        report_log,
        lambda: recover_store(path_address(path)),
    )


@pytest.mark.usefixtures("retry_at_once")
def test_damage_found_by_a_query_is_recovered_before_the_answer(
    store_path: Path, report_log: ReportLog
) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(5))
        store._query("update session set command = 'no JSON' where id = 'ses_3'")  # noqa: SLF001
    recorder = recovering_recorder(store_path, report_log)
    assert recorder.ask(lambda store: store.session("ses_3")).agent.command == ()
    assert recorder.ask(lambda store: len(store.sessions(ALL))) == 5
    recorder.close()
    assert "5 sessions" in report_log.reports[1]


@pytest.mark.usefixtures("retry_at_once")
@pytest.mark.parametrize("table", ["lease", "session", "stretch"])
def test_recording_continues_and_leases_stay_after_a_recovery(
    store_path: Path, report_log: ReportLog, table: str
) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(5))
    holder = LeaseHolder(token=os.urandom(4).hex(), pid=1, machine="here")
    recorder = recovering_recorder(store_path, report_log)
    recorder.ask(lambda store: store.acquire_lease("ses_1", holder))
    with SqliteStore(store_path) as store:
        store._truncate_wal()  # noqa: SLF001 - as above
    overwrite(store_path, table)
    for n in range(3):
        recorder.record([chunks("ses_1", n, 1), Counted(session_id="ses_1", at_us=1)], sync=True)
        recorder.ask(lambda store: (store.sessions(ALL), store.lease_holder("ses_1")))
    with SqliteStore(store_path) as other:
        assert other.lease_holder("ses_1") == holder
    recorder.close()
    assert [words.split()[0] for words in report_log.reports] == ["not", "the", "recording"]
    assert [entry.kind for entry in entries(store_path, "ses_1")][-3:] == [Kind.UPDATE] * 3


@pytest.mark.usefixtures("retry_at_once")
def test_temporary_failures_and_foreign_files_are_not_damage(
    store_path: Path, report_log: ReportLog
) -> None:
    called: list[str] = []

    def recover() -> str | None:
        called.append("recover")
        return None

    store_path.mkdir(parents=True)
    recorder = Recorder(
        lambda: SqliteStore(store_path, timeout=0.01, hooks=HOOKS), report_log, recover
    )
    recorder.record([chunks("s", 1, 1)], sync=True)
    store_path.rmdir()
    with closing(apsw.Connection(str(store_path))) as db:
        db.execute("create table precious (x)")
        recorder.record([chunks("s", 2, 1)], sync=True)
        db.execute("drop table precious; pragma user_version = 9999")
        recorder.record([chunks("s", 3, 1)], sync=True)
    store_path.unlink()
    recorder.record([chunks("s", 4, 1)], sync=True)
    with closing(apsw.Connection(str(store_path))) as db:
        db.execute("begin exclusive")
        recorder.record([chunks("s", 5, 1)], sync=True)
    recorder.record([chunks("s", 6, 1)], sync=True)

    def no_index(_: object) -> None:
        raise IndexDamaged("the index")

    with pytest.raises(IndexDamaged):
        recorder.ask(no_index)
    recorder.close()
    assert called == []
    assert len(entries(store_path, "s")) == 6


@pytest.mark.usefixtures("retry_at_once")
def test_recovery_stops_after_repeated_damage(report_log: ReportLog) -> None:
    def fail() -> SqliteStore:
        raise StoreDamaged("damaged")

    recorder = Recorder(fail, report_log, lambda: "saved")
    for n in range(20):
        recorder.record([chunks("s", n, 1)], sync=True)
        with pytest.raises(StoreUnavailable):
            recorder.ask(lambda store: store.session("s"))
    assert report_log.reports.count("saved") == 3


@pytest.mark.usefixtures("retry_at_once")
def test_a_new_session_does_not_get_entries_whose_session_is_lost(
    store_path: Path, report_log: ReportLog
) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(5))
        # A flipped bit in the key of a row moves it to a session that does not exist yet.
        moved, key = place(6, 1), place(5, 1)
        store._query("update stretch set place = ? where place = ?", (moved, key))  # noqa: SLF001
    recorder = recovering_recorder(store_path, report_log)
    recorder.record([batch := chunks("new", 1, 4)], sync=True)
    recorder.close()
    assert b"\n".join(entry.line for entry in entries(store_path, "new")) == batch.data
    assert report_log.reports[-1] == "recording again"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    path = tmp_path_factory.mktemp("original") / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(30))
        store.write([chunks("ses_5", 1, 1), chunks("ses_6", 1, 1)])
    return described(path)


@pytest.fixture(scope="module", autouse=True)
def _restored() -> Iterator[None]:
    pauses = module._FIRST_PAUSE, module._MAX_PAUSE  # noqa: SLF001
    yield
    module._FIRST_PAUSE, module._MAX_PAUSE = pauses  # noqa: SLF001


@settings(deadline=None, max_examples=some(60))
@example(2558)
@given(st.integers(0, 2**32))
def test_recording_continues_after_any_damage(
    original: Original, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    module._FIRST_PAUSE = module._MAX_PAUSE = 0.0  # noqa: SLF001
    chance, file = chance_of(seed), bytearray(original.files[""])
    harm = chance.choice(HARMS)
    for number in chance.sample(range(1, len(file) // PAGE + 1), chance.randint(1, 8)):
        harm(file, (number - 1) * PAGE, chance)
    check_recording_continues(file, tmp_path_factory.getbasetemp() / "recording")


@settings(deadline=None, max_examples=some(60))
@example(18, 0)
@example(20, 0)
@example(47, 0)
@example(60, 7)
@example(62, 0)
@example(63, 1)
@example(68, 0)
@example(71, 3)
@given(st.integers(0, 99), st.integers(0, 7))
def test_recording_continues_after_any_flipped_header_bit(
    original: Original, tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    module._FIRST_PAUSE = module._MAX_PAUSE = 0.0  # noqa: SLF001
    file = bytearray(original.files[""])
    file[at] ^= 1 << bit
    path = check_recording_continues(file, tmp_path_factory.getbasetemp() / "header")
    with SqliteStore(path, create=False) as store:
        assert len(store.sessions(ALL)) == 31


def check_recording_continues(file: bytearray, folder: Path) -> Path:
    path = lay_down({"": bytes(file)}, folder)
    report_log = ReportLog()
    recorder = recovering_recorder(path, report_log)
    for n in range(3):
        recorder.record([chunks("ses_3", 1000 + n, 1)], sync=n == 1)
        try:
            recorder.ask(lambda store: (store.sessions(ALL), list(store.read("ses_7"))))
        except (SessionNotFound, StoreUnavailable):
            # It does not exist, or not yet.
            continue
    recorder.record([chunks("new", 1, 4)], sync=True)
    recorder.close()
    assert not any(
        "could not be recorded" in words or "a bug" in words for words in report_log.reports
    )
    assert len(entries(path, "new")) == 4
    return path
