"""The contract for statuses, totals and disk space, checked for every store."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, strategies as st

from rekindle.composition import HOOKS
from rekindle.errors import StoreUnavailable
from rekindle.model import (
    AgentIdentity,
    Archived,
    Counted,
    Deleted,
    EntryBatch,
    Forked,
    Kind,
    LeaseHolder,
    Opened,
    Overview,
    Page,
    SessionStatus,
    SessionTotals,
    Side,
)
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite import leases, sql
from rekindle.store.sqlite.schema import MIGRATIONS
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.times import week_of

MONDAY = 1_699_833_600_000_000  # 2023-11-13, midnight in UTC
DAY = 24 * 3600 * 1_000_000


def opened(session: str, at_us: int = MONDAY, **fields: object) -> Opened:
    return Opened(session_id=session, at_us=at_us, **fields)  # type: ignore[arg-type]


def entry(kind: Kind, message: object, protocol: int = 1, session: str = "s") -> EntryBatch:
    line = message if isinstance(message, bytes) else json.dumps(message).encode()
    side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
    return EntryBatch(
        session_id=session, side=side, kind=kind, at_us=MONDAY, data=line, protocol=protocol
    )


def prompt(protocol: int = 1) -> EntryBatch:
    return entry(Kind.PROMPT, {"id": 1, "params": {"prompt": []}}, protocol)


def update(protocol: int = 1, /, **fields: object) -> EntryBatch:
    return entry(Kind.UPDATE, {"params": {"update": fields}}, protocol)


def state(name: str) -> EntryBatch:
    return update(2, sessionUpdate="state_update", state=name)


CHUNK = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x"})
QUOTE = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": '"idle"'})
ENDED = entry(Kind.ANSWER, {"id": 1, "result": {"stopReason": "end_turn"}})
FAILED = entry(Kind.ANSWER, {"id": 1, "error": {"code": 1, "message": "no"}})
TAKEN = entry(Kind.ANSWER, {"id": 1, "result": {"messageId": "m"}}, protocol=2)
REFUSED = entry(Kind.ANSWER, {"id": 1, "error": {"code": 1, "message": "no"}}, protocol=2)
LOADED = entry(Kind.SETUP, {"params": {}})


def ids(store: Store, **page: object) -> list[str]:
    return sorted(session.id for session in store.sessions(Page(**page)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entries", "standing"),
    [
        ([], SessionStatus.IDLE),
        ([LOADED], SessionStatus.IDLE),
        ([CHUNK], SessionStatus.IDLE),
        ([prompt()], SessionStatus.INTERRUPTED),
        ([prompt(), CHUNK], SessionStatus.INTERRUPTED),
        ([prompt(), CHUNK, LOADED], SessionStatus.INTERRUPTED),
        ([prompt(), CHUNK, ENDED], SessionStatus.IDLE),
        ([prompt(), CHUNK, ENDED, CHUNK], SessionStatus.IDLE),
        ([prompt(), FAILED], SessionStatus.IDLE),
        ([prompt(), ENDED, LOADED, prompt(), CHUNK], SessionStatus.INTERRUPTED),
        ([prompt(2)], SessionStatus.INTERRUPTED),
        ([prompt(2), TAKEN], SessionStatus.INTERRUPTED),
        ([prompt(2), TAKEN, state("running"), CHUNK], SessionStatus.INTERRUPTED),
        ([prompt(2), TAKEN, state("running"), state("idle")], SessionStatus.IDLE),
        ([prompt(2), state("running"), state("idle"), TAKEN], SessionStatus.IDLE),
        ([prompt(2), TAKEN, state("running"), QUOTE], SessionStatus.INTERRUPTED),
        ([prompt(2), REFUSED], SessionStatus.IDLE),
        ([prompt(2), TAKEN, CHUNK, ENDED], SessionStatus.IDLE),
        ([prompt(1), TAKEN, state("running"), CHUNK], SessionStatus.INTERRUPTED),
        ([prompt(1), TAKEN, state("running"), state("idle")], SessionStatus.IDLE),
        ([prompt(2), TAKEN, state("idle"), prompt(2), TAKEN], SessionStatus.INTERRUPTED),
    ],
)
def test_a_session_without_a_turn_end_is_interrupted(
    store: Store, entries: list[EntryBatch], standing: SessionStatus
) -> None:
    store.write([opened("s"), *entries, opened("other")])
    assert store.statuses(["s", "other"]) == {"s": standing, "other": SessionStatus.IDLE}


def test_a_leased_session_is_live(store: Store) -> None:
    holder = LeaseHolder(token="t", pid=1, machine="h")  # noqa: S106 - no password
    store.write([opened("s"), prompt(), opened("other")])
    assert store.leased_ids() == set()
    store.acquire_lease("s", holder)
    assert store.leased_ids() == {"s"}
    assert store.statuses(["s", "other"]) == {"s": SessionStatus.LIVE, "other": SessionStatus.IDLE}
    store.release_leases(holder)
    assert store.leased_ids() == set()
    assert store.statuses(["s"]) == {"s": SessionStatus.INTERRUPTED}
    assert store.statuses(["nobody"]) == store.statuses([]) == {}


def test_a_fork_has_its_own_status(store: Store) -> None:
    store.write([opened("s"), prompt(), ENDED, prompt()])
    store.write([Forked(session_id="f", at_us=MONDAY, parent_id="s", until_seq=2)])
    assert store.statuses(["s", "f"]) == {"s": SessionStatus.INTERRUPTED, "f": SessionStatus.IDLE}


ENTRIES = st.sampled_from(
    [prompt(), CHUNK, QUOTE, ENDED, FAILED, LOADED, state("running"), state("idle")]
)


@given(entries=st.lists(ENTRIES, max_size=8))
def test_the_status_equals_that_of_the_folded_transcript(entries: list[EntryBatch]) -> None:
    with TemporaryDirectory() as folder, SqliteStore(Path(folder) / "s.db", hooks=HOOKS) as real:
        model = MemoryStore(HOOKS)
        for store in (real, model):
            store.write([opened("s"), *entries])
        assert real.statuses(["s"]) == model.statuses(["s"])


def test_an_archived_session_is_kept_but_not_listed(store: Store) -> None:
    store.write([opened("s", cwd="/p"), prompt(), opened("other", cwd="/p")])
    store.write([Archived(session_id="s", at_us=5), Archived(session_id="nobody", at_us=5)])
    store.write([Archived(session_id="s", at_us=9)])
    assert ids(store) == ["other"]
    assert ids(store, archived=True) == ["s"]
    assert ids(store, with_archived=True) == ["other", "s"]
    assert store.session("s").archived_us == 5
    store.write([opened("s")])
    assert ids(store, archived=True) == ["s"]
    store.write([Archived(session_id="s", at_us=9, is_archived=False)])
    assert ids(store) == ["other", "s"]
    assert store.session("s").archived_us is None
    assert ids(store, with_unopened=True) == ["other", "s"]


def test_sessions_are_filtered_by_parent_folders(store: Store) -> None:
    folders = ("/p", "/p/a", "/p/a/b", "/p-x", "/p.y", "/q", "/P/a", "/p/%")
    store.write([opened(folder, cwd=folder) for folder in folders])
    store.write([opened("nowhere")])
    assert ids(store, under=("/p",)) == ["/p", "/p/%", "/p/a", "/p/a/b"]
    assert ids(store, under=("/p/a",)) == ["/p/a", "/p/a/b"]
    assert ids(store, under=("/p/%",)) == ["/p/%"]
    assert ids(store, under=("/p/a", "/q")) == ["/p/a", "/p/a/b", "/q"]
    assert ids(store, under=("/",)) == sorted(folders)
    assert ids(store, under=("/p",), cwd="/p/a") == ["/p/a"]
    assert ids(store, under=("/",), with_unopened=True) == sorted(folders)


def test_a_deleted_unopened_session_is_purged(store: Store) -> None:
    said = entry(Kind.UPDATE, b"secret", session="stray")
    store.write([said, Counted(session_id="stray", at_us=1, messages=1)])
    store.write([Deleted(session_id="stray", at_us=3)])
    assert not store.session("stray").is_purged
    assert store.deleted_ids(4) == ["stray"]
    store.purge("stray", "nobody")
    assert store.deleted_ids(4) == []
    assert store.session("stray").is_purged
    assert list(store.read("stray")) == []


def test_purge_accepts_several_ids_and_skips_undeleted_ones(store: Store) -> None:
    for name in ("a", "b", "c"):
        store.write([opened(name, cwd="/p"), entry(Kind.UPDATE, b"1", session=name)])
    store.write([Deleted(session_id=name, at_us=1) for name in ("a", "b")])
    store.purge("a", "b", "c")
    assert [len(list(store.read(name))) for name in ("a", "b", "c")] == [0, 0, 1]


def test_entries_size_counts_the_bytes_of_all_lines(store: Store) -> None:
    several = EntryBatch(
        session_id="s", side=Side.AGENT, kind=Kind.UPDATE, at_us=1, data=b"12\n\n345", count=3
    )
    store.write([several, entry(Kind.UPDATE, b"6789"), entry(Kind.UPDATE, b"x", session="t")])
    assert store.entries_size(["s"]) == 9
    assert store.entries_size(["s", "t", "nobody"]) == 10
    assert store.entries_size([]) == 0


def test_the_overview_counts_all_sessions(store: Store) -> None:
    assert store.overview().whole == SessionTotals()
    assert (store.overview().first_us, store.overview().weeks) == (None, {})
    agent = AgentIdentity(name="A", command=("a",))
    nameless = AgentIdentity(name="", command=("/bin/b", "acp"))
    for number, (name, at_us, who) in enumerate(
        [("a1", MONDAY, agent), ("a2", MONDAY + 7 * DAY - 1, agent), ("b", MONDAY - 1, nameless)]
    ):
        store.write([opened(name, at_us, agent=who, cwd="/p")])
        store.write([Counted(session_id=name, at_us=at_us, turns=number, messages=2)])
    store.write([opened("c", MONDAY + 7 * DAY, cwd="/p"), opened("gone", 1, cwd="/p")])
    store.write([opened("stray", 1), prompt(), Deleted(session_id="gone", at_us=1)])
    store.write([Archived(session_id="a1", at_us=1)])
    found = store.overview()
    assert found.size > 0
    assert found == Overview(
        whole=SessionTotals(sessions=4, turns=3, messages=6),
        archived=1,
        deleted=1,
        first_us=MONDAY - 1,
        last_us=MONDAY + 7 * DAY,
        agents={
            "A": SessionTotals(sessions=2, turns=1, messages=4),
            "b": SessionTotals(sessions=1, turns=2, messages=2),
            "": SessionTotals(sessions=1),
        },
        weeks={
            MONDAY - 7 * DAY: SessionTotals(sessions=1, turns=2, messages=2),
            MONDAY: SessionTotals(sessions=2, turns=1, messages=4),
            MONDAY + 7 * DAY: SessionTotals(sessions=1),
        },
        size=found.size,
        unused=0,
    )


@given(at_us=st.integers(0, 2**52))
def test_weeks_start_on_monday(at_us: int) -> None:
    begin = week_of(at_us)
    assert begin <= at_us < begin + 7 * DAY
    assert (begin - MONDAY) % (7 * DAY) == 0


def test_compacting_changes_no_contents(store: Store) -> None:
    store.write([opened("s", cwd="/p"), entry(Kind.UPDATE, b"kept")])
    store.write([opened("d", cwd="/p"), entry(Kind.UPDATE, b"x" * 100_000, session="d")])
    store.write([Deleted(session_id="d", at_us=1)])
    store.purge("d")
    done = list(store.compact())
    assert done == sorted(done)
    assert done[-1] == 1.0
    assert [it.line for it in store.read("s")] == [b"kept"]
    assert store.overview().unused == 0


def fill(path: Path, sessions: int = 8, size: int = 400_000) -> None:
    """Write some sessions, and purge every second one."""
    with SqliteStore(path, hooks=HOOKS) as store:
        for number in range(sessions):
            name = f"s{number}"
            data = b"%d" % number * size
            store.write([opened(name, cwd="/p"), entry(Kind.UPDATE, data, session=name)])
        gone = [f"s{number}" for number in range(0, sessions, 2)]
        store.write([Deleted(session_id=name, at_us=1) for name in gone])
        store.purge(*gone)


def check(path: Path, sessions: int = 8, size: int = 400_000) -> None:
    with SqliteStore(path, hooks=HOOKS) as store:
        for number in range(1, sessions, 2):
            assert [it.line for it in store.read(f"s{number}")] == [b"%d" % number * size]
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_compacting_works_while_other_processes_write(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    fill(path)
    before = path.stat().st_size
    with SqliteStore(path, hooks=HOOKS) as store, SqliteStore(path, hooks=HOOKS) as other:
        for number, _ in enumerate(store.compact()):
            other.write([entry(Kind.UPDATE, b"%d" % number, session="meanwhile")], timeout=0)
        written = [it.line for it in store.read("meanwhile")]
    assert len(written) > 2
    assert written == [b"%d" % number for number in range(len(written))]
    assert path.stat().st_size < before * 0.6
    check(path)


def old_store(path: Path) -> None:
    """Create an old store, which cannot be compacted in steps."""
    with closing(apsw.Connection(str(path))) as db:
        for step in MIGRATIONS[:1]:
            db.execute(step)
        db.execute("pragma user_version = 1; pragma application_id = 1382378345")


def test_an_old_store_is_rewritten_only_without_leases(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    old_store(path)
    fill(path)
    before = path.stat().st_size
    with SqliteStore(path, hooks=HOOKS) as store, SqliteStore(path, hooks=HOOKS) as other:
        other.acquire_lease("s1", LeaseHolder(token="t", pid=42, machine="here"))  # noqa: S106 - no password
        with pytest.raises(StoreUnavailable, match="process 42 on here is recording"):
            list(store.compact())
        other.release_leases(LeaseHolder(token="t", pid=42, machine="here"))  # noqa: S106
        list(store.compact())
        assert path.stat().st_size < before * 0.6
        assert store.overview().unused == 0
    check(path)
    with closing(apsw.Connection(str(path))) as db:
        assert db.pragma("auto_vacuum") == 2


COMPACT = """
import sys
from pathlib import Path
from rekindle.store.sqlite.store import SqliteStore
with SqliteStore(Path(sys.argv[1])) as store:
    for done in store.compact():
        print(done, flush=True)
        sys.stdin.readline()
"""


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_kill_while_compacting_loses_nothing(tmp_path: Path, steps: int) -> None:
    path = tmp_path / "s.db"
    fill(path)
    with subprocess.Popen(
        [sys.executable, "-c", COMPACT, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline()
        for _ in range(steps):
            process.stdin.write(b"\n")
            process.stdin.flush()
        # The process is now in one of the next steps, or waits after them.
        process.kill()
    check(path)
    with SqliteStore(path, hooks=HOOKS) as store:
        list(store.compact())
        assert store.overview().unused == 0
    check(path)


def plan_of(path: Path, sql: str, *values: object) -> str:
    with closing(apsw.Connection(str(path))) as db:
        return "; ".join(row[3] for row in db.execute(f"explain query plan {sql}", values))


def test_the_query_for_purging_uses_an_index(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    SqliteStore(path, hooks=HOOKS).close()
    plan = plan_of(path, sql.DELETED, 1, 1)
    assert plan == "SEARCH session USING INDEX session_by_purge (deleted_us<?)"
    plan = plan_of(path, "delete from former where session = ?", 1)
    assert plan.startswith("SEARCH former USING")
    assert "former_by_session" in plan


def test_the_query_for_live_leases_uses_an_index(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    SqliteStore(path, hooks=HOOKS).close()
    assert plan_of(path, leases.ACTIVE) == "SCAN lease USING INDEX lease_by_token"
    plan = plan_of(path, leases.RELEASE, "t", None)
    assert plan == "SEARCH lease USING INDEX lease_by_token (token=?)"


def test_a_large_store_is_not_scrubbed_while_a_lease_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.store.sqlite.totals.MAX_REWRITE_BYTES", 1)
    path = tmp_path / "s.db"
    holder = LeaseHolder(token="t", pid=7, machine="here")  # noqa: S106 - no password
    with SqliteStore(path, hooks=HOOKS) as recording, SqliteStore(path, hooks=HOOKS) as other:
        recording.write([Opened(session_id="s", at_us=1, cwd="/p")])
        recording.acquire_lease("s", holder)
        with pytest.raises(StoreUnavailable, match="process 7 on here is recording"):
            other.scrub(lambda: None)
        recording.release_leases(holder)
        other.scrub(lambda: None)
