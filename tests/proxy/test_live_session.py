"""The state machines of a session: every transition, and the refusal of every other."""

import pytest

from rekindle.model import UNKNOWN_TO_AGENT
from rekindle.proxy.live_session import (
    AgentMemory,
    AgentTurn,
    Handover,
    HandoverState,
    InvalidTransition,
    LiveSessions,
    MemoryState,
    TitleSync,
    TurnTracker,
    UpdateGate,
    UpdatePolicy,
)
from rekindle.proxy.peers import Peer
from rekindle.proxy.session_clients import Attachment, HeldPrompt
from rekindle.transcript.replay_match import ReplayStats

CLIENT = Peer(1)

M, H, T = MemoryState, HandoverState, AgentTurn

# -- memory -----------------------------------------------------------------------------------

MEMORY = {
    "adopt": {M.READY: M.ADOPTING, M.LOST: M.ADOPTING, M.OUTDATED: M.ADOPTING},
    "adopted": {M.ADOPTING: M.READY, M.LOST: M.LOST},
    "restore": {
        M.READY: M.RESTORING,
        M.LOST: M.RESTORING,
        M.OUTDATED: M.RESTORING_OUTDATED,
    },
    "restored": {M.RESTORING: M.READY, M.RESTORING_OUTDATED: M.READY},
    "restore_failed": {
        M.RESTORING: M.LOST,
        M.RESTORING_OUTDATED: M.OUTDATED,
        M.LOST: M.LOST,
        M.OUTDATED: M.OUTDATED,
    },
    "used_elsewhere": {M.READY: M.OUTDATED, M.LOST: M.OUTDATED, M.OUTDATED: M.OUTDATED},
    "rewound": {M.READY: M.OUTDATED, M.LOST: M.OUTDATED, M.OUTDATED: M.OUTDATED},
    "agent_exited": {
        M.READY: M.LOST,
        M.LOST: M.LOST,
        M.OUTDATED: M.OUTDATED,
        M.ADOPTING: M.LOST,
        M.RESTORING: M.LOST,
        M.RESTORING_OUTDATED: M.OUTDATED,
    },
}


@pytest.mark.parametrize("event", MEMORY)
@pytest.mark.parametrize("state", MemoryState)
def test_memory_makes_the_transitions_of_its_table_and_no_other(
    state: MemoryState, event: str
) -> None:
    memory = AgentMemory(state)
    expected = MEMORY[event].get(state)
    if expected is None:
        with pytest.raises(InvalidTransition, match=f"no transition {event} from {state.name}"):
            memory.advance(event)
        assert memory.state is state
    else:
        memory.advance(event)
        assert memory.state is expected


@pytest.mark.parametrize(
    ("state", "is_missing", "is_in_transition", "is_outdated"),
    [
        (M.READY, False, False, False),
        (M.ADOPTING, False, True, False),
        (M.LOST, True, False, False),
        (M.OUTDATED, True, False, True),
        (M.RESTORING, True, True, False),
        (M.RESTORING_OUTDATED, True, True, True),
    ],
)
def test_memory_answers_for_each_state(
    state: MemoryState, *, is_missing: bool, is_in_transition: bool, is_outdated: bool
) -> None:
    memory = AgentMemory(state)
    assert memory.is_missing is is_missing
    assert memory.is_in_transition is is_in_transition
    assert memory.is_outdated is is_outdated


# -- updates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", UpdatePolicy)
def test_updates_of_a_lost_session_are_recorded_only(policy: UpdatePolicy) -> None:
    gate = UpdateGate(policy, silent_release="Fake 1")
    gate.lease_lost()
    assert (gate.policy, gate.reader, gate.silent_release) == (UpdatePolicy.RECORD_REST, None, None)
    assert gate.is_forwarding


@pytest.mark.parametrize("policy", UpdatePolicy)
def test_every_policy_ends_with_the_next_prompt(policy: UpdatePolicy) -> None:
    gate = UpdateGate(policy)
    gate.prompt_forwarded()
    assert gate.policy is UpdatePolicy.FORWARD


@pytest.mark.parametrize("before", UpdatePolicy)
@pytest.mark.parametrize("after", UpdatePolicy)
def test_an_expected_replay_sets_its_policy_and_counts_from_zero(
    before: UpdatePolicy, after: UpdatePolicy
) -> None:
    gate = UpdateGate(before)
    gate.stats.add("agent_message_chunk", is_user=False)
    gate.expect_replay(after)
    assert (gate.policy, gate.stats) == (after, ReplayStats())


@pytest.mark.parametrize("before", UpdatePolicy)
def test_discarding_history_keeps_the_counts(before: UpdatePolicy) -> None:
    gate = UpdateGate(before)
    gate.stats.add("agent_message_chunk", is_user=False)
    gate.discard_history()
    assert (gate.policy, gate.stats.lines) == (UpdatePolicy.DISCARD, 1)


def test_chunks_of_one_user_message_count_once() -> None:
    stats = ReplayStats()
    for kind in ("user_message_chunk", "user_message_chunk", "agent_message_chunk"):
        stats.add(kind, is_user=kind.startswith("user"))
    assert (stats.lines, stats.user_messages, stats.has_answers) == (3, 1, True)
    assert stats.covers(0)
    assert stats.covers(1)
    assert not stats.covers(2)


def test_a_replay_without_answers_covers_nothing() -> None:
    stats = ReplayStats()
    stats.add("user_message_chunk", is_user=True)
    assert not stats.covers(1)


# -- handover ---------------------------------------------------------------------------------


def handover(state: HandoverState) -> Handover:
    """Return a handover in a state. A sending one has the prompt `1`."""
    made = Handover()
    is_history = state in {H.HISTORY_DUE, H.SENDING_HISTORY}
    made.require(history=is_history, reminder="" if is_history or state is H.NONE else "r")
    if state in {H.SENDING_HISTORY, H.SENDING_REMINDER}:
        made.send(b"1")
    assert made.state is state
    return made


@pytest.mark.parametrize("state", HandoverState)
@pytest.mark.parametrize(
    ("history", "reminder", "expected"),
    [(True, "", H.HISTORY_DUE), (False, "r", H.REMINDER_DUE), (False, "", H.NONE)],
)
def test_a_restore_decides_in_every_state_what_the_agent_lacks(
    state: HandoverState, *, history: bool, reminder: str, expected: HandoverState
) -> None:
    made = handover(state)
    made.require(history=history, reminder=reminder)
    assert (made.state, made.reminder, made.prompt_id) == (expected, reminder, None)
    assert made.is_history_due is (expected is H.HISTORY_DUE)
    assert made.is_reminder_due is (expected is H.REMINDER_DUE)
    assert made.lacks_history is (expected is H.HISTORY_DUE)


@pytest.mark.parametrize("state", HandoverState)
def test_only_what_is_due_can_be_sent(state: HandoverState) -> None:
    made = handover(state)
    expected = {H.HISTORY_DUE: H.SENDING_HISTORY, H.REMINDER_DUE: H.SENDING_REMINDER}.get(state)
    if expected is None:
        with pytest.raises(InvalidTransition, match="no transition send"):
            made.send(b"2")
        assert made.state is state
    else:
        made.send(b"2")
        assert (made.state, made.prompt_id) == (expected, b"2")


@pytest.mark.parametrize("state", HandoverState)
def test_a_failed_prompt_makes_its_handover_due_again(state: HandoverState) -> None:
    made = handover(state)
    must_unbind = made.prompt_failed(b"1")
    after = {H.SENDING_HISTORY: H.HISTORY_DUE, H.SENDING_REMINDER: H.REMINDER_DUE}
    assert made.state is after.get(state, state)
    assert must_unbind is (state is H.SENDING_HISTORY)


@pytest.mark.parametrize("state", HandoverState)
def test_the_failure_or_end_of_another_prompt_changes_nothing(state: HandoverState) -> None:
    made = handover(state)
    assert made.prompt_failed(b"2") is False
    made.prompt_ended(b"2")
    assert made.state is state


@pytest.mark.parametrize("state", HandoverState)
def test_the_end_of_the_prompt_or_turn_completes_the_handover(state: HandoverState) -> None:
    is_sending = state in {H.SENDING_HISTORY, H.SENDING_REMINDER}
    by_prompt, by_turn = handover(state), handover(state)
    by_prompt.prompt_ended(b"1")
    by_turn.turn_ended()
    expected = H.NONE if is_sending else state
    assert (by_prompt.state, by_turn.state) == (expected, expected)
    if is_sending:
        assert by_prompt.reminder == by_turn.reminder == ""


# -- turns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", AgentTurn)
@pytest.mark.parametrize("unacknowledged", [0, 1, 2])
@pytest.mark.parametrize("is_idle", [True, False])
@pytest.mark.parametrize("has_stop_reason", [True, False])
def test_a_reported_state_ends_a_turn_as_the_table_says(
    state: AgentTurn, unacknowledged: int, *, is_idle: bool, has_stop_reason: bool
) -> None:
    turn = TurnTracker(state, unacknowledged)
    was_working = state in {T.WORKING, T.WORKING_AHEAD}
    is_ahead = state in {T.IDLE_AHEAD, T.WORKING_AHEAD} or (unacknowledged and not was_working)
    ended = turn.state_changed(is_idle=is_idle, has_stop_reason=has_stop_reason)
    if not is_idle:
        assert not ended
        assert turn.state is (T.WORKING_AHEAD if is_ahead else T.WORKING)
        return
    names_end = has_stop_reason or (was_working and not unacknowledged)
    assert ended is bool(names_end and (was_working or is_ahead))
    if ended:
        assert turn.state is T.IDLE
        assert turn.unacknowledged == max(unacknowledged - bool(is_ahead), 0)
    else:
        assert turn.state is (T.IDLE_AHEAD if is_ahead else T.IDLE)
        assert turn.unacknowledged == unacknowledged


@pytest.mark.parametrize("state", AgentTurn)
def test_an_acknowledged_prompt_is_worked_on(state: AgentTurn) -> None:
    turn = TurnTracker(state, 2)
    turn.acknowledged()
    assert (turn.state, turn.unacknowledged) == (T.WORKING, 1)


@pytest.mark.parametrize("state", AgentTurn)
def test_a_response_to_no_open_prompt_only_ends_being_ahead(state: AgentTurn) -> None:
    turn = TurnTracker(state, 0)
    was_working = turn.is_working
    turn.acknowledged()
    assert turn.state is (T.WORKING if was_working else T.IDLE)


@pytest.mark.parametrize("state", AgentTurn)
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (2, 1)])
def test_a_failed_prompt_is_not_waited_for(state: AgentTurn, before: int, after: int) -> None:
    turn = TurnTracker(state, before)
    was_working = turn.is_working
    turn.prompt_failed()
    assert (turn.state, turn.unacknowledged) == (T.WORKING if was_working else T.IDLE, after)


@pytest.mark.parametrize("state", AgentTurn)
@pytest.mark.parametrize("is_idle", [True, False])
def test_a_restored_agent_reports_its_state_without_ending_a_turn(
    state: AgentTurn, *, is_idle: bool
) -> None:
    turn = TurnTracker(state)
    is_ahead = state in {T.IDLE_AHEAD, T.WORKING_AHEAD}
    turn.report_state(is_idle=is_idle)
    assert turn.is_working is not is_idle
    assert (turn.state in {T.IDLE_AHEAD, T.WORKING_AHEAD}) is is_ahead


@pytest.mark.parametrize("state", AgentTurn)
def test_finishing_a_turn_leaves_no_work(state: AgentTurn) -> None:
    turn = TurnTracker(state, 2)
    turn.finish()
    assert (turn.state, turn.unacknowledged) == (T.IDLE, 0)


@pytest.mark.parametrize("state", AgentTurn)
def test_an_agent_that_exited_acknowledges_nothing_more(state: AgentTurn) -> None:
    turn = TurnTracker(state, 2)
    was_working = turn.is_working
    turn.agent_exited()
    assert (turn.state, turn.unacknowledged) == (T.WORKING if was_working else T.IDLE, 0)


def test_only_a_version_2_agent_acknowledges_prompts_later() -> None:
    turn = TurnTracker()
    turn.prompt_sent(CLIENT, is_acknowledged_later=False)
    assert (turn.prompter, turn.unacknowledged) == (CLIENT, 0)
    turn.prompt_sent(CLIENT, is_acknowledged_later=True)
    assert (turn.prompter, turn.unacknowledged) == (CLIENT, 1)


def test_a_held_prompt_is_a_running_turn() -> None:
    turn = TurnTracker()
    assert not turn.is_running
    turn.held_prompt = HeldPrompt(CLIENT, b"1")
    assert turn.is_running


@pytest.mark.parametrize("begin", ["prompt", "state", "restored"])
def test_the_end_of_a_turn_is_reported_once(begin: str) -> None:
    turn = TurnTracker()
    assert not turn.take_end()
    if begin == "prompt":
        turn.prompt_sent(CLIENT, is_acknowledged_later=False)
    elif begin == "state":
        turn.state_changed(is_idle=False, has_stop_reason=False)
    else:
        turn.report_state(is_idle=False)
    assert [turn.take_end(), turn.take_end()] == [True, False]


def test_a_prompt_that_crosses_with_the_end_of_a_turn_begins_another() -> None:
    turn = TurnTracker()
    turn.prompt_sent(CLIENT, is_acknowledged_later=True)
    turn.acknowledged()
    turn.prompt_sent(CLIENT, is_acknowledged_later=True)
    assert turn.take_end()
    turn.acknowledged()
    assert [turn.take_end(), turn.take_end()] == [True, False]


# -- titles -----------------------------------------------------------------------------------


def test_a_title_waits_for_the_end_of_the_turn_and_is_announced_once() -> None:
    title = TitleSync()
    title.prompted("Hello", is_users=False)
    assert title.announce() == "Hello"
    assert title.announce() is None
    title.prompted("Hello", is_users=False)
    assert title.announce() is None


def test_an_agents_title_replaces_the_waiting_one() -> None:
    title = TitleSync()
    title.prompted("Hello", is_users=False)
    assert title.agent_titled("Greeting")
    assert (title.known, title.announce()) == ("Greeting", None)


@pytest.mark.parametrize("how", ["lock", "restored", "prompted", "user_titled"])
def test_a_locked_title_is_not_replaced_by_the_agents(how: str) -> None:
    title = TitleSync()
    match how:
        case "lock":
            title.restored("Mine", is_locked=False)
            title.lock()
        case "restored":
            title.restored("Mine", is_locked=True)
        case "user_titled":
            title.prompted("Hello", is_users=False)
            title.user_titled("Mine")
            assert title.announce() is None
        case _:
            title.prompted("Mine", is_users=True)
            title.announce()
    assert not title.agent_titled("Yours")
    assert title.known == "Mine"


def test_a_later_prompt_does_not_unlock_a_title() -> None:
    title = TitleSync(is_locked=True)
    title.prompted("Hello", is_users=False)
    assert title.is_locked


# -- sessions ---------------------------------------------------------------------------------


def test_a_session_is_found_by_both_ids() -> None:
    sessions = LiveSessions()
    assert not sessions
    live = sessions.bind("s1", "a1")
    assert sessions
    assert sessions.get("s1") is live
    assert sessions.get_by_agent_id("a1") is live
    assert sessions.get(None) is sessions.get_by_agent_id(None) is None
    assert not sessions.is_free("a1", "s2")
    assert sessions.is_free("a1", "s1")


def test_a_session_leaves_its_former_id_of_the_agent() -> None:
    sessions = LiveSessions()
    live = sessions.bind("s1", "a1")
    assert sessions.bind("s1", "a2") is live
    assert sessions.get_by_agent_id("a1") is None
    sessions.bind("s1", UNKNOWN_TO_AGENT)
    assert sessions.get_by_agent_id(UNKNOWN_TO_AGENT) is None


def test_a_closed_session_is_gone_and_not_open() -> None:
    sessions = LiveSessions()
    live = sessions.bind("s1", "a1")
    assert sessions.get_open("s1") is live
    live.is_closed = True
    assert sessions.get_open("s1") is None
    assert sessions.is_gone("s1")
    sessions.drop("s1")
    sessions.drop("s1")
    assert not sessions.is_gone("s1")
    sessions.abandon("s1")
    assert sessions.is_gone("s1")
    assert sessions.is_abandoned("s1")
    sessions.bind("s2", "s1")
    assert not sessions.is_abandoned("s1")


def test_an_exit_of_the_agent_drops_closed_sessions_and_loses_the_others() -> None:
    sessions = LiveSessions()
    sessions.bind("open", "a1")
    sessions.bind("closed", "a2").is_closed = True
    sessions.abandon("a3")
    sessions.agent_exited(1)
    assert sessions.get("closed") is None
    live = sessions.get("open")
    assert live is not None
    assert live.memory.is_missing
    assert sessions.get_by_agent_id("a1") is None
    assert not sessions.is_abandoned("a3")


def test_sessions_with_work_or_a_held_prompt_are_found() -> None:
    sessions = LiveSessions()
    live = sessions.bind("s1", "a1")
    sessions.bind("s2", "a2")
    assert sessions.working() == []
    live.turn.state = T.WORKING
    live.turn.held_prompt = HeldPrompt(CLIENT, b"7")
    assert sessions.working() == [live]
    assert sessions.holding_prompt(HeldPrompt(CLIENT, b"7")) is live
    assert sessions.holding_prompt(HeldPrompt(CLIENT, b"8")) is None


def test_a_session_that_a_flow_restores_is_in_transition() -> None:
    sessions = LiveSessions()
    live = sessions.bind("s1", "a1")
    assert not sessions.is_in_transition("s1")
    assert not sessions.is_in_transition("unknown")
    live.memory.advance("restore")
    assert sessions.is_in_transition("s1")


def test_observers_watch_a_freed_session_again() -> None:
    sessions = LiveSessions()
    live = sessions.bind("s1", "a1")
    live.clients |= {1: Attachment(), 2: Attachment(is_observer=True)}
    sessions.drop("s1")
    again = sessions.bind("s1", "a2")
    assert list(again.clients) == [Peer(2)]
    sessions.drop("s1")
    sessions.stop_observing(2)
    assert not sessions.bind("s1", "a3").clients


def test_observers_of_a_released_session_are_forgotten() -> None:
    sessions = LiveSessions()
    sessions.bind("s1", "a1").clients[2] = Attachment(is_observer=True)
    sessions.drop("s1")
    sessions.forget_observers("s1")
    assert not sessions.bind("s1", "a2").clients


def test_a_closed_session_keeps_its_observers_until_they_stop() -> None:
    sessions = LiveSessions()
    live = sessions.bind("s1", "a1")
    live.clients |= {1: Attachment(), 2: Attachment(is_observer=True)}
    live.close()
    assert list(live.clients) == [Peer(2)]
    sessions.stop_observing(2, "s1")
    assert not live.clients


def test_a_restore_drops_the_notice_of_an_earlier_handover() -> None:
    handover = Handover(notice=b"of an agent that has exited")
    handover.require(history=True)
    assert handover.notice is None
