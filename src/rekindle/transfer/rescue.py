"""Bring sessions in use into a new store after their store was removed or replaced.

Only sessions that this process holds a lease on are brought back. Others may have been deleted on
purpose.
"""

from contextlib import suppress

from rekindle.errors import SessionInUse, SessionNotFound, StoreDamaged, StoreUnavailable
from rekindle.model import IncomingSession
from rekindle.store.base import ReplacedStore, Store
from rekindle.transfer.merge import Merger, RecordedCopy


def rescue(former: ReplacedStore, store: Store) -> None:
    """Merge the leased sessions of `former` into `store`, and acquire their leases there.

    Raises StoreUnavailable; then it can be tried again.
    """
    for session_id, holder in former.leases().items():
        merger = Merger(store, holder, undelete=True, trust=True)
        try:
            session = former.session(session_id)
            incoming = IncomingSession.from_session(session, former.titles(session_id))
            copy = RecordedCopy(
                incoming, lambda after, which=session_id: former.read(which, after=after)
            )
            merger.merge(copy, session.updated_us)
        except StoreDamaged:
            # It cannot be read here. The recovery has copied its readable entries already.
            with suppress(SessionNotFound):
                store.acquire_lease(session_id, holder)
            continue
        except SessionInUse as error:
            # Another process has opened a copy of the session in the new store.
            raise StoreUnavailable(str(error)) from error
        store.acquire_lease(session_id, holder, takeover=True)
