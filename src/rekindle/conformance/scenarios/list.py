"""`session/list`: what is in it, by folder and page by page."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS
from rekindle.conformance.report import Fault, Verdict
from rekindle.conformance.rules import responses, turns
from rekindle.conformance.session_runner import Examiner, Stopped, Talk
from rekindle.conformance.trace import Answer, Json
from rekindle.jsonvalue import as_array, as_object

_MOST_PAGES = 500
# So many pages without a session that is new are no list that is long.
_MOST_EMPTY = 20
_NO_CURSOR = "rekindle-check-was-never-given-this"
_TOO_LONG = f"the list has more than {_MOST_PAGES} pages, and was not read to its end"


class Listing(Struct, frozen=True):
    """A list, page by page, as far as it was read."""

    pages: list[Answer]
    is_whole: bool
    fault: str = ""
    """What is wrong with how its pages follow each other."""

    @property
    def entries(self) -> list[Json]:
        """The sessions on its pages."""
        return [
            as_object(it) for page in self.pages for it in as_array(page.result.get("sessions"))
        ]

    def entry(self, session_id: str) -> Json | None:
        """Return what it has of a session."""
        return next((it for it in self.entries if it.get("sessionId") == session_id), None)

    @property
    def first(self) -> Answer:
        """Its first page."""
        return self.pages[0]


async def listed(it: Examiner, **params: object) -> Listing:
    """Return a list, page by page. Raises Stopped if its first page is an error."""
    pages = [await it.call(methods.LIST, params)]
    if not pages[0].is_result:
        raise Stopped(f"`session/list` does not work: {pages[0].in_words()}")
    cursors: list[object] = []
    seen: set[str] = set()
    empty = 0
    while (cursor := pages[-1].result.get("nextCursor")) is not None:
        if cursor in cursors:
            return Listing(pages, is_whole=True, fault="a page leads back to one that was before")
        entries = map(as_object, as_array(pages[-1].result.get("sessions")))
        ids = {str(entry.get("sessionId")) for entry in entries}
        empty = 0 if ids - seen else empty + 1
        seen |= ids
        if empty == _MOST_EMPTY:
            words = f"{empty} pages have nothing new, and there is still another"
            return Listing(pages, is_whole=True, fault=words)
        if len(pages) == _MOST_PAGES:
            return Listing(pages, is_whole=False)
        cursors.append(cursor)
        pages.append(await it.call(methods.LIST, {**params, "cursor": cursor}))
        if not pages[-1].is_result:
            words = f"page {len(pages)} cannot be had: {pages[-1].in_words()}"
            return Listing(pages, is_whole=False, fault=words)
    return Listing(pages, is_whole=True)


async def list_sessions(it: Examiner) -> None:
    """Judge the list."""
    if "list" not in it.offers:
        raise Stopped("`session/list` is not offered", Verdict.NOT_OFFERED)
    answer = await it.call(methods.LIST, {})
    if not it.ledger.judge("list.works", responses.not_an_object(answer)):
        it.give_up(methods.LIST)
        raise Stopped("`session/list` does not work")
    await _wrong(it)
    outer = await it.talk()
    inner = await it.new(it.folder(f"{outer.folder.name}/inner"))
    await it.say(inner)
    await _unchanged(it, outer)
    everything = await listed(it)
    _judge_pages(it, everything)
    _judge_presence(it, everything, (outer, inner))
    for wanted, other in ((outer, inner), (inner, outer)):
        found = await listed(it, cwd=str(wanted.folder))
        if found.is_whole:
            it.ledger.judge("list.folder", missing(found, (wanted,)))
        it.ledger.judge("list.folder", _of_another(found, wanted.folder, other))


def _judge_pages(it: Examiner, everything: Listing) -> None:
    judge = it.ledger.judge
    for page in everything.pages:
        judge("list.shape", responses.bad_list(page) if page.is_result else ())
    if any(entry.get("updatedAt") is not None for entry in everything.entries):
        for page in everything.pages:
            judge("list.times", responses.bad_times(page, 1))
            judge("list.zones", responses.bad_times(page, 2))
    for name in ("list.times", "list.zones"):
        it.ledger.unseen(name, "no session in the list has a time")
    if len(everything.pages) > 1 or everything.fault:
        judge("list.pages", _disorderly(everything))
    elif twice := list(_twice(everything)):
        judge("list.pages", twice)
    else:
        it.ledger.unseen("list.pages", "the list has one page")


def _judge_presence(it: Examiner, everything: Listing, talks: tuple[Talk, ...]) -> None:
    if everything.is_whole or not any(missing(everything, talks)):
        it.ledger.judge("list.all", missing(everything, talks))
    else:
        it.ledger.skip("list.all", _TOO_LONG)
    present = [talk for talk in talks if everything.entry(talk.id) is not None]
    if present:
        it.ledger.judge("list.cwd", _moved(everything, present))
    else:
        it.ledger.unseen("list.cwd", "the session is not in the list")


async def _wrong(it: Examiner) -> None:
    cursor = await it.probe(methods.LIST, {"cursor": _NO_CURSOR})
    faults = responses.not_refused(cursor, INVALID_PARAMS, "a cursor that was never given")
    it.ledger.judge("list.cursor", faults)
    relative = await it.probe(methods.LIST, {"cwd": "some/folder"})
    it.ledger.judge("list.relative", responses.not_refused(relative, what="a relative folder"))


async def _unchanged(it: Examiner, talk: Talk) -> None:
    peer = await it.agent()
    await peer.settle(talk.id, it.settings.settling)
    since = len(peer.lines)
    first, second = await listed(it), await listed(it)
    after = peer.lines[since:]
    if first.entry(talk.id) is None:
        it.ledger.unseen("list.unchanged", "the session is not in the list")
        return
    it.ledger.judge("list.unchanged", turns.late_updates(after, talk.id, "a list"))
    it.ledger.judge("list.unchanged", _changed(first, second, talk.id))


def _changed(first: Listing, second: Listing, session_id: str) -> Iterator[Fault]:
    before, now = first.entry(session_id), second.entry(session_id)
    if before != now:
        lines = (*first.first.lines, *second.first.lines)
        yield Fault(f"to list has changed a session: {before} became {now}", lines)


def missing(found: Listing, talks: Iterable[Talk]) -> Iterator[Fault]:
    """Find sessions that are not in a list."""
    for talk in talks:
        if found.entry(talk.id) is None:
            where = " of its folder" if "cwd" in found.first.request.params else ""
            words = f"session {talk.id}, which was prompted, is not in the list{where}"
            yield Fault(words, found.first.lines)


def _moved(found: Listing, talks: Iterable[Talk]) -> Iterator[Fault]:
    for talk in talks:
        folder = (found.entry(talk.id) or {}).get("cwd")
        if folder != str(talk.folder):
            words = f"the session's folder is {talk.folder}, and the list says {folder!r}"
            yield Fault(words, found.first.lines)


def _of_another(found: Listing, folder: Path, other: Talk) -> Iterator[Fault]:
    for entry in found.entries:
        if entry.get("sessionId") == other.id or entry.get("cwd") != str(folder):
            words = f"the list of {folder} has a session of {entry.get('cwd')!r}"
            yield Fault(words, found.first.lines)
            return


def _disorderly(found: Listing) -> Iterator[Fault]:
    if found.fault:
        yield Fault(found.fault, found.pages[-1].lines)
    yield from _twice(found)


def _twice(found: Listing) -> Iterator[Fault]:
    ids = [entry.get("sessionId") for entry in found.entries]
    if twice := [one for place, one in enumerate(ids) if one in ids[:place]]:
        yield Fault(f"session {twice[0]!r} is in the list twice", found.pages[-1].lines)
