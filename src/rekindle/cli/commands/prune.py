"""Delete old sessions. For 30 days, `rekindle undelete` restores them.

It lists the sessions and asks before it deletes them. It never deletes a
session in use, and an archived one only with --archived.

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
from rekindle.cli.formatting import agent_label, format_size, one_line, plural, title_label
from rekindle.cli.progress import show_progress
from rekindle.cli.project import project_folders
from rekindle.cli.store_access import add_store_option, every, short_id
from rekindle.cli.store_changes import apply, now_us, open_for_changing, overwrite
from rekindle.cli.terminal import is_terminal
from rekindle.errors import UsageError
from rekindle.model import Deleted, Page, Session, SessionStatus
from rekindle.store.base import Store
from rekindle.store.maintenance import space_manager
from rekindle.text.times import iso

_BATCH = 200


class _PrunePlan(Struct):
    """The sessions to delete."""

    sessions: list[Session] = []
    in_use: int = 0
    """The number of sessions left out because a process uses them."""
    size: int = 0
    """The size of the sessions in bytes."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument(
        "--older-than",
        type=duration,
        metavar="AGE",
        help="delete sessions not used for this time: 36h, 90d, 12w, 6m (months) or 1y",
    )
    parser.add_argument(
        "-n", "--keep", type=count, metavar="N", help="keep the N sessions used last"
    )
    parser.add_argument("--here", action="store_true", help="only sessions of this project")
    parser.add_argument(
        "--agent", metavar="NAME", help="only sessions of agents whose name contains NAME"
    )
    parser.add_argument("--archived", action="store_true", help="include archived sessions")
    parser.add_argument(
        "--now",
        "--purge-now",
        action="store_true",
        help="erase the sessions now and for good; they cannot be restored",
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """List the old sessions, ask for confirmation, and delete them."""
    if arguments.older_than is None and arguments.keep is None:
        raise UsageError("no limit given; use --older-than AGE, --keep N, or both")
    if not (arguments.dry_run or arguments.yes or is_terminal(sys.stdin)):
        raise UsageError("no terminal to confirm on; pass --yes to delete, or --dry-run to list")
    with open_for_changing(arguments.store) as store:
        plan = _make_plan(store, arguments)
        if not plan.sessions:
            _report(f"nothing to delete{_in_use(plan)}")
            return 0
        _print_sessions(store, plan.sessions)
        if arguments.dry_run:
            _report(f"would delete {_summary(plan)}{_in_use(plan)}")
            return 0
        if not arguments.yes and not _is_confirmed(plan, is_purge=arguments.now):
            _report("nothing was deleted")
            return 1
        deleted = _delete(store, plan.sessions, is_purge=arguments.now)
        if not arguments.now:
            _report(f"deleted {_summary(plan, deleted)}; `rekindle undelete` restores them")
            return 0
        _report(f"purged {_summary(plan, deleted)}")
        is_done = overwrite(store, arguments.store, [session.id for session in plan.sessions])
    return 0 if is_done else 1


def _report(text: str) -> None:
    # stdout has the sessions only.
    print(text, file=sys.stderr)


def _make_plan(store: Store, arguments: argparse.Namespace) -> _PrunePlan:
    """Return the sessions to delete, the last used first."""
    chosen = Page(
        under=project_folders() if arguments.here else (),
        agent=arguments.agent,
        with_archived=arguments.archived,
        before=(now_us() - (arguments.older_than or 0), ""),
    )
    if arguments.keep:
        # Only the last session to keep is held in memory: there may be a million.
        newest = every(store, replace(chosen, before=None))
        kept = next(islice(newest, arguments.keep - 1, None), None)
        if kept is None:
            return _PrunePlan()
        last = (kept.updated_us, kept.id)
        chosen = replace(chosen, before=min(last, chosen.before or last))
    plan = _PrunePlan()
    found = every(store, replace(chosen, with_unopened=True))
    # A sub-agent stays as long as its session, and goes with it.
    candidates = [session for session in found if not session.is_subagent]
    show_progress("scanning", _fill_plan(plan, store, candidates))
    return plan


def _fill_plan(plan: _PrunePlan, store: Store, candidates: list[Session]) -> Iterator[float]:
    """Add the candidates that no process uses. Yield the share that is done."""
    leased = store.leased_ids()
    for start, batch in _batches(candidates):
        idle = [session for session in batch if session.id not in leased]
        plan.sessions += idle
        plan.in_use += len(batch) - len(idle)
        plan.size += space_manager(store).entries_size([session.id for session in idle])
        yield start / len(candidates)


def _is_confirmed(plan: _PrunePlan, *, is_purge: bool) -> bool:
    how = "for good" if is_purge else "which can be restored for 30 days"
    what = "Erase" if is_purge else "Delete"
    return confirm(f"{what} {_summary(plan)}{_in_use(plan)}, {how}?")


def _print_sessions(store: Store, sessions: Sequence[Session]) -> None:
    """Print the sessions: a table on a terminal, otherwise lines for scripts."""
    if is_terminal():
        from rekindle.cli.render.table import SessionRow, print_table

        print_table(
            [
                SessionRow(session, short_id(store, session.id), SessionStatus.IDLE)
                for session in sessions
            ]
        )
        return
    for session in sessions:
        cells = (
            session.id,
            iso(session.updated_us),
            agent_label(session.agent),
            session.cwd or "?",
        )
        print("\t".join([*map(one_line, cells), str(session.turns), title_label(session)]))


def _delete(store: Store, sessions: list[Session], *, is_purge: bool) -> int:
    """Delete the sessions that are not in use by now; return their number."""
    deleted: list[str] = []

    def delete_batches() -> Iterator[float]:
        for start, batch in _batches(sessions):
            leased = store.leased_ids()
            ids = [session.id for session in batch if session.id not in leased]
            apply(store, [Deleted(session_id=id_, at_us=now_us()) for id_ in ids])
            if is_purge:
                store.purge(*ids)
            deleted.extend(ids)
            yield start / len(sessions)

    show_progress("deleting", delete_batches())
    return len(deleted)


def _batches(sessions: list[Session]) -> Iterator[tuple[int, list[Session]]]:
    for start in range(0, len(sessions), _BATCH):
        yield start, sessions[start : start + _BATCH]


def _summary(plan: _PrunePlan, deleted: int | None = None) -> str:
    number = len(plan.sessions) if deleted is None else deleted
    return f"{plural(number, 'session')} ({format_size(plan.size)})"


def _in_use(plan: _PrunePlan) -> str:
    return f" ({plural(plan.in_use, 'session')} in use skipped)" if plan.in_use else ""
