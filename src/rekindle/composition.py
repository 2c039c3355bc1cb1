"""Composition: connect a store with the packages that understand its entries.

A store keeps entries and does not import the code that interprets them. The command line and the
public API open stores here. No other package may import this module.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rekindle.store.address import StoreAddress, backend_for, parse_address
from rekindle.store.base import ReadableStore, ReplacedStore, Reporter, Store, StoreHooks

if TYPE_CHECKING:
    from rekindle.model import Change, Entry


def open_store(
    address: StoreAddress | Path | str, *, create: bool, report: Reporter = lambda _: None
) -> Store:
    """Open the store at an address, a path or a URL.

    With `create`, the store is created or upgraded if necessary, and the pending changes of
    processes that have ended are applied; `report` receives a text about losses. Without `create`,
    nothing is changed, and a store that does not exist raises StoreMissing. Raises
    StoreUnavailable, StoreDamaged, StoreTooNew, UsageError.
    """
    known = address if isinstance(address, StoreAddress) else parse_address(str(address))
    return backend_for(known).open(create=create, report=report, hooks=HOOKS)


def recover_store(address: StoreAddress) -> str | None:
    """Recover a damaged store; return a text about the result.

    Returns None if it is not damaged, or cannot be recovered because of its kind.
    Raises StoreUnavailable.
    """
    from rekindle.store.maintenance import MaintenanceBackend  # noqa: PLC0415 - seldom needed

    backend = backend_for(address)
    report = backend.recover(HOOKS) if isinstance(backend, MaintenanceBackend) else None
    return report.text if report else None


def _turn_has_ended(entries: "Iterable[Entry]") -> bool:
    from rekindle.transcript.reducer import turn_has_ended  # noqa: PLC0415 - heavy

    return turn_has_ended(entries)


def _title_from_prompt(blocks: list[Any]) -> str | None:
    from rekindle.transcript.titles import title_from_prompt  # noqa: PLC0415 - seldom needed

    return title_from_prompt(blocks)


def _rescue(former: ReplacedStore, store: Store) -> None:
    from rekindle.transfer.rescue import rescue  # noqa: PLC0415 - seldom needed

    rescue(former, store)


def _branch(
    store: ReadableStore, session_id: str, branch_id: str, until_seq: int, at_us: int
) -> "list[Change]":
    from rekindle.transfer.branches import fenced_branch  # noqa: PLC0415 - seldom needed

    return fenced_branch(store, session_id, branch_id, until_seq, at_us)


HOOKS = StoreHooks(
    turn_has_ended=_turn_has_ended,
    title_from_prompt=_title_from_prompt,
    on_replaced=_rescue,
    branch=_branch,
)
