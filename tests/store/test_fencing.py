"""A process that has lost a lease writes no entries: its own become a branch. For every store."""

import re
from collections.abc import Callable

import pytest

from rekindle.errors import LeaseLost
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Archived,
    Change,
    Counted,
    EntryBatch,
    Kind,
    Page,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.store.base import LeaseMark, PendingChange, Store
from store_changes import HOLDERS, NOW, batch, opened

ONE, OTHER, THIRD = HOLDERS


def prompt(line: bytes) -> EntryBatch:
    return batch(line, kind=Kind.PROMPT)


def titled(source: TitleSource, title: str) -> Titled:
    return Titled(session_id="s1", at_us=NOW, source=source, title=title)


def lines(store: Store, session: str = "s1") -> list[tuple[int, bytes]]:
    return [(entry.seq, entry.line) for entry in store.read(session)]


def test_a_lost_lease_fences_entries(store: Store, second: Store) -> None:
    store.write([batch(b"1"), batch(b"x", session="s2")])
    store.acquire_lease("s1", ONE)
    store.write([batch(b"2", b"3")])
    second.acquire_lease("s1", OTHER, takeover=True)
    second.write([batch(b"4")])
    both = [titled(TitleSource.USER, "Mine"), batch(b"y", session="s2"), batch(b"lost")]
    truncated = Truncated(session_id="s1", at_us=NOW, until_seq=1)
    writes: list[Callable[[], object]] = [
        lambda: store.write([batch(b"lost")]),
        lambda: store.write([batch(b"lost", kind=Kind.PROMPT)], sync=True),
        lambda: store.write(both),
        lambda: store.write([truncated]),
        lambda: store.extend("s1", 4, [batch(b"lost")]),
        lambda: store.extend("s1", 3, [batch(b"lost")]),
    ]
    for write in writes:
        with pytest.raises(LeaseLost, match="taken over by process 2 on here") as caught:
            write()
        lost = caught.value
        assert (lost.session_id, lost.holder, lost.until_seq) == ("s1", OTHER, 3)
    assert (lines(store), lines(store, "s2")) == (
        [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")],
        [(1, b"x")],
    )
    assert store.session("s1").title is None


def test_a_lost_lease_fences_nothing_else(store: Store, second: Store) -> None:
    store.write([batch(b"1")])
    store.acquire_lease("s1", ONE)
    second.acquire_lease("s1", OTHER, takeover=True)
    store.write([titled(TitleSource.USER, "Mine"), Archived(session_id="s1", at_us=NOW)])
    store.write([batch(b"2", session="s2"), Counted(session_id="s1", at_us=NOW, turns=1)])
    session = store.session("s1")
    assert (session.title, session.turns, session.archived_us) == ("Mine", 1, NOW)


def test_a_writer_without_a_lease_is_not_fenced(store: Store, second: Store) -> None:
    store.write([batch(b"1")])
    store.acquire_lease("s1", ONE)
    second.write([batch(b"2")])
    store.release_leases(ONE, "s1")
    second.acquire_lease("s1", OTHER)
    store.write([batch(b"3")])
    assert store.extend("s1", 3, [batch(b"4")])
    assert [line for _, line in lines(store)] == [b"1", b"2", b"3", b"4"]


def test_a_lost_lease_stays_lost_until_it_is_acquired_again(store: Store, second: Store) -> None:
    store.write([batch(b"1")])
    store.acquire_lease("s1", ONE)
    mark = store.lease_mark("s1")
    second.acquire_lease("s1", OTHER, takeover=True)
    assert store.lease_mark("s1") == mark == LeaseMark(session_id="s1", token="one", epoch=1)  # noqa: S106
    # Neither a release by the other process nor by this one makes it ours.
    second.release_leases(OTHER)
    store.release_leases(ONE, "s1")
    store.release_leases(ONE)
    with pytest.raises(LeaseLost):
        store.write([batch(b"2")])
    assert store.acquire_lease("s1", ONE).epoch == 3
    store.write([batch(b"2")])
    assert store.lease_mark("s1") == LeaseMark(session_id="s1", token="one", epoch=3)  # noqa: S106
    store.release_leases(ONE, "s1")
    assert store.lease_mark("s1") is None


def test_epochs_end_where_the_next_one_begins(store: Store, second: Store) -> None:
    store.write([batch(b"1", b"2", b"3")])
    store.acquire_lease("s1", ONE)
    second.acquire_lease("s1", OTHER, takeover=True)
    second.write([batch(b"4")])
    second.acquire_lease("s1", THIRD, takeover=True)
    second.write([batch(b"5")])
    with pytest.raises(LeaseLost) as caught:
        store.write([batch(b"x")])
    assert (caught.value.until_seq, caught.value.holder) == (3, THIRD)
    # A rewind leaves fewer entries in common.
    second.write([Truncated(session_id="s1", at_us=NOW, until_seq=2), batch(b"6", b"7")])
    with pytest.raises(LeaseLost) as caught:
        store.write([batch(b"x")])
    assert caught.value.until_seq == 2


def test_what_a_fenced_writer_has_goes_to_a_branch(store: Store, second: Store) -> None:
    agent = AgentIdentity(name="Fake")
    store.write([opened("s1", cwd="/p", agent=agent), titled(TitleSource.AGENT, "Talk")])
    store.write([prompt(b"p"), Counted(session_id="s1", at_us=NOW, turns=1, messages=1)])
    store.acquire_lease("s1", ONE)
    second.acquire_lease("s1", OTHER, takeover=True)
    second.write([batch(b"theirs")])
    changes = [
        opened("s1", agent_session_id="a9"),
        titled(TitleSource.USER, "Named"),
        Counted(session_id="s1", at_us=NOW + 1, messages=1),
        batch(b"ours"),
        batch(b"else", session="s2"),
    ]
    with pytest.raises(LeaseLost) as caught:
        store.write(changes)
    lost = caught.value
    store.write(store.branch_changes(lost, changes))
    store.write(store.branch_changes(lost, [batch(b"more")]))
    assert [line for _, line in lines(store)] == [b"p", b"theirs"]
    assert [line for _, line in lines(store, lost.branch_id)] == [b"p", b"ours", b"more"]
    assert lines(store, "s2") == [(1, b"else")]
    branch = store.session(lost.branch_id)
    assert re.fullmatch(r"s1~[0-9a-f]{12}", branch.id)
    assert (branch.parent_id, branch.cwd, branch.agent) == ("s1", "/p", agent)
    assert (branch.agent_session_id, branch.title) == (UNKNOWN_TO_AGENT, "Talk (fork)")
    assert (branch.turns, branch.messages) == (1, 2)
    assert store.session("s1").title == "Named"
    assert store.lease_holder(branch.id) is None


def waiting(*changes: Change, epoch: int = 1) -> list[PendingChange]:
    """Return changes that were made under a lease of ONE."""
    return [LeaseMark(session_id="s1", token=ONE.token, epoch=epoch), *changes]


def test_pending_changes_of_a_lease_are_appended(store: Store, second: Store) -> None:
    store.write([batch(b"1")])
    store.acquire_lease("s1", ONE)
    assert second.apply_pending("t", waiting(batch(b"2"))) == []
    # A released lease is no stale one, and a successor that has written nothing does no harm.
    store.release_leases(ONE)
    assert second.apply_pending("u", waiting(batch(b"3"))) == []
    second.acquire_lease("s1", OTHER)
    second.release_leases(OTHER)
    assert second.apply_pending("v", waiting(batch(b"4"), batch(b"5"))) == []
    assert [line for _, line in lines(store)] == [b"1", b"2", b"3", b"4", b"5"]


def test_pending_changes_follow_a_lease_into_the_store_that_replaces_another(store: Store) -> None:
    store.write([batch(b"1")])
    assert store.acquire_lease("s1", ONE).epoch == 1
    # Other processes had the session before, in the former store.
    assert store.apply_pending("t", waiting(batch(b"2"), epoch=3)) == []
    assert [line for _, line in lines(store)] == [b"1", b"2"]


def test_pending_changes_of_a_lost_lease_become_a_branch(store: Store, second: Store) -> None:
    store.write([prompt(b"1")])
    store.acquire_lease("s1", ONE)
    second.acquire_lease("s1", OTHER, takeover=True)
    second.write([batch(b"theirs")])
    second.release_leases(OTHER)
    marked = waiting(batch(b"2"), titled(TitleSource.USER, "Named"))
    for changes in (marked, [*marked, batch(b"3"), batch(b"x", session="s2")]):
        assert store.apply_pending("t", changes) == []
    with pytest.raises(LeaseLost) as caught:
        store.write([batch(b"4")])
    # The changes that follow have the same branch.
    store.write(store.branch_changes(caught.value, [batch(b"4")]))
    assert [line for _, line in lines(store)] == [b"1", b"theirs"]
    branch = lines(store, caught.value.branch_id)
    assert [line for _, line in branch] == [b"1", b"2", b"3", b"4"]
    assert (lines(store, "s2"), store.session("s1").title) == ([(1, b"x")], "Named")


def test_pending_changes_never_mix_with_a_live_process(store: Store, second: Store) -> None:
    store.write([batch(b"1")])
    store.acquire_lease("s1", ONE)
    second.acquire_lease("s1", OTHER, takeover=True)
    assert store.apply_pending("t", waiting(batch(b"2"))) == []
    assert lines(store) == [(1, b"1")]
    (branch,) = (it for it in store.sessions(Page(with_unopened=True)) if it.id != "s1")
    assert [line for _, line in lines(store, branch.id)] == [b"1", b"2"]


def test_pending_changes_of_another_lease_of_the_process_count_for_themselves(
    store: Store, second: Store
) -> None:
    store.write([batch(b"1")])
    store.acquire_lease("s1", ONE)
    second.acquire_lease("s1", OTHER, takeover=True)
    second.write([batch(b"2")])
    store.acquire_lease("s1", ONE, takeover=True)
    changes = [*waiting(batch(b"lost")), *waiting(batch(b"3"), epoch=3)]
    assert store.apply_pending("t", changes) == []
    assert [line for _, line in lines(store)] == [b"1", b"2", b"3"]


def test_pending_changes_of_a_session_that_is_gone_bring_it_back(store: Store) -> None:
    assert store.apply_pending("t", waiting(batch(b"1"))) == []
    assert lines(store) == [(1, b"1")]
