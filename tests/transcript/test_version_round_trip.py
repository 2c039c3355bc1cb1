"""A transcript survives a replay in the other version, as far as both versions can express it."""

import json
from typing import Any

from hypothesis import given, strategies as st

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.model import PlanItem, ToolCallItem, TranscriptMessage
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2

Json = dict[str, Any]

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
META = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3), max_size=2)
BLOCK = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, WORDS),
    st.builds(lambda text: {"type": "text", "text": text, "annotations": {}}, WORDS),
    st.just({"type": "image", "data": "AA==", "mimeType": "image/png"}),
    st.just({"type": "resource_link", "name": "a", "uri": "file:///a", "size": 3}),
    st.just({"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}),
)
CONTENT = st.builds(lambda block: {"type": "content", "content": block}, BLOCK)
FIELDS = {
    "title": WORDS,
    "kind": st.sampled_from(["read", "edit", "execute", "other"]),
    "status": st.sampled_from(["pending", "in_progress", "completed", "failed"]),
    "content": st.lists(CONTENT, max_size=2),
    "locations": st.lists(st.just({"path": "/a", "line": 3}), max_size=2),
    "rawInput": st.just({"x": 1}),
    "rawOutput": st.just("out"),
}
"""The fields of a tool call that both versions have, except diffs and terminals."""
ENTRY = st.fixed_dictionaries(
    {
        "content": WORDS,
        "priority": st.sampled_from(["high", "low"]),
        "status": st.sampled_from(["pending", "in_progress", "completed"]),
    }
)
COMMAND = {"name": "c", "description": "C", "input": {"hint": "h"}}
STATES = st.sampled_from(
    [
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
        {"sessionUpdate": "session_info_update", "title": "T", "updatedAt": "2026-01-01T00:00:00Z"},
    ]
)


def update_of(**update: object) -> Json:
    return update


def updates(version: int) -> st.SearchStrategy[Json]:
    """Return updates of a version whose content the other version can express too."""
    kinds = st.sampled_from(["agent_message", "agent_thought"])
    names = st.sampled_from(["1", "2", "3"])
    needed = {name: FIELDS[name] for name in ("title", "status")}
    more = {name: what for name, what in FIELDS.items() if name not in needed}
    calls = st.fixed_dictionaries(needed, optional=more)
    chunks = st.builds(
        lambda kind, name, block, meta: {
            "sessionUpdate": f"{kind}_chunk",
            "messageId": f"{kind}-{name}",
            "content": block,
            **({"_meta": meta} if meta else {}),
        },
        kinds, names, BLOCK, META,
    )  # fmt: skip
    entries = st.lists(ENTRY, max_size=3)
    if version == 1:
        kind = st.sampled_from(["tool_call", "tool_call_update"])
        plans = st.builds(lambda it: update_of(sessionUpdate="plan", entries=it), entries)
        commands: Json = {"availableCommands": [COMMAND]}
    else:
        kind = st.just("tool_call_update")
        plans = st.builds(
            lambda it: update_of(
                sessionUpdate="plan_update",
                plan={"type": "items", "planId": "main", "entries": it},
            ),
            entries,
        )
        asked = {"type": "text", **COMMAND["input"]}
        commands = {"availableCommands": [{"type": "command", **COMMAND, "input": asked}]}
    tools = st.builds(
        lambda kind, name, fields: {"sessionUpdate": kind, "toolCallId": name, **fields},
        kind, names, calls,
    )  # fmt: skip
    offered = st.just({"sessionUpdate": "available_commands_update", **commands})
    return st.one_of(chunks, tools, plans, STATES, offered)


def as_entries(version: int, turns: list[list[Json]]) -> list[Entry]:
    """Return the entries of a session whose client and agent have this version."""
    entries: list[Entry] = []

    def add(kind: Kind, side: Side, message: Json) -> None:
        seq = len(entries) + 1
        line = json.dumps(message).encode()
        entries.append(Entry(seq=seq, side=side, kind=kind, at_us=seq, line=line, protocol=version))

    for number, message in enumerate(turns):
        prompt = [{"type": "text", "text": f"prompt {number}"}]
        params = {"sessionId": "s", "prompt": prompt}
        add(Kind.PROMPT, Side.CLIENT, {"id": number, "method": "session/prompt", "params": params})
        if version > 1:
            add(Kind.ANSWER, Side.AGENT, {"id": number, "result": {"messageId": f"u{number}"}})
        for update in message:
            add(Kind.UPDATE, Side.AGENT, {"params": {"update": update}})
        if version == 1:
            add(Kind.ANSWER, Side.AGENT, {"id": number, "result": {"stopReason": "end_turn"}})
        else:
            idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
            add(Kind.UPDATE, Side.AGENT, {"params": {"update": idle}})
    return entries


def told_again(version: int, updates: list[Json]) -> Transcript:
    """Return the transcript of a recorded replay."""
    return fold(
        Entry(
            seq=number,
            side=Side.AGENT,
            kind=Kind.UPDATE,
            at_us=number,
            line=json.dumps({"params": {"update": update}}).encode(),
            protocol=version,
        )
        for number, update in enumerate(updates, 1)
    )


def shared(transcript: Transcript, fields: frozenset[str]) -> list[Json]:
    """Return the parts of a transcript that both versions can express."""
    items: list[Json] = []
    for turn in transcript.turns:
        for item in turn.items:
            match item:
                case TranscriptMessage():
                    meta = {k: v for k, v in item.meta.items() if k != "rekindle"}
                    text = {"id": item.replay_id, "blocks": item.blocks, "meta": meta}
                    items += [{"is": item.role.value, **text}] if item.blocks else []
                case ToolCallItem():
                    known = {k: v for k, v in item.fields.items() if k in fields}
                    items.append({"is": "call", "id": item.id, **known})
                case PlanItem():
                    items.append({"is": "plan", "entries": item.entries})
                case _:
                    items.append({"is": "odd"})
    return items


def turns_of(version: int) -> st.SearchStrategy[list[list[Json]]]:
    return st.lists(st.lists(updates(version), max_size=6), min_size=1, max_size=2)


NAMES = frozenset(FIELDS)


def known_state(transcript: Transcript) -> Json:
    info = transcript.state.get("session_info_update", {})
    usage = transcript.state.get("usage_update", {})
    commands = transcript.state.get("available_commands_update", {}).get("availableCommands", [])
    return {
        "title": info.get("title"),
        "updatedAt": info.get("updatedAt"),
        "used": usage.get("used"),
        "commands": [(it["name"], it["description"], it["input"]["hint"]) for it in commands],
    }


@given(turns_of(1))
def test_from_version_1_to_version_2(turns: list[list[Json]]) -> None:
    before = fold(as_entries(1, turns))
    after = told_again(2, list(replay_v2(before.turns, before)))
    # The plan of version 1 has an id in version 2, so it is the same in the whole session.
    plans = sum(item["is"] == "plan" for item in shared(before, NAMES))
    if plans <= 1:
        assert shared(after, NAMES) == shared(before, NAMES)
    assert known_state(after) == known_state(before)


@given(turns_of(2))
def test_from_version_2_to_version_1(turns: list[list[Json]]) -> None:
    before = fold(as_entries(2, turns))
    after = told_again(1, list(replay_v1(before)))
    assert shared(after, NAMES) == shared(before, NAMES)
    assert known_state(after) == known_state(before)
