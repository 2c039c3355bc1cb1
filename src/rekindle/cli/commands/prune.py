"""Delete sessions that were not used for long. They can be brought back for 30 days.

It lists what it would delete, and asks. Never deleted: what a process drives now and, without
--archived, what is archived.

example:
  rekindle prune --older-than 90d --keep 100 --dry-run
  rekindle prune --older-than 1y --agent opencode --yes
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from rekindle.cli.arguments import count, duration
from rekindle.cli.confirm import confirm
from rekindle.cli.formatting import agent_name, one_line, several, size, title
from rekindle.cli.progress import shown
from rekindle.cli.project import folders_of_project
from rekindle.cli.store_access import add_store_option, every, short_id
from rekindle.cli.store_changes import apply, now_us, open_for_changing, overwrite
from rekindle.cli.terminal import is_terminal
from rekindle.errors import UsageError
from rekindle.model import Deleted, Page, Session, SessionStatus
from rekindle.store.base import Store
from rekindle.store.maintenance import space_manager
from rekindle.text.times import iso

_AT_ONCE = 200


class _Found(Struct):
    """What would be deleted."""

    sessions: list[Session] = []
    live: int = 0
    """How many more there would be if no process drove them."""
    weight: int = 0


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--older-than",
        type=duration,
        metavar="AGE",
        help="last used longer ago than this: 36h, 90d, 12w, 6m (months) or 1y",
    )
    parser.add_argument("--keep", type=count, metavar="N", help="always keep the N last used")
    parser.add_argument("--here", action="store_true", help="only those of this project")
    parser.add_argument("--agent", metavar="NAME", help="only sessions with such an agent")
    parser.add_argument("--archived", action="store_true", help="also those that are archived")
    parser.add_argument(
        "--now", "--purge-now", action="store_true", help="remove for good; nothing brings it back"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Find what is old, say so, ask, delete."""
    if arguments.older_than is None and arguments.keep is None:
        raise UsageError("say what may go: --older-than AGE, --keep N, or both")
    if not (arguments.dry_run or arguments.yes or is_terminal(sys.stdin)):
        raise UsageError("nobody is here to be asked: give --yes to delete, or --dry-run to look")
    with open_for_changing(arguments.store) as store:
        found = _find(store, arguments)
        if not found.sessions:
            _say(f"nothing to delete{_live(found)}")
            return 0
        _list(store, found.sessions)
        if arguments.dry_run:
            _say(f"would delete {_summary(found)}{_live(found)}")
            return 0
        if not arguments.yes and not _is_wanted(found, is_for_good=arguments.now):
            _say("nothing was deleted")
            return 1
        deleted = _delete(store, found.sessions, is_for_good=arguments.now)
        if not arguments.now:
            _say(f"deleted {_summary(found, deleted)}: `rekindle undelete` brings them back")
            return 0
        _say(f"purged {_summary(found, deleted)}")
        is_done = overwrite(store, arguments.store, [it.id for it in found.sessions])
    return 0 if is_done else 1


def _say(words: str) -> None:
    # On stdout are the sessions, and nothing else.
    print(words, file=sys.stderr)


def _find(store: Store, arguments: argparse.Namespace) -> _Found:
    """Return the sessions that may go, the last used first, and how much there is in them."""
    chosen = Page(
        under=folders_of_project() if arguments.here else (),
        agent=arguments.agent,
        with_archived=arguments.archived,
        before=(now_us() - (arguments.older_than or 0), ""),
    )
    if arguments.keep:
        # One by one: there may be a million to keep.
        newest = every(store, replace(chosen, before=None))
        kept = next(islice(newest, arguments.keep - 1, None), None)
        if kept is None:
            return _Found()
        last = (kept.updated_us, kept.id)
        chosen = replace(chosen, before=min(last, chosen.before or last))
    found = _Found()
    candidates = list(every(store, replace(chosen, with_unopened=True)))
    shown("looking", _look_at(store, candidates, found))
    return found


def _look_at(store: Store, candidates: list[Session], found: _Found) -> Iterator[float]:
    driven = store.leased_ids()
    for start, some in _parts(candidates):
        idle = [session for session in some if session.id not in driven]
        found.sessions += idle
        found.live += len(some) - len(idle)
        found.weight += space_manager(store).entries_size([session.id for session in idle])
        yield start / len(candidates)


def _is_wanted(found: _Found, *, is_for_good: bool) -> bool:
    how = "for good" if is_for_good else "with 30 days to bring them back"
    return confirm(f"delete {_summary(found)}{_live(found)}, {how}?")


def _list(store: Store, sessions: Sequence[Session]) -> None:
    """Say which sessions are meant: as a table, or as rows that scripts can read."""
    if is_terminal():
        from rekindle.cli.render.table import SessionRow, print_table

        print_table([SessionRow(it, short_id(store, it.id), SessionStatus.IDLE) for it in sessions])
        return
    for session in sessions:
        cells = (session.id, iso(session.updated_us), agent_name(session.agent), session.cwd or "?")
        print("\t".join([*map(one_line, cells), str(session.turns), title(session)]))


def _delete(store: Store, sessions: list[Session], *, is_for_good: bool) -> int:
    """Delete sessions, but those that somebody drives by now; return how many."""
    gone: list[str] = []

    def work() -> Iterator[float]:
        for start, some in _parts(sessions):
            driven = store.leased_ids()
            ids = [session.id for session in some if session.id not in driven]
            apply(store, [Deleted(session_id=id_, at_us=now_us()) for id_ in ids])
            if is_for_good:
                store.purge(*ids)
            gone.extend(ids)
            yield start / len(sessions)

    shown("deleting", work())
    return len(gone)


def _parts(sessions: list[Session]) -> Iterator[tuple[int, list[Session]]]:
    for start in range(0, len(sessions), _AT_ONCE):
        yield start, sessions[start : start + _AT_ONCE]


def _summary(found: _Found, deleted: int | None = None) -> str:
    number = len(found.sessions) if deleted is None else deleted
    return f"{several(number, 'session')} ({size(found.weight)})"


def _live(found: _Found) -> str:
    return f" ({several(found.live, 'session')} in use left out)" if found.live else ""
