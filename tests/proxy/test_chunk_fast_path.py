import json
import re

import pytest
from hypothesis import given, strategies as st

from playbook import CLIENT, Playbook
from rekindle.model import EntryBatch, Kind, Opened, Side
from rekindle.proxy.chunk_fast_path import ChunkFastPath
from rekindle.proxy.engine import Engine
from rekindle.proxy.peers import AGENT
from rekindle.proxy.step import Step


def update(session: str, kind: str, words: str) -> bytes:
    inner = {"sessionUpdate": kind, "content": {"type": "text", "text": words}}
    message = {"method": "session/update", "params": {"sessionId": session, "update": inner}}
    return json.dumps(message, separators=(",", ":")).encode()


def session_last(session: str, kind: str) -> bytes:
    params = {"update": {"sessionUpdate": kind}, "sessionId": session}
    return json.dumps({"method": "session/update", "params": params}).replace(" ", "").encode()


SESSION_IN_META = (
    b'{"method":"session/update","params":{"_meta":{"sessionId":"s"},'
    b'"update":{"sessionUpdate":"plan"},"sessionId":"s"}}'
)
PROMPT = (
    b'{"id":1,"method":"session/prompt",'
    b'"params":{"sessionId":"a","prompt":[{"type":"text","text":"hi"}]}}'
)
ANSWER = b'{"id":1,"result":{"stopReason":"end_turn"}}'
LINES = st.sampled_from(
    [
        update("a", "agent_message_chunk", "x"),
        update("a", "agent_message_chunk", "y"),
        update("a", "agent_thought_chunk", "x"),
        update("b", "agent_message_chunk", "x"),
        update("a", "user_message_chunk", "hi"),
        update("a", "session_info_update", "x"),
        update("a", "state_update", "x"),
        update("a\\u00e9", "agent_message_chunk", "x"),
        session_last("a", "plan"),
        session_last("b", "plan"),
        ANSWER,
        b"not JSON",
        b"",
    ]
)


def kept(step: Step) -> list[object]:
    """Return what a step records, entry by entry."""
    entries: list[object] = []
    for change in step.changes:
        if isinstance(change, EntryBatch):
            entries += [
                (change.session_id, change.side, change.kind, line) for line in change.lines
            ]
        else:
            entries.append(change)
    return entries


def relay_with(session: str) -> Engine:
    """Return a relay before an agent whose session "a" is unknown, open, in a turn, or renamed."""
    book = Playbook()
    if session == "renamed":
        book.record.store.write([Opened(session_id="a", at_us=1)])
    if session != "unknown":
        book.do_open("a")
    if session == "in a turn":
        book.do_said("a Hello | Hi")
        book.receive(CLIENT, [PROMPT.decode()])
    return book.engine


SESSIONS = st.sampled_from(["unknown", "open", "in a turn", "renamed"])


@given(st.lists(LINES, min_size=1), SESSIONS)
def test_lines_of_one_read_are_handled_like_separate_reads(
    lines: list[bytes], session: str
) -> None:
    together, apart = relay_with(session), relay_with(session)
    step = together.receive(AGENT, b"\n".join(lines), 1)
    steps = [apart.receive(AGENT, line, 1) for line in lines]
    assert kept(step) == [entry for one in steps for entry in kept(one)]
    told = b"\n".join(step.to_clients.get(CLIENT, []))
    assert told == b"\n".join(line for one in steps for line in one.to_clients.get(CLIENT, []))
    assert step.sync is any(one.sync for one in steps)
    if session == "renamed":
        told = re.sub(rb'"a-[0-9a-f]+"', b'"a"', told)
    assert told == b"\n".join(lines)


@given(st.lists(st.lists(LINES, min_size=1), min_size=1), SESSIONS)
def test_fast_path_finds_what_parsing_finds(reads: list[list[bytes]], session: str) -> None:
    quick, careful = relay_with(session), relay_with(session)
    for lines in reads:
        read: list[object] = []
        for line in lines:
            # Anything from the client ends a streak, so this relay reads every line.
            careful.receive(CLIENT, b"", 1)
            read += kept(careful.receive(AGENT, line, 1))
        assert kept(quick.receive(AGENT, b"\n".join(lines), 1)) == read


def test_a_line_cut_short_stays_with_its_streak() -> None:
    relay = relay_with("unknown")
    line = update("a", "agent_message_chunk", "x")
    step = relay.receive(AGENT, line + b"\n" + line[:-3], 1)
    assert kept(step)[2:] == [
        ("a", Side.AGENT, Kind.UPDATE, line),
        ("a", Side.AGENT, Kind.UPDATE, line[:-3]),
    ]


def test_a_streak_covers_lines_with_its_beginning_and_no_others() -> None:
    line = update("s", "plan", "x")
    streak = ChunkFastPath.after(line, "s", "plan", line)
    assert streak
    assert streak.count(line) == 1
    assert streak.count(line + b"\n" + update("s", "plan", "y")) == 2
    assert not streak.count(line + b"\n" + update("t", "plan", "y"))
    assert not streak.count(line + b"\n")
    assert not streak.count(b"\n" + line)
    assert not streak.count(b"")


def test_message_ids_are_unique_and_complete() -> None:
    kind = "agent_message_chunk"
    bare = update("s", kind, "x")
    named = bare.replace(b'"content"', b'"messageId":"m","content"')
    giving = ChunkFastPath.after(bare, "s", kind, bare, "made")
    assert giving
    assert giving.as_translated(bare).count(b'"messageId":"made"') == giving.count(bare) == 1
    assert not giving.count(bare + b"\n" + named)
    needing = ChunkFastPath.after(named, "s", kind, named, must_have_ids=True)
    assert needing
    assert needing.count(named + b"\n" + named) == 2
    assert not needing.count(named + b"\n" + bare)


@pytest.mark.parametrize(
    ("line", "session"),
    [
        (session_last("s", "plan"), "s"),
        (update("s", "plan", "x").replace(b'":"', b'": "'), "s"),
        (b'{"params":{"sessionId":"s","update":{"sessionUpdate":"plan"}},"method":"x"}', "s"),
        (SESSION_IN_META, "s"),
    ],
    ids=["session last", "spaces", "method last", "session in _meta"],
)
def test_incomplete_prefix_starts_no_streak(line: bytes, session: str) -> None:
    assert ChunkFastPath.after(line, session, "plan", line) is None
