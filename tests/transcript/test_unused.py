import json
from typing import Any

import pytest

from rekindle.model import Entry, Forgotten, Kind, Side
from rekindle.transcript.unused import forgotten_if_empty, holds_content, was_opened_once

Json = dict[str, Any]


def entries(*pairs: tuple[Kind, Json]) -> list[Entry]:
    return [
        Entry(
            seq=seq,
            side=Side.AGENT,
            kind=kind,
            at_us=10 * seq,
            line=json.dumps(message).encode(),
        )
        for seq, (kind, message) in enumerate(pairs, 1)
    ]


def setup(method: str) -> tuple[Kind, Json]:
    return Kind.SETUP, {"method": method, "params": {"cwd": "/p"}}


def update(kind: str, **fields: object) -> tuple[Kind, Json]:
    return Kind.UPDATE, {"params": {"update": {"sessionUpdate": kind, **fields}}}


TEXT = {"type": "text", "text": "Hello"}
NEW = setup("session/new")
READY = (Kind.READY, {"result": {"modes": {"currentModeId": "ask", "availableModes": []}}})


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [NEW, READY],
        [NEW, READY, update("available_commands_update", availableCommands=[])],
        [NEW, READY, update("usage_update", used=1, size=2)],
        [NEW, READY, update("session_info_update", title="New session")],
        [NEW, READY, (Kind.CONFIG, {"params": {"modeId": "code"}}), (Kind.CONFIGURED, {})],
        [NEW, READY, update("agent_message_chunk", content=TEXT)],
        [NEW, READY, update("agent_thought_chunk", content=TEXT)],
    ],
)
def test_settings_and_words_of_the_agent_are_no_content(pairs: list[tuple[Kind, Json]]) -> None:
    assert not holds_content(entries(*pairs))


@pytest.mark.parametrize(
    "pair",
    [
        (Kind.PROMPT, {"params": {"prompt": [TEXT]}}),
        update("user_message_chunk", content=TEXT),
        update("tool_call", toolCallId="t", title="Read"),
        update("plan", entries=[{"content": "one"}]),
        update("_vendor_update", data=1),
        (Kind.GAP, {"lostEntries": 3}),
    ],
)
def test_everything_else_is_content(pair: tuple[Kind, Json]) -> None:
    assert holds_content(entries(NEW, READY, pair))
    assert forgotten_if_empty("s1", entries(NEW, READY, pair), 99) is None


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([NEW, READY], True),
        ([NEW, READY, setup("session/load")], False),
        ([setup("session/resume")], False),
        ([setup("session/fork")], False),
        ([(Kind.SETUP, {})], False),
        ([], False),
    ],
)
def test_only_a_session_that_was_created_and_not_opened_again_was_opened_once(
    pairs: list[tuple[Kind, Json]], *, expected: bool
) -> None:
    assert was_opened_once(entries(*pairs)) is expected


def test_a_forgotten_session_has_the_time_of_its_last_entry() -> None:
    found = forgotten_if_empty("s1", entries(NEW, READY), 99)
    assert found == Forgotten(session_id="s1", at_us=20, hides_agents=True)
    assert forgotten_if_empty("s1", [], 99) == Forgotten(session_id="s1", at_us=99)


def test_a_line_that_is_not_json_is_no_setup() -> None:
    entry = Entry(seq=1, side=Side.CLIENT, kind=Kind.SETUP, at_us=1, line=b"{")
    assert not was_opened_once([entry])


def test_content_that_a_rewind_has_removed_is_content() -> None:
    prompt = (Kind.PROMPT, {"params": {"prompt": [TEXT]}})
    rewind = update("history_truncated", lastMessageId=None)
    assert holds_content(entries(NEW, READY, prompt, rewind))
