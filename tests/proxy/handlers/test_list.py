"""Paging through `session/list`, whatever is written meanwhile."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from playbook import CLIENT, Playbook
from rekindle.model import AgentIdentity, Counted, EntryBatch, Kind, Opened, Side
from rekindle.proxy.handlers.list import PAGE_SIZE
from rekindle.proxy.peers import AGENT
from rekindle.text.times import iso

Json = dict[str, Any]


def write(book: Playbook, session_id: str, at_us: int, *, turns: int = 1) -> None:
    agent = AgentIdentity(command=("agent",))
    prompt = EntryBatch(
        session_id=session_id, side=Side.CLIENT, kind=Kind.PROMPT, at_us=at_us, data=b"{}"
    )
    opened = Opened(session_id=session_id, at_us=at_us, agent=agent, cwd="/p", directories=("/q",))
    counted = Counted(session_id=session_id, at_us=at_us, turns=turns, messages=turns)
    book.record.store.write([opened, prompt, counted])


def ask(book: Playbook, params: Json, theirs: list[Json] | None = None) -> Json:
    """Return the answer to `session/list`, where the agent lists `theirs`."""
    request = {"id": 1, "method": "session/list", "params": params}
    book.receive(CLIENT, [json.dumps(request)])
    while book.out[-1].startswith("*"):
        book.out.pop()
    if book.out[-1].startswith("<a "):
        asked = json.loads(book.out[-1][3:])
        answer = {"id": asked["id"], "result": {"sessions": theirs}}
        book.receive(AGENT, [json.dumps(answer)])
    return json.loads(book.out[-1][3:])["result"]


@pytest.mark.requirement(23)
@given(
    ours=st.lists(st.integers(1, 200), min_size=45, max_size=130),
    theirs=st.lists(st.integers(1, 200), max_size=70),
    unprompted=st.lists(st.integers(1, 200), max_size=130),
    written=st.lists(st.integers(1, 300), max_size=5),
)
def test_pages_hold_each_session_once_whatever_is_written_between_them(
    ours: list[int], theirs: list[int], unprompted: list[int], written: list[int]
) -> None:
    book = Playbook()
    book.do_agent("Fake list load")
    for number, at_us in enumerate(ours):
        write(book, f"s{number}", at_us)
    for number, at_us in enumerate(unprompted):
        write(book, f"u{number}", at_us, turns=0)
    # The agent lists some of ours, too, also those that were never prompted.
    listed = [
        {"sessionId": f"{name}{number}", "cwd": "/p", "updatedAt": iso(at_us * 1000)}
        for name in ("a", "s", "u")
        for number, at_us in enumerate(theirs)
    ]
    expected = {f"s{number}" for number in range(len(ours))}
    expected |= {info["sessionId"] for info in listed}
    expected -= {f"u{number}" for number in range(len(unprompted))}
    seen: list[str] = []
    params: Json = {}
    while True:
        result = ask(book, params, listed)
        assert len(result["sessions"]) <= PAGE_SIZE
        seen += [info["sessionId"] for info in result["sessions"]]
        if "nextCursor" not in result:
            break
        params = {"cursor": result["nextCursor"]}
        for at_us in written:
            write(book, f"other{at_us}", 1_000_000 + at_us)
            write(book, f"another{at_us}", at_us, turns=0)
    assert sorted(seen) == sorted(expected)


def test_endless_list_of_an_agent_is_cut_off() -> None:
    book = Playbook()
    book.do_agent("Fake list load")
    book.receive(CLIENT, ['{"id":1,"method":"session/list","params":{}}'])
    for number in range(1, 21):
        sessions = [{"sessionId": f"s{number}", "cwd": "/p"}]
        result = {"sessions": sessions, "nextCursor": str(number)}
        book.receive(AGENT, [json.dumps({"id": f"rekindle-{number}", "result": result})])
    assert len(json.loads(book.out[-1][3:])["result"]["sessions"]) == 20


@pytest.mark.requirement(22, 26)
def test_listed_session_has_all_recorded_fields() -> None:
    book = Playbook()
    book.do_agent("Fake")
    write(book, "s1", 1_700_000_000_123_000)
    assert ask(book, {})["sessions"] == [
        {
            "sessionId": "s1",
            "cwd": "/p",
            "additionalDirectories": ["/q"],
            "updatedAt": "2023-11-14T22:13:20.123+00:00",
            "archived": False,
            "_meta": {
                "rekindle": {
                    "agent": "agent",
                    "messageCount": 1,
                    "turnCount": 1,
                    "restoresNatively": False,
                }
            },
        }
    ]
