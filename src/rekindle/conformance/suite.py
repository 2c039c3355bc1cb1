"""Run the scenarios, then apply the rules that need the lines of all of them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from rekindle.acp import methods
from rekindle.acp.jsonrpc import RESOURCE_NOT_FOUND
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import CheckReport, Fault, ProcessLog, Verdict
from rekindle.conformance.requirements import SCENARIOS as SCENARIO_NAMES
from rekindle.conformance.rules import (
    fields,
    frames,
    options,
    responses,
    turns,
    updates,
    vocabulary,
)
from rekindle.conformance.scenarios import SCENARIOS
from rekindle.conformance.scenarios.recorded import record_stderr
from rekindle.conformance.session_runner import (
    AgentNotCheckable,
    CheckSettings,
    ScenarioStopped,
    SessionRunner,
)
from rekindle.conformance.trace import TraceLine
from rekindle.jsonvalue import as_object, as_str
from rekindle.text.redact.detect import mask

GREETING, WIRE, RECORDED = "greeting", "wire", "recorded"

_NOT_SEEN = {
    "turn.reason": "no turn has a stop reason",
    "turn.message-ids": "messages have no ids",
    "turn.asking": "no permission was requested",
}
_Applies = Callable[[TraceLine], bool]
_Rule = Callable[[Sequence[TraceLine]], Iterator[Fault]]


async def run_check(
    settings: CheckSettings,
    only: Collection[str] = (),
    on_scenario: Callable[[int, int], None] | None = None,
) -> CheckReport:
    """Check an agent. Raises AgentNotStarted.

    `only` are the scenarios to run; if it is empty, all run. `on_scenario` receives the number of
    scenarios that are done, and of all.
    """
    runner = SessionRunner(settings)
    results = runner.results
    chosen = [name for name in SCENARIOS if not only or name in only] or [GREETING]
    obstacle = ""
    try:
        for done, name in enumerate(chosen):
            if on_scenario is not None:
                on_scenario(done, len(chosen))
            obstacle = obstacle or await _run_scenario(runner, name)
            if obstacle:
                results.end_scenario(name, obstacle)
        await runner.delete_sessions()
    finally:
        await runner.processes.kill_all()
    apply_global_rules(runner)
    if RECORDED in chosen:
        record_stderr(runner)
    for name in chosen:
        results.end_scenario(name, "it was not tested")
    results.end_scenario(WIRE, "the agent sent nothing of this kind", Verdict.NOT_SEEN)
    wanted = {*(only or SCENARIO_NAMES), WIRE}
    processes = tuple(_log(number, peer) for number, peer in enumerate(runner.processes.peers, 1))
    return CheckReport(
        protocol=settings.protocol,
        agent=_identity(runner),
        results=tuple(it for it in results.results(processes) if it.requirement.scenario in wanted),
        seconds=runner.processes.elapsed,
        obstacle=mask(obstacle),
        no_turns=mask(runner.no_turns),
        processes=processes,
    )


def _log(number: int, peer: Peer) -> ProcessLog:
    return ProcessLog(
        number, tuple(peer.notes.scenarios), tuple(peer.lines), peer.stderr, peer.describe_exit()
    )


async def _run_scenario(runner: SessionRunner, name: str) -> str:
    """Run a scenario; return why no further one can run, or an empty string."""
    try:
        runner.processes.scenario = name
        if name != GREETING:
            await runner.require_sessions()
        await SCENARIOS[name](runner)
    except ScenarioStopped as stopped:
        runner.results.end_scenario(name, stopped.reason, stopped.verdict)
    except AgentNotCheckable as error:
        runner.results.end_scenario(name, str(error))
        return str(error)
    return ""


def apply_global_rules(runner: SessionRunner) -> None:
    """Apply the rules for all lines, sessions and turns of the check."""
    for peer in filter(lambda it: it.notes.is_judged, runner.processes.peers):
        received = [line for line in peer.lines if not line.is_sent]
        for name, (applies, rule) in _line_rules(runner).items():
            if any(map(applies, received)):
                runner.results.check(name, rule(peer.lines))
        requests = [exchange for other, exchange in runner.processes.requests if other is peer]
        if requests:
            faults = frames.unanswered_requests(requests, peer.describe_exit())
            runner.results.check("wire.answered", faults)
        if peer.notes.exited_in_time is not None:
            late = frames.late_exits(peer.lines, exited_in_time=peer.notes.exited_in_time)
            runner.results.check("wire.exits", late)
    observed = runner.observed
    if len(observed.opened) > 1:
        runner.results.check("session.unique", responses.shared_ids(observed.opened))
    if any(exchange.is_refused for exchange in observed.unknown_sessions):
        runner.results.check("session.unknown-code", _wrong_codes(runner))
    _apply_turn_rules(runner)


def _line_rules(runner: SessionRunner) -> dict[str, tuple[_Applies, _Rule]]:
    """Return the rules for lines: the lines that each applies to, and the rule."""
    protocol, known = runner.protocol, _session_ids(runner)
    calls = _of_kinds(vocabulary.CALLS)
    return {
        "wire.json": (
            lambda line: bool(line.data.strip()),
            partial(frames.invalid_messages, protocol=protocol),
        ),
        "wire.frames": (_is_message, frames.bad_frames),
        "wire.once": (lambda line: line.is_response, frames.unexpected_responses),
        "wire.ids": (lambda line: line.is_request, partial(frames.bad_ids, protocol=protocol)),
        "wire.capabilities": (
            _is_message,
            partial(frames.unsupported_calls, protocol=protocol),
        ),
        "wire.methods": (lambda line: bool(line.method), frames.unknown_methods),
        "wire.fields": (_is_message, partial(fields.extra_fields, protocol=protocol)),
        "wire.kinds": (_is_update, partial(frames.unknown_kinds, protocol=protocol)),
        "wire.arrays": (frames.has_arrays, frames.null_arrays),
        "wire.sessions": (_is_update, partial(frames.unknown_sessions, known=known)),
        "wire.leaks": (
            _of_kinds(vocabulary.CONVERSATION),
            partial(frames.leaked_updates, protocol=protocol),
        ),
        "wire.tool-calls": (calls, partial(updates.bad_tool_calls, protocol=protocol)),
        "wire.titles": (calls, partial(updates.untitled_calls, protocol=protocol)),
        "wire.plans": (_of_kinds(vocabulary.PLANS), partial(updates.bad_plans, protocol=protocol)),
        "wire.terminals": (_of_kinds(vocabulary.TERMINALS), updates.bad_terminals),
        "wire.info": (
            _of_kinds({vocabulary.SESSION_INFO_UPDATE}),
            partial(updates.bad_session_info, protocol=protocol),
        ),
        "wire.questions": (
            _is_permission_request,
            partial(updates.bad_permission_requests, protocol=protocol),
        ),
        "wire.errors": (_is_error, frames.bad_error_messages),
        "wire.meta": (lambda line: b'"_meta"' in line.data, frames.bad_meta),
        "wire.tool-names": (
            lambda line: line.kind in vocabulary.CALLS and "name" in line.update,
            updates.changed_names,
        ),
        "wire.terminal-folders": (
            lambda line: line.kind == "terminal_update" and line.update.get("cwd") is not None,
            updates.bad_terminal_folders,
        ),
        "wire.choices": (options.has_options, options.invalid_values),
        "wire.option-updates": (
            options.is_option_update,
            partial(options.partial_updates, protocol=protocol),
        ),
        "wire.subagents": (
            _of_kinds({vocabulary.SUBAGENT_UPDATE}),
            partial(frames.bad_subagents, known=known),
        ),
        "turn.asking": (_is_permission_request, updates.permissions_without_state),
    }


def _is_message(line: TraceLine) -> bool:
    return bool(line.message)


def _is_error(line: TraceLine) -> bool:
    return line.is_response and line.message.get("error") is not None


def _is_update(line: TraceLine) -> bool:
    return line.method == methods.UPDATE


def _is_permission_request(line: TraceLine) -> bool:
    return line.method == methods.REQUEST_PERMISSION


def _of_kinds(kinds: Collection[str]) -> _Applies:
    return lambda line: line.kind in kinds


def _apply_turn_rules(runner: SessionRunner) -> None:
    check, complete = runner.results.check, runner.observed.turns
    for turn in complete:
        if runner.protocol == 1 or isinstance(turn.stop_reason, str):
            check("turn.reason", turns.bad_stop_reason(turn, runner.protocol))
        if runner.protocol > 1:
            check("turn.why", turns.missing_stop_reason(turn))
            check("turn.states", turns.bad_states(turn))
            check("turn.message-id", turns.bad_message_id(turn))
    if complete and (runner.protocol > 1 or any(turn.has_ids for turn in complete)):
        check("turn.message-ids", turns.shared_message_ids(complete, runner.protocol))
    for name, reason in _NOT_SEEN.items():
        if complete:
            runner.results.not_seen(name, reason)


def _wrong_codes(runner: SessionRunner) -> Iterator[Fault]:
    for exchange in runner.observed.unknown_sessions:
        if exchange.is_refused:
            yield from responses.not_refused(exchange, RESOURCE_NOT_FOUND, "an unknown session")


def _session_ids(runner: SessionRunner) -> set[str]:
    """Return the ids that the agent has given or the client has used."""
    given = {as_str(it.result.get("sessionId")) or "" for it in runner.observed.opened}
    sent = [line for peer in runner.processes.peers for line in peer.lines if line.is_sent]
    return given | {line.session_id for line in sent if line.session_id}


def _identity(runner: SessionRunner) -> tuple[str, str]:
    handshake = runner.processes.handshake
    result = handshake.result if handshake else {}
    info = as_object(result.get("agentInfo" if runner.protocol == 1 else "info"))
    return as_str(info.get("name")) or "", as_str(info.get("version")) or ""
