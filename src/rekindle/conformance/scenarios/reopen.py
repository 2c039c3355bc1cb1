"""Sessions that another process of the agent opens again.

The first process exits when its input is closed, the second is killed in a turn. A session that
survives the first and not the second is a fault of its own.
"""

from collections.abc import Iterator

from rekindle.acp.jsonrpc import INVALID_PARAMS
from rekindle.conformance import digest
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import replays, responses, vocabulary
from rekindle.conformance.rules.replays import OpeningTrace
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.scenarios.list import Listing, read_list
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.scenarios.stop import start_long_turn
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import TraceLine, updates

_BAD_CURSORS: tuple[object, ...] = (
    {"type": "nobody-knows-this"},
    {"type": "_rekindle_check/nobody_knows_this"},
    {"from": "start"},
    "start",
)
_LOST = "the kill has lost the session"
_NOT_WHOLE = "the user's messages are not replayed as a whole in any case"


# -- load -------------------------------------------------------------------------------


async def check_replay(runner: SessionRunner) -> None:
    """Check the replay of a session."""
    if "replay" not in runner.offered:
        raise ScenarioStopped("`loadSession` is not offered", Verdict.NOT_OFFERED)
    if runner.protocol == 1:
        await _check_unknown_session(runner, "replay", replayed=True)
    session = await runner.new_session(runner.make_folder())
    prompts = [await runner.run_turn(session) for _ in range(2)]
    notices = _find_notices(runner, session)
    await runner.processes.restart(kill=False)
    first = await runner.reopen(session, replayed=True)
    if not runner.results.check("replay.works", _lost_session(runner, first, session)):
        raise ScenarioStopped("the session was lost")
    said = list(session.items)
    _check_replay(runner, first, said, notices)
    _check_prompt_ids(runner, first, prompts)
    _check_subagents(runner, first)
    await _check_listed(runner, session)
    if runner.protocol > 1:
        await _check_cursors(runner, session)
    if not await _check_next_turn(runner, session, "replay"):
        raise ScenarioStopped("after the replay, no turn could be run")
    await _kill_in_turn(runner, session)
    second = await runner.reopen(session, replayed=True)
    if any(replays.lost_turns(first, said)):
        runner.results.skip("replay.killed", _NOT_WHOLE)
    else:
        await _check_after_kill(runner, session, second)
    runner.results.check("replay.again", _different_replay(first, second))
    if replays.ids(first):
        runner.results.check("replay.same-ids", replays.changed_ids(first, second))
    else:
        runner.results.not_seen("replay.same-ids", "replayed messages have no ids")


def _check_prompt_ids(
    runner: SessionRunner, opening: OpeningTrace, prompts: list[TurnTrace]
) -> None:
    if any(it.kind in vocabulary.USER_MESSAGES for it in opening.history):
        runner.results.check("replay.prompt-ids", replays.changed_prompt_ids(opening, prompts))
    else:
        runner.results.not_seen("replay.prompt-ids", "no message of the user is replayed")


def _check_subagents(runner: SessionRunner, opening: OpeningTrace) -> None:
    replayed = updates(opening.before, opening.session_id)
    if any(it.kind == vocabulary.SUBAGENT_UPDATE for it in replayed):
        runner.results.check("replay.subagents", replays.running_subagents(opening))
    else:
        runner.results.not_seen("replay.subagents", "no sub-agent is replayed")


def _find_notices(runner: SessionRunner, session: CheckedSession) -> list[TraceLine]:
    lines = [line for peer in runner.processes.peers for line in updates(peer.lines, session.id)]
    return [line for line in lines if line.kind == vocabulary.NOTICE]


def _check_replay(
    runner: SessionRunner,
    opening: OpeningTrace,
    expected: list[digest.DigestItem],
    notices: list[TraceLine],
) -> None:
    check, protocol = runner.results.check, runner.protocol
    check("replay.whole", replays.incomplete_replay(opening, expected))
    check("replay.retained", replays.incomplete_replay(opening, expected))
    if not opening.history:
        for name in ("answer", "session", "user", "ids"):
            runner.results.not_seen(f"replay.{name}", "no part of the conversation is replayed")
    else:
        check("replay.answer", replays.late_replay(opening))
        check("replay.user", replays.misattributed_prompts(opening, expected, protocol))
        check("replay.ids", replays.missing_message_ids(opening))
    check("replay.session", replays.wrong_session_id(opening))
    check("replay.state", replays.missing_state(opening))
    if notices:
        check("replay.notices", replays.replayed_notices(opening, notices))
    else:
        runner.results.not_seen("replay.notices", "no notice was sent before")


async def _check_listed(runner: SessionRunner, session: CheckedSession) -> None:
    if not runner.works("list"):
        runner.results.not_offered("replay.listed", "`session/list` does not work")
        return
    found = await read_list(runner)
    if found.is_whole or found.entry(session.id) is not None:
        runner.results.check("replay.listed", _not_listed(found, session))
    else:
        runner.results.skip("replay.listed", "the list could not be read completely")


def _not_listed(found: Listing, session: CheckedSession) -> Iterator[Fault]:
    if found.entry(session.id) is None:
        message = f"session {session.id} can be replayed, but is not listed"
        yield Fault(message, found.first.lines)


async def _check_after_kill(
    runner: SessionRunner, session: CheckedSession, second: OpeningTrace
) -> None:
    """Check the replay after the kill, and whether the kill is the reason of a loss."""
    if any(_lost_session(runner, second, session)):
        runner.results.check("replay.killed", _lost_session(runner, second, session))
        raise ScenarioStopped(_LOST)
    faults = list(replays.lost_turns(second, session.items))
    runner.results.check(
        "replay.killed", await _lost_by_kill(runner, session, second, "replay", faults)
    )


def _different_replay(one: OpeningTrace, other: OpeningTrace) -> Iterator[Fault]:
    first, second = one.items, other.items[: len(one.items)]
    # Text after the last turn may describe the present state, and is not compared.
    if first and second and first[-1].role == second[-1].role == digest.AGENT:
        shorter, longer = sorted((first[-1].text, second[-1].text), key=len)
        if longer.startswith(shorter):
            first, second = first[:-1], second[:-1]
    if message := digest.find_difference(first, second):
        shown = (*one.exchange.lines, *other.exchange.lines)
        yield Fault(f"the second replay differs from the first: {message}", shown)


async def _check_cursors(runner: SessionRunner, session: CheckedSession) -> None:
    method, params = runner.reopen_request(session, replayed=True)
    for cursor in _BAD_CURSORS:
        exchange = await runner.probe(method, params | {"replayFrom": cursor})
        faults = responses.not_refused(exchange, INVALID_PARAMS, f"the cursor {cursor}")
        runner.results.check("replay.cursor", faults)


# -- resume -----------------------------------------------------------------------------


async def check_resume(runner: SessionRunner) -> None:
    """Check sessions that are opened without a replay."""
    if "resume" not in runner.offered:
        raise ScenarioStopped("`session/resume` is not offered", Verdict.NOT_OFFERED)
    await _check_unknown_session(runner, "resume", replayed=False)
    session = await runner.prompted_session()
    await runner.run_turn(session)
    said = list(session.items)
    await runner.processes.restart(kill=False)
    opening = await runner.reopen(session, replayed=False)
    works = responses.not_an_object(opening.exchange, or_null=True)
    if not runner.results.check("resume.works", works):
        raise ScenarioStopped("the session was lost")
    runner.results.check("resume.silent", replays.unrequested_replay(opening, session.items))
    runner.results.check("resume.state", replays.missing_state(opening))
    if not await _check_next_turn(runner, session, "resume"):
        raise ScenarioStopped("after resuming, no turn could be run")
    await _kill_in_turn(runner, session)
    again = await runner.reopen(session, replayed=False)
    killed = responses.not_an_object(again.exchange, or_null=True)
    if runner.results.check("resume.killed", killed) and "replay" in runner.offered:
        await _check_memory(runner, session, said)


async def _check_memory(
    runner: SessionRunner, session: CheckedSession, said: list[digest.DigestItem]
) -> None:
    """Check by a replay that the agent has kept the turn after the resume."""
    opening = await runner.reopen(session, replayed=True)
    if opening.exchange.is_refused or any(replays.lost_turns(opening, said)):
        return  # the session may be open already, and a replay may never be complete
    faults = list(replays.lost_turns(opening, session.items))
    runner.results.check(
        "resume.killed", await _lost_by_kill(runner, session, opening, "resume", faults)
    )


# -- both -------------------------------------------------------------------------------


async def _check_unknown_session(runner: SessionRunner, scenario: str, *, replayed: bool) -> None:
    """Check that an unknown session is refused."""
    unknown = CheckedSession(unknown_id(), runner.make_folder(), [])
    method, params = runner.reopen_request(unknown, replayed=replayed)
    exchange = await runner.probe(method, params)
    runner.results.check(
        f"{scenario}.unknown", responses.not_refused(exchange, what="an unknown session")
    )
    runner.observed.unknown_sessions.append(exchange)


def _lost_session(
    runner: SessionRunner, opening: OpeningTrace, session: CheckedSession
) -> Iterator[Fault]:
    """Find a session without a replay. In version 2 the agent decides how much it keeps."""
    if opening.exchange.is_refused:
        message = f"the session is lost: {opening.exchange.describe()}"
        yield Fault(message, opening.exchange.lines)
    elif runner.protocol == 1 and session.items and not opening.history:
        yield Fault("the session is lost: no part of it is replayed", opening.exchange.lines)


async def _check_next_turn(runner: SessionRunner, session: CheckedSession, scenario: str) -> bool:
    """Run another turn, and return whether that worked."""
    turn = await runner.prompt(session.id, runner.settings.prompt)
    session.items += digest.digest_turn(runner.settings.prompt, turn.updates)
    return runner.results.check(f"{scenario}.goes-on", incomplete_turn(turn))


def incomplete_turn(turn: TurnTrace) -> Iterator[Fault]:
    """Check that a turn has ended without an error."""
    if not turn.is_complete:
        yield Fault(f"a prompt does not work: {turn.describe()}", turn.exchange.lines)


async def _kill_in_turn(runner: SessionRunner, session: CheckedSession) -> None:
    """Kill the agent in a turn, and start it again."""
    await start_long_turn(runner, session)
    await runner.processes.restart(kill=True)


async def _lost_by_kill(
    runner: SessionRunner,
    session: CheckedSession,
    replayed_opening: OpeningTrace,
    scenario: str,
    faults: list[Fault],
) -> list[Fault]:
    """Return the faults that a kill has caused.

    The agent may lose every turn after a reopening, with or without a kill. So another turn is
    run, and the agent exits normally. If that turn is lost too, the kill is not the reason.
    """
    if not faults:
        return []
    turn = await runner.prompt(session.id, runner.settings.prompt)
    expected = [*replayed_opening.items, *digest.digest_turn(runner.settings.prompt, turn.updates)]
    await runner.processes.restart(kill=False)
    opening = await runner.reopen(session, replayed=True)
    kept = list(replays.lost_turns(opening, expected))
    if not turn.is_complete or not kept:
        return faults
    runner.results.check(f"{scenario}.goes-on", kept)
    return []
