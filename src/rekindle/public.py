"""The public `rekindle.open_store`. It returns a store for reading, and creates none by default."""

from pathlib import Path

from rekindle import composition
from rekindle.errors import StoreMissing
from rekindle.store.address import StoreAddress
from rekindle.store.base import ReadableStore

_REMEDY = "correct the address, or create a store with open_store(…, create=True)"


def open_store(address: StoreAddress | Path | str, *, create: bool = False) -> ReadableStore:
    """Open the store at an address, a path or a URL, to read it.

    Nothing is changed, and a store that does not exist raises StoreMissing. With `create`, the
    store is created or upgraded if necessary, and the pending changes of processes that have ended
    are applied. Raises StoreUnavailable, StoreDamaged, StoreTooNew, UsageError.
    """
    try:
        return composition.open_store(address, create=create)
    except StoreMissing as error:
        raise StoreMissing(error.address, _REMEDY) from None
