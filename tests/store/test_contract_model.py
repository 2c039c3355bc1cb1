"""SQLite and the memory store do the same, whatever happens to them."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from rekindle.composition import HOOKS
from rekindle.errors import LeaseLost
from rekindle.model import (
    AgentArchived,
    Archived,
    Change,
    Counted,
    Deleted,
    Forgotten,
    Kind,
    Page,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.store.base import LeaseMark, Store
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore
from selection import some
from store_changes import HOLDERS, batch, ids, opened


class SqliteAgainstMemory(RuleBasedStateMachine):
    """SQLite behaves like plain lists, whatever is written and however often it is reopened."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "s.db"
        self.real = SqliteStore(self.path, hooks=HOOKS)
        self.model = MemoryStore(HOOKS)
        # As another process opens them.
        self.other = SqliteStore(self.path, hooks=HOOKS), self.model.second()
        self.epochs: dict[str, int] = {}
        self.marks: list[LeaseMark] = []

    SESSIONS = st.sampled_from(["a", "b", "c"])
    TIMES = st.integers(1, 5)
    PROCESSES = st.sampled_from([0, 1])

    @rule(
        session=SESSIONS,
        kind=st.sampled_from(Kind),
        at_us=TIMES,
        lines=st.lists(st.binary().map(lambda b: b.replace(b"\n", b"")), min_size=1),
        sync=st.booleans(),
    )
    def write_entries(
        self, session: str, kind: Kind, at_us: int, lines: list[bytes], *, sync: bool
    ) -> None:
        self.write_both([batch(*lines, session=session, kind=kind, at_us=at_us)], sync=sync)

    def write_both(self, changes: list[Change], *, sync: bool = False, by: int = 0) -> None:
        """Write changes by the same instance of both. Changes of a lost lease go to a branch."""
        lost: list[tuple[object, ...]] = []
        for store in self.instances(by):
            try:
                store.write(changes, sync=sync)
            except LeaseLost as error:
                lost.append((error.branch_id, error.until_seq, error.holder))
                store.write(store.branch_changes(error, changes), sync=sync)
        assert lost in ([], lost[:1] * 2)

    def instances(self, by: int) -> tuple[Store, Store]:
        """Return the instances of one process."""
        return self.other if by else (self.real, self.model)

    @rule(session=SESSIONS, by=PROCESSES, until_seq=st.integers(0, 3))
    def rewind(self, session: str, by: int, until_seq: int) -> None:
        known = self.model.known_ids([session])
        # Only for sessions without a lease of another process.
        if known and self.model.lease_holder(session) in {None, HOLDERS[by]}:
            rewound = Truncated(session_id=session, at_us=1, until_seq=until_seq)
            self.write_both([rewound, batch(b"{}", session=session)], by=by)

    @rule(session=SESSIONS, by=PROCESSES, takeover=st.booleans())
    def acquire(self, session: str, by: int, *, takeover: bool) -> None:
        if self.model.known_ids([session]):
            found = [
                it.acquire_lease(session, HOLDERS[by], takeover=takeover)
                for it in self.instances(by)
            ]
            assert found[0] == found[1]
            if found[0].epoch:
                assert found[0].epoch >= self.epochs.get(session, 0)
                self.epochs[session] = found[0].epoch
            marks = [it.lease_mark(session) for it in self.instances(by)]
            assert marks[0] == marks[1]
            self.marks += [it for it in marks[:1] if it is not None]

    @rule(session=SESSIONS, by=PROCESSES)
    def release(self, session: str, by: int) -> None:
        if self.model.known_ids([session]):
            for store in self.instances(by):
                store.release_leases(HOLDERS[by], session)

    @rule(session=SESSIONS, by=PROCESSES, after=st.integers(0, 3))
    def extend(self, session: str, by: int, after: int) -> None:
        change = batch(b"{}", session=session)
        results: list[object] = []
        for store in self.instances(by):
            try:
                results.append(store.extend(session, after, [change]))
            except LeaseLost as error:
                results.append(error.until_seq)
        assert results[0] == results[1]

    @precondition(lambda self: self.marks)
    @rule(number=st.integers(0, 9), by=PROCESSES, token=st.sampled_from("tuv"))
    def apply_pending(self, number: int, by: int, token: str) -> None:
        """Apply waiting changes of a process that may have lost its lease."""
        mark = self.marks[number % len(self.marks)]
        for store in self.instances(by):
            store.apply_pending(token, [mark, batch(b"{}", session=mark.session_id, at_us=9)])
            store.forget_pending(token)

    @rule(
        session=SESSIONS,
        at_us=TIMES,
        cwd=st.none() | st.text(st.characters(codec="utf-8")),
        parent=st.none() | SESSIONS,
    )
    def open(self, session: str, at_us: int, cwd: str | None, parent: str | None) -> None:
        for store in (self.real, self.model):
            store.write([opened(session, at_us, cwd=cwd, parent_id=parent)])

    @rule(
        session=SESSIONS,
        source=st.sampled_from(TitleSource),
        title=st.none() | st.text(st.characters(codec="utf-8")),
    )
    def title(self, session: str, source: TitleSource, title: str | None) -> None:
        for store in (self.real, self.model):
            store.write([Titled(session_id=session, at_us=1, source=source, title=title)])

    @rule(session=SESSIONS, at_us=TIMES)
    def delete(self, session: str, at_us: int) -> None:
        for store in (self.real, self.model):
            store.write([Deleted(session_id=session, at_us=at_us)])

    @rule(session=SESSIONS, at_us=TIMES, is_archived=st.booleans())
    def archive(self, session: str, at_us: int, *, is_archived: bool) -> None:
        for store in (self.real, self.model):
            store.write([Archived(session_id=session, at_us=at_us, is_archived=is_archived)])

    @rule(session=SESSIONS, is_archived=st.booleans())
    def archive_at_agent(self, session: str, *, is_archived: bool) -> None:
        change = AgentArchived(session_id=session, at_us=1, is_archived=is_archived)
        for store in (self.real, self.model):
            store.write([change])

    @rule(session=SESSIONS, turns=st.integers(0, 3), messages=st.integers(0, 3))
    def count(self, session: str, turns: int, messages: int) -> None:
        for store in (self.real, self.model):
            store.write([Counted(session_id=session, at_us=1, turns=turns, messages=messages)])

    @rule(session=SESSIONS, at_us=TIMES, hides_agents=st.booleans())
    def forget(self, session: str, at_us: int, *, hides_agents: bool) -> None:
        for store in (self.real, self.model):
            store.write([Forgotten(session_id=session, at_us=at_us, hides_agents=hides_agents)])
        if not self.model.known_ids([session]):
            self.epochs.pop(session, None)

    @rule(session=SESSIONS, before_us=TIMES)
    def purge(self, session: str, before_us: int) -> None:
        assert self.real.deleted_ids(before_us) == self.model.deleted_ids(before_us)
        for store in (self.real, self.model):
            store.purge(session)
        # With a session, its sub-agents are purged.
        for it in list(self.epochs):
            if not self.model.known_ids([it]) or self.model.session(it).is_purged:
                del self.epochs[it]

    @rule()
    def reopen(self) -> None:
        for store in (self.real, self.model):
            store.close()
        self.real = SqliteStore(self.path, hooks=HOOKS)

    @invariant()
    def both_have_the_same_contents(self) -> None:
        everything = [
            Page(with_unopened=True, with_archived=True, deleted=deleted)
            for deleted in (False, True)
        ]
        prompted = Page(prompted=True)
        chosen = (Page(), Page(deleted=True, limit=2), Page(archived=True), prompted)
        marked = Page(placeholders=True, with_archived=True)
        for page in (*chosen, marked, *everything):
            assert self.real.sessions(page) == self.model.sessions(page)
        assert self.real.known_ids("abc", recorded_only=True) == self.model.known_ids(
            "abc", recorded_only=True
        )
        assert self.real.unused_sessions(9) == self.model.unused_sessions(9)
        names = ["a", "b", "c"]
        assert self.real.forgotten_ids(names) == self.model.forgotten_ids(names)
        states = {"a": True, "b": False, "c": True}
        differing = [ids(it.archive_differences(states)) for it in (self.real, self.model)]
        assert sorted(differing[0]) == sorted(differing[1])
        whole, model = self.real.overview(), self.model.overview()
        assert replace(whole, size=0, unused=0) == replace(model, size=0)
        assert self.real.leased_ids() == self.model.leased_ids()
        for session in [it for page in everything for it in self.model.sessions(page)]:
            assert list(self.real.read(session.id)) == list(self.model.read(session.id))

    def teardown(self) -> None:
        self.real.close()
        self.other[0].close()
        self.folder.cleanup()


TestAsTheModelDoes = SqliteAgainstMemory.TestCase
TestAsTheModelDoes.settings = settings(max_examples=some(100))
