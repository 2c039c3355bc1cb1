"""`session/archive` and `session/unarchive`, and the `archived` filter of `session/list`."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS, RESOURCE_NOT_FOUND
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses, turns
from rekindle.conformance.scenarios.list import Listing, read_list
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.scenarios.stop import stop_turn
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner

_FILTERS: dict[str | None, tuple[bool, bool]] = {
    None: (True, False),
    "exclude": (True, False),
    "include": (True, True),
    "only": (False, True),
}
"""For each value of `archived`: whether the list has other sessions, and archived ones."""
_INVALID: tuple[object, ...] = ("rekindle-check-has-none", "_rekindle_check", 17, True)


async def check_archive(runner: SessionRunner) -> None:
    """Check how a session is archived, listed, and unarchived."""
    if "archive" not in runner.offered:
        raise ScenarioStopped("`session/archive` is not offered", Verdict.NOT_OFFERED)
    runner.results.check("archive.list", _missing_list(runner))
    await _check_unknown(runner)
    archived, other = await _make_sessions(runner)
    params = {"sessionId": archived.id}
    exchange = await runner.call(methods.ARCHIVE, params)
    if not runner.results.check("archive.works", responses.not_an_object(exchange)):
        raise ScenarioStopped("`session/archive` does not work")
    again = await runner.call(methods.ARCHIVE, params)
    runner.results.check("archive.again", responses.not_an_object(again))
    await _check_freed(runner, archived)
    if runner.works("list"):
        await _check_lists(runner, archived, other)
    await runner.processes.restart(kill=True)
    if runner.works("list"):
        found = await read_list(runner, archived="only")
        faults = _wrong_list(found, archived, other, (False, True))
        runner.results.check("archive.keeps", faults)
    else:
        for name in ("hidden", "filter", "folder", "field", "value", "keeps", "undone"):
            runner.results.skip(f"archive.{name}", "`session/list` does not work")
    await _check_unarchive(runner, archived)
    await _check_working(runner)


def _missing_list(runner: SessionRunner) -> Iterator[Fault]:
    if "list" not in runner.offered:
        handshake = runner.processes.handshake
        lines = handshake.lines if handshake is not None else ()
        yield Fault("`archive` is advertised, but `list` is not", lines)


async def _check_unknown(runner: SessionRunner) -> None:
    for method in (methods.ARCHIVE, methods.UNARCHIVE):
        exchange = await runner.probe(method, {"sessionId": unknown_id()})
        faults = responses.not_refused(exchange, RESOURCE_NOT_FOUND, "an unknown session")
        runner.results.check("archive.unknown", faults)


async def _make_sessions(runner: SessionRunner) -> tuple[CheckedSession, CheckedSession]:
    """Return two sessions of one folder. If the agent runs turns, each has one."""
    folder = runner.make_folder()
    sessions = [await runner.new_session(folder), await runner.new_session(folder)]
    for session in sessions:
        await runner.run_turn(session)
    return sessions[0], sessions[1]


async def _check_freed(runner: SessionRunner, archived: CheckedSession) -> None:
    blocks = [{"type": "text", "text": runner.settings.prompt}]
    prompted = await runner.probe(methods.PROMPT, {"sessionId": archived.id, "prompt": blocks})
    what = "a prompt for an archived session"
    runner.results.check("archive.frees", responses.not_refused(prompted, what=what))
    await runner.wait_for_stray_turn(prompted)


# -- the list ---------------------------------------------------------------------------


async def _check_lists(
    runner: SessionRunner, archived: CheckedSession, other: CheckedSession
) -> None:
    check = runner.results.check
    for value, expected in _FILTERS.items():
        params = {} if value is None else {"archived": value}
        name = "archive.hidden" if value is None else "archive.filter"
        found = await read_list(runner, **params)
        check(name, _wrong_list(found, archived, other, expected))
        check("archive.field", _missing_field(found))
        found = await read_list(runner, cwd=str(archived.folder), **params)
        check("archive.folder", _wrong_list(found, archived, other, expected))
        elsewhere = await read_list(runner, cwd=str(runner.make_folder()), **params)
        check("archive.folder", _wrong_list(elsewhere, archived, other, (False, False)))
    for wrong in _INVALID:
        exchange = await runner.probe(methods.LIST, {"archived": wrong})
        what = f"`archived` with the value {wrong!r}"
        check("archive.value", responses.not_refused(exchange, INVALID_PARAMS, what))


def _wrong_list(
    found: Listing, archived: CheckedSession, other: CheckedSession, expected: tuple[bool, bool]
) -> Iterator[Fault]:
    """Compare a list with the sessions that it should have."""
    if not found.is_whole:
        return
    value = found.first.request.params.get("archived")
    given = "without `archived`" if value is None else f"with `archived` as {value!r}"
    for session, what, is_expected in zip(
        (other, archived), ("a session", "an archived session"), expected, strict=True
    ):
        if (found.entry(session.id) is not None) is not is_expected:
            verb = "lacks" if is_expected else "has"
            yield Fault(f"{given}, the list {verb} {what}", found.first.lines)
    entry = found.entry(archived.id)
    if entry is not None and entry.get("archived") is False:
        yield Fault("an archived session has `archived` as false", found.first.lines)


def _missing_field(found: Listing) -> Iterator[Fault]:
    for entry in found.entries:
        if not isinstance(entry.get("archived"), bool):
            message = f"`archived` of a listed session is {entry.get('archived')!r}"
            yield Fault(message, found.first.lines)
            return


# -- unarchive --------------------------------------------------------------------------


async def _check_unarchive(runner: SessionRunner, session: CheckedSession) -> None:
    """Unarchive a session of an earlier process, which is not open."""
    check, params = runner.results.check, {"sessionId": session.id}
    exchange = await runner.call(methods.UNARCHIVE, params)
    if not check("archive.undone", responses.not_an_object(exchange)):
        raise ScenarioStopped("`session/unarchive` does not work")
    again = await runner.call(methods.UNARCHIVE, params)
    check("archive.undone-again", responses.not_an_object(again))
    if runner.works("list"):
        found = await read_list(runner)
        if found.is_whole and found.entry(session.id) is None:
            fault = Fault("an unarchived session is not in the list", found.first.lines)
            check("archive.undone", [fault])
    if "status" in runner.offered:
        status = await runner.call(methods.STATUS, params)
        check("archive.unopened", responses.other_status(status, "saved"))
    else:
        blocks = [{"type": "text", "text": runner.settings.prompt}]
        prompted = await runner.probe(methods.PROMPT, params | {"prompt": blocks})
        if prompted.is_result:
            # The agent may restore every session that is prompted.
            runner.results.not_seen("archive.unopened", "the agent has no `session/status`")
            await runner.wait_for_stray_turn(prompted)
        else:
            check("archive.unopened", ())


async def _check_working(runner: SessionRunner) -> None:
    """Archive a session in a turn."""
    stopped = await stop_turn(
        runner, lambda peer, session: peer.request(methods.ARCHIVE, {"sessionId": session.id})
    )
    assert stopped.stop is not None  # noqa: S101 - otherwise `stop_turn` has raised
    exchange = await stopped.peer.response_to(stopped.stop, runner.settings.timeout)
    runner.processes.requests.append((stopped.peer, exchange))
    runner.results.check("archive.cancels", turns.not_cancelled(stopped.turn))
    runner.results.check("archive.cancels", responses.not_an_object(exchange))
