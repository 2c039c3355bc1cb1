"""Behaviour without a rule in the specification. It is recorded, and not judged."""

from rekindle.acp import methods
from rekindle.conformance.peer import Peer
from rekindle.conformance.rules import vocabulary
from rekindle.conformance.scenarios.batch import UNKNOWN, send_line
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.scenarios.stop import start_long_turn
from rekindle.conformance.session_runner import ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange, TraceLine
from rekindle.jsonvalue import Json, encode

_NO_COMMAND = "/rekindle-check/no-such-server"
_NO_ADDRESS = "http://127.0.0.1:9/rekindle-check"
_MAX_SHOWN = 100
_NEED_TURNS = ("recorded.second-prompt", "recorded.idle-cancel", "recorded.withdrawal")
_PATIENCE = 10
"""The longest wait for the end of the turn, as a multiple of the usual silence."""


async def check_recorded(runner: SessionRunner) -> None:
    """Record the reactions of the agent."""
    _record_start(runner)
    _record_replay(runner)
    await _record_lines(runner)
    await _record_servers(runner)
    try:
        await runner.require_turns()
        await _record_turns(runner)
    except ScenarioStopped as stopped:
        for name in _NEED_TURNS:
            runner.results.not_seen(name, stopped.reason)


def _record_start(runner: SessionRunner) -> None:
    handshake = runner.processes.handshake
    if handshake is not None and handshake.response is not None:
        seconds = handshake.response.at - handshake.request.at
        runner.results.record("recorded.start", f"{seconds:.2f} s")


def record_stderr(runner: SessionRunner) -> None:
    """Record the output on stderr of all processes."""
    peers = runner.processes.peers
    size = sum(it.notes.stderr_bytes for it in peers)
    runner.results.record("recorded.stderr", f"{size} bytes from {len(peers)} processes")


# -- odd lines --------------------------------------------------------------------------


async def _record_lines(runner: SessionRunner) -> None:
    mixed: list[Json] = [
        {"jsonrpc": "2.0", "id": "rekindle-check-1", "method": UNKNOWN, "params": {}},
        {"jsonrpc": "2.0", "id": "rekindle-check-2", "result": {}},
    ]
    lines: dict[str, bytes] = {
        "recorded.invalid-request": b'{"rekindle": "check"}',
        "recorded.protocol-notification": encode(
            {"jsonrpc": "2.0", "method": "$/rekindle_check", "params": {}}
        ),
    }
    if runner.protocol > 1:
        lines["recorded.broken-batch"] = b'[{"jsonrpc": "2.0", "method": '
        lines["recorded.mixed-batch"] = encode(mixed)
    for name, data in lines.items():
        peer = await runner.processes.current()
        _, came = await send_line(runner, data)
        runner.results.record(name, _describe_reaction(peer, came))


def _describe_reaction(peer: Peer, lines: list[TraceLine]) -> str:
    if how := peer.describe_exit():
        return how
    if not lines:
        return "no answer"
    shown = [it.data.decode("utf-8", "replace")[:_MAX_SHOWN] for it in lines if not it.is_member]
    return "; ".join(shown)


# -- MCP servers ------------------------------------------------------------------------


async def _record_servers(runner: SessionRunner) -> None:
    typed: Json = {"type": "stdio"} if runner.protocol > 1 else {}
    stdio: Json = {**typed, "name": "none", "command": _NO_COMMAND, "args": [], "env": []}
    http: Json = {"type": "http", "name": "none", "url": _NO_ADDRESS, "headers": []}
    for name, server in (("recorded.stdio-server", stdio), ("recorded.http-server", http)):
        params = runner.new_params(runner.make_folder()) | {"mcpServers": [server]}
        exchange = await runner.probe(methods.NEW, params)
        runner.note_session(exchange)
        runner.results.record(name, _describe_answer(exchange))


def _describe_answer(exchange: Exchange) -> str:
    return "it was accepted" if exchange.is_result else exchange.describe()


# -- turns ------------------------------------------------------------------------------


async def _record_turns(runner: SessionRunner) -> None:
    """Provoke the agent with a second prompt, in a process that no rule applies to."""
    peer = await runner.processes.restart(kill=True)
    peer.notes.is_judged = False
    session = await runner.new_session(runner.make_folder())
    await _record_idle_cancel(runner, peer, session.id)
    _, first = await start_long_turn(runner, session)
    blocks = [{"type": "text", "text": runner.settings.prompt}]
    second = peer.request(methods.PROMPT, {"sessionId": session.id, "prompt": blocks})
    reaction = await peer.response_to(second, runner.settings.quiet_seconds)
    peer.notify(methods.CANCEL, {"sessionId": session.id})
    await runner.wait_for_turn_end(peer, first, _PATIENCE * runner.settings.quiet_seconds)
    late = await peer.response_to(second, runner.settings.quiet_seconds)
    runner.results.record("recorded.second-prompt", _describe_second(reaction, late))
    runner.results.record("recorded.withdrawal", _describe_withdrawal(peer, first))
    await runner.processes.stop(kill=True)


async def _record_idle_cancel(runner: SessionRunner, peer: Peer, session_id: str) -> None:
    await peer.wait_until_quiet(session_id, runner.settings.quiet_seconds)
    since = len(peer.lines)
    for cancelled in (session_id, unknown_id()):
        peer.notify(methods.CANCEL, {"sessionId": cancelled})
    barrier = await peer.response_to(peer.request(UNKNOWN, {}), runner.settings.timeout)
    came = [it for it in peer.lines[since:] if not it.is_sent and it is not barrier.response]
    runner.results.record("recorded.idle-cancel", _describe_updates(came))


def _describe_second(reaction: Exchange, late: Exchange) -> str:
    if reaction.response is not None:
        return f"while the first turn runs, {reaction.describe()}"
    return f"after the first turn, {late.describe()}"


def _describe_withdrawal(peer: Peer, prompt: TraceLine) -> str:
    lines = peer.lines[peer.lines.index(prompt) :]
    asked = [it for it in lines if it.method == methods.REQUEST_PERMISSION]
    withdrawn = [it for it in peer.lines if it.method == methods.CANCEL_REQUEST and not it.is_sent]
    if not asked and not withdrawn:
        return "the cancelled turn had no open request"
    return "the request was withdrawn" if withdrawn else "the request was not withdrawn"


def _describe_updates(lines: list[TraceLine]) -> str:
    kinds = dict.fromkeys(it.kind or it.method or "an answer" for it in lines)
    return f"the agent sent {', '.join(kinds)}" if kinds else "nothing was sent"


def _record_replay(runner: SessionRunner) -> None:
    """Describe the replays of the other scenarios."""
    history = [line for opening in runner.observed.replays for line in opening.history]
    messages = [it for it in history if it.kind in vocabulary.MESSAGES]
    if not messages:
        runner.results.not_seen("recorded.replay-chunks", "no message was replayed")
        return
    chunks = [it for it in messages if it.kind.endswith("_chunk")]
    whole = {it.update.get("messageId") for it in messages if it not in chunks}
    alone = [it for it in chunks if it.update.get("messageId") not in whole]
    text = f"{len(messages) - len(chunks)} whole messages, {len(chunks)} chunks"
    runner.results.record(
        "recorded.replay-chunks", f"{text}, of which {len(alone)} belong to no whole message"
    )
