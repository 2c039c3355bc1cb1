"""Turns that the client stops, with `session/cancel` or `session/close`."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from rekindle.acp import methods
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses, turns, vocabulary
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange, TraceLine, updates

_FIRST_UPDATE_TIMEOUT = 2.0
# A turn that ends sooner than this after the stop may have ended by itself.
_MIN_SECONDS = 1.0
_TOO_SHORT = "the turn ended before it could be cancelled; use a longer one with --long-prompt"
_WITHDRAWN = "the prompt was cancelled before it became a message, which is allowed"

_ACTIVITY = vocabulary.CONVERSATION - vocabulary.USER_MESSAGES

StopTurn = Callable[[Peer, CheckedSession], TraceLine]


class StoppedTurn(Struct, frozen=True):
    """A long turn, and the line that stopped it; None if the turn had ended before."""

    peer: Peer
    turn: TurnTrace
    stop: TraceLine | None

    @property
    def may_have_ended(self) -> bool:
        """Whether the turn may have ended by itself, before the stop could take effect."""
        turn = self.turn
        if self.stop is None:
            return True
        if turn.end is None or turn.exchange.is_refused or turn.stop_reason == "cancelled":
            return False
        return turn.end.at - self.stop.at < _MIN_SECONDS

    @property
    def seconds(self) -> float:
        """The duration of the turn."""
        return self.turn.end.at - self.turn.exchange.request.at if self.turn.end else 0.0


async def start_long_turn(runner: SessionRunner, session: CheckedSession) -> tuple[Peer, TraceLine]:
    """Start a long turn, and return after its first update."""
    await runner.require_turns()
    peer, request = await runner.start_turn(session.id, runner.settings.long_prompt)
    since = peer.lines.index(request)

    def is_activity(line: TraceLine) -> bool:
        is_update = line.session_id == session.id and line.kind in _ACTIVITY
        return is_update or (line.is_response and runner.protocol == 1 and line.id == request.id)

    await peer.wait_for(is_activity, since, min(_FIRST_UPDATE_TIMEOUT, runner.settings.timeout))
    if runner.protocol > 1:
        # A prompt that is not a message yet has no turn to cancel.
        await peer.response_to(request, runner.settings.timeout)
    return peer, request


async def stop_turn(runner: SessionRunner, stop: StopTurn) -> StoppedTurn:
    """Stop a turn while it runs. Raises ScenarioStopped if none runs long enough.

    A turn that ends right after the stop, and not as `cancelled`, may have ended by itself. Then
    another turn is stopped, some time after the first one's duration.
    """
    first = await _try_to_stop(runner, stop, 0.0)
    last = (
        await _try_to_stop(runner, stop, first.seconds + _MIN_SECONDS)
        if first.may_have_ended
        else first
    )
    if last.stop is None:
        raise ScenarioStopped(_TOO_SHORT)
    if turns.was_withdrawn(last.turn, runner.protocol):
        raise ScenarioStopped(_WITHDRAWN)
    return last


async def _try_to_stop(runner: SessionRunner, stop: StopTurn, least: float) -> StoppedTurn:
    session = await runner.new_session(runner.make_folder())
    peer, request = await start_long_turn(runner, session)
    left = least - (peer.now - request.at)
    is_over = left > 0 and await runner.wait_for_turn_end(peer, request, left) is not None
    line = None if is_over else stop(peer, session)
    turn = await runner.finish_turn(peer, request, is_cancelled=True)
    if line is not None and turn.end is not None and turn.end.at <= line.at:
        line = None
    return StoppedTurn(peer, turn, line)


def _lines_after(stopped: StoppedTurn, since: TraceLine) -> list[TraceLine]:
    lines = stopped.peer.lines
    return [it for it in lines[lines.index(since) + 1 :] if not it.is_sent]


# -- session/cancel ---------------------------------------------------------------------


async def check_cancel(runner: SessionRunner) -> None:
    """Check a turn that is cancelled, and the next prompt of the session."""
    stopped = await stop_turn(
        runner, lambda peer, session: peer.notify(methods.CANCEL, {"sessionId": session.id})
    )
    turn, peer = stopped.turn, stopped.peer
    runner.results.check("cancel.ends", turns.not_cancelled(turn))
    if turn.end is None:
        raise ScenarioStopped("the cancelled turn did not end")
    await peer.wait_until_quiet(turn.session_id, runner.settings.quiet_seconds)
    after = _lines_after(stopped, turn.end)
    runner.results.check("cancel.over", turns.late_messages(after, turn, runner.protocol))
    if runner.protocol == 1:
        runner.results.check("cancel.silent", turns.any_late_updates(after, turn))
    following = await runner.prompt(turn.session_id, runner.settings.prompt)
    runner.results.check("cancel.next", _failed_next_prompt(following))
    extended = await stop_turn(runner, _cancel_with_meta)
    runner.results.check("cancel.meta", turns.not_cancelled(extended.turn))


def _cancel_with_meta(peer: Peer, session: CheckedSession) -> TraceLine:
    params = {"sessionId": session.id, "_meta": {"rekindle.check": {"reason": "a test"}}}
    return peer.notify(methods.CANCEL, params)


def _failed_next_prompt(turn: TurnTrace) -> Iterator[Fault]:
    if not turn.is_complete or turn.stop_reason == "cancelled":
        message = f"the prompt after a cancelled one does not work: {turn.describe()}"
        yield Fault(message, turn.exchange.lines)


# -- session/close ----------------------------------------------------------------------


async def check_close(runner: SessionRunner) -> None:
    """Check how sessions are closed, idle and in a turn."""
    if "close" not in runner.offered:
        raise ScenarioStopped("`session/close` is not offered", Verdict.NOT_OFFERED)
    unknown = await runner.probe(methods.CLOSE, {"sessionId": unknown_id()})
    runner.results.check("close.unknown", responses.not_an_object(unknown))
    idle = await runner.new_session(runner.make_folder())
    closed = await runner.call(methods.CLOSE, {"sessionId": idle.id})
    if not runner.results.check("close.works", responses.not_an_object(closed)):
        raise ScenarioStopped("`session/close` does not work")
    await _close_idle(runner)
    await _close_working(runner)


async def _close_idle(runner: SessionRunner) -> None:
    session = await runner.prompted_session()
    if runner.can_reopen:
        await runner.call(methods.CLOSE, {"sessionId": session.id})
        opening = await runner.reopen(session, replayed="replay" in runner.offered)
        runner.results.check("close.keeps", responses.not_an_object(opening.exchange, or_null=True))
    else:
        runner.results.not_offered("close.keeps", "the agent offers no way to open it again")
    await runner.call(methods.CLOSE, {"sessionId": session.id})
    prompt = [{"type": "text", "text": runner.settings.prompt}]
    refused = await runner.probe(methods.PROMPT, {"sessionId": session.id, "prompt": prompt})
    runner.results.check(
        "close.frees", responses.not_refused(refused, what="a prompt after the close")
    )
    await runner.wait_for_stray_turn(refused)


async def _close_working(runner: SessionRunner) -> None:
    stopped = await stop_turn(
        runner, lambda peer, session: peer.request(methods.CLOSE, {"sessionId": session.id})
    )
    turn, peer = stopped.turn, stopped.peer
    assert stopped.stop is not None  # noqa: S101 - otherwise `stop_turn` has raised
    exchange = await peer.response_to(stopped.stop, runner.settings.timeout)
    runner.processes.requests.append((peer, exchange))
    runner.results.check("close.cancels", turns.not_cancelled(turn))
    if exchange.response is None or runner.protocol == 1:
        return
    await peer.wait_until_quiet(turn.session_id, runner.settings.quiet_seconds)
    runner.results.check("close.cancels", _late_end(peer, turn.end, exchange))
    late = updates(_lines_after(stopped, exchange.response), turn.session_id)
    runner.results.check("close.silent", (_late_update(line, exchange) for line in late))


def _late_end(peer: Peer, end: TraceLine | None, exchange: Exchange) -> Iterator[Fault]:
    if end is None or exchange.response is None:
        return
    if peer.lines.index(end) > peer.lines.index(exchange.response):
        message = "the turn was still running when `session/close` was answered"
        yield Fault(message, (*exchange.lines, end))


def _late_update(line: TraceLine, exchange: Exchange) -> Fault:
    return Fault(f"{line.kind} came after the session was closed", (*exchange.lines, line))
