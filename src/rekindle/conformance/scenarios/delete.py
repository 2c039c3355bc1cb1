"""`session/delete`: the list after it, also after a restart."""

from collections.abc import Iterator

from rekindle.acp import methods
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses
from rekindle.conformance.scenarios.list import Listing, read_list
from rekindle.conformance.scenarios.prompt import unknown_id
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner


async def check_delete(runner: SessionRunner) -> None:
    """Check how a session is deleted."""
    if "delete" not in runner.offered:
        raise ScenarioStopped("`session/delete` is not offered", Verdict.NOT_OFFERED)
    unknown = await runner.probe(methods.DELETE, {"sessionId": unknown_id()})
    runner.results.check("delete.unknown", responses.not_an_object(unknown))
    session = await runner.new_session(runner.make_folder())
    if not runner.no_turns:
        await runner.prompt(session.id, runner.settings.prompt)
    was_listed = runner.works("list") and (await read_list(runner)).entry(session.id) is not None
    params = {"sessionId": session.id}
    exchange = await runner.call(methods.DELETE, params)
    if not runner.results.check("delete.works", responses.not_an_object(exchange)):
        runner.mark_broken(methods.DELETE)
        raise ScenarioStopped("`session/delete` does not work")
    runner.note_deleted(session.id)
    twice = await runner.probe(methods.DELETE, params)
    runner.results.check("delete.twice", responses.not_an_object(twice))
    if not was_listed:
        runner.results.not_seen(
            "delete.gone", "the session was not in a list before it was deleted"
        )
        return
    runner.results.check(
        "delete.gone", _still_listed(await read_list(runner), session, "was deleted")
    )
    await runner.processes.restart(kill=True)
    runner.results.check("delete.gone", _still_listed(await read_list(runner), session, "is back"))


def _still_listed(found: Listing, session: CheckedSession, what: str) -> Iterator[Fault]:
    if found.entry(session.id) is not None:
        yield Fault(f"session {session.id} {what}, but is in the list", found.first.lines)
