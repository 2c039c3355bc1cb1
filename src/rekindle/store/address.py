"""Store addresses: which store is meant, and which back end serves it.

An address is a path, or a URL whose scheme names the kind of store. Back ends are imported when
one is asked for: `rekindle run` starts its agent before it loads a store.

A new kind of store is a class that implements `StoreBackend`, and a row in `_BACKENDS`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rekindle.configuration.location import existing_configuration_path
from rekindle.errors import UsageError

if TYPE_CHECKING:
    from rekindle.store.base import StoreBackend
    from rekindle.store.maintenance import MaintenanceBackend
    from rekindle.store.search import SearchIndex

VARIABLE = "REKINDLE_STORE"
_SEPARATOR = "://"
_PATH_SCHEME = "sqlite"
"""The kind of store that a plain path names."""


class StoreAddress(NamedTuple):
    """The parsed address of a store. Its text is what messages to the user show."""

    scheme: str
    location: str
    """The part that only the back end understands. For SQLite, it is an absolute path."""
    label: str = ""
    """The text for messages, if it is not the location: a URL without its password."""

    def __str__(self) -> str:
        """Return the label, or else the location without the scheme."""
        return self.label or self.location

    @property
    def as_option(self) -> str:
        """The address as `--store` takes it."""
        is_path = self.scheme == _PATH_SCHEME
        return self.location if is_path else f"{self.scheme}{_SEPARATOR}{self.location}"


class StoreKind(NamedTuple):
    """A row of `_BACKENDS`. It describes a kind of store without importing its back end."""

    parse: Callable[[str], StoreAddress]
    """Parses the part of an address after `scheme://`, or a location. Raises UsageError."""
    create_backend: "Callable[[str], StoreBackend]"
    """Imports the back end, and returns it for a location. Nothing is opened yet."""
    address_help: str
    """The form of its addresses, for users."""


def address_help() -> str:
    """Return the forms of all addresses, for users."""
    return ", ".join(["a path", *(kind.address_help for kind in _BACKENDS.values())])


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
    scheme, separator, rest = text.partition(_SEPARATOR)
    return _kind(scheme).parse(rest) if separator else _parse_path(text)


def _kind(scheme: str) -> StoreKind:
    try:
        return _BACKENDS[scheme]
    except KeyError:
        raise UsageError(f"unknown kind of store {scheme!r}; use {address_help()}") from None


def _parse_path(text: str) -> StoreAddress:
    if not text:
        raise UsageError(f"the store's address has no path; use {address_help()}")
    try:
        return path_address(Path(text).expanduser().absolute())
    except (RuntimeError, OSError) as error:
        raise UsageError(f"the store's path {text} is not valid: {error}") from error


def default_address() -> StoreAddress:
    """Return the address of the user's store, used when no other is named.

    Raises UsageError if the configuration file has a malformed address.
    """
    configured = configured_address()
    return platform_address() if configured is None else configured


def configured_address() -> StoreAddress | None:
    """Return the address that the configuration file has, if any. Raises UsageError."""
    if existing_configuration_path() is None:
        return None
    from rekindle.configuration.file import load_configuration  # noqa: PLC0415 - seldom needed

    configuration = load_configuration()
    text = configuration.values.get("store") if configuration else None
    if configuration is None or text is None:
        return None
    try:
        return parse_address(text)
    except UsageError as error:
        raise UsageError(f"{configuration.path}: `store`: {error}") from error


def platform_address() -> StoreAddress:
    """Return the address of the user's store if nothing is configured."""
    import platformdirs  # noqa: PLC0415 - 30 ms, and only where no store is named

    return path_address(platformdirs.user_data_path("rekindle", appauthor=False) / "sessions.db")


def path_address(path: Path) -> StoreAddress:
    """Return the address that a path names; a symbolic link is followed.

    SQLite puts its log beside the file itself, and our files must be there too: a store with two
    names would have two locks.
    """
    # A path that cannot be inspected is reported when the store is opened.
    target = os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114
    return StoreAddress(_PATH_SCHEME, str(target))


def backend_for(address: StoreAddress) -> "StoreBackend":
    """Return the back end for an address. Nothing is opened yet. Raises UsageError."""
    return _kind(address.scheme).create_backend(address.location)


def store_exists(address: StoreAddress) -> bool:
    """Return whether a store is at `address`, even if it is damaged and waits for recovery."""
    return backend_for(address).exists()


def can_be_searched(address: StoreAddress) -> bool:
    """Return whether a store of this kind has a search index."""
    from rekindle.store.search import SearchBackend  # noqa: PLC0415 - not needed to record

    return isinstance(backend_for(address), SearchBackend)


def open_search_index(address: StoreAddress, *, rebuild: bool = False) -> "SearchIndex":
    """Open the search index of a store. Raises StoreUnavailable, UsageError if it has none."""
    from rekindle.store.search import SearchBackend  # noqa: PLC0415 - not needed to record

    backend = backend_for(address)
    if not isinstance(backend, SearchBackend):
        raise UsageError(
            f"the store {address} has no search index; use another kind of store to search"
        )
    return backend.open_index(rebuild=rebuild)


def maintenance_for(address: StoreAddress) -> "MaintenanceBackend":
    """Return the maintenance capability of a store. Raises UsageError if it has none."""
    from rekindle.store.maintenance import MaintenanceBackend  # noqa: PLC0415 - seldom needed

    backend = backend_for(address)
    if not isinstance(backend, MaintenanceBackend):
        raise UsageError(f"the store {address} has no diagnosis; use the tools of its database")
    return backend


def is_store_file(path: Path) -> bool:
    """Return whether a file is a store that its path names. Raises OSError."""
    from rekindle.store.base import FileBackend  # noqa: PLC0415 - seldom needed

    backend = backend_for(path_address(path))
    return isinstance(backend, FileBackend) and backend.is_store_file()


# -- kinds of stores -----------------------------------------------------------------------


def _parse_sqlite(rest: str) -> StoreAddress:
    # As in other tools: three slashes before a relative path, four before an absolute one.
    if not rest.startswith("/"):
        raise UsageError(f"sqlite://{rest} has too few slashes; use {address_help()}")
    path = rest.removeprefix("/")
    _check_relative_path(path)
    return _parse_path(path)


def _check_relative_path(path: str) -> None:
    """Raise UsageError if a relative path leads nowhere, but the same absolute path exists."""
    relative, absolute = Path(path), Path("/", path)
    has_parents = len(relative.parts) > 1
    if has_parents and not relative.parent.is_dir() and absolute.parent.is_dir():
        raise UsageError(
            f"sqlite:///{path} is relative to the current folder, which has no folder"
            f" {relative.parent}; for the absolute path, use sqlite:///{absolute}"
        )


def _create_sqlite(location: str) -> "StoreBackend":
    from rekindle.store.sqlite.backend import SqliteBackend  # noqa: PLC0415 - heavy

    return SqliteBackend(Path(location))


_BACKENDS = {
    "sqlite": StoreKind(
        parse=_parse_sqlite,
        create_backend=_create_sqlite,
        address_help="sqlite:///relative/path or sqlite:////absolute/path",
    ),
}
"""The kinds of stores, by scheme."""
