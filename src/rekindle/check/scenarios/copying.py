"""`session/fork` and `session/delete`, and further folders of a session."""

from collections.abc import Iterator

from rekindle.check import telling
from rekindle.check.examiner import Examiner, Stopped, Talk
from rekindle.check.judges import replays, shapes
from rekindle.check.scenarios.listing import entry_of, pages
from rekindle.check.scenarios.reopening import stuck
from rekindle.check.scenarios.talking import unknown_id
from rekindle.check.traffic import Answer, Json
from rekindle.check.verdicts import Fault, Verdict
from rekindle.wire import methods
from rekindle.wire.envelope import rows

_ROOTS = "additionalDirectories"


async def fork(it: Examiner) -> None:
    """Judge how a session is copied."""
    await it.agent()
    if "fork" not in it.offers:
        raise Stopped("`session/fork` is not offered", Verdict.NOT_OFFERED)
    params: Json = {"sessionId": unknown_id(), **it.fresh(it.folder())}
    unknown = await it.probe(methods.FORK, params)
    it.ledger.judge("fork.unknown", shapes.not_refused(unknown, what="an unknown session"))
    it.unknown.append(unknown)
    source = await it.talk()
    answer = await it.call(methods.FORK, {"sessionId": source.id, **it.fresh(source.folder)})
    session_id = it.named(answer)
    if not it.ledger.judge("fork.works", shapes.no_session(answer)) or session_id is None:
        raise Stopped("`session/fork` does not work")
    it.ledger.judge("fork.id", _same_id(answer, source))
    if session_id == source.id:
        raise Stopped("the fork is its own source")
    copy = Talk(session_id, source.folder, source.peer, list(source.items))
    it.ledger.judge("fork.goes-on", stuck(await it.prompt(copy.id, it.settings.prompt)))
    copy.items += telling.of_turn(it.settings.prompt, it.turns[-1].updates)
    if "replay" not in it.offers:
        raise Stopped("the agent cannot tell a session again")
    await it.restart(kill=it.outlives_kill)
    opening = await it.open(source, replayed=True)
    it.ledger.judge("fork.source", replays.other_turns(opening, source.items))
    opening = await it.open(copy, replayed=True)
    it.ledger.judge("fork.history", replays.other_turns(opening, copy.items))


def _same_id(answer: Answer, source: Talk) -> Iterator[Fault]:
    if answer.result.get("sessionId") == source.id:
        yield Fault("the fork has the id of its source", answer.lines)


async def delete(it: Examiner) -> None:
    """Judge how a session is deleted."""
    await it.agent()
    if "delete" not in it.offers:
        raise Stopped("`sessionCapabilities.delete` is not offered", Verdict.NOT_OFFERED)
    talk = await it.new(it.folder())
    await it.say(talk)
    params = {"sessionId": talk.id}
    if not it.ledger.judge(
        "delete.works", shapes.not_an_object(await it.call(methods.DELETE, params))
    ):
        raise Stopped("`session/delete` does not work")
    it.forget(talk.id)
    twice = await it.probe(methods.DELETE, params)
    it.ledger.judge("delete.twice", shapes.not_an_object(twice))
    unknown = await it.probe(methods.DELETE, {"sessionId": unknown_id()})
    it.ledger.judge("delete.unknown", shapes.not_an_object(unknown))
    if not it.has(methods.LIST):
        raise Stopped("there is no list")
    it.ledger.judge("delete.gone", _still_listed(await pages(it), talk, "was deleted"))
    await it.restart(kill=True)
    it.ledger.judge("delete.gone", _still_listed(await pages(it), talk, "is back"))


def _still_listed(answers: list[Answer], talk: Talk, what: str) -> Iterator[Fault]:
    if entry_of(answers, talk.id) is not None:
        yield Fault(f"session {talk.id} {what}, and is in the list", answers[0].lines)


async def roots(it: Examiner) -> None:
    """Judge further folders of a session."""
    await it.agent()
    if _ROOTS not in it.offers:
        raise Stopped(f"`{_ROOTS}` is not offered", Verdict.NOT_OFFERED)
    given = [str(it.folder()), str(it.folder())]
    folder = it.folder()
    for name, wrong in (("relative", "some/folder"), ("empty", "")):
        answer = await it.probe(methods.NEW, {**it.fresh(folder), _ROOTS: [wrong]})
        it.named(answer)
        it.ledger.judge(f"roots.{name}", shapes.not_refused(answer, what=f"the folder {wrong!r}"))
    answer = await it.call(methods.NEW, {**it.fresh(folder), _ROOTS: given})
    session_id = it.named(answer)
    it.ledger.judge("roots.works", shapes.no_session(answer))
    if session_id is None:
        raise Stopped("further folders do not work")
    talk = Talk(session_id, folder, await it.agent(), [])
    await it.say(talk)
    if not it.has(methods.LIST):
        raise Stopped("there is no list")
    await _listed_roots(it, talk, given)


async def _listed_roots(it: Examiner, talk: Talk, given: list[str]) -> None:
    found = await pages(it)
    entry = entry_of(found, talk.id) or {}
    if _ROOTS not in entry:
        raise Stopped("the list does not tell further folders")
    it.ledger.judge("roots.listed", _other_roots(found, entry, given))
    if not it.has(methods.FORK):
        it.ledger.miss("roots.forked", "`session/fork` is not offered")
        return
    forked = await it.call(methods.FORK, {"sessionId": talk.id, **it.fresh(talk.folder)})
    session_id = it.named(forked)
    if session_id is None:
        raise Stopped("`session/fork` does not work")
    await it.prompt(session_id, it.settings.prompt)
    found = await pages(it)
    it.ledger.judge("roots.forked", _other_roots(found, entry_of(found, session_id) or {}, []))


def _other_roots(answers: list[Answer], entry: Json, expected: list[str]) -> Iterator[Fault]:
    came = rows(entry.get(_ROOTS))
    if came != expected:
        words = f"the session's further folders are {expected}, and the list says {came}"
        yield Fault(words, answers[0].lines)
