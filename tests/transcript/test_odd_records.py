"""Entries with values of unexpected types are folded and replayed."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from recorded_sessions import NOW
from rekindle.acp.jsonrpc import update_line
from rekindle.model import Entry, Kind, Side
from rekindle.transcript.model import GapItem
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "text", "items", "mode"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "status", "kind", "path", "id", "options"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
UPDATES = [
    "agent_message_chunk", "agent_message", "tool_call", "tool_call_update", "plan", "plan_update",
    "tool_call_content_chunk", "terminal_update", "terminal_output_chunk", "config_option_update",
    "current_mode_update", "available_commands_update", "session_info_update", "state_update", "x",
]  # fmt: skip
FIELDS = [
    "content", "toolCallId", "title", "kind", "status", "locations", "entries", "plan", "messageId",
    "configOptions", "currentModeId", "availableCommands", "terminalId", "output", "_meta", "state",
]  # fmt: skip
SAID = st.builds(
    lambda kind, fields: {"params": {"update": {**fields, "sessionUpdate": kind}}},
    st.sampled_from(UPDATES),
    st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=5),
)
ANYTHING = st.dictionaries(
    st.sampled_from(["id", "params", "result", "error", "lostEntries", "terminalId", "kind"]), ODD
)


def entries(kinds: list[Kind], messages: list[object], protocol: int) -> list[Entry]:
    return [
        Entry(
            seq=seq,
            side=Side.AGENT,
            kind=kind,
            at_us=NOW,
            line=json.dumps(message).encode(),
            protocol=protocol,
        )
        for seq, (kind, message) in enumerate(zip(kinds, messages, strict=False), start=1)
    ]


def replay(transcript: Transcript) -> list[bytes]:
    both = [*replay_v1(transcript), *replay_v2(transcript.turns, transcript)]
    return [update_line("s", update) for update in both]


@settings(deadline=None)
@given(st.lists(SAID, max_size=6), st.sampled_from([1, 2]))
def test_any_update_can_be_replayed(updates: list[object], protocol: int) -> None:
    replay(fold(entries([Kind.UPDATE] * len(updates), updates, protocol)))


@settings(deadline=None)
@given(st.lists(st.sampled_from(Kind)), st.lists(ANYTHING), st.sampled_from([1, 2]))
def test_any_entry_can_be_folded(kinds: list[Kind], messages: list[object], protocol: int) -> None:
    replay(fold(entries(kinds, messages, protocol)))


@pytest.mark.parametrize("odd", [[], {}, 5, ["completed"]])
def test_a_tool_call_with_invalid_fields_is_replayed(odd: object) -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "t", "status": odd, "kind": odd}
    replayed = replay(fold(entries([Kind.UPDATE], [{"params": {"update": update}}], 1)))
    assert len(replayed) == 2


def test_an_invalid_text_block_is_replayed_unchanged() -> None:
    chunks = [
        {"type": "text", "text": ["a"]},
        {"type": "text", "text": "b"},
        {"type": 5, "text": "c"},
    ]
    updates = [
        {"params": {"update": {"sessionUpdate": "agent_message_chunk", "content": chunk}}}
        for chunk in chunks
    ]
    transcript = fold(entries([Kind.UPDATE] * 3, updates, 1))
    assert [update["content"] for update in replay_v1(transcript)] == chunks


@pytest.mark.parametrize(("lost", "count"), [(3, 3), ("x", 0), ([], 0), (None, 0)])
def test_a_gap_has_the_number_of_lost_entries(lost: object, count: int) -> None:
    (gap,) = fold(entries([Kind.GAP], [{"lostEntries": lost}], 1)).turns[0].items
    assert isinstance(gap, GapItem)
    assert gap.lost == count
