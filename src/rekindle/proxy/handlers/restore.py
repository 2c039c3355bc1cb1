"""Restore the agent's memory of a session.

The ladder: the agent's own `session/resume`; its `session/load`, with the replay discarded; a new
session of the agent and a handover of the history with the next prompt. Capabilities prove little,
so each rung is judged by its result. An error leads to the next rung, and so does a response that
names another session. A session without turns has no memory to lose.

A load is judged by its replay, which is compared with the record (`transcript/replay_match`). If
the agent lacks turns, the next prompt carries them. If the agent has turns that the record lacks,
they are recorded. So a load is tried before a resume when the agent may have lost turns, or when
the client wants a replay and would miss those that were made without Rekindle.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp import methods
from rekindle.acp.agent_families import are_related
from rekindle.acp.jsonrpc import AUTH_REQUIRED, INTERNAL_ERROR
from rekindle.acp.translate.config import config_id, mode_option, modes_to_v1
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    AgentObserved,
    AgentSaved,
    AgentTrait,
    Change,
    Entry,
    LeaseHolder,
    LeaseResult,
    Session,
)
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AcquireLease,
    AgentReply,
    CallAgent,
    ExtendSession,
    GetAgentTraits,
    GetSession,
    IsAgentGone,
    LoadTranscript,
    Pause,
    ReadEntries,
    RecordChanges,
    Refusal,
    ReleaseLease,
    ReportToUser,
    SubFlow,
)
from rekindle.proxy.foreign_turns import ForeignTurnRecorder, place_after
from rekindle.proxy.handlers.ask_host import ask_for_release
from rekindle.proxy.live_session import LiveSession, MemoryState, UpdatePolicy
from rekindle.proxy.session_clients import Attachment, SessionSetup, SuffixedIds
from rekindle.proxy.system_prompt import PromptSource
from rekindle.proxy.translation import setup_for_agent
from rekindle.proxy.validation import LeasedElsewhere, outlived_session, refusal_of
from rekindle.transcript.handover import missing_turns_text, reminder_text
from rekindle.transcript.model import HandoverReason
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_match import (
    MemoryReport,
    RecordedTurn,
    ReplayReader,
    compare,
    is_caught_up,
    recorded_turns,
    unsaved_turns,
)

RESTORE_TIMEOUT_US = 60_000_000
_POLL_US = 100_000
_QUIET_POLLS = 10
_QUIET_POLLS_AFTER_LATE = 5
_QUIET_POLLS_OF_SILENT = 2
_MAX_POLLS = 100
_MAX_GROUP_POLLS = 100
_LIST_TIMEOUT_US = 2_000_000
_MAX_LIST_PAGES = 20


class Restored(StrEnum):
    """How a session was restored. The values are on the wire as `_meta.rekindle.restored`."""

    LIVE = "live"
    NATIVE = "native"
    HANDOVER = "handover"
    RECORD = "record"
    """Not at all: an observer has received the record, and no agent knows the session."""


class RestoreResult(Struct, frozen=True):
    """A session that an agent knows, or will know with the next prompt."""

    how: Restored
    answer: dict[str, Any]
    """The agent's result of the request that restored it."""
    transcript: Transcript
    missing_turns: int = 0
    """The number of turns that the agent has lost. The next prompt carries them."""
    attachment: Attachment | None = None
    """Set if the client joins a session that continues."""
    ignored_setup: tuple[str, ...] = ()
    """The params of this client that another client's replace."""
    lacks_system_prompt: bool = False
    """Whether the agent does not support the system prompt of the session."""


class _NativeMemory(Struct, frozen=True):
    """The result of a native resume or load."""

    answer: dict[str, Any]
    report: MemoryReport = MemoryReport()
    """The comparison with the record; without known turns if nothing could be compared."""

    @property
    def is_verified(self) -> bool:
        return bool(self.report.known)


def restore(
    conn: ConnectionState, session: Session, setup: SessionSetup, *, is_load: bool = False
) -> SubFlow:
    """Restore a session; return a RestoreResult. Raises Refusal.

    `is_load`: the client wants a replay, so turns that only the agent has matter.
    """
    generation = conn.agent.generation
    live = conn.bind(session.id, UNKNOWN_TO_AGENT)
    sent_before, live.setup, live.is_closed = live.setup, setup, False
    live.title.restored(session.title, is_locked=has_locked_title(session))
    live.updates.discard_history()
    live.memory.advance("restore")
    reminder, problem, reason = "", None, HandoverReason.LOST
    try:
        transcript: Transcript = yield LoadTranscript(session.id)
        prompts = PromptSource(conn, sent_before.params, transcript.system_prompt)
        live.setup = replace(setup, params=prompts.native_setup(setup.params))
        native: _NativeMemory | None = yield from _restore_natively(
            conn, session, live, transcript, is_load=is_load
        )
        if native is None:
            problem = prompts.problem(setup.params)
            live.setup = replace(setup, params=prompts.new_setup(setup.params))
            reason = _handover_reason(conn, session, live, transcript)
            how, answer = Restored.HANDOVER, (yield from _begin_again(conn, session, live))
            live.title.lock()
        else:
            how, answer = Restored.NATIVE, native.answer
            # The report has the numbers of the turns before any foreign turn is recorded.
            reminder = _reminder(conn, session, live, native, transcript)
            if native.report.foreign:
                transcript = yield from _record_foreign_turns(conn, session, native, transcript)
        # A restored agent starts with its defaults, which may have more rights than before.
        answer = yield from _apply_settings(live.agent_id, answer, transcript)
        _check_survived(conn, generation)
        live.memory.advance("restored")
    except BaseException:
        live.memory.advance("restore_failed")
        raise
    missing = native.report.missing if native is not None else ()
    live.handover.require(
        history=native is None and session.turns > 0, reminder=reminder, reason=reason
    )
    if native is not None and native.is_verified and not missing:
        yield RecordChanges([AgentSaved(session_id=session.id, at_us=conn.at_us)])
    live.suffixed = SuffixedIds(transcript.retired_ids, transcript.suffix)
    if transcript.truncations.removed:
        conn.remove_subagents(session.id, transcript.truncations.removed)
    if problem is not None:
        yield ReportToUser(problem)
    return RestoreResult(
        how, answer, transcript, len(missing), lacks_system_prompt=problem is not None
    )


def acquire_lease(
    conn: ConnectionState, session_id: str, *, may_take_over: bool = False
) -> SubFlow:
    """Acquire the lease of a session. Raises Refusal if another process holds it.

    If its last holder has died, its agent is waited for: it may still change files, and agents
    keep sessions in files of their own.
    """
    result: LeaseResult = yield AcquireLease(session_id)
    if result.holder is not None and may_take_over:
        yield from ask_for_release(conn, session_id, result.holder)
        result = yield AcquireLease(session_id, may_take_over=True)
    if result.holder is not None:
        is_allowed = conn.settings.may_take_over
        raise LeasedElsewhere(session_id, result.holder, may_take_over=is_allowed)
    live = conn.sessions.get(session_id)
    if live is not None and result.was_held_by_another:
        # The agent here has missed the turns that the other process recorded.
        live.memory.advance("used_elsewhere")
    former = None if result.is_former_alive else result.former
    if former is not None and not (yield from _has_agent_ended(former)):
        yield ReleaseLease(session_id)
        raise outlived_session(session_id, former)


def _has_agent_ended(former: LeaseHolder) -> SubFlow:
    """Wait until the agent of a dead process has ended; return whether it has."""
    for _ in range(_MAX_GROUP_POLLS):
        if (yield IsAgentGone(former)):
            return True
        yield Pause(_POLL_US)
    return False


# -- the rungs ----------------------------------------------------------------------------------


def _restore_natively(
    conn: ConnectionState,
    session: Session,
    live: LiveSession,
    transcript: Transcript,
    *,
    is_load: bool,
) -> SubFlow:
    """Return the agent's memory after a native resume or load; None if it has none."""
    agent_id = session.agent_session_id
    is_possible = can_restore_natively(conn, session) and not live.memory.is_outdated
    if not is_possible or not conn.sessions.is_free(agent_id, session.id):
        return None
    conn.bind(session.id, agent_id)
    turns = recorded_turns(transcript.turns)
    must_compare = session.turns > 0 and (is_load or not session.is_saved_by_agent)
    for method, replays in _rungs(conn, must_compare=must_compare):
        reader = ReplayReader(turns) if replays else None
        live.updates.expect_replay(UpdatePolicy.DISCARD, reader)
        params = {"sessionId": agent_id, **setup_for_agent(conn, method, live.setup)}
        if replays and method == methods.RESUME:
            params["replayFrom"] = {"type": "start"}
        reply: AgentReply = yield CallAgent(method, params, RESTORE_TIMEOUT_US)
        refuse_if_login_required(reply)
        if reply.error is not None or names_another_session(reply, agent_id):
            continue
        answer = as_object(reply.result)
        if reader is None:
            return _NativeMemory(answer)
        report: MemoryReport | None = yield from _judge_load(conn, session, live, reader, turns)
        if report is not None and not _has_removed_turns(transcript, report):
            return _NativeMemory(answer, report)
        # The agent has shown that it does not know the session, or not that it was rewound.
        break
    # Further updates under this id are a replay of history that the record has.
    conn.sessions.abandon(agent_id)
    return None


def _rungs(conn: ConnectionState, *, must_compare: bool) -> list[tuple[str, bool]]:
    """Return the agent's own means in the order to try them, and whether each replays."""
    offers = conn.agent.capabilities.offers
    if conn.agent.capabilities.protocol > 1:
        # Version 2 has one method for both.
        return [(methods.RESUME, must_compare)] if offers(methods.RESUME) else []
    rungs = [(methods.RESUME, False), (methods.LOAD, True)]
    if must_compare:
        rungs.reverse()
    return [(method, replays) for method, replays in rungs if offers(method)]


def _judge_load(
    conn: ConnectionState,
    session: Session,
    live: LiveSession,
    reader: ReplayReader,
    turns: Sequence[RecordedTurn],
) -> SubFlow:
    """Return a report on the agent's memory after a load; None if the agent has none.

    A load without a replay is believed if the agent lists the session, and its load was never seen
    to replay one. Each result is remembered for the release of the agent.
    """
    agent = conn.agent.identity
    # Different agents without a name may have the same program.
    release = agent.release if agent.name is not None else None
    traits: frozenset[AgentTrait] = frozenset()
    if release is not None:
        traits = yield GetAgentTraits(release)
    is_silent = AgentTrait.LOADS_SILENTLY in traits and AgentTrait.REPLAYS not in traits
    polls = _QUIET_POLLS_OF_SILENT if is_silent else _QUIET_POLLS
    yield from wait_for_replay(live, session.turns, turns, max_quiet=polls)
    replayed = reader.snapshot()
    report = compare(turns, replayed)
    if report.known or (not turns and report.foreign):
        trait = AgentTrait.REPLAYS
    elif not turns or replayed or AgentTrait.REPLAYS in traits:
        # The replay is of another session, or the agent has lost this one.
        return None
    elif not (yield from is_listed(conn, live)):
        return None
    else:
        trait = AgentTrait.LOADS_SILENTLY
        live.updates.silent_release = release
    if release is not None and trait not in traits:
        observed = AgentObserved(
            session_id=session.id, at_us=conn.at_us, release=release, trait=trait
        )
        yield RecordChanges([observed])
    return report


def _has_removed_turns(transcript: Transcript, report: MemoryReport) -> bool:
    """Return whether the agent still has turns that a rewind has removed."""
    removed = recorded_turns(transcript.truncations.removed)
    foreign = [turn for _, turn in report.foreign]
    return bool(removed and foreign and compare(removed, foreign).known)


def is_listed(conn: ConnectionState, live: LiveSession) -> SubFlow:
    """Return whether the agent lists a session in the folder that it is opened in."""
    if not conn.agent.capabilities.offers(methods.LIST):
        return False
    params: dict[str, Any] = {"cwd": live.setup.params["cwd"]}
    for _ in range(_MAX_LIST_PAGES):
        reply: AgentReply = yield CallAgent(methods.LIST, params, _LIST_TIMEOUT_US)
        result = as_object(reply.result)
        listed = map(as_object, as_array(result.get("sessions")))
        if any(info.get("sessionId") == live.agent_id for info in listed):
            return True
        cursor = as_str(result.get("nextCursor"))
        if cursor is None:
            break
        params = {**params, "cursor": cursor}
    return False


def _begin_again(conn: ConnectionState, session: Session, live: LiveSession) -> SubFlow:
    """Bind the session to a new one of the agent; return the agent's result. Raises Refusal."""
    if session.turns > 0 and not conn.settings.may_hand_over:
        raise handover_forbidden(session.id)
    with conn.naming_session():
        agent_id, answer = yield from create_agent_session(conn, live.setup)
        conn.bind(session.id, agent_id)
    return answer


def create_agent_session(conn: ConnectionState, setup: SessionSetup) -> SubFlow:
    """Have the agent create a session; return its id and the result. Raises Refusal."""
    params = setup_for_agent(conn, methods.NEW, setup)
    reply: AgentReply = yield CallAgent(methods.NEW, params, RESTORE_TIMEOUT_US)
    answer = as_object(reply.result)
    agent_id = as_str(answer.get("sessionId"))
    if reply.error is not None or agent_id is None:
        raise refusal_of(reply, "create a session")
    return agent_id, answer


def wait_for_replay(
    live: LiveSession,
    turn_count: int,
    turns: Sequence[RecordedTurn] = (),
    *,
    max_quiet: int = _QUIET_POLLS,
) -> SubFlow:
    """Wait for a replay that comes late; return whether its size speaks for a known session.

    A late replay may come in bursts. It is over when no update came for `max_quiet` polls. Nothing
    is awaited if the agent has replayed the last turn that it completed.
    """
    stats = live.updates.stats
    lines, quiet, is_late = stats.lines, 0, False
    is_whole = _is_whole(live, turn_count, turns)
    for _ in range(_MAX_POLLS):
        is_settled = quiet == _QUIET_POLLS_AFTER_LATE or not is_late
        if (is_whole and is_settled) or quiet >= max_quiet:
            break
        yield Pause(_POLL_US)
        has_new = stats.lines != lines
        if has_new:
            is_late, is_whole = True, _is_whole(live, turn_count, turns)
        quiet = 0 if has_new else quiet + 1
        lines = stats.lines
    # A greeting or a warning is no memory. The user's own prompts must be in the replay.
    has_prompts = stats.user_messages >= turn_count > 0
    return stats.user_messages > 0 and (stats.has_answers or has_prompts)


def _is_whole(live: LiveSession, turn_count: int, turns: Sequence[RecordedTurn]) -> bool:
    """Return whether a replay is complete, as far as the record shows."""
    covers = live.updates.stats.covers(turn_count)
    reader = live.updates.reader
    if reader is None:
        return covers
    report = compare(turns, reader.snapshot())
    return is_caught_up(turns, report) if report.known else covers


def _record_foreign_turns(
    conn: ConnectionState, session: Session, native: _NativeMemory, transcript: Transcript
) -> SubFlow:
    """Record the turns that only the agent has, in their place; return the new transcript.

    A session that was imported keeps the entries of its file as they are, and the rewinds of a
    session name messages by their place. So only turns that follow all others are added to these.
    If the store cannot take the turns now, they are recorded with the next load: a rewrite must
    not wait in a buffer that may lose entries.
    """
    placed = [(place_after(transcript, after), turn) for after, turn in native.report.foreign]
    earlier = [(place, turn) for place, turn in placed if place is not None]
    recorder = ForeignTurnRecorder(
        session_id=session.id,
        agent_id=session.agent_session_id,
        protocol=conn.agent.capabilities.protocol,
        at_us=conn.at_us,
    )
    now: Session | None = yield GetSession(session.id)
    changes: list[Change] = []
    if earlier and not session.is_imported and transcript.truncations.is_empty:
        entries: list[Entry] = yield ReadEntries(session.id, earlier[0][0] - 1)
        changes += recorder.insert(earlier, entries)
    changes += recorder.append([turn for place, turn in placed if place is None])
    if now is None or not changes or not (yield ExtendSession(session.id, now.last_seq, changes)):
        return transcript
    return (yield LoadTranscript(session.id))


def _apply_settings(agent_id: str, answer: dict[str, Any], transcript: Transcript) -> SubFlow:
    """Set the mode and options that the user had set; return the agent's result with them."""
    modes = as_object(answer.get("modes"))
    mode = transcript.current_mode
    offered = [as_object(it).get("id") for it in as_array(modes.get("availableModes"))]
    if mode in offered and mode != modes.get("currentModeId"):
        params = {"sessionId": agent_id, "modeId": mode}
        reply: AgentReply = yield CallAgent(methods.SET_MODE, params)
        if reply.error is None:
            answer = {**answer, "modes": {**modes, "currentModeId": mode}}
    recorded = transcript.config_options
    values = {
        config_id(option): option.get("currentValue")
        for option in map(as_object, as_array(recorded))
    }
    modes_now = modes_to_v1(answer.get("configOptions"))
    if modes_now is not None and mode in [it["id"] for it in modes_now["availableModes"]]:
        # The user may have chosen it when the session had modes and no option for them.
        values[config_id(as_object(mode_option(answer.get("configOptions"))))] = mode
    for option in map(as_object, as_array(answer.get("configOptions"))):
        name = config_id(option)
        value = values.get(name)
        if value is not None and value != option.get("currentValue"):
            params = {"sessionId": agent_id, "configId": name, "value": value}
            if isinstance(value, bool):
                params["type"] = "boolean"
            elif "configId" in option:
                params["type"] = "id"
            reply = yield CallAgent(methods.SET_CONFIG_OPTION, params)
            options = as_object(reply.result).get("configOptions")
            if isinstance(options, list):
                answer = {**answer, "configOptions": options}
    return answer


def _check_survived(conn: ConnectionState, generation: int) -> None:
    """Refuse a restore by an agent that exited meanwhile."""
    if conn.agent.generation != generation:
        raise Refusal(INTERNAL_ERROR, "the agent exited while the session was being restored")


# -- judgements -----------------------------------------------------------------------------------


def can_restore_natively(conn: ConnectionState, session: Session) -> bool:
    """Return whether the agent may have the session, and the means to restore it."""
    capabilities = conn.agent.capabilities
    has_means = capabilities.offers(methods.RESUME) or capabilities.offers(methods.LOAD)
    is_bound = session.agent_session_id != UNKNOWN_TO_AGENT
    return has_means and is_bound and belongs_to_agent(conn, session)


def belongs_to_agent(conn: ConnectionState, session: Session) -> bool:
    """Return whether the agent has a session, or may have it."""
    agent = conn.agent.identity
    return is_same_agent(agent, session.agent) or _is_agent_of_tool(agent, session)


def _is_agent_of_tool(agent: AgentIdentity, session: Session) -> bool:
    """Return whether an agent may be that of the tool from which a session was imported.

    The files of a tool do not name its agent, but the agent's name contains the tool's name. If
    the agent does not have the session after all, it receives a handover like any other.
    """
    tool = session.origin.tool if session.origin is not None else None
    name = agent.name or agent.program or ""
    return tool is not None and session.agent.name == tool and tool in name.lower()


def is_same_agent(one: AgentIdentity, other: AgentIdentity) -> bool:
    """Return whether two agents share their sessions.

    Their names decide. If one has no name, their programs decide.
    """
    if one.name is not None and other.name is not None:
        return one.name == other.name or are_related(one.name, other.name)
    return one.program == other.program or are_related(one.identity, other.identity)


def names_another_session(reply: AgentReply, asked: str) -> bool:
    """Return whether the agent's response names another session than the request."""
    named = as_object(reply.result).get("sessionId")
    return named is not None and named != asked


def has_locked_title(session: Session) -> bool:
    """Return whether the agent's title must not replace the stored one.

    An agent that received a handover would name the session after that.
    """
    is_borrowed = session.agent_session_id != session.id and session.title is not None
    return session.title_source == "user" or is_borrowed


def _handover_reason(
    conn: ConnectionState, session: Session, live: LiveSession, transcript: Transcript
) -> HandoverReason:
    """Return why the agent has to receive the history of a session."""
    if not belongs_to_agent(conn, session):
        return HandoverReason.OTHER_AGENT
    if session.agent_session_id != UNKNOWN_TO_AGENT:
        is_outdated = live.memory.state is MemoryState.RESTORING_OUTDATED
        return HandoverReason.USED_ELSEWHERE if is_outdated else HandoverReason.LOST
    if transcript.truncations.is_after(transcript.turns):
        return HandoverReason.REWOUND
    return HandoverReason.FORKED if session.parent_id is not None else HandoverReason.LOST


def _reminder(
    conn: ConnectionState,
    session: Session,
    live: LiveSession,
    native: _NativeMemory,
    transcript: Transcript,
) -> str:
    """Return the text with the turns that a natively restored agent lacks, or may lack."""
    if not conn.settings.may_hand_over:
        return ""
    budget = conn.settings.handover_budget
    if native.is_verified:
        return missing_turns_text(transcript, native.report.missing, budget)
    if session.is_saved_by_agent:
        return ""
    turns = unsaved_turns(transcript.turns, saved=session.saved_turns, exit_us=live.memory.exit_us)
    return reminder_text(transcript, turns, budget)


# -- refusals -------------------------------------------------------------------------------------


def handover_forbidden(session_id: str) -> Refusal:
    """Return the refusal of a session that would need a handover, which the user forbids."""
    return Refusal(
        INTERNAL_ERROR,
        "the agent has lost this session, and --no-handover forbids sending it the history",
        {"sessionId": session_id},
    )


def refuse_if_login_required(reply: AgentReply) -> None:
    """Forward the agent's demand to sign in: only the user can meet it. Raises Refusal."""
    if as_object(reply.error).get("code") == AUTH_REQUIRED:
        raise refusal_of(reply, "restore the session")
