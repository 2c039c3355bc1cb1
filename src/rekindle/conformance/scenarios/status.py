"""`session/status`: open and saved sessions, and that the question changes nothing."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.acp.jsonrpc import RESOURCE_NOT_FOUND
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses, vocabulary
from rekindle.conformance.scenarios.list import read_list
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange, updates
from rekindle.jsonvalue import Json, as_object


async def check_status(runner: SessionRunner) -> None:
    """Check the status of sessions."""
    if "status" not in runner.offered:
        raise ScenarioStopped("`session/status` is not offered", Verdict.NOT_OFFERED)
    await _check_unknown(runner)
    session = await runner.prompted_session()
    exchange = await _ask(runner, session)
    if not runner.results.check("status.works", responses.bad_status(exchange)):
        raise ScenarioStopped("`session/status` does not work")
    runner.results.check("status.open", responses.other_status(exchange, "open"))
    if runner.protocol > 1:
        runner.results.check("status.state", _missing_state(exchange))
    await runner.processes.restart(kill=False)
    before = await _entry(runner, session)
    peer = await runner.processes.current()
    since = len(peer.lines)
    for _ in range(2):
        # A second answer shows whether the first question has opened the session.
        saved = await _ask(runner, session)
        runner.results.check("status.works", responses.bad_status(saved))
        runner.results.check("status.saved", responses.other_status(saved, "saved"))
    after = await _entry(runner, session)
    runner.results.check("status.unchanged", _changed(exchange, before, after))
    for line in updates(peer.lines[since:], session.id):
        fault = Fault(f"{line.kind} was sent for a session that is not open", (line,))
        runner.results.check("status.unchanged", [fault])


async def _check_unknown(runner: SessionRunner) -> None:
    unknown = await runner.probe(methods.STATUS, {"sessionId": unknown_id()})
    faults = list(responses.not_refused(unknown, RESOURCE_NOT_FOUND, "an unknown session"))
    named = as_object(unknown.error.get("data")).get("sessionId")
    if not faults and named != unknown.request.session_id:
        message = f"`data.sessionId` of the error is {named!r}"
        faults.append(Fault(message, unknown.lines))
    runner.results.check("status.unknown", faults)


async def _ask(runner: SessionRunner, session: CheckedSession) -> Exchange:
    return await runner.call(methods.STATUS, {"sessionId": session.id})


async def _entry(runner: SessionRunner, session: CheckedSession) -> Json | None:
    return (await read_list(runner)).entry(session.id) if runner.works("list") else None


def _missing_state(exchange: Exchange) -> Iterator[Fault]:
    state = as_object(exchange.result.get("state")).get("state")
    known = isinstance(state, str) and (state in vocabulary.STATES or vocabulary.is_custom(state))
    if exchange.result.get("status") == "open" and not known:
        yield Fault(f"the status of an open session has the state {state!r}", exchange.lines)


def _changed(exchange: Exchange, before: Json | None, after: Json | None) -> Iterator[Fault]:
    if before != after:
        message = f"asking for the status has changed the session: {before} became {after}"
        yield Fault(message, exchange.lines)
