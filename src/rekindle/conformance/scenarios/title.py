"""`session/set_title`: the title in the list, also after a restart."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS, RESOURCE_NOT_FOUND
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses
from rekindle.conformance.scenarios.list import read_list
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange
from rekindle.jsonvalue import as_str

_TITLES = ("Rekindle checks titles", "Another title", "A third title")


async def check_title(runner: SessionRunner) -> None:
    """Check how a session is retitled."""
    if "title" not in runner.offered:
        raise ScenarioStopped("`session/set_title` is not offered", Verdict.NOT_OFFERED)
    unknown = await runner.probe(
        methods.SET_TITLE, {"sessionId": unknown_id(), "title": _TITLES[0]}
    )
    faults = responses.not_refused(unknown, RESOURCE_NOT_FOUND, "an unknown session")
    runner.results.check("title.unknown", faults)
    session = await runner.prompted_session()
    title = await _set(runner, session, _TITLES[0], "title.works")
    if title is None:
        raise ScenarioStopped("`session/set_title` does not work")
    await _check_invalid(runner, session)
    await _check_listed(runner, session, title, "title.listed")
    await runner.run_turn(session)
    await _check_listed(runner, session, title, "title.stays")
    # The process is killed right after the answer.
    title = await _set(runner, session, _TITLES[1], "title.works")
    await runner.processes.restart(kill=True)
    await _check_listed(runner, session, title or _TITLES[1], "title.stored")
    # The session is not open in the new process.
    title = await _set(runner, session, _TITLES[2], "title.saved")
    if title is not None:
        await _check_listed(runner, session, title, "title.saved")


async def _set(
    runner: SessionRunner, session: CheckedSession, title: str, requirement: str
) -> str | None:
    """Set a title; return it as the agent has stored it, or None if that failed."""
    params = {"sessionId": session.id, "title": title}
    exchange = await runner.call(methods.SET_TITLE, params)
    runner.results.check(requirement, _missing_title(exchange))
    return as_str(exchange.result.get("title")) or None


def _missing_title(exchange: Exchange) -> Iterator[Fault]:
    yield from responses.not_an_object(exchange)
    if exchange.is_result and not as_str(exchange.result.get("title")):
        yield Fault("the answer to session/set_title has no title", exchange.lines)


async def _check_invalid(runner: SessionRunner, session: CheckedSession) -> None:
    for title in ("", " \t "):
        exchange = await runner.probe(methods.SET_TITLE, {"sessionId": session.id, "title": title})
        faults = responses.not_refused(exchange, INVALID_PARAMS, f"the title {title!r}")
        runner.results.check("title.empty", faults)
    for params in ({}, {"title": None}):
        exchange = await runner.probe(methods.SET_TITLE, {"sessionId": session.id, **params})
        what = "a title that is null" if params else "a missing title"
        faults = responses.not_refused(exchange, INVALID_PARAMS, what)
        runner.results.check("title.missing", faults)


async def _check_listed(
    runner: SessionRunner, session: CheckedSession, title: str, requirement: str
) -> None:
    if not runner.works("list"):
        runner.results.not_offered(requirement, "`session/list` does not work")
        return
    found = await read_list(runner)
    entry = found.entry(session.id)
    if entry is None:
        runner.results.not_seen(requirement, "the session is not in the list")
        return
    faults: list[Fault] = []
    if entry.get("title") != title:
        message = f"the title {title!r} was stored, but the list has {entry.get('title')!r}"
        faults.append(Fault(message, found.first.lines))
    runner.results.check(requirement, faults)
