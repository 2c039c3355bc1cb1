"""The contract of `store/base.py` about sessions that were never used."""

import pytest

from rekindle.errors import SessionNotFound
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    Archived,
    Change,
    Counted,
    Deleted,
    EntryBatch,
    Forgotten,
    Imported,
    Kind,
    LeaseHolder,
    Opened,
    Origin,
    Page,
    Session,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.base import KEPT_FORGOTTEN_US, Store

NOW = 1_700_000_000_000_000


def batch(line: bytes, *, session: str = "s1", kind: Kind = Kind.UPDATE) -> EntryBatch:
    return EntryBatch(session_id=session, side=Side.AGENT, kind=kind, at_us=NOW, data=line)


def opened(session: str, at_us: int = NOW, **fields: str) -> Opened:
    return Opened(session_id=session, at_us=at_us, **fields)  # type: ignore[arg-type]


def titled(source: TitleSource, title: str) -> Titled:
    return Titled(session_id="s1", at_us=NOW, source=source, title=title)


def ids(sessions: list[Session]) -> list[str]:
    return [session.id for session in sessions]


def forgotten(session: str, at_us: int = NOW, *, hides_agents: bool = False) -> Forgotten:
    return Forgotten(session_id=session, at_us=at_us, hides_agents=hides_agents)


def test_a_forgotten_session_leaves_nothing_behind(store: Store) -> None:
    store.write([opened("s1", cwd="/p", agent_session_id="a1"), batch(b"1")])
    store.write([opened("s2", cwd="/p"), batch(b"2", session="s2")])
    store.acquire_lease("s1", LeaseHolder(token="t", pid=1, machine="h"))  # noqa: S106 - no password
    store.write([forgotten("s1"), forgotten("nobody")])
    for ask in (store.session, store.find, lambda id_: list(store.read(id_))):
        with pytest.raises(SessionNotFound):
            ask("s1")
    assert ids(store.sessions(Page(with_unopened=True))) == ["s2"]
    assert store.known_ids(["s1", "a1", "nobody"]) == set()
    assert store.deleted_ids(NOW + 9) == []
    store.write([batch(b"new")])
    assert [(entry.seq, entry.line) for entry in store.read("s1")] == [(1, b"new")]
    assert store.lease_holder("s1") is None


KEEPS_A_SESSION: dict[str, list[Change]] = {
    "a turn": [Counted(session_id="s1", at_us=NOW, turns=1), batch(b"1", kind=Kind.PROMPT)],
    "a title of the user": [titled(TitleSource.USER, "Mine")],
    "archived": [Archived(session_id="s1", at_us=NOW)],
    "deleted": [Deleted(session_id="s1", at_us=NOW)],
    "a parent": [opened("s1", parent_id="s0")],
    "imported": [Imported(session_id="s1", at_us=NOW, origin=Origin(tool="x", path="/x"))],
}


@pytest.mark.parametrize("name", KEEPS_A_SESSION)
def test_a_session_that_is_not_unused_is_not_forgotten(store: Store, name: str) -> None:
    store.write([opened("s1", cwd="/p"), *KEEPS_A_SESSION[name]])
    store.write([forgotten("s1", hides_agents=True)])
    assert not store.session("s1").is_unused
    assert store.unused_sessions(NOW + 9) == []
    assert store.forgotten_ids(["s1"]) == {}


def test_a_session_without_a_folder_is_not_forgotten(store: Store) -> None:
    store.write([opened("s1"), batch(b"1")])
    store.write([forgotten("s1")])
    assert [entry.line for entry in store.read("s1")] == [b"1"]


def test_titles_and_messages_of_the_agent_do_not_keep_a_session(store: Store) -> None:
    store.write([opened("s1", cwd="/p"), titled(TitleSource.AGENT, "New"), batch(b"1")])
    store.write([Counted(session_id="s1", at_us=NOW, messages=1), batch(b"2")])
    assert store.session("s1").is_unused
    store.write([forgotten("s1")])
    assert store.known_ids(["s1"]) == set()


def test_the_agents_ids_of_forgotten_sessions_are_remembered_for_a_while(store: Store) -> None:
    for name in ("s1", "s2", "s3"):
        store.write([opened(name, cwd="/p", agent_session_id=f"{name}-first")])
    store.write([opened("s1", agent_session_id="s1-second")])
    store.write([opened("s3", agent_session_id=UNKNOWN_TO_AGENT)])
    store.write([forgotten("s1", NOW + 1, hides_agents=True), forgotten("s2", NOW + 2)])
    store.write([forgotten("s3", NOW + 3, hides_agents=True)])
    asked = ["s1-first", "s1-second", "s2-first", "s3-first", UNKNOWN_TO_AGENT]
    known = {"s1-first": NOW + 1, "s1-second": NOW + 1, "s3-first": NOW + 3}
    assert store.forgotten_ids(asked) == known
    assert store.forgotten_ids([]) == {}
    later = NOW + 2 + KEPT_FORGOTTEN_US
    store.write([opened("s4", later, cwd="/p"), forgotten("s4", later, hides_agents=True)])
    assert store.forgotten_ids(["s4", *asked]) == {"s4": later, "s3-first": NOW + 3}


def test_unused_sessions_are_found_in_the_order_of_their_creation(store: Store) -> None:
    for name, at_us in (("b", 1), ("c", 1), ("a", 2), ("late", 9), ("held", 0)):
        store.write([opened(name, NOW + at_us, cwd="/p")])
    store.write([opened("used", NOW, cwd="/p")])
    store.write([Counted(session_id="used", at_us=NOW, turns=1), batch(b"1", session="used")])
    holder = LeaseHolder(token="t", pid=1, machine="h")  # noqa: S106 - no password
    store.acquire_lease("held", holder)
    found = store.unused_sessions(NOW + 9)
    assert ids(found) == ["b", "c", "a"]
    assert found[0] == store.session("b")
    assert ids(store.unused_sessions(NOW + 9, limit=1)) == ["b"]
    assert ids(store.unused_sessions(NOW + 9, after=(NOW + 1, "b"))) == ["c", "a"]
    assert ids(store.unused_sessions(NOW + 2)) == ["b", "c"]
    store.release_leases(holder)
    assert ids(store.unused_sessions(NOW + 9)) == ["held", "b", "c", "a"]
