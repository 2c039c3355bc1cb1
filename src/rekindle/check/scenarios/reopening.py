"""Sessions that are opened again by another process of the agent, after the first was killed."""

from collections.abc import Iterator

from rekindle.check import telling
from rekindle.check.examiner import Examiner, Stopped, Talk
from rekindle.check.judges import replays, shapes
from rekindle.check.judges.replays import Opening
from rekindle.check.judges.turns import Turn
from rekindle.check.scenarios.listing import entry_of, pages
from rekindle.check.scenarios.talking import unknown_id
from rekindle.check.traffic import Answer
from rekindle.check.verdicts import Fault, Verdict
from rekindle.wire import methods
from rekindle.wire.envelope import INVALID_PARAMS

_BAD_CURSORS: tuple[object, ...] = (
    {"type": "nobody-knows-this"},
    {"type": "_rekindle_check/nobody_knows_this"},
    {"from": "start"},
    "start",
)


async def replay(it: Examiner) -> None:
    """Judge how a conversation is told again."""
    await it.agent()
    if "replay" not in it.offers:
        raise Stopped("`loadSession` is not offered", Verdict.NOT_OFFERED)
    if it.protocol == 1:
        await refuse_unknown(it, "replay", replayed=True)
    talk = await it.talk()
    await it.say(talk)
    talk, first = await _reopened(it, talk, "replay", replayed=True)
    _judge_replay(it, first, list(talk.items))
    if it.has(methods.LIST):
        it.ledger.judge("replay.listed", _unlisted(await pages(it), talk))
    else:
        it.ledger.miss("replay.listed", "there is no list")
    if it.protocol > 1:
        await _bad_cursors(it, talk)
    it.ledger.judge("replay.goes-on", stuck(await it.prompt(talk.id, it.settings.prompt)))
    talk.items += telling.of_turn(it.settings.prompt, it.turns[-1].updates)
    await it.restart(kill=it.outlives_kill)
    second = await it.open(talk, replayed=True)
    it.ledger.judge("replay.whole", replays.not_whole(second, talk.items))
    it.ledger.judge("replay.again", _not_the_same(first, second))
    it.ledger.judge("replay.same-ids", replays.other_ids(first, second))


def _judge_replay(it: Examiner, opening: Opening, expected: list[telling.Item]) -> None:
    judge = it.ledger.judge
    judge("replay.whole", replays.not_whole(opening, expected))
    judge("replay.answer", replays.answered_too_soon(opening))
    judge("replay.session", replays.under_another_id(opening))
    judge("replay.user", replays.no_user_turns(opening, expected))
    judge("replay.notices", replays.replayed_notices(opening))
    if it.protocol > 1:
        judge("replay.ids", replays.without_ids(opening))
        judge("replay.state", replays.no_state(opening))


def _unlisted(found: list[Answer], talk: Talk) -> Iterator[Fault]:
    if entry_of(found, talk.id) is None:
        words = f"session {talk.id} can be told again, and is not listed"
        yield Fault(words, found[0].lines)


def _not_the_same(one: Opening, other: Opening) -> Iterator[Fault]:
    first, second = one.items, other.items
    if words := telling.difference(first, second[: len(first)]):
        shown = (*one.answer.lines, *other.answer.lines)
        yield Fault(f"the second replay is not as the first: {words}", shown)


async def _bad_cursors(it: Examiner, talk: Talk) -> None:
    method, params = it.again(talk, replayed=True)
    for cursor in _BAD_CURSORS:
        answer = await it.probe(method, params | {"replayFrom": cursor})
        faults = shapes.not_refused(answer, INVALID_PARAMS, f"the cursor {cursor}")
        it.ledger.judge("replay.cursor", faults)


async def resume(it: Examiner) -> None:
    """Judge how a session is opened without being told."""
    await it.agent()
    if "resume" not in it.offers:
        raise Stopped("`sessionCapabilities.resume` is not offered", Verdict.NOT_OFFERED)
    await refuse_unknown(it, "resume", replayed=False)
    talk = await it.talk()
    talk, opening = await _reopened(it, talk, "resume", replayed=False)
    it.ledger.judge("resume.silent", replays.told_unasked(opening))
    if it.protocol > 1:
        it.ledger.judge("resume.state", replays.no_state(opening))
    it.ledger.judge("resume.goes-on", stuck(await it.prompt(talk.id, it.settings.prompt)))
    talk.items += telling.of_turn(it.settings.prompt, it.turns[-1].updates)


def stuck(turn: Turn) -> Iterator[Fault]:
    """Judge a turn that only has to be had."""
    if turn.end is None or turn.answer.is_refused:
        yield Fault(f"a prompt does not work: {turn.answer.in_words()}", turn.answer.lines)


async def refuse_unknown(it: Examiner, scenario: str, *, replayed: bool) -> None:
    """Judge how a session is opened that there is not."""
    nobody = Talk(unknown_id(), it.folder(), await it.agent(), [])
    method, params = it.again(nobody, replayed=replayed)
    answer = await it.probe(method, params)
    it.ledger.judge(f"{scenario}.unknown", shapes.not_refused(answer, what="an unknown session"))
    it.unknown.append(answer)


async def _reopened(it: Examiner, talk: Talk, name: str, *, replayed: bool) -> tuple[Talk, Opening]:
    """Open a session after a kill, and if that has lost it, another one after a clean end.

    Raises Stopped if that is lost, too.
    """
    await it.restart(kill=True)
    opening = await it.open(talk, replayed=replayed)
    if not _is_lost(opening, replayed=replayed):
        it.ledger.judge(f"{name}.killed", [])
        it.ledger.judge(f"{name}.works", shapes.not_an_object(opening.answer, or_null=True))
        return talk, opening
    it.outlives_kill = False
    talk = await it.talk_anew()
    await it.restart(kill=False)
    again = await it.open(talk, replayed=replayed)
    works = it.ledger.judge(f"{name}.works", _lost(again, replayed=replayed))
    if not works:
        raise Stopped("the session was lost")
    it.ledger.judge(f"{name}.killed", _lost(opening, replayed=replayed))
    return talk, again


def _is_lost(opening: Opening, *, replayed: bool) -> bool:
    return opening.answer.is_refused or (replayed and not opening.history)


def _lost(opening: Opening, *, replayed: bool) -> Iterator[Fault]:
    if opening.answer.is_refused:
        words = f"the session is lost: {opening.answer.in_words()}"
        yield Fault(words, opening.answer.lines)
    elif replayed and not opening.history:
        yield Fault("the session is lost: nothing of it is told", opening.answer.lines)
