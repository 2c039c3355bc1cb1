"""New sessions, and their turns."""

import os
from collections.abc import Iterator
from pathlib import Path

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS, REQUEST_CANCELLED
from rekindle.conformance.report import Fault
from rekindle.conformance.rules import options, responses, turns
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange
from rekindle.jsonvalue import Json, as_array, as_object

# A PNG of one pixel, and a WAV without samples.
_IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
_AUDIO = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
_TRACE_PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def unknown_id() -> str:
    """Return a valid session id that no session has."""
    return f"00000000-0000-4000-8000-{os.urandom(6).hex()}"


async def check_sessions(runner: SessionRunner) -> None:
    """Check how sessions are created."""
    session = await runner.new_session(runner.make_folder())
    created = runner.observed.opened[-1]
    await runner.new_session(session.folder)
    await _check_options(runner, created, session)
    await _check_modes(runner, created, session)
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
    given = [as_object(option) for option in as_array(created.result.get("configOptions"))]
    if not given:
        runner.results.not_offered("session.options", "the session has no options")
        return
    if not runner.results.check(
        "session.options", responses.bad_options(given, created, runner.protocol)
    ):
        return
    first = next((option for option in given if option.get("type") == "select"), None)
    if first is not None:
        named = first["id" if runner.protocol == 1 else "configId"]
        value: Json = {"value": first["currentValue"]}
        params = {"sessionId": session.id, "configId": named, **value}
        if runner.protocol > 1:
            params["type"] = "id"
        exchange = await runner.call(methods.SET_CONFIG_OPTION, params)
        faults = responses.incomplete_options(given, exchange, runner.protocol)
        runner.results.check("session.options", faults)


async def _check_modes(runner: SessionRunner, created: Exchange, session: CheckedSession) -> None:
    modes = as_object(created.result.get("modes"))
    if runner.protocol > 1 or not modes:
        for name in ("session.modes", "session.set-mode"):
            runner.results.not_offered(name, "the session has no modes")
        return
    runner.results.check("session.modes", options.bad_modes(created, modes))
    others = [it for it in options.mode_ids(modes) if it != modes.get("currentModeId")]
    if not others:
        runner.results.not_offered("session.set-mode", "the session has one mode")
        return
    peer = await runner.processes.current()
    since = len(peer.lines)
    params = {"sessionId": session.id, "modeId": others[0]}
    exchange = await runner.call(methods.SET_MODE, params)
    runner.results.check("session.set-mode", responses.not_an_object(exchange, or_null=True))
    faults = options.bad_mode_updates(peer.lines[since:], session.id)
    runner.results.check("session.set-mode", faults)


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
        yield Fault(f"a cancelled request: {exchange.describe()}", exchange.lines)


# -- turns ------------------------------------------------------------------------------


async def check_turn(runner: SessionRunner) -> None:
    """Check a turn, and one with a link to a file."""
    session = await runner.new_session(runner.make_folder())
    turn = await runner.prompt(session.id, runner.settings.prompt)
    if turn.obstacle:
        raise ScenarioStopped(runner.no_turns or f"a turn could not be run: {turn.describe()}")
    runner.results.check("turn.works", _failed_prompt(turn, "a text prompt"))
    if not turn.is_complete:
        raise ScenarioStopped(f"a turn could not be run: {turn.describe()}")
    await _check_nothing_late(runner, turn)
    path = session.folder / "notes.txt"
    path.write_text("Remember the milk.\n", encoding="utf-8")
    link = {"type": "resource_link", "uri": path.as_uri(), "name": path.name}
    linked = await runner.prompt(session.id, runner.settings.prompt, link)
    runner.results.check("turn.link", _failed_prompt(linked, "a prompt with a `resource_link`"))
    await _check_content(runner, session)
    await _check_meta(runner, session)
    if runner.protocol > 1:
        await _check_unknown_outcome(runner)


async def _check_content(runner: SessionRunner, session: CheckedSession) -> None:
    """Send the kinds of content that the agent announces, each in a prompt."""
    uri = (session.folder / "notes.txt").as_uri()
    resource = {"uri": uri, "mimeType": "text/plain", "text": "Remember the milk."}
    blocks: dict[str, tuple[str, Json]] = {
        "turn.image": ("image", {"type": "image", "mimeType": "image/png", "data": _IMAGE}),
        "turn.audio": ("audio", {"type": "audio", "mimeType": "audio/wav", "data": _AUDIO}),
        "turn.embedded": ("embeddedContext", {"type": "resource", "resource": resource}),
    }
    announced = runner.prompt_capabilities
    for name, (capability, block) in blocks.items():
        if announced.get(capability) in (None, False):
            runner.results.not_offered(name, f"`{capability}` is not offered")
            continue
        turn = await runner.prompt(session.id, runner.settings.prompt, block)
        what = f"a prompt with the content {block['type']}"
        runner.results.check(name, _failed_prompt(turn, what))


async def _check_meta(runner: SessionRunner, session: CheckedSession) -> None:
    peer = await runner.processes.current()
    params = {
        "sessionId": session.id,
        "prompt": [{"type": "text", "text": runner.settings.prompt}],
        "_meta": {"traceparent": _TRACE_PARENT, "rekindle.check": {"reason": "a test"}},
    }
    turn = await runner.finish_turn(peer, peer.request(methods.PROMPT, params))
    runner.results.check("turn.meta", _failed_prompt(turn, "a prompt with `_meta`"))


async def _check_unknown_outcome(runner: SessionRunner) -> None:
    """Answer the permission requests of a turn with an outcome of an extension."""
    session = await runner.new_session(runner.make_folder())
    peer = await runner.processes.current()
    peer.notes.answers_oddly = True
    turn = await runner.prompt(session.id, runner.settings.prompt)
    peer.notes.answers_oddly = False
    if any(line.method == methods.REQUEST_PERMISSION for line in turn.lines):
        what = "a turn with an unknown answer to a permission request"
        runner.results.check("turn.outcome", _failed_prompt(turn, what))
    else:
        runner.results.not_seen("turn.outcome", "no permission was requested")


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
