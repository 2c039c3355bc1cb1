"""New sessions, and their turns."""

import os
from collections.abc import Iterator
from pathlib import Path

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS, REQUEST_CANCELLED
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import responses, turns
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange
from rekindle.jsonvalue import Json, as_array, as_object


def unknown_id() -> str:
    """Return a valid session id that no session has."""
    return f"00000000-0000-4000-8000-{os.urandom(6).hex()}"


async def check_sessions(runner: SessionRunner) -> None:
    """Check how sessions are created."""
    session = await runner.new_session(runner.make_folder())
    created = runner.observed.opened[-1]
    await runner.new_session(session.folder)
    await _check_options(runner, created, session)
    await _check_withdrawal(runner)
    params = {
        "sessionId": unknown_id(),
        "prompt": [{"type": "text", "text": runner.settings.prompt}],
    }
    refused = await runner.probe(methods.PROMPT, params)
    runner.results.check(
        "session.unknown", responses.not_refused(refused, what="an unknown session")
    )
    runner.observed.unknown_sessions.append(refused)
    await runner.wait_for_stray_turn(refused)
    # These come last, because the agent may exit.
    relative = await runner.probe(methods.NEW, runner.new_params(Path("some/folder")))
    runner.note_session(relative)
    runner.results.check(
        "session.relative", responses.not_refused(relative, what="a relative folder")
    )
    empty = await runner.probe(methods.NEW, {})
    runner.note_session(empty)
    faults = responses.not_refused(empty, INVALID_PARAMS, "session/new without a folder")
    runner.results.check("session.params", faults)
    if not runner.can_reopen:
        # Otherwise the scenarios that reopen sessions do this.
        await runner.processes.restart(kill=True)
        await runner.new_session(runner.make_folder())


async def _check_options(runner: SessionRunner, created: Exchange, session: CheckedSession) -> None:
    options = [as_object(option) for option in as_array(created.result.get("configOptions"))]
    if not options:
        runner.results.not_offered("session.options", "the session has no options")
        return
    if not runner.results.check(
        "session.options", responses.bad_options(options, created, runner.protocol)
    ):
        return
    first = next((option for option in options if option.get("type") == "select"), None)
    if first is not None:
        named = first["id" if runner.protocol == 1 else "configId"]
        value: Json = {"value": first["currentValue"]}
        params = {"sessionId": session.id, "configId": named, **value}
        if runner.protocol > 1:
            params["type"] = "id"
        exchange = await runner.call(methods.SET_CONFIG_OPTION, params)
        faults = responses.incomplete_options(options, exchange, runner.protocol)
        runner.results.check("session.options", faults)


async def _check_withdrawal(runner: SessionRunner) -> None:
    peer = await runner.processes.current()
    request = peer.request(methods.NEW, runner.new_params(runner.make_folder()))
    peer.notify(methods.CANCEL_REQUEST, {"requestId": request.id})
    exchange = await peer.response_to(request, runner.settings.timeout)
    runner.processes.requests.append((peer, exchange))
    runner.note_session(exchange)
    if exchange.response is None:
        await runner.processes.stop(kill=True)
        raise ScenarioStopped(f"{request.method} was not answered")
    runner.results.check("session.withdrawn", _bad_withdrawal(exchange))


def _bad_withdrawal(exchange: Exchange) -> Iterator[Fault]:
    if exchange.is_refused and exchange.code != REQUEST_CANCELLED:
        yield Fault(f"a request that was withdrawn: {exchange.describe()}", exchange.lines)


# -- turns ------------------------------------------------------------------------------


async def check_turn(runner: SessionRunner) -> None:
    """Check a turn, and one with a link to a file."""
    session = await runner.new_session(runner.make_folder())
    turn = await runner.prompt(session.id, runner.settings.prompt)
    if turn.obstacle:
        raise ScenarioStopped(runner.no_turns or f"a turn could not be had: {turn.describe()}")
    runner.results.check("turn.works", _failed_prompt(turn, "a prompt of text"))
    if not turn.is_complete:
        raise ScenarioStopped(f"a turn could not be had: {turn.describe()}")
    await _check_nothing_late(runner, turn)
    path = session.folder / "notes.txt"
    path.write_text("Remember the milk.\n", encoding="utf-8")
    link = {"type": "resource_link", "uri": path.as_uri(), "name": path.name}
    linked = await runner.prompt(session.id, runner.settings.prompt, link)
    runner.results.check("turn.link", _failed_prompt(linked, "a prompt with a `resource_link`"))


def _failed_prompt(turn: TurnTrace, what: str) -> Iterator[Fault]:
    if not turn.is_complete:
        message = f"{what} does not work: {turn.describe()}"
        yield Fault(message, (turn.exchange.request, *turn.lines[-3:]))


async def _check_nothing_late(runner: SessionRunner, turn: TurnTrace) -> None:
    peer = await runner.processes.current()
    await peer.wait_until_quiet(turn.session_id, runner.settings.quiet_seconds)
    if turn.end is not None:
        after = peer.lines[peer.lines.index(turn.end) + 1 :]
        late = turns.late_updates(after, turn.session_id, "the turn's end")
        runner.results.check("turn.over", late)
