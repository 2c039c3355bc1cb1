"""Sessions that are opened again by another process of the agent.

The first one ends as clients let it, the second is killed in the midst of a turn: what a clean
end keeps and a kill loses is a fault of its own.
"""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS
from rekindle.conformance import digest
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import replays, responses
from rekindle.conformance.rules.replays import Opening
from rekindle.conformance.rules.turns import Turn
from rekindle.conformance.scenarios.list import Listing, listed
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.scenarios.stop import begin_long
from rekindle.conformance.session_runner import Examiner, Stopped, Talk
from rekindle.conformance.trace import Line, updates

_BAD_CURSORS: tuple[object, ...] = (
    {"type": "nobody-knows-this"},
    {"type": "_rekindle_check/nobody_knows_this"},
    {"from": "start"},
    "start",
)
_LOST = "the session was lost by the kill"
_NOT_WHOLE = "what the user said is not told whole anyway"


# -- told again -------------------------------------------------------------------------


async def replay(it: Examiner) -> None:
    """Judge how a conversation is told again."""
    if "replay" not in it.offers:
        raise Stopped("`loadSession` is not offered", Verdict.NOT_OFFERED)
    if it.protocol == 1:
        await _refuse_unknown(it, "replay", replayed=True)
    talk = await it.talk()
    await it.say(talk)
    notices = _notices(it, talk)
    await it.restart(kill=False)
    first = await it.open(talk, replayed=True)
    if not it.ledger.judge("replay.works", _lost(it, first, talk)):
        raise Stopped("the session was lost")
    said = list(talk.items)
    _judge_replay(it, first, said, notices)
    await _judge_list(it, talk)
    if it.protocol > 1:
        await _bad_cursors(it, talk)
    if not await _goes_on(it, talk, "replay"):
        raise Stopped("after it was told again, no turn could be had")
    await _cut_off(it, talk)
    second = await it.open(talk, replayed=True)
    if any(replays.lost_turns(first, said)):
        it.ledger.skip("replay.killed", _NOT_WHOLE)
    else:
        await _judge_second(it, talk, second)
    it.ledger.judge("replay.again", _not_the_same(first, second))
    if replays.ids(first):
        it.ledger.judge("replay.same-ids", replays.other_ids(first, second))
    else:
        it.ledger.unseen("replay.same-ids", "what is told again has no ids")


def _notices(it: Examiner, talk: Talk) -> list[Line]:
    lines = [line for peer in it.peers for line in updates(peer.lines, talk.id)]
    return [line for line in lines if line.kind == methods.NOTICE]


def _judge_replay(
    it: Examiner, opening: Opening, expected: list[digest.Item], notices: list[Line]
) -> None:
    judge, protocol = it.ledger.judge, it.protocol
    judge("replay.whole", replays.not_whole(opening, expected))
    judge("replay.retained", replays.not_whole(opening, expected))
    if not opening.history:
        for name in ("answer", "session", "user", "ids"):
            it.ledger.unseen(f"replay.{name}", "nothing of the conversation is told")
    else:
        judge("replay.answer", replays.answered_too_soon(opening))
        judge("replay.user", replays.no_user_turns(opening, expected, protocol))
        judge("replay.ids", replays.without_ids(opening))
    judge("replay.session", replays.under_another_id(opening))
    judge("replay.state", replays.no_state(opening))
    if notices:
        judge("replay.notices", replays.replayed_notices(opening, notices))
    else:
        it.ledger.unseen("replay.notices", "no notice was told before")


async def _judge_list(it: Examiner, talk: Talk) -> None:
    if not it.can("list"):
        it.ledger.miss("replay.listed", "there is no list that works")
        return
    found = await listed(it)
    if found.is_whole or found.entry(talk.id) is not None:
        it.ledger.judge("replay.listed", _unlisted(found, talk))
    else:
        it.ledger.skip("replay.listed", "the list could not be read to its end")


def _unlisted(found: Listing, talk: Talk) -> Iterator[Fault]:
    if found.entry(talk.id) is None:
        words = f"session {talk.id} can be told again, and is not listed"
        yield Fault(words, found.first.lines)


async def _judge_second(it: Examiner, talk: Talk, second: Opening) -> None:
    """Judge what is told after the kill, and find out whether it was the kill that has cost it."""
    if any(_lost(it, second, talk)):
        it.ledger.judge("replay.killed", _lost(it, second, talk))
        raise Stopped(_LOST)
    faults = list(replays.lost_turns(second, talk.items))
    it.ledger.judge("replay.killed", await _by_the_kill(it, talk, second, "replay", faults))


def _not_the_same(one: Opening, other: Opening) -> Iterator[Fault]:
    first, second = one.items, other.items[: len(one.items)]
    # What stands behind the last turn may be told of this moment, and not of the conversation.
    if first and second and first[-1].role == second[-1].role == digest.AGENT:
        shorter, longer = sorted((first[-1].words, second[-1].words), key=len)
        if longer.startswith(shorter):
            first, second = first[:-1], second[:-1]
    if words := digest.difference(first, second):
        shown = (*one.answer.lines, *other.answer.lines)
        yield Fault(f"the second replay is not as the first: {words}", shown)


async def _bad_cursors(it: Examiner, talk: Talk) -> None:
    method, params = it.again(talk, replayed=True)
    for cursor in _BAD_CURSORS:
        answer = await it.probe(method, params | {"replayFrom": cursor})
        faults = responses.not_refused(answer, INVALID_PARAMS, f"the cursor {cursor}")
        it.ledger.judge("replay.cursor", faults)


# -- resumed ----------------------------------------------------------------------------


async def resume(it: Examiner) -> None:
    """Judge how a session is opened without being told."""
    if "resume" not in it.offers:
        raise Stopped("`session/resume` is not offered", Verdict.NOT_OFFERED)
    await _refuse_unknown(it, "resume", replayed=False)
    talk = await it.talk()
    await it.say(talk)
    said = list(talk.items)
    await it.restart(kill=False)
    opening = await it.open(talk, replayed=False)
    works = responses.not_an_object(opening.answer, or_null=True)
    if not it.ledger.judge("resume.works", works):
        raise Stopped("the session was lost")
    it.ledger.judge("resume.silent", replays.told_unasked(opening, talk.items))
    it.ledger.judge("resume.state", replays.no_state(opening))
    if not await _goes_on(it, talk, "resume"):
        raise Stopped("after it was resumed, no turn could be had")
    await _cut_off(it, talk)
    again = await it.open(talk, replayed=False)
    killed = responses.not_an_object(again.answer, or_null=True)
    if it.ledger.judge("resume.killed", killed) and "replay" in it.offers:
        await _judge_memory(it, talk, said)


async def _judge_memory(it: Examiner, talk: Talk, said: list[digest.Item]) -> None:
    """See by a replay whether what was said after the resume is there."""
    told = await it.open(talk, replayed=True)
    if told.answer.is_refused or any(replays.lost_turns(told, said)):
        return  # it may be open already; and what is told may never be whole
    faults = list(replays.lost_turns(told, talk.items))
    it.ledger.judge("resume.killed", await _by_the_kill(it, talk, told, "resume", faults))


# -- what both do -----------------------------------------------------------------------


async def _refuse_unknown(it: Examiner, scenario: str, *, replayed: bool) -> None:
    """Judge how a session is opened that there is not."""
    nobody = Talk(unknown_id(), it.folder(), [])
    method, params = it.again(nobody, replayed=replayed)
    answer = await it.probe(method, params)
    it.ledger.judge(f"{scenario}.unknown", responses.not_refused(answer, what="an unknown session"))
    it.unknown.append(answer)


def _lost(it: Examiner, opening: Opening, talk: Talk) -> Iterator[Fault]:
    """Find that a session cannot be told again. Version 2 tells what the agent has kept."""
    if opening.answer.is_refused:
        words = f"the session is lost: {opening.answer.in_words()}"
        yield Fault(words, opening.answer.lines)
    elif it.protocol == 1 and talk.items and not opening.history:
        yield Fault("the session is lost: nothing of it is told", opening.answer.lines)


async def _goes_on(it: Examiner, talk: Talk, scenario: str) -> bool:
    """Have another turn; tell whether that was possible."""
    turn = await it.prompt(talk.id, it.settings.prompt)
    talk.items += digest.of_turn(it.settings.prompt, turn.updates)
    return it.ledger.judge(f"{scenario}.goes-on", stuck(turn))


def stuck(turn: Turn) -> Iterator[Fault]:
    """Judge a turn that only has to be had."""
    if not turn.is_had:
        yield Fault(f"a prompt does not work: {turn.in_words()}", turn.answer.lines)


async def _cut_off(it: Examiner, talk: Talk) -> None:
    """Kill the agent while it is at work, and start it again."""
    await begin_long(it, talk)
    await it.restart(kill=True)


async def _by_the_kill(
    it: Examiner, talk: Talk, told: Opening, scenario: str, faults: list[Fault]
) -> list[Fault]:
    """Return what was lost by a kill, of what is missing.

    It may be the turn after the opening that is not kept, kill or no kill. So another one is had,
    and the agent ends as it should.
    """
    if not faults:
        return []
    turn = await it.prompt(talk.id, it.settings.prompt)
    expected = [*told.items, *digest.of_turn(it.settings.prompt, turn.updates)]
    await it.restart(kill=False)
    opening = await it.open(talk, replayed=True)
    kept = list(replays.lost_turns(opening, expected))
    if not turn.is_had or not kept:
        return faults
    it.ledger.judge(f"{scenario}.goes-on", kept)
    return []
