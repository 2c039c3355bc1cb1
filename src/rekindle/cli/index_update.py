"""Bringing the index up to date before it is used, and showing how far it is."""

import sys
from collections.abc import Iterator

from rekindle.cli import progress
from rekindle.cli.formatting import printable
from rekindle.cli.main import RESCUE_HINT
from rekindle.errors import IndexDamaged, StoreDamaged, StoreUnavailable
from rekindle.store.base import Store
from rekindle.store.sqlite.search_index import Index
from rekindle.transfer.indexer import Progress, bring_up_to_date


def update(index: Index, store: Store) -> bool:
    """Bring an index up to date; where it cannot be, say so: what is indexed is still there.

    Tell whether all is well, which it also is where another is at it.
    """
    try:
        index.sweep()
        shown(bring_up_to_date(index, store))
    except IndexDamaged:
        # Nothing can be found in it, then.
        raise
    except StoreDamaged as error:
        print(f"rekindle: {printable(str(error))}{RESCUE_HINT}", file=sys.stderr)
        return False
    except StoreUnavailable as error:
        print(f"rekindle: {printable(str(error))}: the latest may be missing", file=sys.stderr)
    return True


def shown(steps: Iterator[Progress]) -> None:
    """Do all steps; on a terminal, show a bar if they take long."""
    progress.show_progress("indexing", (step.done / max(step.total, 1) for step in steps))
