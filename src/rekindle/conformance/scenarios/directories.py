"""Further folders of a session: `additionalDirectories`."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses
from rekindle.conformance.scenarios.list import Listing, listed
from rekindle.conformance.session_runner import Examiner, Stopped, Talk
from rekindle.conformance.trace import Json
from rekindle.jsonvalue import as_array

_ROOTS = "additionalDirectories"
_WRONG = {"relative": "some/folder", "empty": ""}


async def roots(it: Examiner) -> None:
    """Judge further folders of a session."""
    if _ROOTS not in it.offers:
        raise Stopped(f"`{_ROOTS}` is not offered", Verdict.NOT_OFFERED)
    given = [str(it.folder()), str(it.folder())]
    folder = it.folder()
    for name, wrong in _WRONG.items():
        answer = await it.probe(methods.NEW, {**it.fresh(folder), _ROOTS: [wrong]})
        it.named(answer)
        it.ledger.judge(
            f"roots.{name}", responses.not_refused(answer, what=f"the folder {wrong!r}")
        )
    answer = await it.call(methods.NEW, {**it.fresh(folder), _ROOTS: given})
    session_id = it.named(answer)
    it.ledger.judge("roots.works", responses.no_session(answer))
    if session_id is None:
        raise Stopped("further folders do not work")
    talk = Talk(session_id, folder, [])
    await it.say(talk)
    if not it.can("list"):
        raise Stopped("there is no list that works", Verdict.NOT_OFFERED)
    found = await listed(it)
    entry = found.entry(talk.id) or {}
    if _ROOTS not in entry:
        raise Stopped("the list does not tell further folders", Verdict.NOT_SEEN)
    it.ledger.judge("roots.listed", _other_roots(found, entry, given))
    await _forked(it, talk)
    await _reopened(it, talk)


async def _forked(it: Examiner, talk: Talk) -> None:
    if not it.can("fork"):
        it.ledger.miss("roots.forked", "there is no `session/fork` that works")
        return
    forked = await it.call(methods.FORK, {"sessionId": talk.id, **it.fresh(talk.folder)})
    session_id = it.named(forked)
    if session_id is not None:
        await it.prompt(session_id, it.settings.prompt)
        found = await listed(it)
        if (entry := found.entry(session_id)) is not None:
            it.ledger.judge("roots.forked", _other_roots(found, entry, []))
    it.ledger.unseen("roots.forked", "the fork is not in the list")


async def _reopened(it: Examiner, talk: Talk) -> None:
    """Open the session without them, in another process."""
    if not it.reopens:
        it.ledger.miss("roots.reopened", "the agent offers no way to open a session again")
        return
    await it.restart(kill=False)
    replayed = "replay" in it.offers
    method, params = it.again(talk, replayed=replayed)
    for name, wrong in _WRONG.items():
        answer = await it.probe(method, params | {_ROOTS: [wrong]})
        what = f"to open a session with the folder {wrong!r}"
        it.ledger.judge(f"roots.{name}", responses.not_refused(answer, what=what))
    opening = await it.open(talk, replayed=replayed)
    found = await listed(it)
    entry = found.entry(talk.id)
    if opening.answer.is_refused or entry is None:
        it.ledger.unseen("roots.reopened", "the session cannot be opened again, or is not listed")
    else:
        it.ledger.judge("roots.reopened", _other_roots(found, entry, []))


def _other_roots(found: Listing, entry: Json, expected: list[str]) -> Iterator[Fault]:
    came = as_array(entry.get(_ROOTS))
    if came != expected:
        words = f"the session's further folders are {expected}, and the list says {came}"
        yield Fault(words, found.first.lines)
