"""The index: what is found, what is not, and what is left of it in the file."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, settings, strategies as st

from rekindle.core.query import parse
from rekindle.errors import StoreUnavailable
from rekindle.model import AgentIdentity, Deleted, Forked, Holder, Kind, Opened, Page, Side, Stretch
from rekindle.store.index import Index, table_of
from rekindle.store.indexing import bring_up_to_date
from rekindle.store.searching import Hit, Wanted, search
from rekindle.store.sqlite import SqliteStore

NOW = 1_700_000_000_000_000
Change = Opened | Stretch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as opened:
        yield opened


def entry(
    session: str, kind: Kind, message: object, at_us: int = NOW, protocol: int = 1
) -> Stretch:
    line = json.dumps(message).encode()
    side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
    return Stretch(
        session_id=session, side=side, kind=kind, at_us=at_us, data=line, protocol=protocol
    )


def opened(session: str, cwd: str = "/p") -> Opened:
    return Opened(session_id=session, at_us=NOW, cwd=cwd, agent=AgentIdentity(name="Agent"))


def asked(session: str, words: str, at_us: int = NOW) -> Stretch:
    return entry(session, Kind.PROMPT, {"params": {"prompt": [text(words)]}}, at_us)


def told(session: str, words: str, message_id: str | None = None) -> Stretch:
    update = {"sessionUpdate": "agent_message_chunk", "content": text(words)}
    update |= {"messageId": message_id} if message_id else {}
    return entry(session, Kind.UPDATE, {"params": {"update": update}})


def called(session: str, call: str, **fields: object) -> Stretch:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": call, **fields}
    return entry(session, Kind.UPDATE, {"params": {"update": update}})


def answered(session: str, at_us: int = NOW) -> Stretch:
    return entry(session, Kind.ANSWER, {"result": {"stopReason": "end_turn"}}, at_us)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def update(path: Path) -> None:
    with SqliteStore(path, create=False) as store, Index(path) as index:
        index.sweep()
        for _ in bring_up_to_date(index, store):
            pass


def look(path: Path, typed: str, *, since_us: int | None = None, **page: object) -> list[Hit]:
    """Look for words as the command does: first bring the index up to date."""
    update(path)
    wanted = Wanted(terms=parse(typed), page=Page(**{"limit": 50, **page}), since_us=since_us)  # type: ignore[arg-type]
    with Index(path) as index:
        return search(index, wanted)


def found(path: Path, typed: str, **options: object) -> list[tuple[str, int]]:
    return sorted((hit.session_id, hit.turn) for hit in look(path, typed, **options))  # type: ignore[arg-type]


def everything(path: Path) -> list[tuple[object, ...]]:
    with Index(path) as index:
        columns = "rowid, turn, at_us, origin, ident, words, parts"
        tables = [table_of(shard) for shard in reversed(index.shards())]
        return [row for it in tables for row in index.query(f"select {columns} from {it}")]  # noqa: S608


def files(path: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in path.parent.iterdir() if it.is_file()}


def test_a_turn_is_found_by_what_was_said_in_it(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "Hello there"), told("a", "Gene"), told("a", "ral")])
    store.write([answered("a"), asked("a", "Something else"), answered("a")])
    (hit,) = look(path, "general")
    assert (hit.session_id, hit.turn, hit.seq, hit.origin) == ("a", 1, 2, "agent")
    assert (hit.text, hit.matches) == ("General", [(0, 7)])
    assert found(path, "hello") == [("a", 1)]
    assert found(path, "else") == [("a", 2)]
    assert found(path, "hello else") == []


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("Änderung", "anderung"),
        ("cafe\u0301", "CAFÉ"),
        ("see src/foo_bar.py:3", "foo"),
        ("see src/foo_bar.py:3", "foo_bar.py"),
        ("see src/foo_bar.py:3", "src/foo_bar.py"),
        ("see src/foobar.py:3", "src/foo*"),
        ("the SqliteStore class", "sqlitestore"),
        ("the SqliteStore class", "store"),
        ("the SqliteStore class", "sqlite class"),
        ("getHTTPResponse()", "http"),
        ("GitHub", "github"),
        ("全文検索ができる", "検索"),
        ("SQLiteの全文検索", "sqlite 全文"),
        ("한국어를 배우다", "한국어"),
        ("the quick brown fox", '"quick brown"'),
        ("the quick brown fox", '"quick bro"*'),
        ("the quick brown fox", "fox the -dog"),
        ("foo (bar) baz", "foo(bar"),
        ("foo (bar) baz", '"foo bar baz'),
        ('say "hi"', '"say ""hi"'),
        ("one AND two", "one AND"),
        ("a col:umn b", "col:umn"),
        ("C++ and x*y", "x*y c++"),
    ],
)
def test_words_are_found_however_they_are_written(
    store: SqliteStore, path: Path, said: str, typed: str
) -> None:
    store.write([opened("a"), asked("a", said), opened("b"), asked("b", "nothing of it")])
    assert found(path, typed) == [("a", 1)]


@pytest.mark.parametrize("typed", ['"brown quick"', "fox -quick", "foxes", "ox*", '"quick fox"'])
def test_what_does_not_fit_is_not_found(store: SqliteStore, path: Path, typed: str) -> None:
    store.write([opened("a"), asked("a", "the quick brown fox")])
    assert found(path, typed) == []


def test_very_many_words_are_no_error(store: SqliteStore, path: Path) -> None:
    words = [f"w{number}" for number in range(2000)]
    store.write([opened("a"), asked("a", " ".join(words))])
    assert found(path, " ".join(reversed(words))) == [("a", 1)]
    assert found(path, " ".join([*words, "other"])) == []


def test_titles_and_paths_of_tool_calls_are_found(store: SqliteStore, path: Path) -> None:
    locations = [{"path": "/p/src/parser.py"}]
    store.write([opened("a"), asked("a", "x"), called("a", "t", title="Read", kind="read")])
    store.write([called("a", "t", locations=locations, rawOutput="secretive")])
    assert found(path, "read parser.py") == [("a", 1)]
    assert found(path, "secretive") == []


def test_sessions_can_be_chosen(store: SqliteStore, path: Path) -> None:
    other = AgentIdentity(command=("/opt/Other",))
    for number, name in enumerate("abc"):
        store.write([opened(name, f"/{name}"), asked(name, "word", NOW + number)])
    store.write([Opened(session_id="c", at_us=NOW, agent=other), Opened(session_id="x", at_us=NOW)])
    store.write([asked("x", "word")])
    assert found(path, "word") == [("a", 1), ("b", 1), ("c", 1)]
    assert found(path, "word", cwd="/b") == [("b", 1)]
    assert found(path, "word", agent="other") == [("c", 1)]
    assert found(path, "word", agent="agent") == [("a", 1), ("b", 1), ("c", 1)]
    assert found(path, "word", since_us=NOW + 1) == [("b", 1), ("c", 1)]
    assert found(path, "word", cwd="/b", since_us=NOW + 2) == []


def test_only_what_was_said_since_then_is_found(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word", NOW), asked("a", "word", NOW + 5)])
    assert found(path, "word", since_us=NOW + 5) == [("a", 2)]


def test_archived_sessions_are_found_when_asked_for(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    with closing(apsw.Connection(str(path))) as db:
        db.execute("update session set archived_us = 1")
    assert found(path, "word") == []
    assert found(path, "word", with_archived=True) == [("a", 1)]


def test_the_best_comes_first_and_then_the_newest(store: SqliteStore, path: Path) -> None:
    filler = "filler " * 100
    said = {"long": f"word {filler}", "old": "word", "new": "word", "often": "word word word"}
    for number, (name, words) in enumerate(said.items()):
        store.write([opened(name), asked(name, words, NOW + number)])
    ids = [hit.session_id for hit in look(path, "word")]
    assert ids == ["often", "new", "old", "long"]
    assert [hit.session_id for hit in look(path, "word", limit=2)] == ["often", "new"]


def test_a_turn_is_told_once_by_its_best_passage(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "a word in a longer sentence"), told("a", "word word")])
    (hit,) = look(path, "word")
    assert hit.text == "word word"


def test_of_many_sessions_the_right_ones_are_found(store: SqliteStore, path: Path) -> None:
    changes: list[Change] = []
    for number in range(700):
        name = f"s{number}"
        changes += [opened(name, "/many" if number % 7 else "/few"), asked(name, "word")]
    store.write(changes)
    assert len(found(path, "word", cwd="/few", limit=1000)) == 100
    assert len(found(path, "word", cwd="/many", limit=1000)) == 600


# Letters and digits of which also an old Unicode knows that they are some.
KNOWN = re.compile("[A-Za-z0-9À-ÖØ-öø-ɏА-я全文検索한국어]")
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cn"], max_codepoint=0x2FFF)
    | st.sampled_from("全文検索한국어 \n\t_-.'\"*(:/aBcDé\u0301"),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), WORDS), min_size=1, max_size=6))
def test_every_word_of_every_message_is_found(said: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with SqliteStore(path) as store:
            store.write([opened("a"), opened("b")])
            store.write([asked(session, words) for session, words in said])
        update(path)
        with Index(path) as index:
            for session, words in said:
                for word in filter(KNOWN.search, words.split()):
                    phrase = '"' + word.replace('"', " ") + '"'
                    plain = [word] if word.isalnum() else []
                    other_case = [word.swapcase()] if word.isalnum() and word.isascii() else []
                    for typed in (phrase, f"{phrase}*", *plain, *other_case):
                        hits = search(index, Wanted(terms=parse(typed), page=Page(limit=50)))
                        assert session in {hit.session_id for hit in hits}, typed


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
    st.builds(lambda: answered("a")),
    st.just(None),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(ENTRIES, max_size=25))
def test_an_index_that_grew_is_as_one_made_at_once(steps: list[Stretch | None]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with SqliteStore(path) as store:
            # In use, so that it is looked at also when nothing has moved its time.
            store.write([opened("a")])
            store.claim("a", Holder(token="t", pid=1, host="h"))  # noqa: S106 - no password
            for step in steps:
                if step is None:
                    update(path)
                else:
                    store.write([step])
        update(path)
        grown = everything(path)
        Index(path, anew=True).close()
        update(path)
        assert grown == everything(path)


def test_only_what_is_new_is_written(store: SqliteStore, path: Path) -> None:
    store.write([opened("a")])
    for number in range(50):
        store.write([asked("a", f"question {number}", NOW + number), answered("a", NOW + number)])
    update(path)
    with Index(path) as index, SqliteStore(path, create=False) as reader:
        for expected, change in ((0, None), (1, asked("a", "one more", NOW + 99))):
            if change:
                store.write([change])
            before = index.db.total_changes()
            index.db.set_update_hook(writes := Writes())
            for _ in bring_up_to_date(index, reader):
                pass
            index.db.set_update_hook(None)
            assert writes.passages == expected
            assert (index.db.total_changes() > before) is bool(change)


class Writes:
    """Counts the passages that are written."""

    def __init__(self) -> None:
        self.passages = 0

    def __call__(self, _kind: int, _database: str, table: str, _rowid: int) -> None:
        self.passages += table == "passage_0_content"


def test_a_session_is_found_as_long_as_it_is_there(store: SqliteStore, path: Path) -> None:
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


def test_a_deleted_session_is_not_found_though_its_words_are_there_still(
    store: SqliteStore, path: Path
) -> None:
    store.write([opened("a"), asked("a", "word")])
    update(path)
    store.write([Deleted(session_id="a", at_us=NOW)])
    with Index(path) as index:
        assert search(index, Wanted(terms=parse("word"))) == []


def test_a_fork_is_found_too(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    update(path)
    store.write([Forked(session_id="f", at_us=NOW, parent_id="a", until_seq=1)])
    assert found(path, "word") == [("a", 1), ("f", 1)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60)), max_size=60), st.randoms())
def test_of_what_is_purged_nothing_is_left_in_the_index(
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


def test_a_session_that_is_purged_while_it_is_indexed_is_not_written(
    store: SqliteStore, path: Path
) -> None:
    store.write([opened("a"), asked("a", "hunter2")])
    with Index(path) as index, SqliteStore(path, create=False) as reader:
        steps = bring_up_to_date(index, Interrupted(reader, store))  # type: ignore[arg-type]
        assert list(steps) == []
    for name, content in files(path).items():
        assert b"hunter2" not in content, name
    assert found(path, "hunter2") == []


class Interrupted:
    """A store in which a session is purged right after it was read."""

    def __init__(self, reader: SqliteStore, store: SqliteStore) -> None:
        self._reader = reader
        self._store = store

    def read(self, session_id: str, *, after: int = 0) -> Iterator[object]:
        yield from list(self._reader.read(session_id, after=after))
        self._store.write([Deleted(session_id=session_id, at_us=NOW)])
        self._store.purge(session_id)


def test_an_index_of_another_store_is_not_believed(tmp_path: Path, path: Path) -> None:
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


@pytest.mark.parametrize("garbage", [b"garbage" * 1000, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_index_is_made_anew(store: SqliteStore, path: Path, garbage: bytes) -> None:
    store.write([opened("a"), asked("a", "word")])
    (path.parent / "s.db.index").write_bytes(garbage)
    assert found(path, "word") == [("a", 1)]


def test_an_index_of_another_version_is_made_anew(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    update(path)
    with closing(apsw.Connection(f"{path}.index")) as db:
        db.execute("drop table progress; pragma user_version = 99")
    assert found(path, "word") == [("a", 1)]


def test_a_database_of_somebody_else_is_left_as_it_is(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    theirs = path.parent / "s.db.index"
    with closing(apsw.Connection(str(theirs))) as db:
        db.execute("create table precious (x)")
    before = theirs.read_bytes()
    with pytest.raises(StoreUnavailable, match="no index of Rekindle's"):
        Index(path)
    assert theirs.read_bytes() == before


def test_the_index_is_private(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    with Index(path):
        beside = list(path.parent.glob("s.db.index*"))
        assert len(beside) == 3
        assert {file.stat().st_mode & 0o777 for file in beside} == {0o600}


def test_the_store_is_only_read(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([opened("a"), asked("a", "word")])
    before = path.read_bytes()
    assert found(path, "word") == [("a", 1)]
    assert path.read_bytes() == before


def test_a_long_session_is_written_in_several_steps(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.store.indexing._CHARACTERS_A_WRITE", 500)
    store.write([opened("a"), *(asked("a", f"word{number}") for number in range(20))])
    with Index(path) as index:
        steps = bring_up_to_date(index, store)
        next(steps)
        seq, turn = index.query("select seq, turn from progress")[0]
        assert 0 < seq == turn < 20
        # Whoever comes next goes on where it was left.
    assert found(path, "word19") == [("a", 20)]
    assert len(everything(path)) == 20


WRITER = """
import json, sys
from pathlib import Path
from rekindle.model import Kind, Opened, Side, Stretch
from rekindle.store.sqlite import SqliteStore
path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with SqliteStore(path) as store:
    store.write([Opened(session_id=name, at_us=1, cwd="/p")])
    for number in range(count):
        prompt = {"params": {"prompt": [{"type": "text", "text": f"{name}word{number}"}]}}
        store.write([Stretch(session_id=name, side=Side.CLIENT, kind=Kind.PROMPT, at_us=number,
                             data=json.dumps(prompt).encode())])
"""
INDEXER = """
import sys
from pathlib import Path
from rekindle.errors import StoreUnavailable
from rekindle.store.index import Index, table_of
from rekindle.store.indexing import bring_up_to_date
from rekindle.store.sqlite import SqliteStore
path = Path(sys.argv[1])
with SqliteStore(path, create=False) as store, Index(path, patience=20) as index:
    for _ in range(20):
        for _ in bring_up_to_date(index, store):
            pass
"""


def test_many_processes_record_and_index_at_once(store: SqliteStore, path: Path) -> None:
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
    with Index(path) as index:
        index.query("insert into passage_0 (passage_0, rank) values ('integrity-check', 1)")
