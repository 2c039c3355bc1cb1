"""Rekindle gives every coding agent that speaks ACP a memory that lasts.

The public names are loaded when they are first used, so that `rekindle run` can start an
agent before anything heavy is imported.
"""

TYPE_CHECKING = False  # as type checkers know it; importing it would cost every start

if TYPE_CHECKING:
    from rekindle.composition import open_store
    from rekindle.errors import RekindleError, SessionNotFound, StoreError
    from rekindle.model import AgentIdentity, Entry, Kind, Page, Session, Side
    from rekindle.store.address import locate
    from rekindle.store.base import Store
    from rekindle.transcript.reducer import Transcript, fold

__version__ = "0.1.0"

__all__ = [
    "AgentIdentity",
    "Entry",
    "Kind",
    "Page",
    "RekindleError",
    "Session",
    "SessionNotFound",
    "Side",
    "Store",
    "StoreError",
    "Transcript",
    "fold",
    "locate",
    "open_store",
]

_HOMES = {
    "rekindle.transcript.reducer": {"Transcript", "fold"},
    "rekindle.errors": {"RekindleError", "SessionNotFound", "StoreError"},
    "rekindle.model": {"AgentIdentity", "Entry", "Kind", "Page", "Session", "Side"},
    "rekindle.store.base": {"Store"},
    "rekindle.store.address": {"locate"},
    "rekindle.composition": {"open_store"},
}


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - as light as can be

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'rekindle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
