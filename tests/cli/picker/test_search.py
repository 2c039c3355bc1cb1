"""The searches of the picker, and their state."""

from rekindle.cli.picker.search import MetadataSearch, PickerMatches, SearchKey, SearchState
from rekindle.cli.render.table import SessionRow
from rekindle.model import (
    AgentIdentity,
    Archived,
    Opened,
    Page,
    Session,
    SessionStatus,
    Titled,
    TitleSource,
)
from rekindle.store.memory import MemoryStore

NOW = 1_700_000_000_000_000
TITLES = {
    "ses_1": "Mend the bike",
    "ses_2": "Sell the motorbike",
    "ses_3": "Bring in the kettle",
    "ses_4": "Buy oat milk",
}


def matches(typed: str, *ids: str, has_more: bool = False) -> PickerMatches:
    store = MemoryStore()
    store.write([Opened(session_id=session_id, at_us=1) for session_id in ids])
    lines = [SessionRow(store.session(id_), id_, SessionStatus.IDLE) for id_ in ids]
    return PickerMatches(key=SearchKey(typed), lines=lines, has_more=has_more)


def ids(state: SearchState) -> list[str]:
    return [line.session.id for line in state.lines()]


def test_metadata_matches_come_first_and_each_session_once() -> None:
    state = SearchState(limit=10)
    state.by_text = matches("x", "b", "c")
    assert ids(state) == ["b", "c"]
    state.by_metadata = matches("x", "a", "b")
    assert ids(state) == ["a", "b", "c"]


def test_restart_drops_text_matches_of_another_search() -> None:
    state = SearchState(
        key=SearchKey("x"), limit=10, by_metadata=matches("x", "a"), by_text=matches("x", "b")
    )
    state.restart(SearchKey("x"))
    assert ids(state) == ["a", "b"]
    state.restart(SearchKey("xy"))
    assert (state.key, ids(state)) == (SearchKey("xy"), ["a"])


def test_removed_sessions_are_hidden_until_the_other_list_is_shown() -> None:
    state = SearchState(limit=10, by_metadata=matches("", "a", "b"), hidden={"a"})
    state.restart(SearchKey("x"))
    assert ids(state) == ["b"]
    state.restart(SearchKey("x", is_archived=True))
    assert ids(state) == ["a", "b"]


def test_has_more_is_that_of_the_metadata_matches() -> None:
    state = SearchState(limit=1)
    assert not state.has_more
    state.by_metadata = matches("x", "a", has_more=True)
    assert state.has_more


def test_search_is_complete_with_lines_or_after_the_text_search() -> None:
    state = SearchState(key=SearchKey("x"), limit=10)
    assert not state.is_complete(SearchKey("x"), has_lines=False)
    state.by_metadata = matches("w")
    assert not state.is_complete(SearchKey("x"), has_lines=True)
    state.by_metadata = matches("x")
    assert state.is_complete(SearchKey("x"), has_lines=True)
    assert not state.is_complete(SearchKey("x", is_archived=True), has_lines=True)
    assert not state.is_finished
    state.by_text = matches("x")
    assert state.is_finished


# -- metadata -------------------------------------------------------------------------------


def titled_store() -> MemoryStore:
    """Return a store with a session of each title, oldest first."""
    store = MemoryStore()
    for number, (name, title) in enumerate(TITLES.items()):
        agent = AgentIdentity(name=f"agent-{number}")
        store.write(
            [
                Opened(session_id=name, at_us=NOW + number, cwd=f"/home/room{number}", agent=agent),
                Titled(session_id=name, at_us=NOW, source=TitleSource.AGENT, title=title),
            ]
        )
    return store


def found(store: MemoryStore, typed: str, page: Page = Page(), limit: int = 9) -> list[str]:  # noqa: B008 - frozen
    return [
        line.session.id
        for line in MetadataSearch(store, page).find(typed, limit, lambda: True).lines
    ]


def test_best_matches_come_first() -> None:
    store = titled_store()
    # A word of the title, a part of a word, letters in order.
    assert found(store, "bike") == ["ses_1", "ses_2", "ses_3"]
    assert found(store, "BIKE the") == ["ses_1", "ses_2", "ses_3"]
    assert found(store, "bk") == ["ses_3", "ses_1", "ses_2"]
    assert found(store, "") == ["ses_4", "ses_3", "ses_2", "ses_1"]


def test_projects_and_agents_match_by_letters_but_folders_and_ids_only_as_typed() -> None:
    store = titled_store()
    assert found(store, "rm2") == ["ses_3"]
    assert found(store, "agt1") == ["ses_2"]
    assert found(store, "es_4") == ["ses_4"]
    assert found(store, "/home/room0") == ["ses_1"]
    assert found(store, "s4") == []
    assert found(store, "homeroom0") == []


def test_whole_words_come_before_scattered_letters_also_at_the_limit() -> None:
    search = MetadataSearch(titled_store(), Page())
    first = search.find("bike", 1, lambda: True)
    assert ([line.session.id for line in first.lines], first.has_more) == (["ses_1"], True)
    every = search.find("bike", 3, lambda: True)
    assert [line.session.id for line in every.lines] == ["ses_1", "ses_2", "ses_3"]
    assert not every.has_more


def test_archived_sessions_have_a_list_of_their_own() -> None:
    store = titled_store()
    store.write([Archived(session_id="ses_2", at_us=NOW)])
    assert found(store, "the") == ["ses_3", "ses_1"]
    assert found(store, "the", Page(archived=True)) == ["ses_2"]


def test_session_that_was_archived_meanwhile_is_left_out() -> None:
    store = titled_store()
    search = MetadataSearch(store, Page())
    assert len(search.find("", 9, lambda: True).lines) == 4
    store.write([Archived(session_id="ses_2", at_us=NOW)])
    lines = search.find("", 9, lambda: True).lines
    assert [line.session.id for line in lines] == ["ses_4", "ses_3", "ses_1"]


def test_search_reads_no_more_pages_than_needed() -> None:
    class Counting(MemoryStore):
        pages = 0

        def sessions(self, page: Page) -> list[Session]:
            self.pages += 1
            return super().sessions(page)

    store = Counting()
    for number in range(1200):
        name = f"ses_{number:04}"
        store.write([Opened(session_id=name, at_us=NOW + number, cwd="/x")])
    search = MetadataSearch(store, Page())
    first = search.find("", 100, lambda: True)
    assert (len(first.lines), first.has_more, store.pages) == (100, True, 1)
    assert [line.session.id for line in search.find("0000", 9, lambda: True).lines] == ["ses_0000"]
    pages = store.pages
    assert search.find("nothing", 9, lambda: True).lines == []
    assert store.pages <= pages + 1
    assert search.find("0000", 9, lambda: False).lines == []
