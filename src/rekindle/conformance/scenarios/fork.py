"""`session/fork`: the copy, and its unchanged source."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.conformance import digest
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import replays, responses
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.scenarios.reopen import incomplete_turn
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange
from rekindle.jsonvalue import Json


async def check_fork(runner: SessionRunner) -> None:
    """Check how a session is forked."""
    if "fork" not in runner.offered:
        raise ScenarioStopped("`session/fork` is not offered", Verdict.NOT_OFFERED)
    params: Json = {"sessionId": unknown_id(), **runner.new_params(runner.make_folder())}
    unknown = await runner.probe(methods.FORK, params)
    runner.results.check("fork.unknown", responses.not_refused(unknown, what="an unknown session"))
    runner.observed.unknown_sessions.append(unknown)
    source = await runner.prompted_session()
    exchange = await runner.call(
        methods.FORK, {"sessionId": source.id, **runner.new_params(source.folder)}
    )
    session_id = runner.note_session(exchange)
    if (
        not runner.results.check("fork.works", responses.missing_session_id(exchange))
        or session_id is None
    ):
        runner.mark_broken(methods.FORK)
        raise ScenarioStopped("`session/fork` does not work")
    runner.results.check("fork.id", _same_id(exchange, source))
    if session_id == source.id:
        raise ScenarioStopped("the fork is its own source")
    copy = CheckedSession(session_id, source.folder, list(source.items))
    turn = await runner.prompt(copy.id, runner.settings.prompt)
    runner.results.check("fork.goes-on", incomplete_turn(turn))
    copy.items += digest.digest_turn(runner.settings.prompt, turn.updates)
    if "replay" not in runner.offered:
        raise ScenarioStopped("the agent cannot replay a session", Verdict.NOT_OFFERED)
    await runner.processes.restart(kill=False)
    await _check_histories(runner, source, copy)


def _same_id(exchange: Exchange, source: CheckedSession) -> Iterator[Fault]:
    if exchange.result.get("sessionId") == source.id:
        yield Fault("the fork has the id of its source", exchange.lines)


async def _check_histories(
    runner: SessionRunner, source: CheckedSession, copy: CheckedSession
) -> None:
    """Check the replays of both. If neither is complete, the fork did not damage the source."""
    source_trace = await runner.reopen(source, replayed=True)
    copy_trace = await runner.reopen(copy, replayed=True)
    if source_trace.exchange.is_refused and copy_trace.exchange.is_refused:
        raise ScenarioStopped(f"neither can be replayed: {copy_trace.exchange.describe()}")
    history = list(replays.different_turns(copy_trace, copy.items))
    runner.results.check("fork.history", history)
    said = [item for item in source.items if item.role == digest.USER]
    has_all = source_trace.exchange.is_result and len(replays.user_turns(source_trace)) >= len(said)
    if has_all or not history:
        runner.results.check("fork.source", replays.different_turns(source_trace, source.items))
    else:
        runner.results.skip("fork.source", "neither the source nor the fork is replayed as a whole")
