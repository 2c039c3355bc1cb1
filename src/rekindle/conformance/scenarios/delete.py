"""`session/delete`."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses
from rekindle.conformance.scenarios.list import Listing, listed
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.session_runner import Examiner, Stopped, Talk


async def delete(it: Examiner) -> None:
    """Judge how a session is deleted."""
    if "delete" not in it.offers:
        raise Stopped("`session/delete` is not offered", Verdict.NOT_OFFERED)
    unknown = await it.probe(methods.DELETE, {"sessionId": unknown_id()})
    it.ledger.judge("delete.unknown", responses.not_an_object(unknown))
    talk = await it.new(it.folder())
    if not it.no_turns:
        await it.prompt(talk.id, it.settings.prompt)
    was_listed = it.can("list") and (await listed(it)).entry(talk.id) is not None
    params = {"sessionId": talk.id}
    answer = await it.call(methods.DELETE, params)
    if not it.ledger.judge("delete.works", responses.not_an_object(answer)):
        it.give_up(methods.DELETE)
        raise Stopped("`session/delete` does not work")
    it.forget(talk.id)
    twice = await it.probe(methods.DELETE, params)
    it.ledger.judge("delete.twice", responses.not_an_object(twice))
    if not was_listed:
        it.ledger.unseen("delete.gone", "the session was not in a list before it was deleted")
        return
    it.ledger.judge("delete.gone", _still_listed(await listed(it), talk, "was deleted"))
    await it.restart(kill=True)
    it.ledger.judge("delete.gone", _still_listed(await listed(it), talk, "is back"))


def _still_listed(found: Listing, talk: Talk, what: str) -> Iterator[Fault]:
    if found.entry(talk.id) is not None:
        yield Fault(f"session {talk.id} {what}, and is in the list", found.first.lines)
