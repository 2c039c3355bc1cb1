"""The search index: how it grows, and what it forgets."""

import errno
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Barrier

import apsw
import pytest
from hypothesis import given, settings, strategies as st

from recorded_sessions import (
    NOW,
    answered,
    asked,
    called,
    entry,
    everything,
    files,
    found,
    opened,
    text,
    told,
    update,
)
from rekindle.errors import StoreUnavailable
from rekindle.model import (
    Counted,
    Deleted,
    EntryBatch,
    Forgotten,
    Forked,
    Kind,
    LeaseHolder,
    Opened,
    Page,
    Titled,
    TitleSource,
)
from rekindle.store.search import SearchRequest
from rekindle.store.sqlite.files import index_path
from rekindle.store.sqlite.search_index import SqliteSearchIndex
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.search_syntax import parse
from rekindle.transfer.indexer import update_index
from selection import some


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as opened:
        yield opened


IDS = st.sampled_from([None, "m1", "m2"])
SHORT = st.sampled_from(["red", "green", "blue", "Gray Scale", "灰色", ""])
ENTRIES = st.one_of(
    st.builds(lambda w: asked("a", w), SHORT),
    st.builds(lambda w, i: told("a", w, i), SHORT, IDS),
    st.builds(lambda w, i: called("a", i or "t", title=w), SHORT, IDS),
    st.builds(
        lambda w, i: entry(
            "a",
            Kind.UPDATE,
            {"params": {"update": {"sessionUpdate": "agent_message", "messageId": i or "m",
                                   "content": [text(w)]}}},
            protocol=2,
        ),
        SHORT,
        IDS,
    ),
    st.builds(
        lambda w, i: entry(
            "a",
            Kind.UPDATE,
            {"params": {"update": {"sessionUpdate": "plan_update", "plan": {
                "type": "items", "planId": i or "p", "entries": [{"content": w}]}}}},
            protocol=2,
        ),
        SHORT,
        IDS,
    ),
    st.builds(
        lambda w: entry(
            "a",
            Kind.UPDATE,
            {"params": {"update": {"sessionUpdate": "user_message_chunk", "content": text(w)}}},
        ),
        SHORT,
    ),
    st.builds(lambda: entry("a", Kind.HANDOVER, {})),
    st.builds(
        lambda i: entry(
            "a",
            Kind.UPDATE,
            {"params": {"update": {"sessionUpdate": "history_truncated", "lastMessageId": i}}},
        ),
        IDS,
    ),
    st.builds(lambda: answered("a")),
    st.just(None),
)  # fmt: skip


@settings(max_examples=some(150), deadline=None)
@given(st.lists(ENTRIES, max_size=25))
def test_incremental_indexing_equals_a_full_rebuild(steps: list[EntryBatch | None]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with SqliteStore(path) as store:
            # With a lease, so that it is checked even if its time has not changed.
            store.write([opened("a")])
            store.acquire_lease("a", LeaseHolder(token="t", pid=1, machine="h"))  # noqa: S106 - no password
            for step in steps:
                if step is None:
                    update(path)
                else:
                    store.write([step])
        update(path)
        grown = everything(path)
        SqliteSearchIndex(path, rebuild=True).close()
        update(path)
        assert grown == everything(path)


def test_only_changed_documents_are_written(store: SqliteStore, path: Path) -> None:
    store.write([opened("a")])
    for number in range(50):
        store.write([asked("a", f"question {number}", NOW + number), answered("a", NOW + number)])
    update(path)
    with SqliteSearchIndex(path) as index, SqliteStore(path, create=False) as reader:
        for expected, change in ((0, None), (1, asked("a", "one more", NOW + 99))):
            if change:
                store.write([change])
            before = index.db.total_changes()
            index.db.set_update_hook(writes := WriteCounter())
            for _ in update_index(index, reader):
                pass
            index.db.set_update_hook(None)
            assert writes.passages == expected
            assert (index.db.total_changes() > before) is bool(change)


class WriteCounter:
    """Counts the documents that are written."""

    def __init__(self) -> None:
        self.passages = 0

    def __call__(self, _kind: int, _database: str, table: str, _rowid: int) -> None:
        self.passages += table == "passage_0_content"


def test_a_session_is_found_until_it_is_removed(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    assert found(path, "word") == [("a", 1)]
    for _ in range(2):
        store.write([Deleted(session_id="a", at_us=NOW)])
        assert found(path, "word") == []
        store.write([Opened(session_id="a", at_us=NOW)])
        assert found(path, "word") == [("a", 1)]
    store.erase("a")
    assert found(path, "word") == []
    assert everything(path) == []


def test_a_forgotten_session_leaves_no_text_in_the_index(store: SqliteStore, path: Path) -> None:
    title = Titled(session_id="a", at_us=NOW, source=TitleSource.AGENT, title="word")
    forgotten = Forgotten(session_id="a", at_us=NOW)
    store.write([opened("a"), title])
    assert len(found(path, "word")) == 1
    store.write([forgotten])
    assert everything(path) == []
    store.write([opened("a"), title])
    update(path)
    store.apply_pending("token", [forgotten])
    assert everything(path) == []


def test_a_damaged_index_does_not_fail_the_write_that_forgets(
    store: SqliteStore, path: Path
) -> None:
    store.write([opened("a")])
    index_path(path).write_bytes(b"no index" * 1000)
    store.write([Forgotten(session_id="a", at_us=NOW)])
    assert store.known_ids(["a"]) == set()


def test_a_deleted_session_is_not_found(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    update(path)
    store.write([Deleted(session_id="a", at_us=NOW)])
    with SqliteSearchIndex(path) as index:
        assert index.search(SearchRequest(terms=parse("word"))) == []


def test_a_fork_is_indexed(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    update(path)
    store.write([Forked(session_id="f", at_us=NOW, parent_id="a", until_seq=1)])
    assert found(path, "word") == [("a", 1), ("f", 1)]


@settings(max_examples=some(30), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60)), max_size=60), st.randoms())
def test_purged_text_leaves_no_trace_in_the_index(
    said: list[tuple[str, int]], dice: Random
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with SqliteStore(path) as store:
            store.write([opened("a"), opened("b"), opened("c")])
            for number, (session, length) in enumerate([("a", 3), ("b", 3), *said]):
                word = "Hunter" if session == "a" else "Other"
                words = [f"{word}{dice.randint(1, 9999)}" for _ in range(length)]
                store.write([asked(session, " ".join(words), NOW + number)])
                if dice.random() < 0.2:
                    update(path)
            assert found(path, "hunter*") != []
            store.write([Deleted(session_id="a", at_us=NOW)])
            store.purge("a")
        for name, content in files(path).items():
            if ".index" in name:
                assert b"hunter" not in content.lower(), name
        assert found(path, "hunter*") == []
        assert {session for session, _ in found(path, "other*")} >= {"b"}


def test_a_session_purged_during_indexing_is_not_written(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "hunter2")])
    with SqliteSearchIndex(path) as index, SqliteStore(path, create=False) as reader:
        steps = update_index(index, PurgingStore(reader, store))  # type: ignore[arg-type]
        assert list(steps) == []
    for name, content in files(path).items():
        assert b"hunter2" not in content, name
    assert found(path, "hunter2") == []


class PurgingStore:
    """A store in which a session is purged right after it was read."""

    def __init__(self, reader: SqliteStore, store: SqliteStore) -> None:
        self._reader = reader
        self._store = store

    def read(self, session_id: str, *, after: int = 0) -> Iterator[object]:
        yield from list(self._reader.read(session_id, after=after))
        self._store.write([Deleted(session_id=session_id, at_us=NOW)])
        self._store.purge(session_id)


def test_an_index_of_another_store_is_not_used(tmp_path: Path, path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([opened("a"), asked("a", "one"), asked("a", "two")])
    assert found(path, "two") == [("a", 2)]
    for name, words in (("b", "three"), ("a", "four")):
        for file in tmp_path.glob("s.db*"):
            if not file.name.startswith("s.db.index"):
                file.unlink()
        with SqliteStore(path) as store:
            store.write([opened(name), asked(name, words)])
        assert found(path, "one") == []
        assert found(path, words) == [(name, 1)]


@pytest.mark.parametrize("garbage", [b"", bytes(8192), b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_index_is_rebuilt(store: SqliteStore, path: Path, garbage: bytes) -> None:
    store.write([opened("a"), asked("a", "word")])
    (path.parent / "s.db.index").write_bytes(garbage)
    assert found(path, "word") == [("a", 1)]


def test_an_index_of_another_version_is_rebuilt(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    update(path)
    with closing(apsw.Connection(f"{path}.index")) as db:
        db.execute("drop table progress; pragma user_version = 99")
    assert found(path, "word") == [("a", 1)]


def test_a_foreign_database_is_left_untouched(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    theirs = path.parent / "s.db.index"
    with closing(apsw.Connection(str(theirs))) as db:
        db.execute("create table precious (x)")
    before = theirs.read_bytes()
    with pytest.raises(StoreUnavailable, match="not a Rekindle index"):
        SqliteSearchIndex(path)
    assert theirs.read_bytes() == before


@pytest.mark.parametrize("content", [b"Dear diary,\n", b"Dear diary,\n" * 1000, b"\0" * 50])
@pytest.mark.parametrize("rebuild", [False, True])
def test_a_foreign_file_is_left_untouched(
    store: SqliteStore, path: Path, content: bytes, *, rebuild: bool
) -> None:
    store.write([opened("a"), asked("a", "word")])
    theirs = path.parent / "s.db.index"
    theirs.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="not a Rekindle index; move it away"):
        SqliteSearchIndex(path, rebuild=rebuild)
    assert theirs.read_bytes() == content


@pytest.mark.parametrize("exists", [False, True])
def test_an_index_is_not_written_through_a_link(
    store: SqliteStore, path: Path, *, exists: bool
) -> None:
    store.write([opened("a"), asked("a", "word")])
    target = path.parent / "target"
    if exists:
        target.write_bytes(b"")
    (path.parent / "s.db.index").symlink_to(target)
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        SqliteSearchIndex(path)
    assert target.exists() == exists
    assert not exists or target.read_bytes() == b""


def test_a_text_that_cannot_be_stored_is_no_damage(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    update(path)
    with SqliteSearchIndex(path) as index, pytest.raises(StoreUnavailable):
        index.query("select ?", ("\udcff",))


def test_the_index_file_is_private(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    with SqliteSearchIndex(path):
        beside = list(path.parent.glob("s.db.index*"))
        assert len(beside) == 3
        assert {file.stat().st_mode & 0o777 for file in beside} == {0o600}


def test_indexing_does_not_write_to_the_store(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([opened("a"), asked("a", "word")])
    before = path.read_bytes()
    assert found(path, "word") == [("a", 1)]
    assert path.read_bytes() == before


def test_a_long_session_is_indexed_in_several_transactions(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.transfer.indexer._CHARACTERS_PER_WRITE", 500)
    store.write([opened("a"), *(asked("a", f"word{number}") for number in range(20))])
    with SqliteSearchIndex(path) as index:
        steps = update_index(index, store)
        next(steps)
        seq, turn = index.query("select seq, turn from progress")[0]
        assert 0 < seq == turn < 20
        # The next update continues where this one stopped.
    assert found(path, "word19") == [("a", 20)]
    assert len(everything(path)) == 20


WRITER = """
import json, sys
from pathlib import Path
from rekindle.model import Kind, Opened, Side, EntryBatch
from rekindle.store.sqlite.store import SqliteStore
path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with SqliteStore(path) as store:
    store.write([Opened(session_id=name, at_us=1, cwd="/p")])
    for number in range(count):
        prompt = {"params": {"prompt": [{"type": "text", "text": f"{name}word{number}"}]}}
        store.write([EntryBatch(session_id=name, side=Side.CLIENT, kind=Kind.PROMPT, at_us=number,
                             data=json.dumps(prompt).encode())])
"""
INDEXER = """
import sys
from pathlib import Path
from rekindle.errors import StoreUnavailable
from rekindle.store.sqlite.search_index import SqliteSearchIndex, table_of
from rekindle.transfer.indexer import update_index
from rekindle.store.sqlite.store import SqliteStore
path = Path(sys.argv[1])
with SqliteStore(path, create=False) as store, SqliteSearchIndex(path, timeout=20) as index:
    for _ in range(20):
        for _ in update_index(index, store):
            pass
"""


def test_processes_can_record_and_index_concurrently(store: SqliteStore, path: Path) -> None:
    store.write([opened("a")])
    count = 200
    commands = [[WRITER, path, f"s{name}", str(count)] for name in range(3)]
    commands += [[INDEXER, path]] * 3
    processes = [
        subprocess.Popen([sys.executable, "-c", *map(str, command)], stderr=subprocess.PIPE)
        for command in commands
    ]
    for process in processes:
        _, stderr = process.communicate(timeout=60)
        assert (process.returncode, stderr) == (0, b"")
    for name in range(3):
        for number in (0, count // 2, count - 1):
            assert found(path, f"s{name}word{number}") == [(f"s{name}", number + 1)]
    assert len(everything(path)) == 3 * count
    with SqliteSearchIndex(path) as index:
        index.query("insert into passage_0 (passage_0, rank) values ('integrity-check', 1)")


def test_a_read_only_index_can_be_searched(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([opened("a"), asked("a", "Hello")])
    update(path)
    store.write([asked("a", "Hello again", NOW + 1)])

    def refuse(_: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("rekindle.store.sqlite.search_index.make_private_file", refuse)
    with SqliteSearchIndex(path) as index:
        assert len(index.search(SearchRequest(terms=parse("hello")))) == 1
        with pytest.raises(StoreUnavailable, match="cannot be written"):
            list(update_index(index, store))
    with pytest.raises(StoreUnavailable, match="Read-only file system"):
        SqliteSearchIndex(path, rebuild=True)
    with closing(apsw.Connection(str(index_path(path)))) as db:
        db.execute("pragma user_version = 1")
    with pytest.raises(StoreUnavailable, match="Read-only file system"):
        SqliteSearchIndex(path)
    index_path(path).unlink()
    with pytest.raises(StoreUnavailable, match="Read-only file system"):
        SqliteSearchIndex(path)


def test_concurrent_opens_create_one_index(tmp_path: Path) -> None:
    for number in range(30):
        path = tmp_path / f"{number}.db"
        with SqliteStore(path) as store:
            store.write([opened("a"), asked("a", "Hello")])
        start = Barrier(8)

        def open_index(path: Path = path, start: Barrier = start) -> int:
            start.wait()
            with SqliteSearchIndex(path, timeout=20) as index:
                return len(index.shards())

        with ThreadPoolExecutor(8) as pool:
            assert [it.result() for it in [pool.submit(open_index) for _ in range(8)]] == [0] * 8


def shards(path: Path) -> list[int]:
    with SqliteSearchIndex(path) as index:
        return index.shards()


def test_a_full_shard_is_followed_by_another(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.store.sqlite.search_index._DOCUMENTS_PER_SHARD", 3)
    monkeypatch.setattr("rekindle.transfer.indexer._SESSIONS_PER_PAGE", 2)
    names = [f"s{number}" for number in range(10)]
    for name in names:
        store.write([opened(name), asked(name, "Hello"), told(name, f"I am {name}")])
    everyone = [(name, 1) for name in names]
    assert found(path, "hello") == everyone
    # Two documents each: a shard is full after the second session.
    assert shards(path) == [9, 7, 5, 3, 0]
    # A known session stays in its shard, however much it grows.
    store.write([asked("s0", "Hello again", NOW + 1), told("s0", "and again")])
    assert ("s0", 2) in found(path, "again")
    assert shards(path) == [9, 7, 5, 3, 0]
    assert found(path, "hello", cwd="/p") == [("s0", 1), ("s0", 2), *everyone[1:]]


def test_forgetting_a_session_drops_only_its_shard(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.store.sqlite.search_index._DOCUMENTS_PER_SHARD", 2)
    names = [f"s{number}" for number in range(6)]
    for name in names:
        store.write([opened(name), asked(name, "Hello")])
    update(path)
    assert shards(path) == [5, 3, 0]
    store.write([Deleted(session_id="s3", at_us=NOW)])
    store.purge("s3")
    assert shards(path) == [5, 0]
    hello = SearchRequest(terms=parse("hello"), page=Page(cwd="/p", limit=20))
    with SqliteSearchIndex(path) as index:
        left = {hit.session_id for hit in index.search(hello)}
    assert left == {"s0", "s1", "s4", "s5"}
    assert found(path, "hello") == [(name, 1) for name in names if name != "s3"]
    assert shards(path) == [5, 3, 0]
    # The last shard may be dropped too; new sessions then go into it.
    store.write([Deleted(session_id="s5", at_us=NOW)])
    store.purge("s5")
    store.write([opened("new"), asked("new", "Hello")])
    assert ("new", 1) in found(path, "hello")
    assert shards(path) == [5, 3, 0]


def test_a_rewind_removes_text_from_the_index(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "red"), told("a", "green", "m1"), answered("a")])
    store.write([asked("a", "blue"), told("a", "gray", "m2"), answered("a")])
    store.write([asked("a", "white"), answered("a")])
    update(path)
    assert found(path, "blue") == found(path, "gray") == [("a", 2)]
    rewind = {"sessionUpdate": "history_truncated", "lastMessageId": "m1"}
    truncated = entry("a", Kind.UPDATE, {"params": {"update": rewind}})
    store.write([truncated, Counted(session_id="a", at_us=NOW, turns=-2, messages=-3)])
    update(path)
    assert found(path, "green") == [("a", 1)]
    assert found(path, "blue") == found(path, "gray") == found(path, "white") == []
    store.write([asked("a", "violet", NOW + 1), answered("a")])
    update(path)
    assert found(path, "violet") == [("a", 2)]


def test_a_rewind_to_the_start_removes_the_text_of_all_turns(
    store: SqliteStore, path: Path
) -> None:
    store.write([opened("a"), asked("a", "red"), answered("a"), asked("a", "blue"), answered("a")])
    update(path)
    rewind = {"sessionUpdate": "history_truncated", "lastMessageId": None}
    store.write([entry("a", Kind.UPDATE, {"params": {"update": rewind}}, NOW + 1)])
    store.write([asked("a", "violet", NOW + 1), answered("a")])
    update(path)
    assert found(path, "red") == found(path, "blue") == []
    assert found(path, "violet") == [("a", 1)]
