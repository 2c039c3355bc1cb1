"""The choice of a session by id, title, place, or as the last one."""

import io
import re
import time
from pathlib import Path

import pytest

from rekindle.cli.main import main
from rekindle.cli.session_choice import (
    NO_SESSIONS_YET,
    by_title,
    choose_from_menu,
    choose_session,
    find_session,
)
from rekindle.errors import SessionNotFound, SessionPurged, StoreError, UsageError
from rekindle.model import Archived, Counted, Deleted, Opened, Page, Titled, TitleSource
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore

HOUR = 3_600_000_000
NOW = time.time_ns() // 1000
TOKEN = f"ghp_{'aB3dE5gH7jK9' * 3}"

# The last used first.
TITLES = {
    "3f2a9c1b-one": "Fix the parser",
    "3f2a9c1b-two": "Fix the flaky test of the parser",
    "77b1": "Write the manual",
    "88c2": f"Push with {TOKEN}",
    "parser-id": "Something else",
}


def fill(store: Store) -> None:
    for number, (name, title) in enumerate(TITLES.items()):
        at_us = NOW - (number + 1) * HOUR
        titled = Titled(session_id=name, at_us=at_us, source=TitleSource.AGENT, title=title)
        store.write([Opened(session_id=name, at_us=at_us, cwd="/p"), titled])
        store.write([Counted(session_id=name, at_us=at_us, turns=1)])


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    fill(store)
    return store


def found(store: Store, text: str) -> str:
    return find_session(store, text, any_project=True).id


@pytest.mark.parametrize(
    ("text", "session"),
    [
        ("77b1", "77b1"),
        ("77", "77b1"),
        ("77…", "77b1"),
        ("@1", "3f2a9c1b-one"),
        ("@5", "parser-id"),
        ("-", "3f2a9c1b-one"),
        ("manual", "77b1"),
        ("MANUAL write", "77b1"),
        ("parser flaky", "3f2a9c1b-two"),
        ("fix the parser", "3f2a9c1b-one"),
        ("anua", "77b1"),
        # The beginning of an id is better than a title.
        ("parser", "parser-id"),
        # A title may not be shown, but it can be typed.
        ("push", "88c2"),
    ],
)
def test_session_is_found(store: MemoryStore, text: str, session: str) -> None:
    assert found(store, text) == session


def test_words_that_begin_with_the_text_are_better(store: MemoryStore) -> None:
    store.write([Opened(session_id="x", at_us=1, cwd="/p")])
    store.write([Titled(session_id="x", at_us=1, source=TitleSource.AGENT, title="Rewrite it")])
    assert found(store, "write") == "77b1"
    assert found(store, "rewrite") == "x"


@pytest.mark.parametrize("text", ["@0", "@6", "@999999999"])
def test_missing_place_is_an_error(store: MemoryStore, text: str) -> None:
    with pytest.raises(StoreError, match=f"there is no session {text}; `rekindle list` shows"):
        find_session(store, text)


@pytest.mark.parametrize("text", ["nothing", "", " ", "@", "@x", "--"])
def test_unknown_session_is_an_error(store: MemoryStore, text: str) -> None:
    with pytest.raises(SessionNotFound, match="no session matches"):
        find_session(store, text)


def test_ambiguous_text_lists_ids_ages_and_titles(store: MemoryStore) -> None:
    with pytest.raises(StoreError) as error:
        find_session(store, "3f2a")
    assert str(error.value).splitlines() == [
        "'3f2a' matches 2 sessions; type more of a title or of an id",
        "  3f2a9c1b-on     1 h  Fix the parser",
        "  3f2a9c1b-tw     2 h  Fix the flaky test of the parser",
    ]
    with pytest.raises(StoreError) as error:
        find_session(store, "fix")
    assert "'fix' matches 2 sessions" in str(error.value)
    assert re.search(r"2 h +Fix the flaky test of the parser$", str(error.value))


def test_long_list_of_candidates_is_cut(store: MemoryStore) -> None:
    for number in range(20):
        store.write([Opened(session_id=f"many-{number}", at_us=NOW, cwd="/p")])
    with pytest.raises(StoreError) as error:
        find_session(store, "many-")
    lines = str(error.value).splitlines()
    assert (len(lines), lines[-1]) == (12, "  … and 10 more")


def test_secrets_are_masked_in_candidates(store: MemoryStore) -> None:
    store.write([Opened(session_id="88c3", at_us=NOW, cwd="/p")])
    with pytest.raises(StoreError) as error:
        find_session(store, "88c")
    assert TOKEN not in str(error.value)
    assert "Push with ghp_***" in str(error.value)


def test_exact_id_wins_over_all_other_meanings(store: MemoryStore) -> None:
    for name in ("-", "@1", "77"):
        store.write([Opened(session_id=name, at_us=1, cwd="/p")])
        assert found(store, name) == name


def test_titles_of_archived_sessions_are_found_but_of_deleted_ones_on_demand(
    store: MemoryStore,
) -> None:
    store.write([Archived(session_id="77b1", at_us=NOW)])
    assert found(store, "manual") == "77b1"
    store.write([Deleted(session_id="77b1", at_us=NOW)])
    with pytest.raises(SessionNotFound):
        find_session(store, "manual")
    deleted = Page(deleted=True, with_archived=True)
    for text in ("manual", "@1", "-", "77"):
        assert find_session(store, text, deleted, any_project=True).id == "77b1"
    for page, kind in ((deleted, "deleted"), (Page(archived=True), "archived")):
        expected = f"there is no {kind} session @2; `rekindle list --{kind}` shows the {kind}"
        with pytest.raises(StoreError, match=expected):
            find_session(store, "@2", page)


@pytest.mark.parametrize("text", ["x", "@1", "-"])
def test_empty_store_says_what_to_do_next(text: str) -> None:
    with pytest.raises(StoreError, match=re.escape(NO_SESSIONS_YET)):
        find_session(MemoryStore(), text)
    assert "`rekindle setup EDITOR`" in NO_SESSIONS_YET
    assert "`rekindle new AGENT`" in NO_SESSIONS_YET


def test_only_one_way_of_choosing_is_accepted(store: MemoryStore) -> None:
    def chosen(text: str | None, *, last: bool = False, title: str | None = None) -> str:
        return choose_session(store, text, last=last, title=title, any_project=False).id

    assert chosen(None, title="manual") == "77b1"
    assert chosen("manual") == "77b1"
    with pytest.raises(UsageError, match="no session given; type words of its title"):
        chosen(None)
    with pytest.raises(UsageError):
        chosen("x", last=True)
    with pytest.raises(StoreError, match="no title contains 'nothing'"):
        by_title(store, "nothing")
    store.write([Deleted(session_id="77b1", at_us=NOW)])
    store.purge("77b1")
    with pytest.raises(SessionPurged):
        chosen("77b1")


def test_session_without_a_turn_is_never_chosen(
    store: MemoryStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store.write([Opened(session_id="unused", at_us=NOW, cwd="/p")])
    assert store.sessions(Page(limit=1))[0].id == "unused"
    for text in ("-", "@1"):
        assert found(store, text) == "3f2a9c1b-one"
    assert choose_session(store, None, last=True, title=None, any_project=True).id == "3f2a9c1b-one"
    typed = tmp_path / "typed"
    typed.write_text("1\n")
    with typed.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert choose_from_menu(store).id == "3f2a9c1b-one"
    assert "unused" not in capsys.readouterr().out
    # Its id still names it.
    assert found(store, "unused") == "unused"


@pytest.fixture
def projects(tmp_path: Path) -> dict[str, Path]:
    """Return a repository with a folder, an empty repository, and the folder around both."""
    folders = {"root": tmp_path / "a", "inner": tmp_path / "a" / "src", "other": tmp_path / "b"}
    for folder in (*folders.values(), tmp_path / "a" / ".git", tmp_path / "b" / ".git"):
        folder.mkdir()
    return folders | {"above": tmp_path}


def test_last_session_is_that_of_the_repository(
    store: MemoryStore, projects: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, folder, age in (
        ("in-root", "root", 9),
        ("in-src", "inner", 8),
        ("in-above", "above", 9),
    ):
        at_us = NOW - age * HOUR
        store.write([Opened(session_id=name, at_us=at_us, cwd=str(projects[folder]))])
        store.write([Counted(session_id=name, at_us=at_us, turns=1)])
    for folder, expected in (("root", "in-src"), ("inner", "in-src"), ("above", "in-above")):
        monkeypatch.chdir(projects[folder])
        assert find_session(store, "-").id == expected
        assert choose_session(store, None, last=True, title=None, any_project=False).id == expected


def test_last_session_of_another_project_is_only_for_reading(
    store: MemoryStore,
    projects: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(projects["other"])
    with pytest.raises(StoreError) as error:
        find_session(store, "-")
    assert str(error.value) == (
        "this project has no session, and the last used one belongs to /p;"
        " `rekindle list` shows all: name one by its id, its title or @N"
    )
    assert find_session(store, "-", any_project=True).id == "3f2a9c1b-one"
    assert "note: this project has no session; the last used session is of /p" in (
        capsys.readouterr().err
    )
    store.write([Archived(session_id="77b1", at_us=NOW)])
    with pytest.raises(StoreError, match=r"no archived session.*`rekindle list --archived` shows"):
        find_session(store, "-", Page(archived=True))
    with pytest.raises(StoreError, match=r"there is no deleted session; `rekindle list` shows"):
        find_session(store, "-", Page(deleted=True))


@pytest.mark.parametrize(
    "words",
    [["prompt", "-", "x"], ["delete", "-"], ["rename", "-", "x"], ["archive", "-"], ["fork", "-"]],
)
def test_command_that_writes_does_not_choose_another_project(
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store)
        before = store.sessions(Page())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert main([*words, "--store", str(path)]) == 1
    assert "this project has no session" in capsys.readouterr().err
    with SqliteStore(path) as store:
        assert store.sessions(Page()) == before


def test_every_command_with_a_session_accepts_a_title(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store)
    for words, expected in (
        (["show", "write manual"], "Write the manual\n77b1 · "),
        (["export", "write manual"], "# Write the manual"),
        (["archive", "manual"], "archived 77b1"),
        (["unarchive", "@1"], "unarchived 77b1"),
        (["rename", "manual", "New title"], "77b1: Write the manual → New title"),
        (["delete", "new title"], "deleted 77b1"),
        (["undelete", "new title"], "restored 77b1"),
        (["relocate", "new title", "/"], "77b1: /p → /"),
        (["fork", "new title"], ""),
    ):
        assert main([*words, "--store", str(path)]) == 0, words
        assert capsys.readouterr().out.startswith(expected)
