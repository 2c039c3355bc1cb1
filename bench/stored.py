"""Looks into a store afterwards: what was sent must be in it, line by line."""

from itertools import cycle
from pathlib import Path

import lines
from client import WrongResult
from rekindle.model import Kind
from rekindle.store.sqlite.store import SqliteStore


def count_stream(store: Path, session_id: str, what: str) -> int:
    """Return how many updates the store has, all in the order in which they were streamed."""
    count = 0
    expected = cycle(lines.stream(what, session_id))
    with SqliteStore(store, create=False) as db:
        for entry in db.read(session_id):
            if entry.kind is Kind.UPDATE and b"session_info_update" not in entry.line:
                if entry.line != next(expected)[:-1]:
                    raise WrongResult(f"entry {entry.seq} of {session_id} is not what was sent")
                count += 1
    return count


def count_asks(store: Path, session_id: str) -> int:
    """Return how many permission requests the store has, each with its outcome."""
    with SqliteStore(store, create=False) as db:
        kinds = [entry.kind for entry in db.read(session_id)]
    asked, answered = kinds.count(Kind.PERMISSION), kinds.count(Kind.OUTCOME)
    if asked != answered:
        raise WrongResult(f"the store has {asked} permission requests and {answered} outcomes")
    return asked
