"""Search the text of all sessions: messages, titles, tool calls and file paths.

A message must contain all the words, in any order. "quoted words" must follow
each other, begin* matches the beginning of a word, and -word must not occur
(type it after another word, or after --). Keys, tokens and passwords are
masked.

example:
  rekindle search flaky test
  rekindle search '"race condition" sqlite*' --cwd . --since 2w
"""

import argparse
from typing import Any

from msgspec.structs import replace

from rekindle.cli.arguments import past_time
from rekindle.cli.formatting import (
    agent_label,
    folder_label,
    format_age,
    one_line,
    print_json,
    printable,
    title_label,
)
from rekindle.cli.messages import print_note
from rekindle.cli.project import folder_spellings
from rekindle.cli.session_choice import NO_SESSIONS_YET, is_empty
from rekindle.cli.store_access import (
    add_store_option,
    address_for_reading,
    open_for_reading,
    short_id,
)
from rekindle.cli.subagents import owner_of
from rekindle.cli.terminal import columns, is_terminal, paint
from rekindle.errors import UsageError
from rekindle.export.redact_transcript import redact_session
from rekindle.model import Page, Session
from rekindle.store.address import open_search_index
from rekindle.store.base import Store
from rekindle.store.search import SearchHit, SearchRequest
from rekindle.text.redact.detect import find_secrets
from rekindle.text.search_syntax import parse
from rekindle.text.snippets import Fragment, snippet
from rekindle.text.times import iso
from rekindle.text.widths import cut, width

_MAX_LIMIT = 1_000
_SNIPPET_WIDTH = 240
_MIN_TITLE_WIDTH = 12

_Result = tuple[Session, SearchHit, list[Fragment]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_store_option(parser)
    parser.add_argument("--cwd", metavar="DIR", help="only sessions of this folder")
    parser.add_argument(
        "--agent", metavar="NAME", help="only sessions of agents whose name contains NAME"
    )
    parser.add_argument(
        "--since",
        type=past_time,
        metavar="WHEN",
        help="only turns since then: 3d, 2w, 2025-12-31",
    )
    parser.add_argument("--archived", action="store_true", help="include archived sessions")
    parser.add_argument(
        "-n",
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="print at most N turns (default: %(default)d)",
    )
    parser.add_argument(
        "--no-redact",
        dest="redact",
        action="store_false",
        help="show keys, tokens and passwords, too",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("words", nargs="*", metavar="WORDS", help="the words to find")


def main(arguments: argparse.Namespace) -> int:
    """Print the turns that match, best first."""
    if not 1 <= arguments.limit <= _MAX_LIMIT:
        raise UsageError(f"--limit must be from 1 to {_MAX_LIMIT}; this is {arguments.limit}")
    request = SearchRequest(
        terms=parse(" ".join(arguments.words)),
        page=Page(
            folders=folder_spellings(arguments.cwd) if arguments.cwd else (),
            agent=arguments.agent,
            limit=arguments.limit,
            with_archived=arguments.archived,
            with_subagents=True,
        ),
        since_us=arguments.since,
    )
    with open_for_reading(arguments.store) as store:
        hits, is_well = _search(store, arguments.store, request)
        if not arguments.archived:
            hits = [hit for hit in hits if not owner_of(store, hit.session_id).archived_us]
        found = [
            (
                _session(store, hit, redact=arguments.redact),
                hit,
                _snippet(hit, redact=arguments.redact),
            )
            for hit in hits
        ]
        if arguments.json:
            print_json([_describe(*it) for it in found])
        elif not found:
            print_note(_why_nothing(store, arguments, request, is_well=is_well))
        elif is_terminal():
            _print_for_people(found, [short_id(store, session.id) for session, _, _ in found])
        else:
            for session, hit, pieces in found:
                print("\t".join(_row(session, hit, pieces)))
    # Damage may hide matches.
    return 0 if is_well else 1


def _search(
    store: Store, option: str | None, request: SearchRequest
) -> tuple[list[SearchHit], bool]:
    """Return the hits, and whether the whole store could be searched."""
    address = address_for_reading(option)
    if address is None:
        return [], True
    from rekindle.cli.index_update import update

    with open_search_index(address) as index:
        is_well = update(index, store)
        return index.search(request), is_well


def _session(store: Store, hit: SearchHit, *, redact: bool) -> Session:
    session = store.session(hit.session_id)
    # A title may be made from a prompt, so it is masked here, and not where it is printed.
    return redact_session(session) if redact else session


def _why_nothing(
    store: Store, arguments: argparse.Namespace, request: SearchRequest, *, is_well: bool
) -> str:
    """Return the reason why nothing was found, and what to do, if that is known."""
    if not request.terms:
        return "nothing found; the search ignores everything but letters and digits"
    short = [f"{term.text}*" for term in request.terms if term.is_too_short]
    if short:
        return f"nothing found; {one_line(short[0])} needs at least two letters before the star"
    if not is_well:
        return "nothing found in the readable part of the store"
    if is_empty(store):
        return NO_SESSIONS_YET
    if not arguments.archived and _is_in_archive(arguments.store, request):
        return "only archived sessions match; --archived includes them"
    fewer = "no message has all these words; try fewer, or the beginning of a word and *"
    return fewer if len(request.terms) > 1 else "nothing found"


def _is_in_archive(option: str | None, request: SearchRequest) -> bool:
    """Return whether an archived session matches. The index is up to date."""
    address = address_for_reading(option)
    if address is None:
        return False
    page = replace(request.page, with_archived=True, limit=1)
    with open_search_index(address) as index:
        return bool(index.search(replace(request, page=page)))


def _snippet(hit: SearchHit, *, redact: bool) -> list[Fragment]:
    return snippet(hit.text, hit.matches, find_secrets(hit.text) if redact else [], _SNIPPET_WIDTH)


def _describe(session: Session, hit: SearchHit, pieces: list[Fragment]) -> dict[str, Any]:
    """Return a hit as `--json` prints it. docs/reference/json.md describes the fields."""
    matches: list[list[int]] = []
    at = 0
    for words, is_match in pieces:
        if is_match:
            matches.append([at, at + len(words)])
        at += len(words)
    return {
        "sessionId": session.id,
        "title": session.title,
        "agent": session.agent.name or session.agent.program,
        "cwd": session.cwd,
        "turn": hit.turn or None,
        "at": iso(hit.at_us),
        "origin": hit.kind,
        "snippet": _words(pieces),
        "matches": matches,
        "score": round(hit.score, 3),
        **({"parentId": session.parent_id} if session.is_subagent else {}),
    }


def _row(session: Session, hit: SearchHit, pieces: list[Fragment]) -> tuple[str, ...]:
    return (
        one_line(session.id),
        iso(hit.at_us),
        agent_label(session.agent),
        folder_label(session),
        str(hit.turn or "-"),
        title_label(session, redact=False),
        one_line(_words(pieces)),
    )


def _words(pieces: list[Fragment]) -> str:
    return "".join(words for words, _ in pieces)


def _print_for_people(found: list[_Result], ids: list[str]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console, room = Console(highlight=False), columns()
    for (session, hit, pieces), id_ in zip(found, ids, strict=True):
        about = (
            f"  {format_age(hit.at_us)} · {agent_label(session.agent)} · {folder_label(session)}"
        )
        place = f"{about} · {f'turn {hit.turn}' if hit.turn else 'title'}"
        rest = room - width(f"{id_}{place} · ")
        title = title_label(session, redact=False)
        named = f" · {cut(title, rest)}" if rest >= _MIN_TITLE_WIDTH else ""
        print(paint(id_, "bold") + paint(place, "dim") + named)
        shown = [(printable(words), "yellow" if hit_ else "") for words, hit_ in pieces]
        console.print(Padding(Text.assemble(*shown), (0, 0, 1, 2)))
