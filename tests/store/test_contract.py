"""The contract of `store/base.py`, checked for every store."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from rekindle.errors import SessionAmbiguous, SessionNotFound
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentArchived,
    AgentIdentity,
    AgentObserved,
    AgentSaved,
    AgentTrait,
    Archived,
    Counted,
    Deleted,
    Entry,
    EntryBatch,
    Forked,
    Imported,
    Kind,
    LeaseHolder,
    LeaseResult,
    Origin,
    Page,
    Side,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.store.base import Store
from store_changes import HOLDERS, NOW, batch, ids, opened

ONE, OTHER, _ = HOLDERS


def titled(source: TitleSource, title: str | None) -> Titled:
    return Titled(session_id="s1", at_us=NOW, source=source, title=title)


def lines(store: Store, session: str = "s1", after: int = 0) -> list[tuple[int, bytes]]:
    return [(entry.seq, entry.line) for entry in store.read(session, after=after)]


def test_entries_are_read_back_in_order(store: Store) -> None:
    store.write([batch(b"1", b"2", b"3")])
    store.write([batch(b"4"), batch(b"x", session="s2"), batch(b"5")], sync=True)
    assert lines(store) == [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4"), (5, b"5")]
    assert lines(store, "s2") == [(1, b"x")]


def test_an_entry_keeps_all_its_fields(store: Store) -> None:
    line = b'{"a":"\xff\\ud83d\x00\r"}'
    store.write(
        [
            EntryBatch(
                session_id="s1",
                side=Side.CLIENT,
                kind=Kind.PROMPT,
                at_us=NOW,
                data=line,
                protocol=2,
            )
        ]
    )
    assert list(store.read("s1")) == [
        Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=NOW, line=line, protocol=2)
    ]


def test_empty_lines_are_kept_as_entries(store: Store) -> None:
    store.write([batch(b""), batch(b"", b"", b"x")])
    assert lines(store) == [(1, b""), (2, b""), (3, b""), (4, b"x")]


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 5, 6, 99])
def test_reading_can_start_after_any_seq(store: Store, after: int) -> None:
    store.write([batch(b"1", b"2", b"3")])
    store.write([batch(b"4", b"5"), batch(b"6")])
    assert [seq for seq, _ in lines(store, after=after)] == list(range(after + 1, 7))


def test_a_long_session_is_read_completely(store: Store) -> None:
    for number in range(300):
        store.write([batch(b"%d" % number)])
    assert [line for _, line in lines(store)] == [b"%d" % number for number in range(300)]


def test_reading_continues_while_entries_are_appended(store: Store) -> None:
    store.write([batch(b"1", b"2")])
    reading = store.read("s1")
    assert next(reading).line == b"1"
    store.write([batch(b"3")])
    assert next(reading).line == b"2"


def test_an_unknown_session_raises_session_not_found(store: Store) -> None:
    for ask in (store.session, store.find, lambda id_: list(store.read(id_))):
        with pytest.raises(SessionNotFound, match="'nobody'") as caught:
            ask("nobody")
        assert caught.value.session_id == "nobody"


def test_the_first_change_creates_the_session(store: Store) -> None:
    store.write([batch(b"1", session="a")])
    store.write([opened("b")])
    store.write([Titled(session_id="c", at_us=NOW, source=TitleSource.USER, title="t")])
    for name in "abc":
        session = store.session(name)
        assert (session.created_us, session.agent_session_id) == (NOW, name)


def test_opened_sets_only_the_given_fields(store: Store) -> None:
    agent = AgentIdentity(name="Fake", version="1", command=("fake", "acp", "é\n"))
    store.write(
        [opened("s1", agent_session_id="a1", agent=agent, cwd="/p", directories=("/q", "/r"))]
    )
    store.write([opened("s1", NOW + 1, parent_id="s0")])
    session = store.session("s1")
    assert session.agent == agent
    assert (session.agent_session_id, session.cwd, session.parent_id) == ("a1", "/p", "s0")
    assert session.directories == ("/q", "/r")
    assert (session.created_us, session.updated_us) == (NOW, NOW)
    store.write([opened("s1", directories=())])
    assert store.session("s1").directories == ()


def test_only_activity_moves_the_time_forward(store: Store) -> None:
    store.write([batch(b"1", kind=Kind.PROMPT, at_us=NOW + 5)])
    store.write([batch(b"2", kind=Kind.UPDATE, at_us=NOW + 9)])
    store.write([batch(b"3", kind=Kind.ANSWER, at_us=NOW - 9)])
    session = store.session("s1")
    assert (session.updated_us, session.last_seq) == (NOW + 5, 3)
    both = [batch(b"4", kind=Kind.PROMPT, at_us=NOW + 8), batch(b"5", kind=Kind.ANSWER)]
    store.write(both)
    assert store.session("s1").updated_us == NOW + 8


def test_counted_adds_turns_and_messages(store: Store) -> None:
    store.write([Counted(session_id="s1", at_us=NOW, turns=1, messages=2)])
    store.write([Counted(session_id="s1", at_us=NOW, messages=3)])
    session = store.session("s1")
    assert (session.turns, session.messages, session.updated_us) == (1, 5, NOW)


def test_saved_turns_belong_to_the_session_of_the_agent(store: Store) -> None:
    saved = AgentSaved(session_id="s1", at_us=NOW)
    store.write([opened("s1", agent_session_id="a1")])
    store.write([Counted(session_id="s1", at_us=NOW, turns=2, messages=4), saved])
    store.write([Counted(session_id="s1", at_us=NOW, turns=1, messages=2)])
    assert (store.session("s1").saved_turns, store.session("s1").turns) == (2, 3)
    store.write([opened("s1", cwd="/p")])
    store.write([opened("s1", agent_session_id="a1")])
    assert store.session("s1").saved_turns == 2
    store.write([opened("s1", agent_session_id="a2")])
    assert store.session("s1").saved_turns == 0
    store.write([Forked(session_id="s2", at_us=NOW, parent_id="s1", until_seq=0), saved])
    assert store.session("s2").saved_turns == 0


def test_a_rewind_leaves_no_turn_that_the_agent_is_known_to_have_saved(store: Store) -> None:
    for turns, messages, saved_turns in ((3, 6, 3), (0, -1, 3), (-2, -3, 0)):
        store.write([Counted(session_id="s1", at_us=NOW, turns=turns, messages=messages)])
        if turns > 0:
            store.write([AgentSaved(session_id="s1", at_us=NOW)])
        assert store.session("s1").saved_turns == saved_turns
    assert (store.session("s1").turns, store.session("s1").messages) == (1, 2)


def test_traits_belong_to_the_release_of_an_agent(store: Store) -> None:
    def observed(release: str, trait: AgentTrait) -> AgentObserved:
        return AgentObserved(session_id="s1", at_us=NOW, release=release, trait=trait)

    replays, is_silent = AgentTrait.REPLAYS, AgentTrait.LOADS_SILENTLY
    store.write([observed("a 1", replays), observed("a 1", replays), observed("a 2", is_silent)])
    store.write([observed("a 2", replays)])
    assert store.agent_traits("a 1") == {replays}
    assert store.agent_traits("a 2") == {replays, is_silent}
    assert store.agent_traits("a") == set()
    assert store.known_ids(["s1"]) == set()


def test_saved_turns_of_an_unknown_session_do_nothing(store: Store) -> None:
    store.write([AgentSaved(session_id="s1", at_us=NOW)])
    assert store.known_ids(["s1"]) == set()


def test_the_archive_state_of_the_agent_belongs_to_its_session(store: Store) -> None:
    def is_archived() -> tuple[bool, bool]:
        session = store.session("s1")
        return session.is_archived_by_agent, session.archived_us is not None

    archived = AgentArchived(session_id="s1", at_us=NOW, is_archived=True)
    store.write([archived])
    assert store.known_ids(["s1"]) == set()
    store.write([opened("s1", agent_session_id="a1"), archived])
    assert is_archived() == (True, False)
    store.write([opened("s1", agent_session_id="a1", cwd="/p")])
    assert is_archived() == (True, False)
    store.write([AgentArchived(session_id="s1", at_us=NOW, is_archived=False)])
    assert is_archived() == (False, False)
    store.write([archived, opened("s1", agent_session_id="a2")])
    assert is_archived() == (False, False)


def test_differences_to_the_archive_states_of_the_agent_are_found(store: Store) -> None:
    for name in ("here", "archived", "deleted", "other"):
        store.write([opened(name, cwd="/p", agent_session_id=f"at-{name}")])
    store.write([opened("unopened", agent_session_id="at-unopened")])
    store.write([opened("former", cwd="/p", agent_session_id="at-here-once")])
    store.write([opened("former", agent_session_id="at-former")])
    for name in ("archived", "deleted"):
        store.write([AgentArchived(session_id=name, at_us=NOW, is_archived=True)])
    store.write([Archived(session_id="here", at_us=NOW), Deleted(session_id="deleted", at_us=NOW)])

    def differences(**states: bool) -> list[str]:
        named = {name.replace("_", "-"): state for name, state in states.items()}
        return sorted(ids(store.archive_differences(named)))

    assert differences() == []
    assert differences(at_here=False, at_archived=True, at_other=False, unknown=True) == []
    assert differences(at_here=True, at_archived=False, at_other=False) == ["archived", "here"]
    assert differences(at_deleted=False, at_unopened=True, at_here_once=True) == []
    store.write([opened("later", cwd="/p", agent_session_id="at-other")])
    assert differences(at_other=True) == ["later"]


def test_placeholders_are_listed_by_themselves(store: Store) -> None:
    user = TitleSource.USER
    for name in ("archived", "deleted"):
        store.write([opened(name), Archived(session_id=name, at_us=NOW)])
    store.write([Deleted(session_id="deleted", at_us=NOW)])
    store.write([Titled(session_id="titled", at_us=NOW, source=user, title="Mine")])
    agents = Titled(session_id="sub-agent", at_us=NOW, source=TitleSource.AGENT, title="Theirs")
    store.write([agents, opened("recorded", cwd="/p")])
    store.write([Titled(session_id="recorded", at_us=NOW, source=user, title="Mine")])
    store.write([opened("homeless"), Archived(session_id="homeless", at_us=NOW)])
    origin = Origin(tool="claude", path="/f")
    store.write([Imported(session_id="homeless", at_us=NOW, origin=origin)])
    page = Page(placeholders=True, with_archived=True)
    assert ids(store.sessions(page)) == ["titled", "archived"]
    assert all(session.is_placeholder for session in store.sessions(page))
    assert ids(store.sessions(replace(page, limit=1))) == ["titled"]
    assert ids(store.sessions(Page(placeholders=True))) == ["titled"]
    assert ids(store.sessions(Page(placeholders=True, archived=True))) == ["archived"]


def test_titles_are_ranked_by_source(store: Store) -> None:
    def write(source: TitleSource, title: str | None) -> tuple[str | None, str | None]:
        store.write([titled(source, title)])
        session = store.session("s1")
        return session.title, session.title_source

    assert write(TitleSource.PROMPT, "first words") == ("first words", "prompt")
    assert write(TitleSource.PROMPT, "later words") == ("first words", "prompt")
    assert write(TitleSource.AGENT, "of the agent") == ("of the agent", "agent")
    assert write(TitleSource.USER, "of the user") == ("of the user", "user")
    assert write(TitleSource.AGENT, "another") == ("of the user", "user")
    assert write(TitleSource.USER, None) == ("another", "agent")
    assert write(TitleSource.AGENT, None) == ("first words", "prompt")
    assert write(TitleSource.PROMPT, None) == (None, None)


def test_outranked_titles_are_kept(store: Store) -> None:
    store.write([opened("s1")])
    assert store.titles("s1") == {}
    store.write([titled(TitleSource.USER, "mine"), titled(TitleSource.PROMPT, "words")])
    assert store.titles("s1") == {TitleSource.USER: "mine", TitleSource.PROMPT: "words"}
    with pytest.raises(SessionNotFound):
        store.titles("nobody")


def test_extend_requires_the_expected_last_seq(store: Store) -> None:
    assert store.extend("s1", 0, iter([opened("s1", cwd="/p"), batch(b"1", b"2")]))
    assert not store.extend("s1", 0, iter([batch(b"x")]))
    assert not store.extend("nobody", 1, iter([batch(b"x", session="nobody")]))
    store.write([batch(b"3")])
    assert not store.extend("s1", 2, iter([batch(b"x")]))
    assert store.extend("s1", 3, iter([batch(b"4", kind=Kind.PROMPT, at_us=NOW + 1)]))
    assert lines(store) == [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
    assert (store.session("s1").cwd, store.session("s1").updated_us) == ("/p", NOW + 1)
    with pytest.raises(SessionNotFound):
        store.session("nobody")


def test_extend_bounds_the_time_of_the_session(store: Store) -> None:
    future = batch(b"1", kind=Kind.PROMPT, at_us=NOW + 99)
    assert store.extend("s1", 0, [opened("s1", cwd="/p"), future], latest_us=NOW + 5)
    session = store.session("s1")
    assert (session.created_us, session.updated_us) == (NOW, NOW + 5)
    assert [entry.at_us for entry in store.read("s1")] == [NOW + 99]
    # A session does not become older.
    assert store.extend("s1", 1, [batch(b"2", kind=Kind.ANSWER)], latest_us=NOW - 5)
    assert not store.extend("s1", 7, [batch(b"3")], latest_us=NOW)
    assert store.session("s1").updated_us == NOW + 5
    assert not store.extend("nobody", 7, [], latest_us=NOW)


def test_extend_applies_nothing_if_the_iterable_raises(store: Store) -> None:
    def broken() -> Iterator[EntryBatch]:
        yield batch(b"2")
        yield batch(b"x", session="s2")
        raise KeyError

    store.write([batch(b"1")])
    with pytest.raises(KeyError):
        store.extend("s1", 1, broken())
    assert lines(store) == [(1, b"1")]
    assert ids(store.sessions(Page(with_unopened=True))) == ["s1"]
    store.write([batch(b"2")])
    assert lines(store) == [(1, b"1"), (2, b"2")]


def test_a_deleted_session_is_kept_but_not_listed(store: Store) -> None:
    store.write([opened("s1", cwd="/p"), batch(b"1"), Deleted(session_id="s1", at_us=NOW + 7)])
    store.write([Deleted(session_id="nobody", at_us=NOW)])
    assert store.sessions(Page()) == []
    assert ids(store.sessions(Page(deleted=True))) == ["s1"]
    assert store.session("s1").deleted_us == NOW + 7
    assert lines(store) == [(1, b"1")]
    store.write([opened("s1")])
    assert ids(store.sessions(Page())) == ["s1"]


def test_sessions_are_listed_last_updated_first(store: Store) -> None:
    for name, at_us in (("a", 3), ("b", 9), ("c", 9), ("d", 1)):
        store.write([opened(name, cwd="/p")])
        store.write([batch(b"1", session=name, kind=Kind.PROMPT, at_us=NOW + at_us)])
    assert ids(store.sessions(Page())) == ["c", "b", "a", "d"]
    assert ids(store.sessions(Page(limit=2))) == ["c", "b"]


def test_paging_is_stable_under_concurrent_writes(store: Store) -> None:
    store.write([opened("new", cwd="/p", at_us=NOW - 1)])
    for number in range(10):
        name = f"s{number}"
        store.write([opened(name, cwd="/p")])
        store.write([batch(b"1", session=name, kind=Kind.PROMPT, at_us=NOW + number // 2)])
    seen: list[str] = []
    before = None
    while page := store.sessions(Page(limit=3, before=before)):
        seen += ids(page)
        before = (page[-1].updated_us, page[-1].id)
        store.write([batch(b"2", session="new", kind=Kind.PROMPT, at_us=NOW + 99)])
    assert seen == [f"s{number}" for number in (9, 8, 7, 6, 5, 4, 3, 2, 1, 0)]


def test_sessions_without_a_turn_can_be_left_out(store: Store) -> None:
    for number in range(9):
        name = f"s{number}"
        store.write([opened(name, cwd="/p", at_us=NOW + number // 2)])
        turns = int(number % 3 == 1)
        store.write([Counted(session_id=name, at_us=NOW, turns=turns, messages=1)])
    assert ids(store.sessions(Page(prompted=True))) == ["s7", "s4", "s1"]
    assert ids(store.sessions(Page(prompted=True, cwd="/p"))) == ["s7", "s4", "s1"]
    assert ids(store.sessions(Page(prompted=True, limit=2))) == ["s7", "s4"]
    assert ids(store.sessions(Page(prompted=True, before=(NOW + 2, "s4")))) == ["s1"]
    assert len(store.sessions(Page())) == 9
    assert store.overview().whole.sessions == 9


def test_unopened_sessions_are_listed_only_on_request(store: Store) -> None:
    store.write([batch(b"1", session="of a sub-agent"), opened("s1", cwd="/p")])
    assert ids(store.sessions(Page())) == ["s1"]
    assert sorted(ids(store.sessions(Page(with_unopened=True)))) == ["of a sub-agent", "s1"]
    assert store.session("of a sub-agent").is_unopened


def test_sessions_are_filtered_by_folder_and_agent(store: Store) -> None:
    fake = AgentIdentity(name="Fake", command=("/opt/bin/fake", "acp"))
    other = AgentIdentity(command=("other",))
    store.write(
        [
            opened("a", agent=fake, cwd="/p"),
            opened("b", agent=fake, cwd="/p/sub"),
            opened("c", agent=other, cwd="/p"),
            opened("d", cwd="/q"),
        ]
    )

    def filtered(**page: str) -> list[str]:
        return sorted(ids(store.sessions(Page(**page))))  # type: ignore[arg-type]

    assert filtered(cwd="/p") == ["a", "c"]
    assert filtered(agent="FAKE") == filtered(agent="fake") == ["a", "b"]
    assert filtered(agent="other") == filtered(agent="THE") == ["c"]
    assert filtered(agent="%") == filtered(agent="bin/fake") == []
    assert filtered(cwd="/p", agent="Fake") == ["a"]
    assert filtered() == ["a", "b", "c", "d"]


def test_agent_commands_match_the_whole_identity(store: Store) -> None:
    def start(session: str, name: str | None, *command: str, at_us: int = NOW) -> None:
        agent = AgentIdentity(name=name, command=command)
        store.write([opened(session, at_us, agent=agent, cwd="/p")])

    start("s1", "Agent", "/old/agent", at_us=NOW)
    start("s2", "agent", "/new/agent", at_us=NOW + 2)
    start("s3", "Agent", "/old/agent", at_us=NOW + 1)
    start("s4", "agents", "/opt/agents")
    start("s5", None, "/usr/bin/unnamed", "acp")
    start("s6", "", "")
    start("s7", "Ärger", "/opt/rage")
    start("s8", "bare")
    start("s9", "deleted", "/opt/deleted")
    store.write([Deleted(session_id="s9", at_us=NOW)])
    store.write([opened("s10", agent=AgentIdentity(name="stray", command=("stray",)))])
    start("s11", "archived", "/opt/archived")
    store.write([Archived(session_id="s11", at_us=NOW)])

    def commands(*identities: str) -> list[tuple[str, ...]]:
        return store.agent_commands(identities)

    assert commands("AGENT") == [("/new/agent",), ("/old/agent",)]
    assert commands("unnamed") == [("/usr/bin/unnamed", "acp")]
    assert commands("Ärger") == [("/opt/rage",)]
    assert commands("archived") == [("/opt/archived",)]
    assert sorted(commands("agents", "UNNAMED")) == [("/opt/agents",), ("/usr/bin/unnamed", "acp")]
    for identity in ("", "gent", "agent%", "ärger", "bare", "deleted", "stray", "/new/agent"):
        assert commands(identity) == [], identity
    assert commands() == []


def test_find_accepts_a_unique_prefix(store: Store) -> None:
    store.write([opened(name) for name in ("ses_abc", "ses_abd", "ses_ab", "x%y", "X")])
    assert store.find("ses_abc").id == "ses_abc"
    assert store.find("ses_ab").id == "ses_ab"
    assert store.find("x").id == "x%y"
    with pytest.raises(SessionAmbiguous) as caught:
        store.find("ses_")
    assert caught.value.matches == ("ses_ab", "ses_abc", "ses_abd")
    for unknown in ("", "%", "ses_abcd"):
        with pytest.raises(SessionNotFound):
            store.find(unknown)


def test_a_fork_copies_the_entries_of_its_parent(store: Store) -> None:
    store.write(
        [
            opened("s1", agent=AgentIdentity(name="A", command=("a",)), cwd="/p"),
            titled(TitleSource.PROMPT, "words"),
            batch(b"p1", kind=Kind.PROMPT),
            batch(b"1", b"2", b"3"),
            batch(b"p2", kind=Kind.PROMPT),
        ]
    )
    for until, name in ((5, "whole"), (3, "part"), (0, "none")):
        at_us = NOW + 50
        store.write([Forked(session_id=name, at_us=at_us, parent_id="s1", until_seq=until)])
        assert lines(store, name) == lines(store)[:until]
        fork = store.session(name)
        assert (fork.last_seq, fork.parent_id, fork.cwd, fork.title) == (until, "s1", "/p", "words")
        assert (fork.agent.name, fork.agent_session_id, fork.created_us) == (
            "A",
            UNKNOWN_TO_AGENT,
            at_us,
        )
    store.write([batch(b"x", session="part"), batch(b"y")])
    assert [line for _, line in lines(store, "part")] == [b"p1", b"1", b"2", b"x"]
    assert [line for _, line in lines(store)] == [b"p1", b"1", b"2", b"3", b"p2", b"y"]
    with pytest.raises(SessionNotFound):
        store.write([Forked(session_id="f", at_us=NOW, parent_id="nobody", until_seq=1)])


def test_a_copy_of_a_sub_agent_belongs_to_its_owner(store: Store) -> None:
    store.write([opened("s1.c", parent_id="s1"), batch(b"1", b"2", session="s1.c")])
    copied = Forked(session_id="f1.c", at_us=NOW, parent_id="s1.c", until_seq=1, owner_id="f1")
    store.write([opened("f1", cwd="/p"), copied])
    assert lines(store, "f1.c") == [(1, b"1")]
    assert store.session("f1.c").is_subagent
    assert [it.id for it in store.subagents("f1")] == ["f1.c"]
    assert store.subagents("s1.c") == []


def test_known_ids_can_leave_out_sessions_without_a_record(store: Store) -> None:
    store.write([opened("blank", agent_session_id="former")])
    store.write([opened("blank", agent_session_id="a1"), opened("here", cwd="/p")])
    store.write([opened("deleted"), Deleted(session_id="deleted", at_us=NOW)])
    origin = Origin(tool="claude", path="/f")
    store.write([opened("origin"), Imported(session_id="origin", at_us=NOW, origin=origin)])
    store.write([opened("entries", agent_session_id="a2"), batch(b"x", session="entries")])
    names = ["blank", "former", "a1", "here", "deleted", "origin", "entries", "a2"]
    assert store.known_ids(names) == set(names)
    assert store.known_ids(names, recorded_only=True) == set(names[3:])
    assert [store.session(name).is_blank for name in ("blank", "entries")] == [True, False]
    # Another session may have the same id at the agent.
    store.write([opened("here", agent_session_id="blank")])
    store.write([opened("here", agent_session_id="a1")])
    assert store.known_ids(["blank", "a1"], recorded_only=True) == {"blank", "a1"}


def test_known_ids_include_client_and_agent_ids(store: Store) -> None:
    store.write([opened("s1", agent_session_id="a1"), opened("s2")])
    store.write([Deleted(session_id="s2", at_us=NOW)])
    assert store.known_ids(["a1", "s1", "s2", "x"]) == {"a1", "s1", "s2"}
    assert store.known_ids([]) == set()
    store.write([opened("s1", agent_session_id="a2")])
    store.write([opened("s1", agent_session_id=UNKNOWN_TO_AGENT)])
    store.write([opened("s1", agent_session_id="a3")])
    assert store.known_ids(["a1", "a2", "a3", UNKNOWN_TO_AGENT]) - {UNKNOWN_TO_AGENT} == {
        "a1",
        "a2",
        "a3",
    }


def test_a_session_has_one_lease_holder(store: Store) -> None:
    one, other = ONE, OTHER
    store.write([opened("s1"), opened("s2")])
    assert store.lease_holder("s1") is None
    assert store.acquire_lease("s1", one) == LeaseResult(epoch=1)
    assert store.acquire_lease("s1", one) == LeaseResult(epoch=1)
    assert (
        store.acquire_lease("s1", other)
        == LeaseResult(holder=store.lease_holder("s1"))
        == LeaseResult(holder=one)
    )
    assert store.acquire_lease("s2", other) == LeaseResult(epoch=1)
    assert store.acquire_lease("s1", other, takeover=True) == LeaseResult(
        was_held_by_another=True, epoch=2, former=one, is_former_alive=True
    )
    assert store.acquire_lease("s1", other) == LeaseResult(epoch=2)
    assert store.lease_holder("s1") == other
    store.release_leases(one)
    store.release_leases(one, "s1")
    assert store.lease_holder("s1") == other
    store.release_leases(other, "s1")
    assert (store.lease_holder("s1"), store.lease_holder("s2")) == (None, other)
    assert store.acquire_lease("s1", one) == LeaseResult(was_held_by_another=True, epoch=3)
    store.release_leases(one)
    assert store.acquire_lease("s1", one) == LeaseResult(epoch=3)
    store.release_leases(one)
    store.release_leases(other)
    assert store.lease_holder("s2") is None
    for ask in (store.lease_holder, lambda id_: store.acquire_lease(id_, one)):
        with pytest.raises(SessionNotFound):
            ask("nobody")


@pytest.mark.parametrize("is_leased", [True, False])
def test_the_last_seq_follows_every_change(store: Store, *, is_leased: bool) -> None:
    assert store.last_seq("s1") == 0
    store.write([opened("s1")])
    assert store.last_seq("s1") == 0
    if is_leased:
        assert store.acquire_lease("s1", ONE).epoch == 1
    store.write([batch(b"1", b"2")])
    assert store.last_seq("s1") == 2
    store.write([batch(b"3")])
    assert store.last_seq("s1") == 3
    store.write([Truncated(session_id="s1", at_us=NOW, until_seq=1)])
    assert store.last_seq("s1") == 1
    store.write([batch(b"2")])
    assert store.last_seq("s1") == 2
    store.erase("s1")
    assert store.last_seq("s1") == 0


def test_the_token_identifies_a_holder(store: Store) -> None:
    store.write([opened("s1"), opened("s2")])
    for session in ("s1", "s2"):
        store.acquire_lease(session, ONE)
    moved = replace(ONE, pid=9, socket="/run/s", version="2", agent_group=99)
    store.update_holder(replace(OTHER, pid=8))
    store.update_holder(moved)
    assert [store.lease_holder(it) for it in ("s1", "s2")] == [moved, moved]
    assert store.acquire_lease("s1", OTHER) == LeaseResult(holder=moved)
    again = replace(moved, agent_group=100)
    assert store.acquire_lease("s1", again) == LeaseResult(epoch=1)
    assert (store.lease_holder("s1"), store.lease_holder("s2")) == (again, moved)
    store.release_leases(ONE)
    assert store.leased_ids() == set()


def test_erase_removes_a_session_without_a_tombstone(store: Store) -> None:
    store.write([batch(b"1"), batch(b"2", session="s2")])
    store.acquire_lease("s1", LeaseHolder(token="t", pid=1, machine="h"))  # noqa: S106 - no password
    store.erase("s1")
    store.erase("s1")
    with pytest.raises(SessionNotFound):
        store.session("s1")
    assert ids(store.sessions(Page(with_unopened=True))) == ["s2"]
    store.write([batch(b"new")])
    assert lines(store) == [(1, b"new")]
    assert store.lease_holder("s1") is None


def test_a_purged_session_does_not_make_a_prefix_ambiguous(store: Store) -> None:
    store.write(
        [opened("abc-1", cwd="/p"), opened("abc-2"), Deleted(session_id="abc-1", at_us=NOW)]
    )
    with pytest.raises(SessionAmbiguous):
        store.find("abc")
    store.purge("abc-1")
    assert store.find("abc").id == "abc-2"
    assert store.find("abc-1").is_purged
    store.scrub(lambda: None)
    assert store.find("abc-1").is_purged


def test_purge_keeps_only_tombstones(store: Store) -> None:
    agent = AgentIdentity(name="A", command=("a",))
    for name, at_us in (("old", 1), ("new", 3)):
        store.write([opened(name, cwd="/p", agent=agent, agent_session_id="a")])
        store.write([batch(b"secret", session=name), Deleted(session_id=name, at_us=NOW + at_us)])
    store.write([opened("kept", cwd="/p"), batch(b"1", session="kept")])
    assert store.deleted_ids(NOW + 3) == ["old"]
    assert store.deleted_ids(NOW + 9) == ["old", "new"]
    assert store.deleted_ids(NOW + 9, 1) == ["old"]
    for name in ("old", "kept", "nobody"):
        store.purge(name)
    assert store.deleted_ids(NOW + 3) == []
    assert store.deleted_ids(NOW + 9) == ["new"]
    assert lines(store, "old") == []
    purged = store.session("old")
    assert (purged.agent, purged.cwd, purged.agent_session_id) == (AgentIdentity(), None, "a")
    assert (purged.deleted_us, purged.last_seq) == (NOW + 1, 0)
    assert lines(store, "kept") == [(1, b"1")]
    assert store.known_ids(["old"]) == {"old"}
