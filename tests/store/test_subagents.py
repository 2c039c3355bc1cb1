"""Sub-agents in a store: they are deleted, undeleted, purged and removed with their session."""

from rekindle.model import Deleted, EntryBatch, Forked, Kind, Opened, Page, Side
from rekindle.store.base import Store

NOW = 1_700_000_000_000_000


def entry(session_id: str) -> EntryBatch:
    return EntryBatch(
        session_id=session_id, side=Side.AGENT, kind=Kind.UPDATE, at_us=NOW, data=b"{}"
    )


def fill(store: Store) -> None:
    """Record a session with two sub-agents, one of which has a sub-agent, and other sessions."""
    store.write(
        [
            Opened(session_id="s", at_us=NOW, cwd="/p"),
            entry("s"),
            Opened(session_id="s.b", at_us=NOW + 2, parent_id="s"),
            entry("s.b"),
            Opened(session_id="s.a", at_us=NOW + 1, parent_id="s"),
            Opened(session_id="s.a.x", at_us=NOW + 3, parent_id="s.a"),
            entry("s.a.x"),
            Opened(session_id="other", at_us=NOW, cwd="/p"),
            Opened(session_id="other.a", at_us=NOW, parent_id="other"),
            Forked(session_id="fork", at_us=NOW, parent_id="s", until_seq=1),
        ]
    )


def deleted(store: Store) -> set[str]:
    page = Page(deleted=True, with_unopened=True)
    return {session.id for session in store.sessions(page)}


def test_sub_agents_of_a_session_and_theirs(store: Store) -> None:
    fill(store)
    assert [session.id for session in store.subagents("s")] == ["s.a", "s.b", "s.a.x"]
    assert [session.id for session in store.subagents("s.a")] == ["s.a.x"]
    assert [session.id for session in store.subagents("other", "s.a")] == ["other.a", "s.a.x"]
    assert store.subagents("fork", "unknown") == []
    assert store.subagents() == []


def test_sub_agents_are_listed_only_on_request(store: Store) -> None:
    fill(store)
    assert {session.id for session in store.sessions(Page())} == {"s", "other", "fork"}
    every = store.sessions(Page(with_unopened=True))
    assert {session.id for session in every if session.is_subagent} == {
        "s.a",
        "s.b",
        "s.a.x",
        "other.a",
    }


def test_a_session_is_deleted_with_its_sub_agents(store: Store) -> None:
    fill(store)
    store.write([Deleted(session_id="s", at_us=NOW + 10)])
    assert deleted(store) == {"s", "s.a", "s.b", "s.a.x"}
    store.write([Opened(session_id="s", at_us=NOW + 11)])
    assert deleted(store) == set()


def test_a_sub_agent_that_was_deleted_before_is_not_undeleted(store: Store) -> None:
    fill(store)
    store.write([Deleted(session_id="s.b", at_us=NOW + 9)])
    store.write([Deleted(session_id="s", at_us=NOW + 10)])
    assert store.session("s.b").deleted_us == NOW + 9
    store.write([Opened(session_id="s", at_us=NOW + 11)])
    assert deleted(store) == {"s.b"}


def test_a_session_is_purged_with_its_sub_agents(store: Store) -> None:
    fill(store)
    store.purge("s")
    assert list(store.read("s.b"))
    store.write([Deleted(session_id="s", at_us=NOW + 10)])
    store.purge("s")
    for session_id in ("s", "s.a", "s.b", "s.a.x"):
        assert store.session(session_id).is_purged
        assert list(store.read(session_id)) == []
    assert store.session("other.a").parent_id == "other"


def test_a_session_is_erased_with_its_sub_agents(store: Store) -> None:
    fill(store)
    store.erase("s")
    every = {session.id for session in store.sessions(Page(with_unopened=True))}
    assert every == {"other", "other.a", "fork"}
