"""The answers to what the core asks of the store and of the machine."""

import os
from collections.abc import Callable

from rekindle.errors import SessionNotFound, StoreError
from rekindle.model import LeaseHolder, LeaseResult, Session
from rekindle.proxy.flow import (
    AcquireLease,
    EraseSession,
    GetSession,
    ListSessions,
    LoadTranscript,
    LookupIds,
    Query,
    QueryFailed,
    ReleaseLease,
    SameFolder,
    StartAgent,
)
from rekindle.runtime.recorder import Recorder
from rekindle.store.base import Store
from rekindle.transcript.reducer import fold


class Answers:
    """Answers questions for one connection."""

    def __init__(
        self, recorder: Recorder, holder: LeaseHolder, start_agent: Callable[[], str | None]
    ) -> None:
        self._recorder = recorder
        self._holder = holder
        self._start_agent = start_agent

    def to(self, question: Query) -> object:
        """Return the answer, or a Failure."""
        match question:
            case SameFolder():
                return os.path.realpath(question.one) == os.path.realpath(question.other)
            case StartAgent():
                return self._start_agent()
            case AcquireLease():
                return self._claim(question)
            case LookupIds() | ReleaseLease() | EraseSession():
                return self._as_far_as_possible(question)
            case GetSession() | ListSessions() | LoadTranscript():
                try:
                    return self._recorder.ask(lambda store: _look_up(store, question))
                except StoreError as error:
                    return QueryFailed(f"the record cannot be read: {error}")

    def _as_far_as_possible(self, question: LookupIds | ReleaseLease | EraseSession) -> object:
        """Return the answer, or what is harmless: without a store a conversation still goes on."""
        try:
            return self._recorder.ask(lambda store: self._do(store, question))
        except StoreError:
            return set[str]() if isinstance(question, LookupIds) else None

    def _do(self, store: Store, question: LookupIds | ReleaseLease | EraseSession) -> object:
        match question:
            case LookupIds():
                return store.bound(question.session_ids)
            case ReleaseLease():
                return store.release(self._holder, question.session_id)
            case EraseSession():
                return store.erase(question.session_id)

    def _claim(self, claim: AcquireLease) -> LeaseResult:
        """Return what came of a claim. Where the store fails, nobody speaks against it."""
        other: LeaseHolder | None = None
        try:
            # Asked before every prompt, and mostly ours already: reading is cheaper than writing.
            other = self._recorder.ask(lambda store: store.holder(claim.session_id))
            if other == self._holder:
                return LeaseResult()
            return self._recorder.ask(
                lambda store: store.claim(
                    claim.session_id, self._holder, takeover=claim.may_take_over
                )
            )
        except StoreError:
            return LeaseResult(holder=None if claim.may_take_over else other)


def _look_up(store: Store, question: GetSession | ListSessions | LoadTranscript) -> object:
    match question:
        case GetSession():
            return _session_or_none(store, question.session_id)
        case ListSessions():
            return store.sessions(question.page)
        case LoadTranscript():
            return fold(store.read(question.session_id))


def _session_or_none(store: Store, session_id: str) -> Session | None:
    try:
        return store.session(session_id)
    except SessionNotFound:
        return None
