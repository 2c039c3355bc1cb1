"""Saving what is in use from a store that was deleted or replaced while it was open.

Its file has no name any more, but whoever has it open can still read it. Sessions that nobody has
open here are not brought back: whoever deleted them may have meant it.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from rekindle.errors import SessionInUse, SessionNotFound, StoreDamaged, StoreUnavailable
from rekindle.model import Arrived, Session
from rekindle.store.merging import Merger

if TYPE_CHECKING:
    from rekindle.store.sqlite import SqliteStore


def rescue(former: "SqliteStore", store: "SqliteStore") -> None:
    """Take the sessions that are driven by way of `former` into the store in its place.

    Raises StoreUnavailable.
    """
    for session_id, holder in former.claims().items():
        merger = Merger(store, holder, undelete=True, trust=True)
        try:
            session = former.session(session_id)
            merger.take(
                _as_it_was(former, session),
                lambda after, which=session_id: former.read(which, after=after),
                session.updated_us,
            )
        except StoreDamaged:
            # What cannot be read cannot be saved here: what could be is in the store already.
            with suppress(SessionNotFound):
                store.claim(session_id, holder)
            continue
        except SessionInUse as error:
            # Somebody has opened a copy that was put there. It is tried again.
            raise StoreUnavailable(str(error)) from error
        store.claim(session_id, holder, takeover=True)


def _as_it_was(former: "SqliteStore", session: Session) -> Arrived:
    return Arrived(
        id=session.id,
        created_us=session.created_us,
        agent_session_id=session.agent_session_id,
        agent=session.agent,
        cwd=session.cwd,
        directories=session.directories,
        titles=former.titles(session.id),
        parent_id=session.parent_id,
        turns=session.turns,
        messages=session.messages,
    )
