"""`session/list`: its entries, by folder and by page."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses, turns
from rekindle.conformance.session_runner import CheckedSession, ScenarioStopped, SessionRunner
from rekindle.conformance.trace import Exchange
from rekindle.jsonvalue import Json, as_array, as_object

_MAX_PAGES = 500
# After this many pages without a new session, the list counts as endless.
_MAX_PAGES_WITHOUT_NEWS = 20
_UNKNOWN_CURSOR = "rekindle-check-was-never-given-this"
_TOO_LONG = f"the list has more than {_MAX_PAGES} pages, and was not read completely"


class Listing(Struct, frozen=True):
    """The pages of a list that were read."""

    pages: list[Exchange]
    is_whole: bool
    fault: str = ""
    """The fault in the sequence of its pages, or an empty string."""

    @property
    def entries(self) -> list[Json]:
        """The sessions on all pages."""
        return [
            as_object(it) for page in self.pages for it in as_array(page.result.get("sessions"))
        ]

    def entry(self, session_id: str) -> Json | None:
        """Return the entry of a session."""
        return next((it for it in self.entries if it.get("sessionId") == session_id), None)

    @property
    def first(self) -> Exchange:
        """The first page."""
        return self.pages[0]


async def read_list(runner: SessionRunner, **params: object) -> Listing:
    """Read a list to its end. Raises ScenarioStopped if its first page is an error."""
    pages = [await runner.call(methods.LIST, params)]
    if not pages[0].is_result:
        raise ScenarioStopped(f"`session/list` does not work: {pages[0].describe()}")
    cursors: list[object] = []
    seen: set[str] = set()
    empty = 0
    while (cursor := pages[-1].result.get("nextCursor")) is not None:
        if cursor in cursors:
            return Listing(
                pages, is_whole=True, fault="the cursor of a page leads back to an earlier page"
            )
        entries = map(as_object, as_array(pages[-1].result.get("sessions")))
        ids = {str(entry.get("sessionId")) for entry in entries}
        empty = 0 if ids - seen else empty + 1
        seen |= ids
        if empty == _MAX_PAGES_WITHOUT_NEWS:
            message = f"{empty} pages have no new session, and there is still another page"
            return Listing(pages, is_whole=True, fault=message)
        if len(pages) == _MAX_PAGES:
            return Listing(pages, is_whole=False)
        cursors.append(cursor)
        pages.append(await runner.call(methods.LIST, {**params, "cursor": cursor}))
        if not pages[-1].is_result:
            message = f"page {len(pages)} cannot be read: {pages[-1].describe()}"
            return Listing(pages, is_whole=False, fault=message)
    return Listing(pages, is_whole=True)


async def check_list(runner: SessionRunner) -> None:
    """Check the session list."""
    if "list" not in runner.offered:
        raise ScenarioStopped("`session/list` is not offered", Verdict.NOT_OFFERED)
    exchange = await runner.call(methods.LIST, {})
    if not runner.results.check("list.works", responses.not_an_object(exchange)):
        runner.mark_broken(methods.LIST)
        raise ScenarioStopped("`session/list` does not work")
    await _check_invalid_params(runner)
    outer = await runner.prompted_session()
    inner = await runner.new_session(runner.make_folder(f"{outer.folder.name}/inner"))
    await runner.run_turn(inner)
    await _check_unchanged(runner, outer)
    everything = await read_list(runner)
    _check_pages(runner, everything)
    _check_presence(runner, everything, (outer, inner))
    for wanted, other in ((outer, inner), (inner, outer)):
        found = await read_list(runner, cwd=str(wanted.folder))
        if found.is_whole:
            runner.results.check("list.folder", missing(found, (wanted,)))
        runner.results.check("list.folder", _foreign_sessions(found, wanted.folder, other))


def _check_pages(runner: SessionRunner, everything: Listing) -> None:
    check = runner.results.check
    for page in everything.pages:
        check("list.shape", responses.bad_list(page) if page.is_result else ())
    if any(entry.get("updatedAt") is not None for entry in everything.entries):
        for page in everything.pages:
            check("list.times", responses.bad_times(page, 1))
            check("list.zones", responses.bad_times(page, 2))
    for name in ("list.times", "list.zones"):
        runner.results.not_seen(name, "no session in the list has a time")
    if len(everything.pages) > 1 or everything.fault:
        check("list.pages", _bad_pages(everything))
    elif twice := list(_duplicates(everything)):
        check("list.pages", twice)
    else:
        runner.results.not_seen("list.pages", "the list has one page")


def _check_presence(
    runner: SessionRunner, everything: Listing, sessions: tuple[CheckedSession, ...]
) -> None:
    if everything.is_whole or not any(missing(everything, sessions)):
        runner.results.check("list.all", missing(everything, sessions))
    else:
        runner.results.skip("list.all", _TOO_LONG)
    present = [session for session in sessions if everything.entry(session.id) is not None]
    if present:
        runner.results.check("list.cwd", _wrong_folders(everything, present))
    else:
        runner.results.not_seen("list.cwd", "the session is not in the list")


async def _check_invalid_params(runner: SessionRunner) -> None:
    cursor = await runner.probe(methods.LIST, {"cursor": _UNKNOWN_CURSOR})
    faults = responses.not_refused(cursor, INVALID_PARAMS, "an invented cursor")
    runner.results.check("list.cursor", faults)
    relative = await runner.probe(methods.LIST, {"cwd": "some/folder"})
    runner.results.check("list.relative", responses.not_refused(relative, what="a relative folder"))


async def _check_unchanged(runner: SessionRunner, session: CheckedSession) -> None:
    peer = await runner.processes.current()
    await peer.wait_until_quiet(session.id, runner.settings.quiet_seconds)
    since = len(peer.lines)
    first, second = await read_list(runner), await read_list(runner)
    after = peer.lines[since:]
    if first.entry(session.id) is None:
        runner.results.not_seen("list.unchanged", "the session is not in the list")
        return
    runner.results.check("list.unchanged", turns.late_updates(after, session.id, "a list"))
    runner.results.check("list.unchanged", _changed(first, second, session.id))


def _changed(first: Listing, second: Listing, session_id: str) -> Iterator[Fault]:
    before, now = first.entry(session_id), second.entry(session_id)
    if before != now:
        lines = (*first.first.lines, *second.first.lines)
        yield Fault(f"listing has changed a session: {before} became {now}", lines)


def missing(found: Listing, sessions: Iterable[CheckedSession]) -> Iterator[Fault]:
    """Find sessions that are not in a list."""
    for session in sessions:
        if found.entry(session.id) is None:
            where = " of its folder" if "cwd" in found.first.request.params else ""
            message = f"session {session.id}, which was prompted, is not in the list{where}"
            yield Fault(message, found.first.lines)


def _wrong_folders(found: Listing, sessions: Iterable[CheckedSession]) -> Iterator[Fault]:
    for session in sessions:
        folder = (found.entry(session.id) or {}).get("cwd")
        if folder != str(session.folder):
            message = f"the session's folder is {session.folder}, but the list has {folder!r}"
            yield Fault(message, found.first.lines)


def _foreign_sessions(found: Listing, folder: Path, other: CheckedSession) -> Iterator[Fault]:
    for entry in found.entries:
        if entry.get("sessionId") == other.id or entry.get("cwd") != str(folder):
            message = f"the list of {folder} has a session of {entry.get('cwd')!r}"
            yield Fault(message, found.first.lines)
            return


def _bad_pages(found: Listing) -> Iterator[Fault]:
    if found.fault:
        yield Fault(found.fault, found.pages[-1].lines)
    yield from _duplicates(found)


def _duplicates(found: Listing) -> Iterator[Fault]:
    ids = [entry.get("sessionId") for entry in found.entries]
    if twice := [one for place, one in enumerate(ids) if one in ids[:place]]:
        yield Fault(f"session {twice[0]!r} is in the list twice", found.pages[-1].lines)
