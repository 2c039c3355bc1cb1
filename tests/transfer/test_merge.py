"""Merging sessions of a bundle: they are created, extended or branched, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from bundles import HOLDER, NOW, changes_of, make_bundle, merge_bundle
from recorded_sessions import answered, asked, opened, told
from rekindle.errors import SessionInUse
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Change,
    Counted,
    Deleted,
    LeaseHolder,
    Opened,
    Page,
    Titled,
    TitleSource,
)
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transfer.merge import MergeOutcome


@pytest.fixture(params=["memory", "sqlite"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "here.db")
    with opened:
        yield opened


@pytest.fixture
def there() -> Store:
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "Hello"), told("s1", "Hi"), answered("s1")])
    store.write([Counted(session_id="s1", at_us=NOW, turns=1, messages=2)])
    return store


def titled(source: TitleSource, title: str, session: str = "s1") -> Titled:
    return Titled(session_id=session, at_us=NOW, source=source, title=title)


def everything(store: Store) -> list[object]:
    sessions = [
        it
        for deleted in (False, True)
        for it in store.sessions(Page(with_unopened=True, deleted=deleted))
    ]
    return [(it, store.titles(it.id), list(store.read(it.id))) for it in sessions]


def outcomes(store: Store, data: bytes, **options: bool) -> list[tuple[str, str, int]]:
    return [
        (it.outcome.value, it.session_id, it.entries) for it in merge_bundle(store, data, **options)
    ]


@settings(deadline=None)
@given(changes_of("s1"), changes_of("s2"))
def test_merge_is_complete_and_idempotent(one: list[Change], other: list[Change]) -> None:
    there, here = MemoryStore(), MemoryStore()
    there.write([*one, *other])
    data = make_bundle(there, "s1", "s2")
    merge_bundle(here, data)
    first = everything(here)
    for name in ("s1", "s2"):
        ours, theirs = here.session(name), there.session(name)
        assert list(here.read(name)) == list(there.read(name))
        assert here.titles(name) == there.titles(name)
        assert (ours.cwd, ours.directories, ours.parent_id) == (
            theirs.cwd, theirs.directories, theirs.parent_id,
        )  # fmt: skip
        assert (ours.created_us, ours.updated_us) == (theirs.created_us, theirs.updated_us)
        assert (ours.turns, ours.agent.version) == (theirs.turns, theirs.agent.version)
    assert {it.outcome for it in merge_bundle(here, data)} == {MergeOutcome.UNCHANGED}
    assert everything(here) == first


def test_session_is_new_then_unchanged_then_extended(here: Store, there: Store) -> None:
    assert outcomes(here, make_bundle(there, "s1")) == [("new", "s1", 3)]
    assert outcomes(here, make_bundle(there, "s1")) == [("unchanged", "s1", 0)]
    there.write([asked("s1", "More", NOW + 5), Counted(session_id="s1", at_us=NOW, turns=1)])
    assert outcomes(here, make_bundle(there, "s1")) == [("extended", "s1", 1)]
    assert list(here.read("s1")) == list(there.read("s1"))
    session = here.session("s1")
    assert (session.turns, session.messages, session.updated_us) == (2, 2, NOW + 5)


def test_session_with_more_entries_here_stays(here: Store, there: Store) -> None:
    data = make_bundle(there, "s1")
    merge_bundle(here, data)
    here.write([asked("s1", "More")])
    before = everything(here)
    assert outcomes(here, data) == [("unchanged", "s1", 0)]
    assert everything(here) == before


def test_diverging_copy_becomes_a_branch(here: Store, there: Store) -> None:
    merge_bundle(here, make_bundle(there, "s1"))
    here.write([asked("s1", "Here"), titled(TitleSource.PROMPT, "Hello")])
    there.write([asked("s1", "There"), titled(TitleSource.PROMPT, "Hello")])
    before = list(here.read("s1"))
    ((how, branch, written),) = outcomes(here, make_bundle(there, "s1"))
    assert (how, written) == ("branched", 4)
    assert list(here.read("s1")) == before
    assert list(here.read(branch)) == list(there.read("s1"))
    fork = here.session(branch)
    assert (fork.parent_id, fork.title, fork.agent_session_id) == (
        "s1",
        "Hello (fork)",
        UNKNOWN_TO_AGENT,
    )
    assert outcomes(here, make_bundle(there, "s1")) == [("unchanged", branch, 0)]
    there.write([answered("s1"), titled(TitleSource.AGENT, "Greeting")])
    here.write([answered("s1")])
    assert outcomes(here, make_bundle(there, "s1")) == [("extended", branch, 1)]
    assert here.session(branch).title == "Greeting (fork)"
    assert list(here.read(branch)) == list(there.read("s1"))


def test_copy_diverging_from_a_branch_becomes_a_second_branch(here: Store, there: Store) -> None:
    merge_bundle(here, make_bundle(there, "s1"))
    here.write([asked("s1", "Here")])
    there.write([asked("s1", "There")])
    ((_, branch, _),) = outcomes(here, make_bundle(there, "s1"))
    here.write([told(branch, "This way")])
    there.write([told("s1", "That way")])
    ((how, twig, _),) = outcomes(here, make_bundle(there, "s1"))
    assert (how, here.session(twig).parent_id) == ("branched", branch)
    assert outcomes(here, make_bundle(there, "s1")) == [("unchanged", twig, 0)]
    assert len(everything(here)) == 3


def test_merge_does_not_change_other_sessions(here: Store, there: Store) -> None:
    here.write([opened("s2"), asked("s2", "Mine"), Opened(session_id="s3", at_us=NOW)])
    before = everything(here)
    there.write([opened("s1~x"), Opened(session_id="../s2", at_us=NOW, parent_id="s2", cwd="/")])
    merge_bundle(here, make_bundle(there, "s1", "s1~x", "../s2"))
    for name in ("s1", "s1~x", "../s2"):
        here.erase(name)
    assert everything(here) == before


def test_deleted_session_stays_deleted_without_undelete(here: Store, there: Store) -> None:
    data = make_bundle(there, "s1")
    merge_bundle(here, data)
    here.write([Deleted(session_id="s1", at_us=NOW)])
    there.write([asked("s1", "More")])
    assert outcomes(here, make_bundle(there, "s1")) == [("deleted", "s1", 0)]
    assert here.session("s1").last_seq == 3
    assert outcomes(here, data, undelete=True) == [("undeleted", "s1", 0)]
    assert here.session("s1").deleted_us is None
    here.write([Deleted(session_id="s1", at_us=NOW)])
    assert outcomes(here, make_bundle(there, "s1"), undelete=True) == [("extended", "s1", 1)]
    assert here.session("s1").deleted_us is None


def test_undelete_restores_session_beside_diverging_copy(here: Store, there: Store) -> None:
    merge_bundle(here, make_bundle(there, "s1"))
    here.write([asked("s1", "Of here"), Deleted(session_id="s1", at_us=NOW)])
    there.write([asked("s1", "Of there")])
    data = make_bundle(there, "s1")
    ((how, branch, _),) = outcomes(here, data, undelete=True)
    assert (how, here.session("s1").deleted_us) == ("branched", None)
    here.write([Deleted(session_id="s1", at_us=NOW)])
    assert outcomes(here, data, undelete=True) == [("undeleted", "s1", 0)]
    assert here.session(branch).deleted_us is None


def test_branch_of_our_own_session_is_merged_into_it(here: Store, there: Store) -> None:
    merge_bundle(here, make_bundle(there, "s1"))
    here.write([asked("s1", "Of here"), titled(TitleSource.AGENT, "Of the agent")])
    there.write([asked("s1", "Of there")])
    ((how, branch, _),) = outcomes(there, make_bundle(here, "s1"))
    assert how == "branched"
    before = here.titles("s1"), list(here.read("s1"))
    back = outcomes(here, make_bundle(there, branch, "s1"))
    assert [it[0] for it in back] == ["unchanged", "branched"]
    assert back[0][1] == "s1"
    assert (here.titles("s1"), list(here.read("s1"))) == before
    # Entries added to the branch elsewhere belong to the session.
    there.write([asked(branch, "More")])
    assert outcomes(here, make_bundle(there, branch)) == [("extended", "s1", 1)]
    assert here.session("s1").parent_id is None
    assert outcomes(there, make_bundle(here, "s1", back[1][1])) == [
        ("unchanged", branch, 0),
        ("unchanged", "s1", 0),
    ]


def test_branch_of_unknown_session_stays_a_branch(here: Store, there: Store) -> None:
    merge_bundle(here, make_bundle(there, "s1"))
    branch = "s1~0123456789ab"
    there.write([opened(branch), asked(branch, "Hello")])
    assert outcomes(here, make_bundle(there, branch))[0][:2] == ("new", branch)


def test_undelete_restores_purged_session(here: Store, there: Store) -> None:
    data = make_bundle(there, "s1")
    merge_bundle(here, data)
    here.write([Deleted(session_id="s1", at_us=NOW)])
    here.purge("s1")
    assert outcomes(here, data) == [("deleted", "s1", 0)]
    assert outcomes(here, data, undelete=True, dry_run=True) == [("new", "s1", 3)]
    assert outcomes(here, data, undelete=True) == [("new", "s1", 3)]
    assert list(here.read("s1")) == list(there.read("s1"))
    assert (here.session("s1").cwd, here.session("s1").deleted_us) == ("/p", None)


def test_merge_keeps_user_title_and_folder(here: Store, there: Store) -> None:
    there.write([titled(TitleSource.AGENT, "Of the agent"), titled(TitleSource.USER, "There")])
    merge_bundle(here, make_bundle(there, "s1"))
    assert here.session("s1").title == "There"
    here.write([titled(TitleSource.USER, "Here"), Opened(session_id="s1", at_us=NOW, cwd="/moved")])
    there.write([asked("s1", "More"), titled(TitleSource.AGENT, "Another")])
    assert outcomes(here, make_bundle(there, "s1"))[0][0] == "extended"
    assert here.titles("s1") == {TitleSource.AGENT: "Another", TitleSource.USER: "Here"}
    assert here.session("s1").cwd == "/moved"


def test_agent_session_id_is_kept_only_if_unused_and_up_to_date(here: Store, there: Store) -> None:
    there.write([Opened(session_id="s1", at_us=NOW, agent_session_id="a1")])
    data = make_bundle(there, "s1")
    merge_bundle(here, data)
    assert here.session("s1").agent_session_id == "a1"
    # The agent here lacks the new entries, although it has a session with this id.
    there.write([asked("s1", "More")])
    merge_bundle(here, make_bundle(there, "s1"))
    assert here.session("s1").agent_session_id == UNKNOWN_TO_AGENT
    here.erase("s1")
    here.write([Opened(session_id="s2", at_us=NOW, agent_session_id="a1")])
    merge_bundle(here, data)
    assert here.session("s1").agent_session_id == UNKNOWN_TO_AGENT


def test_command_from_bundle_needs_trust(here: Store, there: Store) -> None:
    evil = AgentIdentity(name="Agent", version="1", command=("sh", "-c", "evil"))
    there.write([Opened(session_id="s1", at_us=NOW, agent=evil)])
    data = make_bundle(there, "s1")
    merge_bundle(here, data)
    assert here.session("s1").agent == AgentIdentity(name="Agent", version="1")
    here.erase("s1")
    own = AgentIdentity(name="agent", command=("/opt/agent", "acp"))
    here.write([Opened(session_id="mine", at_us=NOW, agent=own, cwd="/p")])
    merge_bundle(here, data)
    assert here.session("s1").agent.command == ("/opt/agent", "acp")
    here.erase("s1")
    merge_bundle(here, data, trust=True)
    assert here.session("s1").agent == evil


def start_here(store: Store, session_id: str, agent: AgentIdentity, at_us: int = NOW) -> None:
    store.write([Opened(session_id=session_id, at_us=at_us, agent=agent, cwd="/p")])


def imported_command(here: Store, there: Store, agent: AgentIdentity) -> tuple[str, ...]:
    """Return the command of a session of this agent after its bundle was imported."""
    there.write([Opened(session_id="s1", at_us=NOW, agent=agent)])
    merge_bundle(here, make_bundle(there, "s1"))
    return here.session("s1").agent.command


@pytest.mark.parametrize(
    "incoming",
    [
        AgentIdentity(version="1"),
        AgentIdentity(name="", version="1"),
        AgentIdentity(name="e"),
        AgentIdentity(name="gent"),
        AgentIdentity(name="agent-b", command=("/opt/agent-a",)),
        AgentIdentity(command=("/elsewhere/agent-a",)),
        AgentIdentity(command=("/elsewhere/python", "b.py")),
        AgentIdentity(command=("",)),
    ],
    ids=repr,
)
def test_import_never_assigns_the_command_of_another_agent(
    here: Store, there: Store, incoming: AgentIdentity
) -> None:
    start_here(here, "named", AgentIdentity(name="Agent", command=("/opt/agent-a", "acp")))
    start_here(here, "unnamed", AgentIdentity(command=("/usr/bin/python", "a.py")))
    start_here(here, "odd", AgentIdentity(name="", command=("",)))
    assert imported_command(here, there, incoming) == ()


@pytest.mark.parametrize(
    ("incoming", "command"),
    [
        (AgentIdentity(name="Agent-B", version="7"), ("/opt/new/agent", "--b")),
        (AgentIdentity(name="agent-b", command=("sh", "-c", "evil")), ("/opt/new/agent", "--b")),
        (AgentIdentity(name="solo"), ("/opt/solo", "acp")),
        (AgentIdentity(command=("/elsewhere/python", "a.py")), ("/usr/bin/python", "a.py")),
    ],
    ids=repr,
)
def test_import_assigns_the_latest_command_of_the_same_agent(
    here: Store, there: Store, incoming: AgentIdentity, command: tuple[str, ...]
) -> None:
    old, new = ("/opt/old/agent", "--b"), ("/opt/new/agent", "--b")
    start_here(here, "old", AgentIdentity(name="agent-b", command=old), NOW)
    start_here(here, "new", AgentIdentity(name="agent-b", command=new), NOW + 1)
    start_here(here, "other", AgentIdentity(name="agent-bc", command=("/opt/bc",)), NOW + 2)
    start_here(here, "bare", AgentIdentity(name="agent-b"), NOW + 3)
    start_here(here, "solo", AgentIdentity(command=("/opt/solo", "acp")), NOW + 4)
    start_here(here, "python", AgentIdentity(command=("/usr/bin/python", "a.py")), NOW + 5)
    start_here(here, "script", AgentIdentity(command=("/usr/bin/python", "b.py")), NOW + 6)
    assert imported_command(here, there, incoming) == command


def test_undeleted_session_keeps_the_command_of_its_own_agent(here: Store, there: Store) -> None:
    agent = AgentIdentity(name="agent", command=("/opt/agent",))
    merge_bundle(here, make_bundle(there, "s1"))
    here.write([Opened(session_id="s1", at_us=NOW, agent=agent)])
    here.write([Deleted(session_id="s1", at_us=NOW)])
    there.write([Opened(session_id="s1", at_us=NOW, agent=AgentIdentity(name="Agent"))])
    there.write([asked("s1", "More")])
    assert outcomes(here, make_bundle(there, "s1"), undelete=True) == [("extended", "s1", 1)]
    assert here.session("s1").agent.command == ("/opt/agent",)


def test_import_finds_an_agent_that_was_used_long_ago(here: Store, there: Store) -> None:
    start_here(here, "first", AgentIdentity(name="agent", command=("/opt/agent",)))
    bare = AgentIdentity(name="agent")
    here.write(
        [Opened(session_id=f"n{it}", at_us=NOW + it, agent=bare, cwd="/p") for it in range(1, 200)]
    )
    assert imported_command(here, there, AgentIdentity(name="agent")) == ("/opt/agent",)


def test_session_in_use_is_not_changed(here: Store, there: Store) -> None:
    merge_bundle(here, make_bundle(there, "s1"))
    other = LeaseHolder(token="other", pid=7, machine="there")  # noqa: S106 - no password
    here.acquire_lease("s1", other)
    assert outcomes(here, make_bundle(there, "s1")) == [("unchanged", "s1", 0)]
    there.write([asked("s1", "More")])
    before = everything(here)
    with pytest.raises(SessionInUse):
        merge_bundle(here, make_bundle(there, "s1"))
    assert everything(here) == before
    here.release_leases(other)
    merge_bundle(here, make_bundle(there, "s1"))
    assert here.lease_holder("s1") is None
    # The next holder learns that another process has used the session.
    assert here.acquire_lease("s1", other).was_held_by_another
    assert here.acquire_lease("s1", HOLDER).holder == other
