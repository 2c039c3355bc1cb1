"""Which store is meant, and opening it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.errors import UsageError

if TYPE_CHECKING:
    from rekindle.store.base import Store

VARIABLE = "REKINDLE_STORE"
_SQLITE = "sqlite:///"


def locate(option: str | None) -> Path:
    """Return the store's path: as asked for, else as the environment says, else the usual one.

    Raises UsageError for an address of a kind that is not known.
    """
    return asked_for(option) or usual_path()


def asked_for(option: str | None) -> Path | None:
    """Return the path that `option` or the environment names, if any. Raises UsageError."""
    address = option or os.environ.get(VARIABLE)
    if not address:
        return None
    if address.startswith(_SQLITE):
        # As elsewhere: three slashes before a relative path, four before an absolute one.
        address = address.removeprefix(_SQLITE)
    elif "://" in address:
        kind = address.partition("://")[0]
        raise UsageError(f"unknown kind of store {kind!r}: give a path or sqlite:///path")
    if not address:
        raise UsageError("the store's address has no path: give a path or sqlite:///path")
    try:
        return Path(address).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        raise UsageError(f"the store's path {address} leads nowhere: {error}") from error


def usual_path() -> Path:
    """Return where the store lies when nothing else is asked for."""
    import platformdirs  # noqa: PLC0415 - 30 ms, and only where nothing else is asked for

    return platformdirs.user_data_path("rekindle", appauthor=False) / "sessions.db"


def index_path(store: Path) -> Path:
    """Return where the index of a store lies, if it has one."""
    return store.with_name(store.name + ".index")


def open_store(path: Path, *, create: bool = True) -> "Store":
    """Open the store at `path`. Raises StoreUnavailable, StoreTooNew."""
    from rekindle.store.sqlite import SqliteStore  # noqa: PLC0415 - heavy

    return SqliteStore(path, create=create)
