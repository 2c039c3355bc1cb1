"""A damaged store never blocks an editor: what can be read is saved, and recording goes on."""

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
from rekindle.errors import IndexDamaged, SessionNotFound, StoreDamaged, StoreUnavailable
from rekindle.model import Counted, Entry, Kind, LeaseHolder
from rekindle.runtime import recorder as module, write_buffer
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.store.address import open_pending, salvage_store
from rekindle.store.sqlite.pages import PAGE
from rekindle.store.sqlite.quarantine import reports
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, PATIENCE, REKINDLE, Client
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
from test_selection import some

Start = Callable[..., Client]


class Heard(Log):
    """A log that remembers what the user was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def report(self, text: str, *, quote: str = "") -> None:
        self.told.append(text + quote)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def damaged(store_path: Path) -> Path:
    """Make a store whose header is gone."""
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(5))
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
        timeout=PATIENCE,
        check=False,
    )
    found = json.loads(done.stdout)["findings"]
    return [it for it in found if it["check"] == "damage"]


OLD = {f"ses_{n}" for n in range(5)}


# -- real processes ---------------------------------------------------------------------------


def test_a_store_that_is_damaged_at_the_beginning(start: Start, damaged: Path) -> None:
    client = start(*EXAMPLE_AGENT)
    client.call("initialize", {"protocolVersion": 1})
    session_id = client.new()
    assert client.reply(session_id, "hello").startswith("You said: hello")
    assert listed(client) == {*OLD, session_id}
    code, stderr = client.end()
    assert code == 0
    first, second, third = stderr.splitlines()
    assert first.startswith(f"rekindle: not recording: the store {damaged} is damaged")
    told = "5 sessions and 30 entries were saved, and nothing is known to be lost"
    assert second.startswith("rekindle: the damaged store was set aside as ")
    assert second.endswith(told)
    assert third == "rekindle: recording again"
    recorded = entries(damaged, session_id)
    assert [it.seq for it in recorded] == list(range(1, len(recorded) + 1))
    assert [it.kind for it in recorded if it.kind is not Kind.UPDATE][-2:] == ["prompt", "answer"]
    (finding,) = doctor(damaged)
    assert told in finding["what"]
    for command in (["list"], ["show", session_id], ["search", "hello"]):
        done = warm_start.run(
            [*REKINDLE, *command, "--store", damaged],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert told in done.stderr


def test_a_store_that_is_damaged_in_the_midst_of_sessions(start: Start, store_path: Path) -> None:
    clients = [start(*EXAMPLE_AGENT) for _ in range(3)]
    ids = [client.new() for client in clients]
    for client, id_ in zip(clients, ids, strict=True):
        client.prompt(id_, "before")
    counts = [len(entries(store_path, id_)) for id_ in ids]
    with SqliteStore(store_path) as store:
        store._empty_log()  # noqa: SLF001 - the damage would else be hidden by it
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


def test_eight_that_meet_the_same_damage_save_it_once(start: Start, damaged: Path) -> None:
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


def test_a_log_that_hides_commits_is_told_of_by_all_and_saved(
    start: Start, store_path: Path
) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(40))
        store_path.rename(f"{store_path}.kept")
        log = Path(f"{store_path}-wal").read_bytes()
    Path(f"{store_path}.kept").rename(store_path)
    changed = bytearray(log)
    changed[len(log) // 3] ^= 1
    Path(f"{store_path}-wal").write_bytes(changed)
    check_all_tell(store_path, "is damaged: its log")
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    client.prompt(session_id, "hello")
    code, stderr = client.end()
    assert code == 0
    assert "40 sessions and" in stderr
    with SqliteStore(store_path, create=False) as store:
        assert len(store.sessions(ALL)) == 41
    assert doctor(store_path)


def test_a_store_that_was_emptied_is_told_of_by_all(start: Start, damaged: Path) -> None:
    os.truncate(damaged, 0)
    check_all_tell(damaged, "is empty, and was not")
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    client.prompt(session_id, "hello")
    code, stderr = client.end()
    assert code == 0
    assert Kind.ANSWER in {it.kind for it in entries(damaged, session_id)}
    assert "the file is empty, and was not" in stderr
    assert "nothing in it could be read" in stderr
    assert doctor(damaged)


def test_a_store_that_was_all_in_its_log_is_missed_when_that_is_gone(
    start: Start, store_path: Path
) -> None:
    client = start(*EXAMPLE_AGENT)
    client.prompt(client.new(), "hello")
    client.process.kill()
    client.process.wait()
    Path(f"{store_path}-wal").unlink()
    check_all_tell(store_path, "nothing is in it, and its log is gone")
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    client.prompt(session_id, "hello")
    _, stderr = client.end()
    assert Kind.ANSWER in {it.kind for it in entries(store_path, session_id)}
    assert "nothing in it could be read" in stderr
    assert doctor(store_path)


def check_all_tell(path: Path, words: str) -> None:
    for command in (["list"], ["doctor"], ["doctor", "--full"]):
        done = warm_start.run(
            [*REKINDLE, *command, "--store", path],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 1
        assert words in done.stdout + done.stderr
        assert "rekindle doctor --fix" in done.stdout + done.stderr


# -- what a recorder does ---------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.0)


def test_nobody_waits_for_what_takes_long(
    damaged: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_OF_QUESTIONS", 0.0)
    monkeypatch.setattr(write_buffer, "_LARGEST", 0)
    may_go_on = Event()

    def slowly() -> str | None:
        assert may_go_on.wait(PATIENCE)
        return salvage_store(damaged)

    recorder = Recorder(lambda: SqliteStore(damaged), heard, slowly, lambda: open_pending(damaged))
    for n in range(3):
        recorder.record([chunks("ses_2", n, 2)], sync=True)
        with pytest.raises(StoreUnavailable, match="until what can be read of it is saved"):
            recorder.ask(lambda store: store.session("ses_2"))
    assert len(heard.told) == 1
    may_go_on.set()
    recorder.close()
    assert [words.split()[0] for words in heard.told] == ["not", "the", "recording"]
    with SqliteStore(damaged) as store:
        added = list(store.read("ses_2", after=6))
    assert [entry.seq for entry in added] == list(range(7, 13))


def test_damage_that_is_met_at_the_end_is_seen_to_before_it_is_too_late(
    store_path: Path, heard: Heard
) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(3))
    holder = LeaseHolder(token=os.urandom(4).hex(), pid=1, host="here")
    recorder = Recorder(lambda: SqliteStore(store_path), heard, lambda: salvage_store(store_path))
    recorder.ask(lambda store: store.claim("ses_1", holder))
    recorder.record([chunks("ses_1", 1, 5)], sync=True)
    before = entries(store_path, "ses_1")
    store_path.unlink()
    store_path.touch()
    recorder.close()
    assert "recording again" in heard.told
    assert entries(store_path, "ses_1") == before


@pytest.mark.usefixtures("at_once")
def test_damage_that_a_question_meets_is_seen_to_before_it_is_answered(
    store_path: Path, heard: Heard
) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(5))
        store._query("update session set command = 'no JSON' where id = 'ses_3'")  # noqa: SLF001
    recorder = Recorder(lambda: SqliteStore(store_path), heard, lambda: salvage_store(store_path))
    assert recorder.ask(lambda store: store.session("ses_3")).agent.command == ()
    assert recorder.ask(lambda store: len(store.sessions(ALL))) == 5
    recorder.close()
    assert "5 sessions" in heard.told[1]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("table", ["lease", "session", "stretch"])
def test_whatever_the_damage_took_recording_goes_on_and_claims_stay(
    store_path: Path, heard: Heard, table: str
) -> None:
    store_path.parent.mkdir()
    with SqliteStore(store_path) as store:
        fill(store, range(5))
    holder = LeaseHolder(token=os.urandom(4).hex(), pid=1, host="here")
    recorder = Recorder(lambda: SqliteStore(store_path), heard, lambda: salvage_store(store_path))
    recorder.ask(lambda store: store.claim("ses_1", holder))
    with SqliteStore(store_path) as store:
        store._empty_log()  # noqa: SLF001 - as above
    overwrite(store_path, table)
    for n in range(3):
        recorder.record([chunks("ses_1", n, 1), Counted(session_id="ses_1", at_us=1)], sync=True)
        recorder.ask(lambda store: (store.sessions(ALL), store.holder("ses_1")))
    with SqliteStore(store_path) as other:
        assert other.holder("ses_1") == holder
    recorder.close()
    assert [words.split()[0] for words in heard.told] == ["not", "the", "recording"]
    assert [entry.kind for entry in entries(store_path, "ses_1")][-3:] == [Kind.UPDATE] * 3


@pytest.mark.usefixtures("at_once")
def test_what_may_pass_or_is_not_ours_is_never_taken_for_damage(
    store_path: Path, heard: Heard
) -> None:
    called: list[str] = []

    def salvage() -> str | None:
        called.append("salvage")
        return None

    store_path.mkdir(parents=True)
    recorder = Recorder(lambda: SqliteStore(store_path, patience=0.01), heard, salvage)
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


@pytest.mark.usefixtures("at_once")
def test_a_disk_that_damages_one_store_after_the_other_is_given_up(heard: Heard) -> None:
    def fail() -> SqliteStore:
        raise StoreDamaged("damaged")

    recorder = Recorder(fail, heard, lambda: "saved")
    for n in range(20):
        recorder.record([chunks("s", n, 1)], sync=True)
        with pytest.raises(StoreUnavailable):
            recorder.ask(lambda store: store.session("s"))
    assert heard.told.count("saved") == 3


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    path = tmp_path_factory.mktemp("original") / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(30))
        store.write([chunks("ses_5", 1, 1), chunks("ses_6", 1, 1)])
    return described(path)


@pytest.fixture(scope="module", autouse=True)
def _restored() -> Iterator[None]:
    pauses = module._FIRST_PAUSE, module._LONGEST_PAUSE  # noqa: SLF001
    yield
    module._FIRST_PAUSE, module._LONGEST_PAUSE = pauses  # noqa: SLF001


@settings(deadline=None, max_examples=some(60))
@given(st.integers(0, 2**32))
def test_whatever_is_damaged_recording_goes_on(
    original: Original, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    module._FIRST_PAUSE = module._LONGEST_PAUSE = 0.0  # noqa: SLF001
    chance, file = chance_of(seed), bytearray(original.files[""])
    harm = chance.choice(HARMS)
    for number in chance.sample(range(1, len(file) // PAGE + 1), chance.randint(1, 8)):
        harm(file, (number - 1) * PAGE, chance)
    check_recording_goes_on(file, tmp_path_factory.getbasetemp() / "recording")


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
def test_whatever_bit_of_the_header_flips_recording_goes_on(
    original: Original, tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    module._FIRST_PAUSE = module._LONGEST_PAUSE = 0.0  # noqa: SLF001
    file = bytearray(original.files[""])
    file[at] ^= 1 << bit
    path = check_recording_goes_on(file, tmp_path_factory.getbasetemp() / "header")
    with SqliteStore(path, create=False) as store:
        assert len(store.sessions(ALL)) == 31


def check_recording_goes_on(file: bytearray, folder: Path) -> Path:
    path = lay_down({"": bytes(file)}, folder)
    heard = Heard()
    recorder = Recorder(lambda: SqliteStore(path), heard, lambda: salvage_store(path))
    for n in range(3):
        recorder.record([chunks("ses_3", 1000 + n, 1)], sync=n == 1)
        try:
            recorder.ask(lambda store: (store.sessions(ALL), list(store.read("ses_7"))))
        except (SessionNotFound, StoreUnavailable):
            # It is not there, or not yet.
            continue
    recorder.record([chunks("new", 1, 4)], sync=True)
    recorder.close()
    assert not any("could not be recorded" in words or "a fault" in words for words in heard.told)
    assert len(entries(path, "new")) == 4
    return path
