"""`session/fork`: the copy, and what becomes of its source."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.conformance import digest
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import replays, responses
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.scenarios.reopen import stuck
from rekindle.conformance.session_runner import Examiner, Stopped, Talk
from rekindle.conformance.trace import Answer, Json


async def fork(it: Examiner) -> None:
    """Judge how a session is copied."""
    if "fork" not in it.offers:
        raise Stopped("`session/fork` is not offered", Verdict.NOT_OFFERED)
    params: Json = {"sessionId": unknown_id(), **it.fresh(it.folder())}
    unknown = await it.probe(methods.FORK, params)
    it.ledger.judge("fork.unknown", responses.not_refused(unknown, what="an unknown session"))
    it.unknown.append(unknown)
    source = await it.talk()
    answer = await it.call(methods.FORK, {"sessionId": source.id, **it.fresh(source.folder)})
    session_id = it.named(answer)
    if not it.ledger.judge("fork.works", responses.no_session(answer)) or session_id is None:
        it.give_up(methods.FORK)
        raise Stopped("`session/fork` does not work")
    it.ledger.judge("fork.id", _same_id(answer, source))
    if session_id == source.id:
        raise Stopped("the fork is its own source")
    copy = Talk(session_id, source.folder, list(source.items))
    turn = await it.prompt(copy.id, it.settings.prompt)
    it.ledger.judge("fork.goes-on", stuck(turn))
    copy.items += digest.of_turn(it.settings.prompt, turn.updates)
    if "replay" not in it.offers:
        raise Stopped("the agent cannot tell a session again", Verdict.NOT_OFFERED)
    await it.restart(kill=False)
    await _judge_histories(it, source, copy)


def _same_id(answer: Answer, source: Talk) -> Iterator[Fault]:
    if answer.result.get("sessionId") == source.id:
        yield Fault("the fork has the id of its source", answer.lines)


async def _judge_histories(it: Examiner, source: Talk, copy: Talk) -> None:
    """Judge what is told of both. Who cannot tell the one has not spoilt the other."""
    left = await it.open(source, replayed=True)
    made = await it.open(copy, replayed=True)
    if left.answer.is_refused and made.answer.is_refused:
        raise Stopped(f"neither can be told again: {made.answer.in_words()}")
    history = list(replays.other_turns(made, copy.items))
    it.ledger.judge("fork.history", history)
    said = [item for item in source.items if item.role == digest.USER]
    has_all = left.answer.is_result and len(replays.user_turns(left)) >= len(said)
    if has_all or not history:
        it.ledger.judge("fork.source", replays.other_turns(left, source.items))
    else:
        it.ledger.skip("fork.source", "neither the source nor the fork is told whole")
