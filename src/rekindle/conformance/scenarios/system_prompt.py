"""The field `systemPrompt` of the requests that open a session."""

from rekindle.acp import methods
from rekindle.conformance.report import Verdict
from rekindle.conformance.rules import responses
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange
from rekindle.jsonvalue import Json, as_object

_FIELD = "systemPrompt"
_TEXT: Json = {"type": "text", "text": "Answer in English."}
_LINK: Json = {"type": "resource_link", "uri": "file:///rekindle-check", "name": "none"}


async def check_system_prompt(runner: SessionRunner) -> None:
    """Check sessions with a system prompt of the client."""
    if _FIELD not in runner.offered:
        raise ScenarioStopped(f"`{_FIELD}` is not offered", Verdict.NOT_OFFERED)
    check = runner.results.check
    exchange = await _create(runner, "append")
    session_id = exchange.result.get("sessionId")
    check("system.works", responses.missing_session_id(exchange))
    if not isinstance(session_id, str):
        raise ScenarioStopped(f"`{_FIELD}` does not work")
    override = await _create(runner, "override")
    announced = as_object(runner.session_capabilities.get(_FIELD)).get("mode")
    if as_object(announced).get("override") is not None:
        check("system.override", responses.missing_session_id(override))
    else:
        what = "the mode override, which is not announced,"
        check("system.override", responses.not_refused(override, what=what))
    for mode in ("rekindle-check-has-none", "_rekindle_check", 17):
        unknown = await _create(runner, mode)
        what = f"a system prompt with the mode {mode!r}"
        check("system.mode", responses.not_refused(unknown, what=what))
    link = await _create(runner, "append", _LINK)
    check("system.content", responses.not_refused(link, what="a link in a system prompt"))
    folder = as_object(exchange.request.params).get("cwd")
    await _check_reopened(runner, session_id, str(folder))


async def _create(runner: SessionRunner, mode: object, block: Json = _TEXT) -> Exchange:
    params = runner.new_params(runner.make_folder())
    params[_FIELD] = {"mode": mode, "content": [block]}
    exchange = await runner.probe(methods.NEW, params)
    runner.note_session(exchange)
    return exchange


async def _check_reopened(runner: SessionRunner, session_id: str, cwd: str) -> None:
    """Open the session again with its system prompt, in another process."""
    if not runner.can_reopen:
        runner.results.not_offered("system.reopened", "the agent offers no way to do that")
        return
    session = CheckedSession(session_id, runner.settings.folder / cwd, [])
    await runner.run_turn(session)
    methods_tried: set[str] = set()
    for replayed in (True, False):
        method, params = runner.reopen_request(session, replayed=replayed)
        is_offered = ("replay" if replayed else "resume") in runner.offered
        if is_offered and method not in methods_tried:
            methods_tried.add(method)
            await runner.processes.restart(kill=False)
            params = params | {_FIELD: {"mode": "append", "content": [_TEXT]}}
            exchange = await runner.call(method, params)
            faults = responses.not_an_object(exchange, or_null=True)
            runner.results.check("system.reopened", faults)
