"""A store in memory: for tests, and as a readable implementation of the contract."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from threading import RLock
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from rekindle.errors import LeaseLost, SessionAmbiguous, SessionNotFound
from rekindle.model import (
    ACTIVITY,
    UNKNOWN_TO_AGENT,
    AgentArchived,
    AgentIdentity,
    AgentObserved,
    AgentSaved,
    AgentTrait,
    Archived,
    Change,
    Counted,
    Deleted,
    Entry,
    EntryBatch,
    Forgotten,
    Forked,
    Imported,
    Kind,
    LeaseHolder,
    LeaseResult,
    Opened,
    Overview,
    Page,
    RareChange,
    Session,
    SessionStatus,
    SessionTotals,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.store.base import (
    KEPT_FORGOTTEN_US,
    ImportedSession,
    LeaseMark,
    PendingChange,
    StoreHooks,
    UncertainWrite,
    belong_to_first,
    not_applied,
)
from rekindle.store.fencing import PendingBranches, branched, fenced_sessions
from rekindle.store.memory_leases import MemoryLeases
from rekindle.text.times import week_of


class _Record(Struct):
    session: Session
    titles: dict[TitleSource, str] = {}
    entries: list[Entry] = []
    former_agent_ids: set[str] = set()


class MemoryStore:
    """Keeps everything in dictionaries. It ends with its process."""

    def __init__(self, hooks: StoreHooks | None = None) -> None:
        self._hooks = hooks or StoreHooks()
        self._lock = RLock()
        self._records: dict[str, _Record] = {}
        self._leases = MemoryLeases()
        self._applied: dict[str, int] = {}
        """The number of pending changes that were applied, by token."""
        self._traits: set[tuple[str, AgentTrait]] = set()
        """Releases of agents, each with one trait."""
        self._forgotten: dict[str, int] = {}
        """The times of forgotten sessions, by the agent's id."""

    def second(self) -> Self:
        """Return another instance with the same contents, as another process would open it."""
        other = copy(self)
        other._leases = MemoryLeases(self._leases)  # noqa: SLF001 - of its own kind
        return other

    def write(
        self,
        changes: Sequence[Change],
        *,
        sync: bool = False,  # noqa: ARG002 - nothing to sync
        timeout: float | None = None,  # noqa: ARG002 - there are no other writers
    ) -> None:
        """Apply `changes`."""
        with self._lock:
            for session_id in fenced_sessions(changes):
                self._leases.check(session_id, self._last_seq(session_id))
            for change in changes:
                self._apply(change)

    def uncertain_write(
        self,
        changes: Sequence[Change],  # noqa: ARG002 - as in the contract
    ) -> UncertainWrite | None:
        """Return None: no write has an unknown result."""
        return None

    def branch_changes(self, lost: LeaseLost, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of a write whose lease is lost for the branch of the session."""
        with self._lock:
            return branched(self, self._hooks, lost, changes)

    def extend(
        self,
        session_id: str,
        after: int,
        changes: Iterable[Change],
        *,
        sync: bool = True,  # noqa: ARG002 - nothing to sync
        latest_us: int | None = None,
    ) -> bool:
        """Apply `changes` if the session has not grown."""
        consumed = list(changes)
        with self._lock:
            last_seq = self._last_seq(session_id)
            self._leases.check(session_id, last_seq)
            record = self._records.get(session_id)
            if last_seq != after:
                return False
            was_us = record.session.updated_us if record else 0
            for change in consumed:
                self._apply(change)
            if latest_us is not None and session_id in self._records:
                record = self._records[session_id]
                now = record.session
                bounded_us = max(was_us, now.created_us, min(now.updated_us, latest_us))
                record.session = replace(now, updated_us=bounded_us)
            return True

    def apply_pending(
        self,
        token: str,
        changes: Iterable[PendingChange],
        *,
        timeout: float | None = None,  # noqa: ARG002 - there are no other writers
    ) -> list[str]:
        """Apply pending changes that were not applied before."""
        consumed = list(changes)
        with self._lock:
            done, self._applied[token] = self._applied.get(token, 0), len(consumed)
            branches = PendingBranches(self, self._hooks, self._find_lost)
            problems: list[str | None] = []
            for change in not_applied(self, branches.skip(consumed, done)):
                if isinstance(change, LeaseMark):
                    branches.note(change)
                elif change is not None:
                    problems.append(self._apply_one_pending(change, branches))
            return [problem for problem in problems if problem]

    def _apply_one_pending(self, change: Change, branches: PendingBranches) -> str | None:
        """Apply a pending change; return why, if it can never be applied."""
        record = self._records.get(change.session_id)
        if record and record.session.is_purged and change.at_us <= (record.session.deleted_us or 0):
            return None
        try:
            for it in branches.redirect(change):
                self._apply(it)
        except SessionNotFound as error:
            return repr(error)
        return None

    def forget_pending(self, token: str) -> None:
        """Forget how many changes were applied."""
        self._applied.pop(token, None)

    def read(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield entries."""
        with self._lock:
            entries = self._get(session_id).entries
        seq = after
        while seq < len(entries):
            yield entries[seq]
            seq += 1

    def session(self, session_id: str) -> Session:
        """Return one session."""
        with self._lock:
            return self._get(session_id).session

    def last_seq(self, session_id: str) -> int:
        """Return the seq of the last entry of a session."""
        with self._lock:
            record = self._records.get(session_id)
            return 0 if record is None else record.session.last_seq

    def sessions(self, page: Page) -> list[Session]:
        """List sessions."""
        with self._lock:
            matching = [r.session for r in self._records.values() if _matches(r.session, page)]
        matching.sort(key=_position, reverse=True)
        return matching[: page.limit]

    def find(self, prefix: str) -> Session:
        """Return the session that `prefix` identifies."""
        with self._lock:
            if prefix in self._records:
                return self._records[prefix].session
            matches = sorted(
                id_
                for id_, record in self._records.items()
                if prefix and id_.startswith(prefix) and not record.session.is_purged
            )
            if matches and not belong_to_first(matches):
                raise SessionAmbiguous(prefix, matches)
            return self._get(matches[0] if matches else prefix).session

    def titles(self, session_id: str) -> dict[TitleSource, str]:
        """Return all titles."""
        with self._lock:
            return dict(self._get(session_id).titles)

    def known_ids(self, session_ids: Sequence[str], *, recorded_only: bool = False) -> set[str]:
        """Return the ids that belong to a session."""
        with self._lock:
            records = self._records.values()
            counted = [r for r in records if not (recorded_only and r.session.is_blank)]
            known = {id_ for r in counted for id_ in (r.session.id, r.session.agent_session_id)}
            return known.union(*(r.former_agent_ids for r in counted)) & set(session_ids)

    def find_by_agent_id(self, agent_session_id: str) -> str | None:
        """Return the session that an agent knows by this id."""
        with self._lock:
            records = list(self._records.values())
        current = [r for r in records if r.session.agent_session_id == agent_session_id]
        former = [r for r in records if agent_session_id in r.former_agent_ids]
        return next((record.session.id for record in [*current, *former]), None)

    def agent_commands(self, identities: Collection[str]) -> list[tuple[str, ...]]:
        """Return the commands of agents."""
        wanted = {_fold_ascii(identity) for identity in identities if identity}
        page = Page(with_archived=True, limit=len(self._records))
        agents = [session.agent for session in self.sessions(page)]
        commands = (it.command for it in agents if _fold_ascii(it.identity) in wanted)
        return list(dict.fromkeys(filter(None, commands)))

    def agent_traits(self, release: str) -> frozenset[AgentTrait]:
        """Return the traits of a release of an agent."""
        with self._lock:
            return frozenset(trait for name, trait in self._traits if name == release)

    def forgotten_ids(self, agent_session_ids: Sequence[str]) -> dict[str, int]:
        """Return the times of forgotten sessions."""
        with self._lock:
            return {i: self._forgotten[i] for i in agent_session_ids if i in self._forgotten}

    def archive_differences(self, states: Mapping[str, bool]) -> list[Session]:
        """Return the sessions whose archive state differs from the agent's own."""
        with self._lock:
            sessions = [record.session for record in self._records.values()]
        newest = {session.agent_session_id: session for session in sessions}
        return [
            session
            for session in newest.values()
            if states.get(session.agent_session_id) == (not session.is_archived_by_agent)
            and session.deleted_us is None
            and not session.is_unopened
        ]

    def imported(self) -> Iterator[ImportedSession]:
        """Yield the sessions that have an origin."""
        with self._lock:
            sessions = [record.session for record in self._records.values()]
        for session in sessions:
            if session.origin is not None:
                is_deleted = session.deleted_us is not None
                yield ImportedSession(session.id, session.cwd, session.origin, is_deleted)

    def acquire_lease(
        self, session_id: str, holder: LeaseHolder, *, takeover: bool = False
    ) -> LeaseResult:
        """Give `holder` the exclusive use of a session."""
        with self._lock:
            last_seq = self._get(session_id).session.last_seq
            return self._leases.acquire(session_id, holder, last_seq, takeover=takeover)

    def lease_mark(self, session_id: str) -> LeaseMark | None:
        """Return the lease that was acquired through this instance."""
        return self._leases.marks.get(session_id)

    def update_holder(self, holder: LeaseHolder) -> None:
        """Store the new fields of a holder."""
        with self._lock:
            self._leases.update(holder)

    def lease_holder(self, session_id: str) -> LeaseHolder | None:
        """Return the holder of a lease."""
        with self._lock:
            self._get(session_id)
            return self._leases.holder(session_id)

    def leased_ids(self) -> set[str]:
        """Return the sessions that have a lease."""
        with self._lock:
            return self._leases.held_ids()

    def release_leases(self, holder: LeaseHolder, session_id: str | None = None) -> None:
        """Release the lease of one session, or all of them."""
        with self._lock:
            self._leases.release(holder, session_id)

    def _find_lost(self, mark: LeaseMark) -> LeaseLost | None:
        return self._leases.find_lost(mark, self._last_seq(mark.session_id))

    def _last_seq(self, session_id: str) -> int:
        record = self._records.get(session_id)
        return record.session.last_seq if record else 0

    def statuses(self, session_ids: Sequence[str]) -> dict[str, SessionStatus]:
        """Return the status of each known session."""
        with self._lock:
            return {id_: self._status(id_) for id_ in session_ids if id_ in self._records}

    def _status(self, session_id: str) -> SessionStatus:
        if session_id in self.leased_ids():
            return SessionStatus.LIVE
        entries = self._records[session_id].entries
        prompts = [at for at, entry in enumerate(entries) if entry.kind is Kind.PROMPT]
        if not prompts or self._hooks.turn_has_ended(entries[prompts[-1] + 1 :]):
            return SessionStatus.IDLE
        return SessionStatus.INTERRUPTED

    def unused_sessions(
        self, before_us: int, *, after: tuple[int, str] = (0, ""), limit: int = -1
    ) -> list[Session]:
        """Return the sessions that no client has used."""
        with self._lock:
            leased = self.leased_ids()
            keys = {
                (record.session.created_us, id_)
                for id_, record in self._records.items()
                if record.session.is_unused and id_ not in leased
            }
            found = sorted(key for key in keys if after < key < (before_us, ""))
            shown = found if limit < 0 else found[:limit]
            return [self._records[session_id].session for _, session_id in shown]

    def subagents(self, *session_ids: str) -> list[Session]:
        """Return the sub-agents of sessions."""
        with self._lock:
            every = [record.session for record in self._records.values()]
            owners, found = set(session_ids), dict[str, Session]()
            while owners:
                children = [it for it in every if it.is_subagent and it.parent_id in owners]
                owners = {it.id for it in children} - found.keys()
                found |= {it.id: it for it in children}
            return sorted(found.values(), key=lambda it: (it.created_us, it.id))

    def purge(self, *session_ids: str) -> None:
        """Purge deleted sessions, but keep their tombstones."""
        with self._lock:
            known = [self._records[it].session for it in session_ids if it in self._records]
            deleted = [it for it in known if it.deleted_us is not None]
            subagents = self.subagents(*(it.id for it in deleted))
            for session in (*deleted, *(it for it in subagents if it.deleted_us is not None)):
                self._purge(session)

    def scrub(self, tick: Callable[[], object]) -> None:
        """Do nothing: there are no files."""

    def _purge(self, was: Session) -> None:
        self._records[was.id] = _Record(
            replace(
                _blank(was.id, was.created_us),
                agent_session_id=was.agent_session_id,
                updated_us=was.updated_us,
                deleted_us=was.deleted_us,
            )
        )
        self._leases.drop(was.id)

    def deleted_ids(self, before_us: int, limit: int = -1) -> list[str]:
        """Return the sessions that were deleted before this time."""
        with self._lock:
            found = sorted(
                (record.session.deleted_us or 0, record.session.id)
                for record in self._records.values()
                if (record.session.deleted_us or before_us) < before_us
                and not record.session.is_purged
            )
        return [session_id for _, session_id in (found if limit < 0 else found[:limit])]

    def entries_size(self, session_ids: Sequence[str]) -> int:
        """Return the number of bytes in the entries of sessions."""
        with self._lock:
            return sum(_entries_size(self._records[i]) for i in session_ids if i in self._records)

    def overview(self) -> Overview:
        """Return totals of the whole store."""
        with self._lock:
            every = [record.session for record in self._records.values()]
            size = sum(map(_entries_size, self._records.values()))
        known = [session for session in every if not session.is_unopened]
        there = [session for session in known if session.deleted_us is None]
        agents: dict[str, list[Session]] = {}
        weeks: dict[int, list[Session]] = {}
        for session in there:
            agent = session.agent
            agents.setdefault(agent.name or agent.program or "", []).append(session)
            weeks.setdefault(week_of(session.created_us), []).append(session)
        return Overview(
            whole=_sum(there),
            archived=sum(session.archived_us is not None for session in there),
            deleted=len(known) - len(there),
            first_us=min((session.created_us for session in there), default=None),
            last_us=max((session.updated_us for session in there), default=None),
            agents={name: _sum(sessions) for name, sessions in agents.items()},
            weeks={week: _sum(sessions) for week, sessions in weeks.items()},
            size=size,
            unused=0,
        )

    def compact(self) -> Iterator[float]:
        """Do nothing: there is no unused space."""
        yield 1.0

    def erase(self, session_id: str) -> None:
        """Remove a session and its sub-agents."""
        with self._lock:
            if session_id not in self._records:
                return
            for id_ in (session_id, *(it.id for it in self.subagents(session_id))):
                self._remove(id_)

    def _remove(self, session_id: str) -> None:
        self._records.pop(session_id, None)
        self._leases.drop(session_id)

    def continue_from(self, former: Self) -> None:
        """Do nothing: sessions end with the instance that has them."""

    def close(self) -> None:
        """Release the leases that were acquired through this instance."""
        with self._lock:
            self._leases.release_own()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, session_id: str) -> _Record:
        if session_id not in self._records:
            raise SessionNotFound(session_id)
        return self._records[session_id]

    def _apply(self, change: Change) -> None:
        match change:
            case EntryBatch():
                self._append(self._get_or_create(change.session_id, change.at_us), change)
            case Opened():
                record = self._get_or_create(change.session_id, change.at_us)
                self._mark_subagents(record.session, None)
                self._open(record, change)
            case Titled():
                self._title(self._get_or_create(change.session_id, change.at_us), change)
            case Counted():
                self._count(self._get_or_create(change.session_id, change.at_us), change)
            case _:
                self._apply_rare(change)

    def _apply_rare(self, change: RareChange) -> None:
        match change:
            case Forgotten():
                self._forget(change)
            case Forked():
                self._fork(change)
            case Imported():
                record = self._get_or_create(change.session_id, change.at_us)
                record.session = replace(record.session, origin=change.origin)
            case Truncated():
                record = self._get(change.session_id)
                del record.entries[change.until_seq :]
                self._leases.truncate(change.session_id, change.until_seq)
                record.session = replace(record.session, last_seq=len(record.entries))
            case AgentObserved():
                self._traits.add((change.release, change.trait))
            case _:
                record = self._records.get(change.session_id)
                if record:
                    if isinstance(change, Deleted):
                        self._mark_subagents(replace(record.session, deleted_us=None), change.at_us)
                    record.session = _mark(record.session, change)

    def _mark_subagents(self, parent: Session, deleted_us: int | None) -> None:
        """Delete or undelete the sub-agents that are in the same state as their session."""
        if parent.deleted_us != deleted_us:
            for it in self.subagents(parent.id):
                if it.deleted_us == parent.deleted_us:
                    self._records[it.id].session = replace(it, deleted_us=deleted_us)

    def _fork(self, forked: Forked) -> None:
        parent = self._get(forked.parent_id)
        entries = [entry for entry in parent.entries if entry.seq <= forked.until_seq]
        child = self._get_or_create(forked.session_id, forked.at_us)
        child.entries[:] = entries
        child.titles |= parent.titles
        child.session = replace(
            child.session,
            agent_session_id=UNKNOWN_TO_AGENT,
            agent=parent.session.agent,
            cwd=parent.session.cwd,
            title=parent.session.title,
            title_source=parent.session.title_source,
            parent_id=forked.owner_id or forked.parent_id,
            last_seq=len(entries),
        )

    def _forget(self, forgotten: Forgotten) -> None:
        record = self._records.get(forgotten.session_id)
        if record is None or not record.session.is_unused:
            return
        if forgotten.hides_agents:
            oldest_us = forgotten.at_us - KEPT_FORGOTTEN_US
            agent_ids = record.former_agent_ids | {record.session.agent_session_id}
            kept = {id_: at_us for id_, at_us in self._forgotten.items() if at_us >= oldest_us}
            agents = dict.fromkeys(agent_ids - {UNKNOWN_TO_AGENT}, forgotten.at_us)
            self._forgotten.clear()
            self._forgotten |= kept | agents
        # Only the session itself is known to be unused.
        self._remove(forgotten.session_id)

    def _get_or_create(self, session_id: str, at_us: int) -> _Record:
        record = self._records.get(session_id)
        if record is None:
            record = self._records[session_id] = _Record(_blank(session_id, at_us))
        return record

    @staticmethod
    def _append(record: _Record, batch: EntryBatch) -> None:
        for line in batch.lines:
            record.entries.append(
                Entry(
                    seq=len(record.entries) + 1,
                    side=batch.side,
                    kind=batch.kind,
                    at_us=batch.at_us,
                    line=line,
                    protocol=batch.protocol,
                )
            )
        session = record.session
        active_us = batch.at_us if batch.kind in ACTIVITY else 0
        record.session = replace(
            session,
            updated_us=max(session.updated_us, active_us),
            last_seq=len(record.entries),
        )

    @staticmethod
    def _open(record: _Record, opened: Opened) -> None:
        known = {
            name: value
            for name in ("agent_session_id", "agent", "cwd", "directories", "parent_id")
            if (value := getattr(opened, name)) is not None
        }
        was = record.session.agent_session_id
        record.session = replace(record.session, **known, deleted_us=None)
        if was not in {UNKNOWN_TO_AGENT, record.session.agent_session_id}:
            record.former_agent_ids.add(was)
        if was != record.session.agent_session_id:
            record.session = replace(record.session, saved_turns=0, is_archived_by_agent=False)

    @staticmethod
    def _count(record: _Record, counted: Counted) -> None:
        session = record.session
        record.session = replace(
            session,
            turns=session.turns + counted.turns,
            messages=session.messages + counted.messages,
            saved_turns=session.saved_turns if counted.turns >= 0 else 0,
        )

    @staticmethod
    def _title(record: _Record, titled: Titled) -> None:
        titles = record.titles
        if titled.title is None:
            titles.pop(titled.source, None)
        elif titled.source is TitleSource.PROMPT:
            titles.setdefault(titled.source, titled.title)
        else:
            titles[titled.source] = titled.title
        best = next((s for s in reversed(TitleSource) if s in titles), None)
        title = titles[best] if best else None
        record.session = replace(record.session, title=title, title_source=best)


def _blank(session_id: str, at_us: int) -> Session:
    return Session(
        id=session_id,
        agent_session_id=session_id,
        agent=AgentIdentity(),
        cwd=None,
        directories=(),
        title=None,
        title_source=None,
        created_us=at_us,
        updated_us=at_us,
        parent_id=None,
        archived_us=None,
        deleted_us=None,
        last_seq=0,
        turns=0,
        messages=0,
    )


def _position(session: Session) -> tuple[int, str]:
    return (session.updated_us, session.id)


def _matches(session: Session, page: Page) -> bool:
    return (
        (page.cwd is None or session.cwd == page.cwd)
        and (not page.folders or session.cwd in page.folders)
        and (not page.under or any(_is_below(session.cwd, folder) for folder in page.under))
        and (page.agent is None or any(page.agent.lower() in it for it in _names(session.agent)))
        and (page.before is None or _position(session) < page.before)
        and (page.with_archived or page.archived or session.archived_us is None)
        and (not page.archived or session.archived_us is not None)
        and page.deleted is (session.deleted_us is not None)
        and (
            page.with_unopened
            or page.placeholders
            or not session.is_unopened
            or (page.with_subagents and session.is_subagent)
        )
        and (session.turns > 0 or not page.prompted)
        and (session.is_placeholder or not page.placeholders)
    )


def _fold_ascii(identity: str) -> bytes:
    """Return text in which only the case of ASCII letters is ignored, as SQLite does."""
    return identity.encode(errors="surrogatepass").lower()


def _names(agent: AgentIdentity) -> set[str]:
    return {name.lower() for name in (agent.name, agent.program) if name is not None}


def _is_below(cwd: str | None, folder: str) -> bool:
    return cwd is not None and (cwd == folder or cwd.startswith(folder.rstrip("/") + "/"))


def _entries_size(record: _Record) -> int:
    return sum(len(entry.line) for entry in record.entries)


def _sum(sessions: list[Session]) -> SessionTotals:
    return SessionTotals(
        sessions=len(sessions),
        turns=sum(session.turns for session in sessions),
        messages=sum(session.messages for session in sessions),
    )


def _mark(session: Session, change: Deleted | Archived | AgentArchived | AgentSaved) -> Session:
    """Return a session after a change of one of its marks."""
    match change:
        case Deleted():
            return replace(session, deleted_us=change.at_us)
        case Archived():
            since_us = session.archived_us or change.at_us
            return replace(session, archived_us=since_us if change.is_archived else None)
        case AgentArchived():
            return replace(session, is_archived_by_agent=change.is_archived)
        case AgentSaved():
            return replace(session, saved_turns=session.turns)
