"""SQLite and the memory store do the same, whatever happens to them."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from rekindle.composition import HOOKS
from rekindle.model import (
    AgentArchived,
    Archived,
    Counted,
    Deleted,
    Forgotten,
    Kind,
    Page,
    Titled,
    TitleSource,
)
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore
from selection import some
from store_changes import batch, ids, opened


class SqliteAgainstMemory(RuleBasedStateMachine):
    """SQLite behaves like plain lists, whatever is written and however often it is reopened."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "s.db"
        self.real = SqliteStore(self.path, hooks=HOOKS)
        self.model = MemoryStore(HOOKS)

    SESSIONS = st.sampled_from(["a", "b", "c"])
    TIMES = st.integers(1, 5)

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
        change = batch(*lines, session=session, kind=kind, at_us=at_us)
        for store in (self.real, self.model):
            store.write([change], sync=sync)

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

    @rule(session=SESSIONS, before_us=TIMES)
    def purge(self, session: str, before_us: int) -> None:
        assert self.real.deleted_ids(before_us) == self.model.deleted_ids(before_us)
        for store in (self.real, self.model):
            store.purge(session)

    @rule()
    def reopen(self) -> None:
        self.real.close()
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
        for session in [it for page in everything for it in self.model.sessions(page)]:
            assert list(self.real.read(session.id)) == list(self.model.read(session.id))

    def teardown(self) -> None:
        self.real.close()
        self.folder.cleanup()


TestAsTheModelDoes = SqliteAgainstMemory.TestCase
TestAsTheModelDoes.settings = settings(max_examples=some(100))
