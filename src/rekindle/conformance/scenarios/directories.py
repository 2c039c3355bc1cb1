"""The additional folders of a session: `additionalDirectories`."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses
from rekindle.conformance.scenarios.list import Listing, read_list
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.jsonvalue import Json, as_array

_DIRECTORIES = "additionalDirectories"
_INVALID = {"relative": "some/folder", "empty": ""}


async def check_directories(runner: SessionRunner) -> None:
    """Check the additional folders of a session."""
    if _DIRECTORIES not in runner.offered:
        raise ScenarioStopped(f"`{_DIRECTORIES}` is not offered", Verdict.NOT_OFFERED)
    given = [str(runner.make_folder()), str(runner.make_folder())]
    folder = runner.make_folder()
    for name, wrong in _INVALID.items():
        exchange = await runner.probe(
            methods.NEW, {**runner.new_params(folder), _DIRECTORIES: [wrong]}
        )
        runner.note_session(exchange)
        runner.results.check(
            f"roots.{name}", responses.not_refused(exchange, what=f"the folder {wrong!r}")
        )
    exchange = await runner.call(methods.NEW, {**runner.new_params(folder), _DIRECTORIES: given})
    session_id = runner.note_session(exchange)
    runner.results.check("roots.works", responses.missing_session_id(exchange))
    if session_id is None:
        raise ScenarioStopped("additional directories do not work")
    session = CheckedSession(session_id, folder, [])
    await runner.run_turn(session)
    if not runner.works("list"):
        raise ScenarioStopped("`session/list` does not work", Verdict.NOT_OFFERED)
    found = await read_list(runner)
    entry = found.entry(session.id) or {}
    if _DIRECTORIES not in entry:
        raise ScenarioStopped("the list has no additional directories", Verdict.NOT_SEEN)
    runner.results.check("roots.listed", _different_directories(found, entry, given))
    await _check_fork(runner, session)
    await _check_reopened(runner, session)


async def _check_fork(runner: SessionRunner, session: CheckedSession) -> None:
    if not runner.works("fork"):
        runner.results.not_offered("roots.forked", "`session/fork` does not work")
        return
    forked = await runner.call(
        methods.FORK, {"sessionId": session.id, **runner.new_params(session.folder)}
    )
    session_id = runner.note_session(forked)
    if session_id is not None:
        await runner.prompt(session_id, runner.settings.prompt)
        found = await read_list(runner)
        if (entry := found.entry(session_id)) is not None:
            runner.results.check("roots.forked", _different_directories(found, entry, []))
    runner.results.not_seen("roots.forked", "the fork is not in the list")


async def _check_reopened(runner: SessionRunner, session: CheckedSession) -> None:
    """Open the session without additional folders, in another process."""
    if not runner.can_reopen:
        for name in ("roots.reopened", "roots.opened"):
            runner.results.not_offered(name, "the agent offers no way to open a session again")
        return
    await runner.processes.restart(kill=False)
    replayed = "replay" in runner.offered
    method, params = runner.reopen_request(session, replayed=replayed)
    for name, wrong in _INVALID.items():
        exchange = await runner.probe(method, params | {_DIRECTORIES: [wrong]})
        what = f"opening a session with the folder {wrong!r}"
        runner.results.check(f"roots.{name}", responses.not_refused(exchange, what=what))
    other = {_DIRECTORIES: [str(runner.make_folder())]}
    widened = await runner.call(method, params | other)
    faults = responses.not_an_object(widened, or_null=True)
    runner.results.check("roots.opened", faults)
    await runner.processes.restart(kill=False)
    opening = await runner.reopen(session, replayed=replayed)
    found = await read_list(runner)
    entry = found.entry(session.id)
    if opening.exchange.is_refused or entry is None:
        runner.results.not_seen(
            "roots.reopened", "the session cannot be opened again, or is not listed"
        )
    else:
        runner.results.check("roots.reopened", _different_directories(found, entry, []))


def _different_directories(found: Listing, entry: Json, expected: list[str]) -> Iterator[Fault]:
    came = as_array(entry.get(_DIRECTORIES))
    if came != expected:
        message = f"the session's additional directories are {expected}, but the list has {came}"
        yield Fault(message, found.first.lines)
