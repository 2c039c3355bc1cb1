"""Which store is meant, and opening it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.errors import UsageError

if TYPE_CHECKING:
    from rekindle.store.base import Store
    from rekindle.store.sqlite.pending import Pending

VARIABLE = "REKINDLE_STORE"
ADDRESS = "a path, sqlite:///relative/path or sqlite:////absolute/path"
"""What an address of a store looks like."""
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
        _check_is_meant(address)
    elif "://" in address:
        kind = address.partition("://")[0]
        raise UsageError(f"unknown kind of store {kind!r}: give {ADDRESS}")
    if not address:
        raise UsageError(f"the store's address has no path: give {ADDRESS}")
    try:
        return _behind_links(Path(address).expanduser().absolute())
    except (RuntimeError, OSError) as error:
        raise UsageError(f"the store's path {address} leads nowhere: {error}") from error


def _check_is_meant(address: str) -> None:
    """Raise UsageError if a relative path leads nowhere, and would lead somewhere as absolute."""
    relative, absolute = Path(address), Path("/", address)
    has_parents = len(relative.parts) > 1
    if has_parents and not relative.parent.is_dir() and absolute.parent.is_dir():
        raise UsageError(
            f"{_SQLITE}{address} is a path from the current folder, where there is no folder"
            f" {relative.parent}: {_SQLITE}{absolute} is the absolute one"
        )


def usual_path() -> Path:
    """Return where the store lies when nothing else is asked for."""
    import platformdirs  # noqa: PLC0415 - 30 ms, and only where nothing else is asked for

    return _behind_links(platformdirs.user_data_path("rekindle", appauthor=False) / "sessions.db")


def _behind_links(path: Path) -> Path:
    """Return the file that a link means.

    SQLite's log lies beside that, and so must all of ours: two names would be two locks.
    """
    # What cannot even be looked at is told by whoever opens it.
    return Path(os.path.realpath(path)) if os.path.islink(path) else path  # noqa: PTH114


def index_path(store: Path) -> Path:
    """Return where the index of a store lies, if it has one."""
    return store.with_name(store.name + ".index")


def is_there(path: Path) -> bool:
    """Tell whether there is something at `path`, or a damaged store that waits to be saved."""
    if path.exists():
        return True
    from rekindle.store.sqlite.connection import waiting  # noqa: PLC0415 - heavy

    return waiting(path) is not None


def open_store(
    path: Path | str, *, create: bool = True, tell: Callable[[str], object] = lambda _: None
) -> "Store":
    """Open the store at a path or address. Raises StoreUnavailable, StoreTooNew, UsageError.

    Whoever may write to it takes in what waits of others that have ended. What of that cannot be
    recorded is told.
    """
    from rekindle.store.sqlite.store import SqliteStore  # noqa: PLC0415 - heavy

    path = locate(path) if isinstance(path, str) else path
    store = SqliteStore(path, create=create)
    if create and pending_files(path):
        from rekindle.store.sqlite.pending import take_in  # noqa: PLC0415 - seldom needed

        try:
            take_in(path, store, tell)
        except BaseException:
            store.close()
            raise
    return store


def pending_path(store: Path, token: str) -> Path:
    """Return the file in which the process with this token has what waits to be recorded."""
    return store.with_name(f"{store.name}.pending-{token}")


def pending_files(store: Path) -> list[Path]:
    """Return those files of all processes, living or not."""
    beginning = pending_path(store, "").name
    try:
        names = os.listdir(store.parent)  # noqa: PTH208 - names
    except OSError:
        return []
    return [store.with_name(name) for name in names if name.startswith(beginning)]


def open_pending(path: Path) -> "Pending":
    """Make a file for what cannot be recorded in the store at `path` now. Raises OSError."""
    from rekindle.store.sqlite.pending import Pending  # noqa: PLC0415 - seldom needed

    return Pending(path)


def salvage_store(path: Path) -> str | None:
    """Save what can be read of a damaged store; say how much, None if there is nothing to do.

    Raises StoreUnavailable.
    """
    from rekindle.store.sqlite.quarantine import in_words, salvage  # noqa: PLC0415 - seldom needed

    report = salvage(path)
    return in_words(report) if report else None
