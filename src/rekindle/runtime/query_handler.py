"""Answer the queries of flows from the store and the machine."""

import os
from collections.abc import Callable

from rekindle.errors import SessionNotFound, StoreError
from rekindle.model import LeaseHolder, LeaseResult, Session
from rekindle.proxy.flow import (
    AcquireLease,
    EraseSession,
    ExtendSession,
    GetAgentTraits,
    GetSession,
    ListSessions,
    LoadTranscript,
    LookupIds,
    Query,
    QueryFailed,
    ReadEntries,
    ReleaseLease,
    SameFolder,
    StartAgent,
)
from rekindle.runtime.recorder import Recorder
from rekindle.store.base import Store
from rekindle.transcript.reducer import fold


class QueryHandler:
    """Answers the queries of one engine."""

    def __init__(
        self, recorder: Recorder, holder: LeaseHolder, start_agent: Callable[[], str | None]
    ) -> None:
        self._recorder = recorder
        self._holder = holder
        self._start_agent = start_agent

    def answer(self, query: Query) -> object:
        """Return the answer to a query, or QueryFailed."""
        match query:
            case SameFolder():
                return os.path.realpath(query.one) == os.path.realpath(query.other)
            case StartAgent():
                return self._start_agent()
            case AcquireLease():
                return self._acquire_lease(query)
            case LookupIds() | GetAgentTraits() | ReleaseLease() | EraseSession() | ExtendSession():
                return self._answer_if_possible(query)
            case GetSession() | ListSessions() | LoadTranscript() | ReadEntries():
                try:
                    return self._recorder.ask(lambda store: _read(store, query))
                except StoreError as error:
                    return QueryFailed(f"the record cannot be read: {error}")

    def _answer_if_possible(
        self, query: LookupIds | GetAgentTraits | ReleaseLease | EraseSession | ExtendSession
    ) -> object:
        """Return the answer, or a harmless one if the store fails: the conversation continues."""
        try:
            return self._recorder.ask(lambda store: self._apply(store, query))
        except StoreError:
            return frozenset[str]() if isinstance(query, LookupIds | GetAgentTraits) else None

    def _apply(
        self,
        store: Store,
        query: LookupIds | GetAgentTraits | ReleaseLease | EraseSession | ExtendSession,
    ) -> object:
        match query:
            case ExtendSession():
                return store.extend(query.session_id, query.after, query.changes)
            case LookupIds():
                return store.known_ids(query.session_ids)
            case GetAgentTraits():
                return store.agent_traits(query.release)
            case ReleaseLease():
                return store.release_leases(self._holder, query.session_id)
            case EraseSession():
                return store.erase(query.session_id)

    def _acquire_lease(self, query: AcquireLease) -> LeaseResult:
        """Return the result of acquiring a lease. A failing store does not refuse it."""
        other: LeaseHolder | None = None
        try:
            # Every prompt asks, and mostly the lease is ours already. Reading is cheaper.
            other = self._recorder.ask(lambda store: store.lease_holder(query.session_id))
            if other == self._holder:
                return LeaseResult()
            return self._recorder.ask(
                lambda store: store.acquire_lease(
                    query.session_id, self._holder, takeover=query.may_take_over
                )
            )
        except StoreError:
            return LeaseResult(holder=None if query.may_take_over else other)


def _read(store: Store, query: GetSession | ListSessions | LoadTranscript | ReadEntries) -> object:
    match query:
        case GetSession():
            return _session_or_none(store, query.session_id)
        case ListSessions():
            return store.sessions(query.page)
        case LoadTranscript():
            return fold(store.read(query.session_id))
        case ReadEntries():
            return list(store.read(query.session_id, after=query.after))


def _session_or_none(store: Store, session_id: str) -> Session | None:
    try:
        return store.session(session_id)
    except SessionNotFound:
        return None
