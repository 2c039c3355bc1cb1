"""Turns that are ended before their time: by `session/cancel`, and by `session/close`."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from rekindle.acp import methods
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import names, responses, turns
from rekindle.conformance.rules.turns import Turn
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.session_runner import Examiner, Stopped, Talk
from rekindle.conformance.trace import Answer, Line, updates

_FIRST_SIGN = 2.0
# A turn that ends so soon after it was to be stopped may have been at its end anyway.
_TOO_SOON = 1.0
_TOO_SHORT = "the turn was over too soon to be stopped: give a longer one with --long-prompt"
_NOT_TAKEN = "the prompt was withdrawn before it became a message, as it may be"

_SIGNS = names.CONVERSATION - names.USER_MESSAGES

Stop = Callable[[Peer, Talk], Line]


class _Stopping(Struct, frozen=True):
    """A long turn, and what was to stop it; None if it was over before."""

    peer: Peer
    turn: Turn
    stop: Line | None

    @property
    def may_be_over(self) -> bool:
        """Whether it may have come to its end by itself, in the moment in which it was stopped."""
        turn = self.turn
        if self.stop is None:
            return True
        if turn.end is None or turn.answer.is_refused or turn.stop_reason == "cancelled":
            return False
        return turn.end.at - self.stop.at < _TOO_SOON

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.turn.end.at - self.turn.answer.request.at if self.turn.end else 0.0


async def begin_long(it: Examiner, talk: Talk) -> tuple[Peer, Line]:
    """Begin a turn that lasts, and return when it has begun."""
    await it.prove_turns()
    peer, request = await it.begin(talk.id, it.settings.long_prompt)
    since = peer.lines.index(request)

    def is_sign(line: Line) -> bool:
        is_update = line.session_id == talk.id and line.kind in _SIGNS
        return is_update or (line.is_answer and it.protocol == 1 and line.id == request.id)

    await peer.first(is_sign, since, min(_FIRST_SIGN, it.settings.patience))
    if it.protocol > 1:
        # A prompt that is no message yet has nothing to cancel.
        await peer.answer(request, it.settings.patience)
    return peer, request


async def _stopped(it: Examiner, stop: Stop) -> _Stopping:
    """Stop a turn while it lasts. Raises Stopped if none lasts long enough.

    A turn that ends right after it was stopped, and not as `cancelled`, may have been over by
    itself. So another one is stopped, a while after the time at which the first was over.
    """
    first = await _try(it, stop, 0.0)
    last = await _try(it, stop, first.seconds + _TOO_SOON) if first.may_be_over else first
    if last.stop is None:
        raise Stopped(_TOO_SHORT)
    if turns.is_uninserted(last.turn, it.protocol):
        raise Stopped(_NOT_TAKEN)
    return last


async def _try(it: Examiner, stop: Stop, least: float) -> _Stopping:
    talk = await it.new(it.folder())
    peer, request = await begin_long(it, talk)
    left = least - (peer.now - request.at)
    is_over = left > 0 and await it.end_of_turn(peer, request, left) is not None
    line = None if is_over else stop(peer, talk)
    turn = await it.finish(peer, request, is_cancelled=True)
    if line is not None and turn.end is not None and turn.end.at <= line.at:
        line = None
    return _Stopping(peer, turn, line)


def _rest(stopping: _Stopping, since: Line) -> list[Line]:
    lines = stopping.peer.lines
    return [it for it in lines[lines.index(since) + 1 :] if not it.is_sent]


# -- session/cancel ---------------------------------------------------------------------


async def cancel(it: Examiner) -> None:
    """Judge a turn that is cancelled, and the session after it."""
    stopping = await _stopped(
        it, lambda peer, talk: peer.notify(methods.CANCEL, {"sessionId": talk.id})
    )
    turn, peer = stopping.turn, stopping.peer
    it.ledger.judge("cancel.ends", turns.not_cancelled(turn))
    if turn.end is None:
        raise Stopped("the cancelled turn did not end")
    await peer.settle(turn.session_id, it.settings.settling)
    late = turns.late_messages(_rest(stopping, turn.end), turn, it.protocol)
    it.ledger.judge("cancel.over", late)
    following = await it.prompt(turn.session_id, it.settings.prompt)
    it.ledger.judge("cancel.next", _refused_next(following))


def _refused_next(had: Turn) -> Iterator[Fault]:
    if not had.is_had or had.stop_reason == "cancelled":
        words = f"the prompt after a cancelled one does not work: {had.in_words()}"
        yield Fault(words, had.answer.lines)


# -- session/close ----------------------------------------------------------------------


async def close(it: Examiner) -> None:
    """Judge closing."""
    if "close" not in it.offers:
        raise Stopped("`session/close` is not offered", Verdict.NOT_OFFERED)
    unknown = await it.probe(methods.CLOSE, {"sessionId": unknown_id()})
    it.ledger.judge("close.unknown", responses.not_an_object(unknown))
    idle = await it.new(it.folder())
    closed = await it.call(methods.CLOSE, {"sessionId": idle.id})
    if not it.ledger.judge("close.works", responses.not_an_object(closed)):
        raise Stopped("`session/close` does not work")
    await _at_rest(it)
    await _at_work(it)


async def _at_rest(it: Examiner) -> None:
    talk = await it.talk()
    if it.reopens:
        await it.call(methods.CLOSE, {"sessionId": talk.id})
        opening = await it.open(talk, replayed="replay" in it.offers)
        it.ledger.judge("close.keeps", responses.not_an_object(opening.answer, or_null=True))
    else:
        it.ledger.miss("close.keeps", "the agent offers no way to open it again")
    await it.call(methods.CLOSE, {"sessionId": talk.id})
    prompt = [{"type": "text", "text": it.settings.prompt}]
    refused = await it.probe(methods.PROMPT, {"sessionId": talk.id, "prompt": prompt})
    it.ledger.judge("close.frees", responses.not_refused(refused, what="a prompt after the close"))
    await it.let_end(refused)


async def _at_work(it: Examiner) -> None:
    stopping = await _stopped(
        it, lambda peer, talk: peer.request(methods.CLOSE, {"sessionId": talk.id})
    )
    turn, peer = stopping.turn, stopping.peer
    assert stopping.stop is not None  # noqa: S101 - `_stopped` has seen to that
    answer = await peer.answer(stopping.stop, it.settings.patience)
    it.asked.append((peer, answer))
    it.ledger.judge("close.cancels", turns.not_cancelled(turn))
    if answer.line is None or it.protocol == 1:
        return
    await peer.settle(turn.session_id, it.settings.settling)
    it.ledger.judge("close.cancels", _ended_late(peer, turn.end, answer))
    told_late = updates(_rest(stopping, answer.line), turn.session_id)
    it.ledger.judge("close.silent", (_told_late(it, answer) for it in told_late))


def _ended_late(peer: Peer, end: Line | None, answer: Answer) -> Iterator[Fault]:
    if end is None or answer.line is None:
        return
    if peer.lines.index(end) > peer.lines.index(answer.line):
        words = "the turn was still running when `session/close` was answered"
        yield Fault(words, (*answer.lines, end))


def _told_late(line: Line, answer: Answer) -> Fault:
    return Fault(f"{line.kind} came after the session was closed", (*answer.lines, line))
