"""What the commands that read the store have in common."""

import argparse

from rekindle.errors import StoreUnavailable
from rekindle.store.base import Store
from rekindle.store.location import asked_for, open_store, usual_path
from rekindle.store.memory import MemoryStore


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Let the store be chosen."""
    parser.add_argument("--store", help="which store: a path or sqlite:///path")


def open_for_reading(option: str | None) -> Store:
    """Open the store. Where nothing was recorded yet, the usual one counts as empty.

    Raises StoreUnavailable, also when there is none where the user said.
    """
    asked = asked_for(option)
    if asked is not None and not asked.exists():
        raise StoreUnavailable(f"there is no store at {asked}")
    path = asked or usual_path()
    return open_store(path, create=False) if path.exists() else MemoryStore()
