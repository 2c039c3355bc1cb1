"""The contract for imported sessions, checked for every store."""

import pytest

from recorded_sessions import NOW, answered, asked, opened, told
from rekindle.errors import SessionAmbiguous, SessionNotFound
from rekindle.model import Deleted, Imported, Opened, Origin, Truncated
from rekindle.store.base import ImportedSession, Store

ORIGIN = Origin(tool="claude", path="/f#1", sha256="ab", stamp="s", entries=3, settled=2, version=7)


def imported(session_id: str = "s1", origin: Origin = ORIGIN) -> Imported:
    return Imported(session_id=session_id, at_us=NOW, origin=origin)


def test_imported_sets_and_replaces_the_origin(store: Store) -> None:
    store.write([opened("s1"), imported()])
    assert store.session("s1").origin == ORIGIN
    assert store.session("s1").is_imported
    other = Origin(tool="codex", path="/g")
    store.write([imported(origin=other), opened("s1")])
    assert store.session("s1").origin == other
    assert not store.session("s1").is_imported


def test_imported_lists_deleted_sessions_too(store: Store) -> None:
    store.write([opened("s1"), opened("s2"), imported(), imported("s3"), asked("s3", "x")])
    store.write([Deleted(session_id="s3", at_us=NOW)])
    found = {it.session_id: it for it in store.imported()}
    assert found == {
        "s1": ImportedSession("s1", "/p", ORIGIN),
        "s3": ImportedSession("s3", None, ORIGIN, is_deleted=True),
    }
    store.purge("s3")
    assert [it.session_id for it in store.imported()] == ["s1"]


def test_truncated_entries_are_replaced_by_later_ones(store: Store) -> None:
    store.write([opened("s1"), asked("s1", "1"), told("s1", "2"), told("s1", "3"), told("s1", "4")])
    kept = list(store.read("s1"))[:2]
    cut = Truncated(session_id="s1", at_us=NOW, until_seq=2)
    assert store.extend("s1", 4, [cut, answered("s1")])
    assert store.session("s1").last_seq == 3
    store.write([asked("s1", "5")])
    entries = list(store.read("s1"))
    assert entries[:2] == kept
    assert [entry.seq for entry in entries] == [1, 2, 3, 4]
    assert b'"5"' in entries[3].line
    store.write([Truncated(session_id="s1", at_us=NOW, until_seq=0)])
    assert list(store.read("s1")) == []
    with pytest.raises(SessionNotFound):
        store.write([Truncated(session_id="nobody", at_us=NOW, until_seq=0)])


def test_find_by_agent_id_matches_current_and_former_ids(store: Store) -> None:
    for name in ("a1", "a2"):
        store.write([Opened(session_id="s1", at_us=NOW, agent_session_id=name)])
    found = [store.find_by_agent_id(name) for name in ("a2", "a1", "a3")]
    assert found == ["s1", "s1", None]
    store.write([opened("s2")])
    assert store.find_by_agent_id("s2") == "s2"


def test_sub_agents_and_branches_do_not_make_a_prefix_ambiguous(store: Store) -> None:
    store.write([opened("abc-1.agent-7"), opened("abc-1~0123"), opened("abc-1")])
    assert store.find("abc").id == "abc-1"
    assert store.find("abc-1").id == "abc-1"
    assert store.find("abc-1.").id == "abc-1.agent-7"
    store.write([opened("abc-12")])
    for several in ("abc", "abc-"):
        with pytest.raises(SessionAmbiguous):
            store.find(several)
    # Too many to compare all of them.
    store.write([opened("xy"), *(opened(f"xy.{number:03}") for number in range(100)), opened("xz")])
    with pytest.raises(SessionAmbiguous):
        store.find("x")
