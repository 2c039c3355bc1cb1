"""`session/list`: what is in it, by folder and page by page."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rekindle.check.examiner import Examiner, Stopped, Talk
from rekindle.check.judges import shapes, turns
from rekindle.check.traffic import Answer, Json
from rekindle.check.verdicts import Fault, Verdict
from rekindle.wire import methods
from rekindle.wire.envelope import INVALID_PARAMS, rows, table

_MOST_PAGES = 100
_NO_CURSOR = "rekindle-check-was-never-given-this"


async def pages(it: Examiner, **params: object) -> list[Answer]:
    """Return a list, page by page."""
    answers = [await it.call(methods.LIST, params)]
    cursors: set[object] = {None}
    while (cursor := answers[-1].result.get("nextCursor")) not in cursors:
        cursors.add(cursor)
        if len(answers) == _MOST_PAGES:
            break
        answers.append(await it.call(methods.LIST, {**params, "cursor": cursor}))
    return answers


def entries(answers: Iterable[Answer]) -> list[Json]:
    """Return the sessions on pages."""
    return [table(it) for answer in answers for it in rows(answer.result.get("sessions"))]


def entry_of(answers: Iterable[Answer], session_id: str) -> Json | None:
    """Return what pages have of a session."""
    return next((it for it in entries(answers) if it.get("sessionId") == session_id), None)


async def list_sessions(it: Examiner) -> None:
    """Judge the list."""
    await it.agent()
    if "list" not in it.offers:
        raise Stopped("`sessionCapabilities.list` is not offered", Verdict.NOT_OFFERED)
    everything = await pages(it)
    works = it.ledger.judge("list.works", shapes.not_an_object(everything[0]))
    if not works:
        it.give_up(methods.LIST)
        raise Stopped("`session/list` does not work")
    await _wrong(it)
    outer = await it.talk()
    inner = await it.new(it.folder(f"{outer.folder.name}/inner"))
    await it.say(inner)
    await _unchanged(it, outer)
    everything = await pages(it)
    for answer in everything:
        it.ledger.judge("list.shape", shapes.bad_list(answer))
        it.ledger.judge("list.times", shapes.bad_times(answer))
        it.ledger.judge("list.zones", shapes.bad_times(answer))
    it.ledger.judge("list.all", _missing(everything, (outer, inner)))
    it.ledger.judge("list.cwd", _moved(everything, (outer, inner)))
    it.ledger.judge("list.pages", _unending(everything))
    for wanted, other in ((outer, inner), (inner, outer)):
        found = await pages(it, cwd=str(wanted.folder))
        it.ledger.judge("list.folder", _missing(found, (wanted,)))
        it.ledger.judge("list.folder", _of_another(found, wanted.folder, other))


async def _wrong(it: Examiner) -> None:
    cursor = await it.probe(methods.LIST, {"cursor": _NO_CURSOR})
    faults = shapes.not_refused(cursor, INVALID_PARAMS, "a cursor that was never given")
    it.ledger.judge("list.cursor", faults)
    relative = await it.probe(methods.LIST, {"cwd": "some/folder"})
    it.ledger.judge("list.relative", shapes.not_refused(relative, what="a relative folder"))


async def _unchanged(it: Examiner, talk: Talk) -> None:
    peer = await it.agent()
    await peer.settle(it.settings.settling)
    since = len(peer.lines)
    first, second = await pages(it), await pages(it)
    after = peer.lines[since:]
    it.ledger.judge("list.unchanged", turns.late_updates(after, talk.id, "a list"))
    it.ledger.judge("list.unchanged", _changed(first, second, talk.id))


def _changed(first: list[Answer], second: list[Answer], session_id: str) -> Iterator[Fault]:
    before, now = entry_of(first, session_id), entry_of(second, session_id)
    if before != now:
        lines = (*first[0].lines, *second[0].lines)
        yield Fault(f"to list has changed a session: {before} became {now}", lines)


def _missing(answers: list[Answer], talks: Iterable[Talk]) -> Iterator[Fault]:
    for talk in talks:
        if entry_of(answers, talk.id) is None:
            where = " of its folder" if "cwd" in answers[0].request.params else ""
            words = f"session {talk.id}, which was prompted, is not in the list{where}"
            yield Fault(words, answers[0].lines)


def _moved(answers: list[Answer], talks: Iterable[Talk]) -> Iterator[Fault]:
    for talk in talks:
        entry = entry_of(answers, talk.id) or {"cwd": str(talk.folder)}
        if entry.get("cwd") != str(talk.folder):
            words = f"the session's folder is {talk.folder}, and the list says {entry.get('cwd')!r}"
            yield Fault(words, answers[0].lines)


def _of_another(answers: list[Answer], folder: Path, other: Talk) -> Iterator[Fault]:
    for entry in entries(answers):
        if entry.get("sessionId") == other.id or entry.get("cwd") != str(folder):
            words = f"the list of {folder} has a session of {entry.get('cwd')!r}"
            yield Fault(words, answers[0].lines)
            return


def _unending(answers: list[Answer]) -> Iterator[Fault]:
    last = answers[-1]
    if last.result.get("nextCursor") is not None and len(answers) < _MOST_PAGES:
        yield Fault("a page leads back to one that was seen before", last.lines)
    ids = [entry.get("sessionId") for entry in entries(answers)]
    if twice := [one for place, one in enumerate(ids) if one in ids[:place]]:
        yield Fault(f"session {twice[0]!r} is in the list twice", last.lines)
