"""The state of the picker's searches."""

from rekindle.cli.picker.search import PickerMatches, SearchState
from rekindle.cli.render.table import SessionRow
from rekindle.model import Opened, SessionStatus
from rekindle.store.memory import MemoryStore


def matches(typed: str, *ids: str, has_more: bool = False) -> PickerMatches:
    store = MemoryStore()
    store.write([Opened(session_id=session_id, at_us=1) for session_id in ids])
    lines = [SessionRow(store.session(id_), id_, SessionStatus.IDLE) for id_ in ids]
    return PickerMatches(typed=typed, lines=lines, has_more=has_more)


def ids(state: SearchState) -> list[str]:
    return [line.session.id for line in state.lines()]


def test_metadata_matches_come_first_and_each_session_once() -> None:
    state = SearchState(limit=10)
    state.by_text = matches("x", "b", "c")
    assert ids(state) == ["b", "c"]
    state.by_metadata = matches("x", "a", "b")
    assert ids(state) == ["a", "b", "c"]


def test_restart_drops_text_matches_and_keeps_metadata_matches() -> None:
    state = SearchState(limit=10, by_metadata=matches("x", "a"), by_text=matches("x", "b"))
    state.restart("xy")
    assert (state.typed, ids(state)) == ("xy", ["a"])


def test_has_more_is_that_of_the_metadata_matches() -> None:
    state = SearchState(limit=1)
    assert not state.has_more
    state.by_metadata = matches("x", "a", has_more=True)
    assert state.has_more


def test_search_is_complete_with_lines_or_after_the_text_search() -> None:
    state = SearchState(limit=10)
    assert not state.is_complete("x", has_lines=False)
    state.by_metadata = matches("w")
    assert not state.is_complete("x", has_lines=True)
    state.by_metadata = matches("x")
    assert state.is_complete("x", has_lines=True)
    assert not state.is_complete("x", has_lines=False)
    state.by_text = matches("x")
    assert state.is_complete("x", has_lines=False)
