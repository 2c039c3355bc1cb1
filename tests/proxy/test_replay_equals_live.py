"""Replay equals live, whichever versions the client and the agent speak."""

import copy
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from client_model_v1 import Editor
from client_model_v2 import EditorV2
from selection import some
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
    SESSION_MESSAGE,
    SHOWING,
    SUBAGENT,
    TAKING_BACK_V2,
    TERMINAL,
    Conversation,
    Json,
    of_child,
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


class Family:
    """The views that a client has of a session and of its sub-agents."""

    def __init__(self, client: int) -> None:
        self.new_view = Editor if client == 1 else EditorV2
        self.views: dict[str, Editor | EditorV2] = {}
        self.states: dict[str, Json] = {}
        """The states of sub-agents, which they and their parents report."""
        self.own_states: dict[str, Json] = {}
        """The states that sub-agents report themselves."""

    def apply(self, update: Json) -> None:
        """Show an update in the view of its session."""
        session_id = update.get("of", "")
        view = self.views.setdefault(session_id, self.new_view())
        shown = {name: value for name, value in update.items() if name != "of"}
        if update["sessionUpdate"] == "subagent_update" and "state" in shown:
            self.states[shown["sessionId"]] = shown.pop("state")
        view.apply(shown)
        if session_id and update["sessionUpdate"] == "state_update":
            hidden = {"of", "_meta", "sessionUpdate"}
            own = {k: v for k, v in update.items() if k not in hidden}
            self.states[session_id] = self.own_states[session_id] = own

    def shown(self) -> Json:
        """Return what the client shows of each session that has something to show."""
        shown = {name: (view.shown(), view.state) for name, view in self.views.items()}
        return {name: view for name, view in shown.items() if view != ([], {})}


def check_family(client: int, agent: int, turns: list[list[Json]]) -> None:
    conversation = Conversation(client, agent)
    live, replayed = Family(client), Family(client)
    for number, updates in enumerate(turns):
        if client == 1:
            view = live.views.setdefault("", Editor())
            assert isinstance(view, Editor)
            view.prompt([{"type": "text", "text": f"prompt {number}"}])
        for update in conversation.turn(number, updates):
            live.apply(update)
    for update in conversation.replayed():
        replayed.apply(update)
    # A replay sends the whole state of the session, also fields that never changed.
    assert replayed.views[""].shown() == live.views[""].shown()
    del replayed.views[""], live.views[""]
    assert replayed.shown() == live.shown()
    assert replayed.states == live.states


def with_own_child(update: Json) -> Json:
    """Return an update in which a sub-agent names no sub-agent of another one."""
    return {**update, "sessionId": f"{update['of']}-d"} if "sessionId" in update else update


# A sub-agent has not been offered any modes.
V1_CHILD = (
    of_child(*PLAIN_V1, SUBAGENT)
    .map(with_own_child)
    .filter(lambda update: update["sessionUpdate"] != "current_mode_update")
)
V2_CHILD = of_child(
    *ADDED_V2,
    st.just({"sessionUpdate": "state_update", "state": "running"}),
    st.just({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}),
)


@pytest.mark.parametrize("client", [1, 2])
@given(turns=turns_of(*PLAIN_V1, SUBAGENT, SESSION_MESSAGE, V1_CHILD, V1_CHILD))
def test_sub_agents_of_a_version_1_agent(client: int, turns: list[list[Json]]) -> None:
    check_family(client, 1, turns)


@pytest.mark.parametrize("client", [1, 2])
@given(turns=turns_of(*ADDED_V2, SUBAGENT, SESSION_MESSAGE, V2_CHILD, V2_CHILD))
def test_sub_agents_of_a_version_2_agent(client: int, turns: list[list[Json]]) -> None:
    check_family(client, 2, turns)


def check_forks(
    client: int, agent: int, turns: list[list[Json]], last: int, *, is_native: bool
) -> None:
    """Fork a session after a turn, and fork the fork: both show what the client saw then."""
    conversation = Conversation(client, agent, *["fork"] * is_native)
    live = Family(client)
    seen = Family(client)
    for number, updates in enumerate(turns):
        if client == 1:
            view = live.views.setdefault("", Editor())
            assert isinstance(view, Editor)
            view.prompt([{"type": "text", "text": f"prompt {number}"}])
        ending = {**SAID, "messageId": f"end{number}"}
        announced = [{"sessionUpdate": "subagent_update", "sessionId": "c1"}] * (number == 0)
        for update in conversation.turn(number, [*announced, *updates, ending]):
            live.apply(of_the_past(update))
        if number == last % len(turns):
            seen = copy.deepcopy(live)
    first = conversation.fork(message_id=f"end{last % len(turns)}")
    second = conversation.fork(first)
    for fork_id in (first, second):
        forked = Family(client)
        for update in conversation.replayed(fork_id):
            forked.apply(of_the_past(renamed(update, fork_id)))
        assert forked.views.pop("").shown() == seen.views[""].shown()
        # The calls of a sub-agent that was working have failed in the replay.
        children = {name: without_status(it) for name, it in seen.shown().items() if name}
        assert {name: without_status(it) for name, it in forked.shown().items()} == children
        # The later report counts. A parent that takes its report back leaves that of the sub-agent.
        states = {name: it or seen.own_states.get(name) for name, it in seen.states.items()}
        assert forked.states == {name: at_rest(it) for name, it in states.items()}


def renamed(update: Json, fork_id: str) -> Json:
    """Return an update of a fork, with the ids that its sub-agents have in the original."""
    names = ("of", "sessionId", "senderSessionId", "recipientSessionId")
    named = {name: update[name] for name in names if isinstance(update.get(name), str)}
    for name, value in named.items():
        assert value == fork_id or value.startswith(f"{fork_id}.")
        named[name] = "s" if value == fork_id else value.rpartition(".")[2]
    return {**update, **named}


def without_status(shown: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a view without the statuses of tool calls."""
    if isinstance(shown, dict):
        return {name: without_status(it) for name, it in shown.items() if name != "status"}
    return [without_status(it) for it in shown] if isinstance(shown, list | tuple) else shown


def of_the_past(update: Json) -> Json:
    """Return an update without the capabilities of a sub-agent, which are not replayed."""
    return {name: value for name, value in update.items() if name != "capabilities"}


def at_rest(state: Json) -> Json:
    """Return the state that a replay reports of work that is not known to run any more."""
    return state if state.get("state") == "idle" else {"state": "unknown"}


@pytest.mark.parametrize("client", [1, 2])
@settings(max_examples=some(100))
@given(
    turns=turns_of(*PLAIN_V1, SUBAGENT, SESSION_MESSAGE, V1_CHILD, V1_CHILD),
    last=st.integers(0, 2),
    is_native=st.booleans(),
)
def test_forks_of_a_version_1_agent_have_its_sub_agents(
    client: int, turns: list[list[Json]], last: int, *, is_native: bool
) -> None:
    check_forks(client, 1, turns, last, is_native=is_native)


@pytest.mark.parametrize("client", [1, 2])
@settings(max_examples=some(100))
@given(
    turns=turns_of(*ADDED_V2, SUBAGENT, SESSION_MESSAGE, V2_CHILD, V2_CHILD),
    last=st.integers(0, 2),
    is_native=st.booleans(),
)
def test_forks_of_a_version_2_agent_have_its_sub_agents(
    client: int, turns: list[list[Json]], last: int, *, is_native: bool
) -> None:
    check_forks(client, 2, turns, last, is_native=is_native)


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


# -- with rewinds -----------------------------------------------------------------------------


def steps_of(*updates: st.SearchStrategy[Json]) -> st.SearchStrategy[list[Json]]:
    """Return turns, rewinds to a message, and edits of a prompt."""
    number = st.integers(min_value=0, max_value=5)
    turn = st.builds(lambda items: {"turn": items}, st.lists(st.one_of(*updates), max_size=4))
    rewind = st.builds(lambda place: {"rewind": place}, number)
    edit = st.builds(lambda place, items: {"edit": place, "turn": items}, number, st.just([SAID]))
    return st.tuples(turn, st.lists(st.one_of(turn, rewind, edit), max_size=6)).map(
        lambda it: [it[0], *it[1]]
    )


def check_rewinds(client: int, agent: int, steps: list[Json], *, is_native: bool) -> None:
    conversation = Conversation(client, agent, *["rewind"] * is_native)
    live, replayed = (Editor(), Editor()) if client == 1 else (EditorV2(), EditorV2())
    for number, step in enumerate(steps):
        updates: list[Json] = []
        if "rewind" in step:
            ids = (
                live.message_ids()
                if isinstance(live, Editor)
                else live.message_ids("user_message", "agent_message", "agent_thought")
            )
            if ids:
                updates = conversation.rewind(ids[step["rewind"] % len(ids)])
        else:
            prompts = live.message_ids("user_message") if isinstance(live, EditorV2) else []
            # A version 1 client does not know the ids of its own prompts.
            is_edit = "edit" in step and prompts
            edited = prompts[step["edit"] % len(prompts)] if is_edit else None
            if isinstance(live, Editor):
                live.prompt([{"type": "text", "text": f"prompt {number}"}])
            updates = conversation.turn(number, step["turn"], edited)
        for update in updates:
            live.apply(update)
    for update in conversation.replayed():
        replayed.apply(update)
    assert replayed.shown() == live.shown()


@settings(max_examples=some(100))
@given(is_native=st.booleans(), steps=steps_of(*PLAIN_V1, ODD, ASKING, COMPACTION))
def test_rewinds_with_version_2_client_and_version_1_agent(
    steps: list[Json], *, is_native: bool
) -> None:
    check_rewinds(2, 1, steps, is_native=is_native)


@settings(max_examples=some(100))
@given(
    is_native=st.booleans(),
    steps=steps_of(*ADDED_V2, *TAKING_BACK_V2, PLAN_V2, ODD, ASKING, COMPACTION, PATCHED),
)
def test_rewinds_with_version_2_on_both_sides(steps: list[Json], *, is_native: bool) -> None:
    check_rewinds(2, 2, steps, is_native=is_native)


@settings(max_examples=some(100))
@given(is_native=st.booleans(), steps=steps_of(*ADDED_V2, ASKING))
def test_rewinds_with_version_1_client_and_version_2_agent(
    steps: list[Json], *, is_native: bool
) -> None:
    check_rewinds(1, 2, steps, is_native=is_native)


@settings(max_examples=some(100))
@given(is_native=st.booleans(), steps=steps_of(*PLAIN_V1, ASKING))
def test_rewinds_with_version_1_on_both_sides(steps: list[Json], *, is_native: bool) -> None:
    check_rewinds(1, 1, steps, is_native=is_native)


class RewindableFamily(Family):
    """The views of a client that removes a sub-agent with the item that announced it."""

    def apply(self, update: Json) -> None:
        """Show an update; a rewind may remove sub-agents."""
        super().apply(update)
        if update["sessionUpdate"] == "history_truncated":
            kept = self.announced_in("")
            self.views = {name: it for name, it in self.views.items() if name in kept}
            self.states = {name: it for name, it in self.states.items() if name in kept}

    def announced_in(self, session_id: str) -> set[str]:
        """Return a session, its sub-agents, and theirs, as far as they are shown."""
        view = self.views.get(session_id)
        shown = [] if view is None else view.subagent_ids()
        return {session_id}.union(*map(self.announced_in, shown))


def check_rewinds_with_subagents(
    client: int, agent: int, steps: list[Json], *, is_native: bool
) -> None:
    conversation = Conversation(client, agent, *["rewind"] * is_native)
    live, replayed = RewindableFamily(client), RewindableFamily(client)
    root = live.views.setdefault("", live.new_view())
    for number, step in enumerate(steps):
        updates: list[Json] = []
        if "rewind" in step:
            ids = (
                root.message_ids()
                if isinstance(root, Editor)
                else root.message_ids("user_message", "agent_message", "agent_thought")
            )
            if ids:
                updates = conversation.rewind(ids[step["rewind"] % len(ids)])
        else:
            if isinstance(root, Editor):
                root.prompt([{"type": "text", "text": f"prompt {number}"}])
            updates = conversation.turn(number, step["turn"])
        for update in updates:
            live.apply(of_the_past(update))
    for update in conversation.replayed():
        replayed.apply(of_the_past(update))
    assert replayed.views.pop("").shown() == root.shown()
    del live.views[""]
    assert without_status(replayed.shown()) == without_status(live.shown())


@pytest.mark.parametrize("client", [1, 2])
@settings(max_examples=some(100))
@given(is_native=st.booleans(), steps=steps_of(st.just(SAID), SUBAGENT, V1_CHILD))
def test_rewinds_with_sub_agents_of_a_version_1_agent(
    client: int, steps: list[Json], *, is_native: bool
) -> None:
    check_rewinds_with_subagents(client, 1, steps, is_native=is_native)


@pytest.mark.parametrize("client", [1, 2])
@settings(max_examples=some(100))
@given(is_native=st.booleans(), steps=steps_of(st.just(SAID), SUBAGENT, V2_CHILD))
def test_rewinds_with_sub_agents_of_a_version_2_agent(
    client: int, steps: list[Json], *, is_native: bool
) -> None:
    check_rewinds_with_subagents(client, 2, steps, is_native=is_native)


# -- the fast path ----------------------------------------------------------------------------


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
