"""Bring the search index up to date before it is used, and show the progress."""

from collections.abc import Iterator

from rekindle.cli import progress
from rekindle.cli.main import RESCUE_HINT
from rekindle.cli.messages import print_error, print_warning
from rekindle.errors import IndexDamaged, StoreDamaged, StoreUnavailable
from rekindle.store.base import Store
from rekindle.store.search import SearchIndex
from rekindle.transfer.indexer import IndexProgress, update_index


def update(index: SearchIndex, store: Store) -> bool:
    """Bring an index up to date. If that fails, report it: the indexed part can still be found.

    Return whether the store is intact. Raises IndexDamaged.
    """
    try:
        index.remove_missing()
        show_progress(update_index(index, store))
    except IndexDamaged:
        raise
    except StoreDamaged as error:
        print_error(f"{error}{RESCUE_HINT}")
        return False
    except StoreUnavailable as error:
        print_warning(f"{error}; the search may miss the latest turns")
    return True


def show_progress(steps: Iterator[IndexProgress]) -> None:
    """Run all steps. On a terminal, show a bar if they take long."""
    progress.show_progress("indexing", (step.done / max(step.total, 1) for step in steps))
