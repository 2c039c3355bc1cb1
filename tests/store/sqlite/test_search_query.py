"""Search results and their order."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, settings, strategies as st

from bundles import make_bundle, merge_bundle
from recorded_sessions import (
    NOW,
    answered,
    asked,
    called,
    everything,
    found,
    look,
    opened,
    told,
    update,
)
from rekindle.model import AgentIdentity, EntryBatch, Opened, Page, Titled, TitleSource
from rekindle.store.memory import MemoryStore
from rekindle.store.search import SearchRequest
from rekindle.store.sqlite.search_index import SqliteSearchIndex
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.search_syntax import parse
from selection import some

Change = Opened | EntryBatch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as opened:
        yield opened


def test_a_turn_is_found_by_its_text(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "Hello there"), told("a", "Gene"), told("a", "ral")])
    store.write([answered("a"), asked("a", "Something else"), answered("a")])
    (hit,) = look(path, "general")
    assert (hit.session_id, hit.turn, hit.seq, hit.kind) == ("a", 1, 2, "agent")
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
def test_matching_ignores_case_and_diacritics(
    store: SqliteStore, path: Path, said: str, typed: str
) -> None:
    store.write([opened("a"), asked("a", said), opened("b"), asked("b", "nothing of it")])
    assert found(path, typed) == [("a", 1)]


@pytest.mark.parametrize("typed", ['"brown quick"', "fox -quick", "foxes", "ox*", '"quick fox"'])
def test_documents_without_all_terms_do_not_match(
    store: SqliteStore, path: Path, typed: str
) -> None:
    store.write([opened("a"), asked("a", "the quick brown fox")])
    assert found(path, typed) == []


def test_many_terms_are_accepted(store: SqliteStore, path: Path) -> None:
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


def test_hits_are_filtered_by_session(store: SqliteStore, path: Path) -> None:
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


def test_hits_are_filtered_by_time(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word", NOW), asked("a", "word", NOW + 5)])
    assert found(path, "word", since_us=NOW + 5) == [("a", 2)]


def test_archived_sessions_are_searched_on_request(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "word")])
    with closing(apsw.Connection(str(path))) as db:
        db.execute("update session set archived_us = 1")
    assert found(path, "word") == []
    assert found(path, "word", with_archived=True) == [("a", 1)]


def test_hits_are_ordered_by_score_then_time(store: SqliteStore, path: Path) -> None:
    filler = "filler " * 100
    said = {"long": f"word {filler}", "old": "word", "new": "word", "often": "word word word"}
    for number, (name, words) in enumerate(said.items()):
        store.write([opened(name), asked(name, words, NOW + number)])
    ids = [hit.session_id for hit in look(path, "word")]
    assert ids == ["often", "new", "old", "long"]
    assert [hit.session_id for hit in look(path, "word", limit=2)] == ["often", "new"]


def test_a_turn_is_returned_once_with_its_best_document(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "a word in a longer sentence"), told("a", "word word")])
    (hit,) = look(path, "word")
    assert hit.text == "word word"


@pytest.mark.parametrize("sparse", [0, 1, 20])
def test_filters_work_with_many_sessions(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, sparse: int
) -> None:
    monkeypatch.setattr("rekindle.store.sqlite.search_query._SPARSE", sparse)
    changes: list[Change] = []
    for number in range(700):
        name = f"s{number}"
        changes += [opened(name, "/many" if number % 7 else "/few"), asked(name, "word")]
    store.write(changes)
    assert len(found(path, "word", cwd="/few", limit=1000)) == 100
    assert len(found(path, "word", cwd="/many", limit=1000)) == 600
    assert len(found(path, "wor*", cwd="/many", limit=1000)) == 600
    # For a common term, the latest sessions are enough.
    assert len(found(path, "word", cwd="/many", limit=50)) == 50
    store.write([asked("s1", "rare", NOW + 1)])
    assert found(path, "rare", cwd="/many") == [("s1", 2)]
    assert found(path, "rare", cwd="/few") == found(path, "rare", cwd="/none") == []


# Letters and digits that are also known to an old version of Unicode.
KNOWN = re.compile("[A-Za-z0-9À-ÖØ-öø-ɏА-я全文検索한국어]")
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cn"], max_codepoint=0x2FFF)
    | st.sampled_from("全文検索한국어 \n\t_-.'\"*(:/aBcDé\u0301"),
    max_size=60,
)


def titled(title: str | None, source: TitleSource = TitleSource.USER) -> Titled:
    return Titled(session_id="a", at_us=NOW, source=source, title=title)


def test_a_session_is_found_by_a_later_title(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "Hello"), answered("a")])
    store.write([titled("The unicorn\x02 \x03hunt", TitleSource.AGENT)])
    (hit,) = look(path, "unicorn hunt")
    assert (hit.session_id, hit.turn, hit.kind) == ("a", 0, "title")
    store.write([titled("SomeZebras")])
    assert found(path, "unicorn") == []
    assert found(path, "zebras") == [("a", 0)]
    assert found(path, "zebras", since_us=NOW + 1) == []
    store.write([asked("a", "A zebra too: SomeZebras", NOW + 1), answered("a", NOW + 1)])
    assert found(path, "zebras") == [("a", 2)]
    store.write([titled(None)])
    assert found(path, "unicorn") == [("a", 0)]
    store.write([titled(None, TitleSource.AGENT)])
    assert found(path, "unicorn") == []
    assert [row[0] & 0xFFFFFFFF for row in everything(path)] == [1, 3]


def test_punctuation_alone_does_not_match(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "🎉 Hello")])
    assert found(path, "🎉") == []


def test_imported_entries_are_indexed_without_a_prompt(store: SqliteStore, path: Path) -> None:
    store.write([opened("a"), asked("a", "Hello"), told("a", "Some")])
    with MemoryStore() as there:
        merge_bundle(there, make_bundle(store, "a"))
        there.write([told("a", " zebras")])
        assert found(path, "zebras") == []
        merge_bundle(store, make_bundle(there, "a"))
    assert found(path, "zebras") == [("a", 1)]


@settings(max_examples=some(150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), WORDS), min_size=1, max_size=6))
def test_every_word_of_every_message_is_indexed(said: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with SqliteStore(path) as store:
            store.write([opened("a"), opened("b")])
            store.write([asked(session, words) for session, words in said])
        update(path)
        with SqliteSearchIndex(path) as index:
            for session, words in said:
                for word in filter(KNOWN.search, words.split()):
                    phrase = '"' + word.replace('"', " ") + '"'
                    plain = [word] if word.isalnum() else []
                    other_case = [word.swapcase()] if word.isalnum() and word.isascii() else []
                    for typed in (phrase, f"{phrase}*", *plain, *other_case):
                        hits = index.search(SearchRequest(terms=parse(typed), page=Page(limit=50)))
                        assert session in {hit.session_id for hit in hits}, typed
