"""Rebuild the index that `rekindle search` uses, from the store. Nothing is lost by it.

example:
  rekindle reindex
"""

import argparse

from rekindle.cli.store_access import add_store_option, open_for_reading, path_for_reading
from rekindle.errors import StoreMissing
from rekindle.store.address import usual_path


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)


def main(arguments: argparse.Namespace) -> int:
    """Make the index."""
    from rekindle.cli.index_update import shown
    from rekindle.store.sqlite.search_index import Index
    from rekindle.transfer.indexer import bring_up_to_date

    path = path_for_reading(arguments.store)
    if path is None:
        raise StoreMissing(str(usual_path()))
    with open_for_reading(arguments.store) as store, Index(path, anew=True) as index:
        shown(bring_up_to_date(index, store))
        passages, sessions = index.counts()
    print(f"indexed {passages} passages of {sessions} sessions")
    return 0
