"""Rebuild the index of `rekindle search` from the store. No session is changed.

example:
  rekindle reindex
"""

import argparse

from rekindle.cli.formatting import plural
from rekindle.cli.store_access import add_store_option, address_for_reading, open_for_reading
from rekindle.errors import StoreMissing
from rekindle.store.address import default_address, open_search_index


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_store_option(parser)


def main(arguments: argparse.Namespace) -> int:
    """Rebuild the index, and print its size."""
    from rekindle.cli.index_update import show_progress
    from rekindle.transfer.indexer import update_index

    address = address_for_reading(arguments.store)
    if address is None:
        raise StoreMissing(str(default_address()))
    with (
        open_for_reading(arguments.store) as store,
        open_search_index(address, rebuild=True) as index,
    ):
        show_progress(update_index(index, store))
        documents, sessions = index.counts()
    print(f"indexed {plural(documents, 'passage')} of {plural(sessions, 'session')}")
    return 0
