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
        raise ScenarioStopped("further folders do not work")
    session = CheckedSession(session_id, folder, [])
    await runner.run_turn(session)
    if not runner.works("list"):
        raise ScenarioStopped("there is no list that works", Verdict.NOT_OFFERED)
    found = await read_list(runner)
    entry = found.entry(session.id) or {}
    if _DIRECTORIES not in entry:
        raise ScenarioStopped("the list does not tell further folders", Verdict.NOT_SEEN)
    runner.results.check("roots.listed", _different_directories(found, entry, given))
    await _check_fork(runner, session)
    await _check_reopened(runner, session)


async def _check_fork(runner: SessionRunner, session: CheckedSession) -> None:
    if not runner.works("fork"):
        runner.results.not_offered("roots.forked", "there is no `session/fork` that works")
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
        runner.results.not_offered(
            "roots.reopened", "the agent offers no way to open a session again"
        )
        return
    await runner.processes.restart(kill=False)
    replayed = "replay" in runner.offered
    method, params = runner.reopen_request(session, replayed=replayed)
    for name, wrong in _INVALID.items():
        exchange = await runner.probe(method, params | {_DIRECTORIES: [wrong]})
        what = f"to open a session with the folder {wrong!r}"
        runner.results.check(f"roots.{name}", responses.not_refused(exchange, what=what))
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
        message = f"the session's further folders are {expected}, and the list says {came}"
        yield Fault(message, found.first.lines)
