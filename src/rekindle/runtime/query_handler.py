"""Answer the queries of flows from the store and the machine."""

import os
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from rekindle.errors import SessionNotFound, StoreError
from rekindle.model import LeaseHolder, LeaseResult, Session
from rekindle.proxy.flow import (
    AcquireLease,
    CompareArchiveStates,
    ConnectToHost,
    DescribeHost,
    EraseSession,
    ExtendSession,
    GetAgentTraits,
    GetForgottenIds,
    GetLeaseHolder,
    GetSession,
    IsAgentGone,
    ListSessions,
    LoadTranscript,
    LookupIds,
    Query,
    QueryFailed,
    ReadEntries,
    ReleaseLease,
    SameFolder,
    StartAgent,
    SwitchAgent,
    WriteChanges,
)
from rekindle.runtime.long_readings import LongReadings
from rekindle.runtime.recorder import Recorder
from rekindle.store.base import ReadableStore, Store
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.subagents import attach

_OptionalQuery = (
    LookupIds | GetForgottenIds | GetAgentTraits | ReleaseLease | EraseSession | ExtendSession
)
"""The queries that a failing store answers harmlessly."""


_LONG = 2_000
"""A session with more entries is read while other events are processed."""

NOT_POSSIBLE = "it is not possible here"


class QueryHandler:
    """Answers the queries of one engine."""

    def __init__(  # noqa: PLR0913 - one collaborator each
        self,
        recorder: Recorder,
        holder: LeaseHolder,
        start_agent: Callable[[], str | None],
        switch_agent: Callable[[tuple[str, ...]], str | None] = lambda _: NOT_POSSIBLE,
        *,
        connect_to_host: Callable[[ConnectToHost], str | None] = lambda _: NOT_POSSIBLE,
        describe: Callable[[], dict[str, Any]] = dict,
        open_reader: Callable[[], ReadableStore] | None = None,
    ) -> None:
        self._recorder = recorder
        self._open_reader = open_reader
        self.readings = LongReadings()
        self.holder = holder
        self._start_agent = start_agent
        self._switch_agent = switch_agent
        self._connect_to_host = connect_to_host
        self._describe = describe

    def answer_later(self, query: Query, done: Callable[[object], None]) -> bool:
        """Begin to answer a query in a thread if that takes long; return whether it has begun.

        `done` is called in the thread, with the answer, or with None if there is none. The answer
        is of no use if the query `needs_lock` then.
        """
        open_reader = self._open_reader
        if open_reader is None or not isinstance(query, LoadTranscript) or not query.is_shared:
            return False
        session_id = query.session_id
        is_long = self._recorder.last_seqs((session_id,)).get(session_id, 0) > _LONG
        if not is_long or self.needs_lock(query):
            return False

        def read() -> Transcript:
            with open_reader() as store:
                return _load_transcript(store, query)

        return self.readings.start(read, done)

    def needs_lock(self, query: Query) -> bool:
        """Return whether entries are missing if others are recorded while a session is read.

        The later entries of its sub-agents would be missing.
        """
        if not isinstance(query, LoadTranscript):
            return True
        session_id = query.session_id
        try:
            return bool(self._recorder.ask(lambda store: store.subagents(session_id)))
        except StoreError:
            return True

    def answer(self, query: Query) -> object:  # noqa: PLR0911, C901 - one for each kind of query
        """Return the answer to a query, or QueryFailed."""
        match query:
            case SameFolder():
                return os.path.realpath(query.one) == os.path.realpath(query.other)
            case StartAgent():
                return self._start_agent()
            case SwitchAgent():
                return self._switch_agent(query.command)
            case ConnectToHost():
                return self._connect_to_host(query)
            case DescribeHost():
                return self._describe()
            case AcquireLease():
                return self._acquire_lease(query)
            case IsAgentGone():
                return self._is_group_gone(query.holder)
            case (
                LookupIds()
                | GetForgottenIds()
                | GetAgentTraits()
                | ReleaseLease()
                | EraseSession()
                | ExtendSession()
            ):
                return self._answer_if_possible(query)
            case GetLeaseHolder():
                return self._other_holder(query)
            case WriteChanges():
                action = "cannot record the change"
            case _:
                action = "cannot read the store"
        try:
            return self._recorder.ask(lambda store: _ask(store, query))
        except StoreError as error:
            return QueryFailed(f"{action}: {error}")

    def _answer_if_possible(self, query: _OptionalQuery) -> object:
        """Return the answer, or a harmless one if the store fails: the conversation continues."""
        try:
            return self._recorder.ask(lambda store: self._apply(store, query))
        except StoreError:
            if isinstance(query, GetForgottenIds):
                return {}
            return frozenset[str]() if isinstance(query, LookupIds | GetAgentTraits) else None

    def _apply(self, store: Store, query: _OptionalQuery) -> object:
        match query:
            case ExtendSession():
                return store.extend(query.session_id, query.after, query.changes)
            case LookupIds():
                return store.known_ids(query.session_ids, recorded_only=query.recorded_only)
            case GetForgottenIds():
                return store.forgotten_ids(query.session_ids)
            case GetAgentTraits():
                return store.agent_traits(query.release)
            case ReleaseLease():
                return store.release_leases(self.holder, query.session_id)
            case EraseSession():
                return store.erase(query.session_id)

    def _other_holder(self, query: GetLeaseHolder) -> LeaseHolder | QueryFailed | None:
        try:
            holder = self._recorder.ask(lambda store: store.lease_holder(query.session_id))
        except SessionNotFound:
            return None
        except StoreError as error:
            return QueryFailed(f"cannot read the store: {error}")
        return None if holder is None or holder.token == self.holder.token else holder

    def _acquire_lease(self, query: AcquireLease) -> LeaseResult | QueryFailed:
        """Return the result of acquiring a lease. A failing store does not refuse it.

        Only a takeover fails, if the store can be read: the other process would go on as the
        holder. It may be stopped in the middle of a write.
        """
        try:
            return self._recorder.ask(
                lambda store: store.acquire_lease(
                    query.session_id, self.holder, takeover=query.may_take_over
                )
            )
        except StoreError as error:
            failure = error
        try:
            other = self._recorder.ask(lambda store: store.lease_holder(query.session_id))
        except StoreError:
            return LeaseResult()
        if other is None or other.token == self.holder.token:
            return LeaseResult()
        if query.may_take_over:
            return QueryFailed(
                f"cannot take the session over from process {other.pid}: {failure}. If you end "
                "that process, the session can be used here"
            )
        return LeaseResult(holder=other)

    def _is_group_gone(self, holder: LeaseHolder) -> bool:
        """Return whether the agent of a process has ended, as far as this machine can know."""
        from rekindle.process.agent_helpers import (  # noqa: PLC0415 - seldom needed
            is_agent_group_gone,
        )

        is_here = holder.machine == self.holder.machine
        return not is_here or not holder.agent_group or is_agent_group_gone(holder.agent_group)


def _ask(
    store: Store,
    query: GetSession
    | ListSessions
    | CompareArchiveStates
    | LoadTranscript
    | ReadEntries
    | WriteChanges,
) -> object:
    match query:
        case WriteChanges():
            return store.write(query.changes, sync=True)
        case GetSession():
            return _look_up(store, query)
        case CompareArchiveStates():
            return store.archive_differences(query.states)
        case ListSessions():
            return store.sessions(query.page)
        case LoadTranscript():
            return _load_transcript(store, query)
        case ReadEntries():
            return list(store.read(query.session_id, after=query.after))


def _load_transcript(store: ReadableStore, query: LoadTranscript) -> Transcript:
    """Return a session's transcript up to an entry, with the conversations of its sub-agents."""

    def read(record_id: str) -> Transcript | None:
        try:
            return fold(store.read(record_id))
        except SessionNotFound:
            return None

    entries, until = store.read(query.session_id), query.until
    if until is not None:
        entries = takewhile(lambda it: it.seq <= until, entries)
    transcript = Transcript()
    for entry in entries:
        transcript.add(entry)
    if not query.is_shared:
        transcript.settle()
    attach(transcript, query.session_id, read)
    return transcript


def _look_up(store: Store, query: GetSession) -> Session | None:
    try:
        return store.session(query.session_id)
    except SessionNotFound:
        return None
