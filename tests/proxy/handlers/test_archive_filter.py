"""The `archived` filter of `session/list`."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine_pair import EnginePair
from playbook import CLIENT, Playbook
from rekindle.model import AgentIdentity, Archived, Counted, EntryBatch, Kind, Opened, Side
from rekindle.proxy.handlers import list as list_handler
from rekindle.proxy.handlers.archive_filter import ArchiveFilter
from rekindle.proxy.peers import AGENT
from rekindle.text.times import iso
from selection import some

Json = dict[str, Any]
_MAX_PAGES = 50
FILTERS = [None, "exclude", "include", "only"]


def write(book: Playbook, name: str, row: tuple[int, str, bool, int]) -> None:
    """Record a session."""
    at_us, cwd, archived, turns = row
    prompt = EntryBatch(
        session_id=name, side=Side.CLIENT, kind=Kind.PROMPT, at_us=at_us, data=b"{}"
    )
    agent = AgentIdentity(name="Fake", command=("agent", "acp"))
    book.record.store.write([
        Opened(session_id=name, at_us=at_us, agent=agent, cwd=cwd),
        prompt,
        Counted(session_id=name, at_us=at_us, turns=turns, messages=turns),
    ])  # fmt: skip
    if archived:
        book.record.store.write([Archived(session_id=name, at_us=at_us)])


def list_all(book: Playbook, theirs: list[Json], **params: object) -> list[Json]:
    """Return the sessions of all pages. The agent lists `theirs`."""
    found: list[Json] = []
    cursor: Json = {}
    for _ in range(_MAX_PAGES):
        request = {"id": 1, "method": "session/list", "params": {**params, **cursor}}
        book.receive(CLIENT, [json.dumps(request)])
        asked = json.loads([line for line in book.out if line.startswith("<a ")][-1][3:])
        answer = {"id": asked["id"], "result": {"sessions": theirs}}
        book.receive(AGENT, [json.dumps(answer)])
        result = json.loads(book.out[-1][3:])["result"]
        found += result["sessions"]
        if "nextCursor" not in result:
            return found
        cursor = {"cursor": result["nextCursor"]}
    raise AssertionError("the list has no end")


ROWS = st.tuples(
    st.integers(1, 40), st.sampled_from(["/p", "/q"]), st.booleans(), st.integers(0, 1)
)


@settings(max_examples=some(60))
@given(
    ours=st.lists(ROWS, max_size=25),
    theirs=st.lists(ROWS, max_size=8),
    cwd=st.sampled_from([None, "/p"]),
    wanted=st.sampled_from(FILTERS),
    has_method=st.booleans(),
)
def test_pages_have_the_selected_sessions_in_order(
    ours: list[tuple[int, str, bool, int]],
    theirs: list[tuple[int, str, bool, int]],
    cwd: str | None,
    wanted: str | None,
    *,
    has_method: bool,
) -> None:
    book = Playbook()
    book.do_agent("Fake list load" + " archive" * has_method)
    expected: dict[str, tuple[int, bool]] = {}
    for number, (at_us, folder, archived, turns) in enumerate(ours):
        write(book, f"s{number}", (at_us, folder, archived, turns))
        if cwd in {None, folder} and (turns or archived):
            expected[f"s{number}"] = (at_us, archived)
    rows: list[Json] = []
    for number, (at_ms, folder, archived, _) in enumerate(theirs):
        row = {"sessionId": f"a{number}", "cwd": folder, "updatedAt": iso(at_ms * 1000)}
        rows.append({**row, "archived": archived} if has_method else row)
        if cwd in {None, folder}:
            expected[f"a{number}"] = (at_ms * 1000, archived and has_method)
    if wanted in {None, "exclude", "only"}:
        is_archived = wanted == "only"
        expected = {id_: it for id_, it in expected.items() if it[1] is is_archived}
    params: Json = {} if cwd is None else {"cwd": cwd}
    if wanted is not None:
        params["archived"] = wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_handler, "PAGE_SIZE", 3)
        listed = list_all(book, rows, **params)
    assert {info["sessionId"]: info["archived"] for info in listed} == {
        id_: archived for id_, (_, archived) in expected.items()
    }
    order = [(expected[info["sessionId"]][0], info["sessionId"]) for info in listed]
    assert order == sorted(order, reverse=True)


def test_a_page_of_both_has_the_newest_of_both() -> None:
    book = Playbook()
    book.do_agent("Fake list load")
    for at_us in range(1, 9):
        write(book, f"s{at_us}", (at_us, "/p", at_us > 4, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_handler, "PAGE_SIZE", 3)
        listed = list_all(book, [], archived="include")
    assert [info["sessionId"] for info in listed] == [f"s{at_us}" for at_us in range(8, 0, -1)]


def test_an_archived_session_without_turns_is_listed_once() -> None:
    # An agent that cannot replay lists a session that is older than the record of it.
    book = Playbook()
    book.do_agent("Fake list resume")
    created_us = 1_700_000_000_000_000
    write(book, "s1", (created_us, "/p", True, 0))
    row = {"sessionId": "s1", "cwd": "/p", "updatedAt": iso(created_us // 2)}
    assert list_all(book, [row]) == []
    (info,) = list_all(book, [row], archived="include")
    assert info["archived"] is True
    book.do_unarchived("s1")
    (info,) = list_all(book, [row])
    assert info["_meta"]["rekindle"] == {"isRecorded": False}


@pytest.mark.parametrize("value", ["", "Only", "bogus", 17, 1.5, True, [], ["only"], {}, {"a": 1}])
def test_other_values_are_refused(value: object) -> None:
    pair = EnginePair()
    pair.do_agent("Fake list")
    sent = pair.request(1, "session/list", archived=value)
    assert sent.to_agent == []
    assert (sent.error["code"], sent.error["data"]) == (
        -32602,
        {"field": "archived", "value": value},
    )


def test_every_session_is_selected_by_exclude_or_only() -> None:
    for is_archived in (True, False):
        selecting = {it for it in ArchiveFilter if it.selects(is_archived=is_archived)}
        other = ArchiveFilter.ONLY if is_archived else ArchiveFilter.EXCLUDE
        assert selecting == {ArchiveFilter.INCLUDE, other}


def recorded(*offered: str) -> EnginePair:
    pair = EnginePair()
    pair.do_agent(" ".join(["Fake", *offered]))
    pair.do_open("s1")
    pair.do_said("s1 Hello | Hi")
    return pair


def states(pair: EnginePair, archived: object, name: str = "s1") -> tuple[bool, bool]:
    """List the sessions; return the archive state at the agent and of the record."""
    call = pair.request(9, "session/list").call
    assert call["params"] == {"archived": "include"}
    row = {"sessionId": name, "cwd": "/p", "archived": archived}
    pair.reply(call["id"], {"sessions": [row]})
    session = pair.record.store.session("s1")
    return session.is_archived_by_agent, session.archived_us is not None


def test_a_change_at_the_agent_is_adopted_once() -> None:
    pair = recorded("list", "archive")
    assert states(pair, archived=False) == (False, False)
    assert states(pair, archived=True) == (True, True)
    pair.do_unarchived("s1")
    # The agent's state is the same as before, so the user's change stays.
    assert states(pair, archived=True) == (True, False)
    assert states(pair, archived=False) == (False, False)
    pair.do_archived("s1")
    assert states(pair, archived=False) == (False, True)
    assert states(pair, archived=True) == (True, True)
    assert states(pair, archived=False) == (False, False)


@pytest.mark.parametrize("archived", [None, 1, "true"])
def test_a_state_that_is_not_a_bool_does_not_count(archived: object) -> None:
    assert states(recorded("list", "archive"), archived) == (False, False)


def test_a_session_of_another_agent_keeps_its_state() -> None:
    pair = recorded("list", "archive")
    pair.do_killed("")
    pair.do_agent("Other list archive")
    assert states(pair, archived=True) == (False, False)


def test_an_agent_without_the_capability_changes_nothing() -> None:
    pair = recorded("list")
    call = pair.request(9, "session/list").call
    assert call["params"] == {}
    row = {"sessionId": "s1", "cwd": "/p", "archived": True}
    (info,) = pair.reply(call["id"], {"sessions": [row]}).result["sessions"]
    assert info["archived"] is False
