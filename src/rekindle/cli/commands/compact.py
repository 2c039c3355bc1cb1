"""Reclaim unused disk space, and purge sessions deleted over 30 days ago.

Editors can record meanwhile. You can interrupt it at any time.

example:
  rekindle compact
"""

import argparse
from collections.abc import Iterator

from rekindle.cli.formatting import format_size, plural
from rekindle.cli.progress import show_progress
from rekindle.cli.store_access import add_store_option
from rekindle.cli.store_changes import now_us, open_for_changing
from rekindle.store.base import Store
from rekindle.store.maintenance import space_manager

_SESSIONS_PER_PURGE = 200


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_store_option(parser)


def main(arguments: argparse.Namespace) -> int:
    """Purge sessions that were deleted long ago, then compact."""
    from rekindle.runtime.recorder import KEPT_DELETED_US

    with open_for_changing(arguments.store) as store:
        before = store.overview().size
        due = store.deleted_ids(now_us() - KEPT_DELETED_US)
        if due:
            show_progress("purging", _purge(store, due))
            print(f"purged {plural(len(due), 'session')} deleted over 30 days ago")
        show_progress("compacting", space_manager(store).compact())
        after = store.overview().size
    freed = format_size(before - after) if after < before else "nothing"
    print(f"{format_size(before)} → {format_size(after)}: reclaimed {freed}")
    return 0


def _purge(store: Store, due: list[str]) -> Iterator[float]:
    for start in range(0, len(due), _SESSIONS_PER_PURGE):
        store.purge(*due[start : start + _SESSIONS_PER_PURGE])
        yield start / len(due)
