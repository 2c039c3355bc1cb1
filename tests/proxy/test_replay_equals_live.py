"""Replay equals live, whichever versions the client and the agent speak."""

import pytest
from hypothesis import example, given, strategies as st

from client_model_v1 import Editor
from client_model_v2 import EditorV2
from version_conversations import (
    AAA,
    ADDED_V2,
    ASKING,
    ASKING_ABOUT_NOTHING,
    COMPACTION,
    ODD,
    PATCHED,
    PLAIN_V1,
    PLAN_V2,
    SAID,
    SHOWING,
    TAKING_BACK_V2,
    TERMINAL,
    Conversation,
    Json,
    output,
)


def turns_of(*updates: st.SearchStrategy[Json]) -> st.SearchStrategy[list[list[Json]]]:
    return st.lists(st.lists(st.one_of(*updates), max_size=8), min_size=1, max_size=3)


def shown_after(client: int, agent: int, turns: list[list[Json]], *, is_quick: bool) -> object:
    """Return what a client shows in the end."""
    conversation = Conversation(client, agent)
    conversation.is_quick = is_quick
    editor = Editor() if client == 1 else EditorV2()
    for number, updates in enumerate(turns):
        for update in conversation.turn(number, updates):
            editor.apply(update)
    return editor.shown()


def check(client: int, agent: int, turns: list[list[Json]]) -> None:
    conversation = Conversation(client, agent)
    live, replayed = (Editor(), Editor()) if client == 1 else (EditorV2(), EditorV2())
    for number, updates in enumerate(turns):
        if isinstance(live, Editor):
            live.prompt([{"type": "text", "text": f"prompt {number}"}])
        for update in conversation.turn(number, updates):
            live.apply(update)
    for update in conversation.replayed():
        replayed.apply(update)
    assert replayed.shown() == live.shown()
    # A replay sends the whole state, also fields that never changed.
    assert replayed.state | live.state == replayed.state


@pytest.mark.requirement(47)
@given(turns_of(*PLAIN_V1, ODD, ASKING, COMPACTION))
def test_version_2_client_and_version_1_agent(turns: list[list[Json]]) -> None:
    check(2, 1, turns)


@given(
    turns_of(
        *ADDED_V2, *TAKING_BACK_V2, PLAN_V2, ODD, ASKING, ASKING_ABOUT_NOTHING, COMPACTION, PATCHED
    )
)
def test_version_2_on_both_sides(turns: list[list[Json]]) -> None:
    check(2, 2, turns)


@given(turns_of(*ADDED_V2, ASKING, COMPACTION))
def test_version_1_client_and_version_2_agent(turns: list[list[Json]]) -> None:
    check(1, 2, turns)


@given(turns_of(*PLAIN_V1, ASKING))
def test_version_1_on_both_sides(turns: list[list[Json]]) -> None:
    check(1, 1, turns)


@pytest.mark.parametrize("client", [1, 2])
@given(turns=turns_of(*ADDED_V2, *TAKING_BACK_V2, *TERMINAL))
@example(turns=[[SHOWING, output("b25l"), output("A" * 8000), output("dHdv"), output("b25l")]])
@example(turns=[[SHOWING, output("b25l"), output("not base64!"), output("dHdv")]])
@example(turns=[[SAID, SAID, {**SAID, "sessionUpdate": "agent_message", "content": [AAA]}]])
def test_fast_path_with_a_version_2_agent(client: int, turns: list[list[Json]]) -> None:
    slow, quick = (shown_after(client, 2, turns, is_quick=it) for it in (False, True))
    assert quick == slow


@given(turns=turns_of(*PLAIN_V1))
@example(turns=[[{**SAID, "messageId": None}] * 3])
def test_fast_path_with_a_version_1_agent(turns: list[list[Json]]) -> None:
    slow, quick = (shown_after(2, 1, turns, is_quick=it) for it in (False, True))
    assert quick == slow
