"""Store addresses: which store is meant, and which back end serves it.

An address is a path, or a URL whose scheme names the kind of store. Back ends are imported when
one is asked for: `rekindle run` starts its agent before it loads a store.

Another kind of store is a row in `_BACKENDS`, and a function that parses its addresses.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rekindle.errors import UsageError

if TYPE_CHECKING:
    from rekindle.store.base import StoreBackend
    from rekindle.store.maintenance import MaintenanceBackend
    from rekindle.store.search import SearchIndex

VARIABLE = "REKINDLE_STORE"
ADDRESS_HELP = "a path, sqlite:///relative/path or sqlite:////absolute/path"
_SQLITE = "sqlite:///"


class StoreAddress(NamedTuple):
    """The parsed address of a store. Its text is what messages to the user show."""

    scheme: str
    location: str
    """The part that only the back end understands. For SQLite, it is an absolute path."""

    def __str__(self) -> str:
        """Return the location, without the scheme."""
        return self.location


def locate(option: str | None) -> StoreAddress:
    """Return the address that `option` names, or the environment, or the default one.

    Raises UsageError if the address is malformed or its scheme is unknown.
    """
    return requested_address(option) or default_address()


def requested_address(option: str | None) -> StoreAddress | None:
    """Return the address that `option` or the environment names, if any. Raises UsageError."""
    text = option or os.environ.get(VARIABLE)
    return parse_address(text) if text else None


def parse_address(text: str) -> StoreAddress:
    """Parse a path or a URL. Raises UsageError."""
    if text.startswith(_SQLITE):
        # As in other tools: three slashes before a relative path, four before an absolute one.
        text = text.removeprefix(_SQLITE)
        _check_relative_path(text)
    elif "://" in text:
        kind = text.partition("://")[0]
        raise UsageError(f"unknown kind of store {kind!r}: give {ADDRESS_HELP}")
    if not text:
        raise UsageError(f"the store's address has no path: give {ADDRESS_HELP}")
    try:
        return path_address(Path(text).expanduser().absolute())
    except (RuntimeError, OSError) as error:
        raise UsageError(f"the store's path {text} leads nowhere: {error}") from error


def _check_relative_path(path: str) -> None:
    """Raise UsageError if a relative path leads nowhere, but the same absolute path exists."""
    relative, absolute = Path(path), Path("/", path)
    has_parents = len(relative.parts) > 1
    if has_parents and not relative.parent.is_dir() and absolute.parent.is_dir():
        raise UsageError(
            f"{_SQLITE}{path} is a path from the current folder, where there is no folder"
            f" {relative.parent}: {_SQLITE}{absolute} is the absolute one"
        )


def default_address() -> StoreAddress:
    """Return the address of the user's store, used when no other is named."""
    import platformdirs  # noqa: PLC0415 - 30 ms, and only where no store is named

    return path_address(platformdirs.user_data_path("rekindle", appauthor=False) / "sessions.db")


def path_address(path: Path) -> StoreAddress:
    """Return the address of the store in a file; a symbolic link is followed.

    SQLite puts its log beside the file itself, and our files must be there too: a store with two
    names would have two locks.
    """
    # A path that cannot be inspected is reported when the store is opened.
    target = os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114
    return StoreAddress("sqlite", str(target))


def backend_for(address: StoreAddress) -> "StoreBackend":
    """Return the back end for an address. Nothing is opened yet."""
    return _BACKENDS[address.scheme](address.location)


def store_exists(address: StoreAddress) -> bool:
    """Return whether a store is at `address`, even if it is damaged and waits for recovery."""
    return backend_for(address).exists()


def open_search_index(address: StoreAddress, *, rebuild: bool = False) -> "SearchIndex":
    """Open the search index of a store. Raises StoreUnavailable, UsageError if it has none."""
    from rekindle.store.search import SearchBackend  # noqa: PLC0415 - not needed to record

    backend = backend_for(address)
    if not isinstance(backend, SearchBackend):
        raise UsageError(f"the store {address} cannot be searched")
    return backend.open_index(rebuild=rebuild)


def maintenance_for(address: StoreAddress) -> "MaintenanceBackend":
    """Return the maintenance capability of a store. Raises UsageError if it has none."""
    from rekindle.store.maintenance import MaintenanceBackend  # noqa: PLC0415 - seldom needed

    backend = backend_for(address)
    if not isinstance(backend, MaintenanceBackend):
        raise UsageError(f"the store {address} cannot be diagnosed from here")
    return backend


def is_store_file(path: Path) -> bool:
    """Return whether a file is a store of some kind. Raises OSError."""
    from rekindle.store.sqlite.inspect import is_store  # noqa: PLC0415 - seldom needed

    return is_store(path)


def _sqlite(location: str) -> "StoreBackend":
    from rekindle.store.sqlite.backend import SqliteBackend  # noqa: PLC0415 - heavy

    return SqliteBackend(Path(location))


_BACKENDS: "dict[str, Callable[[str], StoreBackend]]" = {"sqlite": _sqlite}
