"""Taking in what another tool has on record. Nothing that is here is lost or overwritten.

The tool's file goes on being the tool's: it grows, and at times it turns to another branch. As
long as nobody has gone on with the session here, ours follows it: it is extended, or takes the
other branch, and what it had before is kept as a session of its own, put away. What was only
assumed of the end of the file is replaced without a word. Where the session went on here, ours
stays, and the file's is kept beside it as a branch; but not if what was asked here was asked in it,
too: then it is the file of an agent that was driven from here, and tells the same in other words.
If that one went on without us, so does ours, after what was recorded here.
"""

from itertools import islice

from msgspec.structs import replace

from rekindle.errors import StoreUnavailable
from rekindle.importers.base import EntryCounts, SourceSession
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Archived,
    Change,
    Counted,
    Entry,
    Imported,
    IncomingSession,
    LeaseHolder,
    Opened,
    Page,
    Session,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.store.base import Store
from rekindle.transfer.batch_writer import Writing
from rekindle.transfer.branches import Asides, is_its_own, is_same_file, session_or_none
from rekindle.transfer.merge import (
    Compared,
    Driving,
    How,
    Merged,
    as_branch,
    branch_id,
    compare,
    titled,
)
from rekindle.transfer.reconcile import NOTHING_NEW, goes_on_with, joined_before, joined_now

_MOST_TRIES = 100
_SESSIONS_A_PAGE = 500
_PAGES_LOOKED_AT = 40


class Importer:
    """Takes conversations into a store. If it `only_looks`, it says what would become of them."""

    def __init__(
        self, store: Store, holder: LeaseHolder, *, undelete: bool = False, only_looks: bool = False
    ) -> None:
        self._store = store
        self._holder = holder
        self._undelete = undelete
        self._only_looks = only_looks
        self._commands: dict[str, tuple[str, ...]] = {}
        self._asides = Asides(store)

    def take(self, talk: SourceSession, at_us: int) -> Merged:
        """Take in a session, as far as it is not here. Raises SessionInUse, StoreUnavailable."""
        arrived = replace(talk.incoming, id=self._known_as(talk.incoming))
        target, parent = arrived.id, arrived.parent_id
        if arrived.cwd is None and parent is not None and self._is_deleted(parent):
            # A sub-agent's goes with that of its agent.
            return Merged(How.DELETED, target)
        back: Merged | None = None
        for _ in range(_MOST_TRIES):
            is_branch = target != arrived.id
            wanted = as_branch(arrived, target, parent) if is_branch else arrived
            attempt = replace(talk, incoming=wanted)
            known = session_or_none(self._store, target)
            if known is None:
                merged = self._make(attempt, How.BRANCHED if is_branch else How.NEW)
            elif self._is_deleted(target):
                merged = Merged(How.DELETED, target)
            else:
                merged = self._merge(known, attempt, at_us)
            if isinstance(merged, Entry):
                back = self._bring_back(known, at_us) or back
                target, parent = branch_id(arrived.id, merged), target
            elif merged is not None:
                return back if back is not None and merged.how is How.UNCHANGED else merged
        raise StoreUnavailable(f"session {arrived.id} is being changed: try again later")

    def _merge(self, known: Session, talk: SourceSession, at_us: int) -> Merged | Entry | None:
        """Make of a session and its file one; return where they part, if they are to be two.

        None if the session has changed meanwhile.
        """
        if known.deleted_us is None and _is_the_same_file(known, talk.incoming):
            return self._unchanged(known, talk, at_us)
        talk = joined_before(self._store, known, talk)
        found = compare(self._store.read(known.id), talk.read_entries(EntryCounts()))
        if found.theirs is not None and found.do_part and not is_its_own(known, talk.incoming):
            news = self._news(known, talk, found.common)
            if news == NOTHING_NEW:
                return self._unchanged(known, talk, at_us)
            if news is None:
                return found.theirs
            talk = joined_now(self._store, known, talk, news)
            found = Compared(known.last_seq, theirs=found.theirs)
        return self._follow(known, talk, found, at_us)

    def take_asides(
        self, talks: list[SourceSession], main: SourceSession, at_us: int
    ) -> list[Merged]:
        """Take in the branches that the tool has left for another one, and put them away."""
        main_id = self._known_as(main.incoming)
        stamps = {talk.stamp for talk in talks}
        return [self._take_aside(talk, main, main_id, stamps, at_us) for talk in talks]

    def _take_aside(
        self, talk: SourceSession, main: SourceSession, main_id: str, stamps: set[str], at_us: int
    ) -> Merged:
        own = self._asides.name_of(talk, main, main_id, stamps)
        if own is None:
            return Merged(How.UNCHANGED, main_id)
        is_new = session_or_none(self._store, own) is None
        merged = self.take(replace(talk, incoming=as_branch(talk.incoming, own, main_id)), at_us)
        if is_new and not self._only_looks:
            self._store.write([Archived(session_id=own, at_us=at_us)], sync=True)
            self._asides.add(own, main_id)
        self.stamp(own, talk.stamp, at_us)
        return merged

    def is_imported(self, merged: Merged) -> bool:
        """Tell whether a session is from a file, and not one that was recorded here."""
        known = session_or_none(self._store, merged.session_id)
        return known is None or known.is_imported

    def stamp(self, session_id: str, stamp: str, at_us: int, place: str | None = None) -> None:
        """Note how it looked what a session is from: so it need not be read again.

        If it says now that it is in another `place`, nothing is noted.
        """
        known = session_or_none(self._store, session_id)
        origin = known.origin if known is not None else None
        if self._only_looks or origin is None or origin.path != (place or origin.path):
            return
        if origin.stamp != stamp:
            origin = replace(origin, stamp=stamp)
            self._store.write([Imported(session_id=session_id, at_us=at_us, origin=origin)])

    # -- what is here already -----------------------------------------------------------

    def _is_deleted(self, session_id: str) -> bool:
        known = session_or_none(self._store, session_id)
        return known is not None and known.deleted_us is not None and not self._undelete

    def _bring_back(self, known: Session | None, at_us: int) -> Merged | None:
        """Make a session be there again beside what is in its file; None if it was not deleted."""
        if known is None or known.deleted_us is None:
            return None
        if not self._only_looks:
            self._store.write([Opened(session_id=known.id, at_us=at_us)], sync=True)
        return Merged(How.UNDELETED, known.id)

    def _known_as(self, arrived: IncomingSession) -> str:
        """Return what the session is called here that the tool's agent has under this id."""
        if (
            arrived.agent_session_id == UNKNOWN_TO_AGENT
            or session_or_none(self._store, arrived.id) is not None
        ):
            return arrived.id
        return self._store.known_to_agent_as(arrived.agent_session_id) or arrived.id

    def _news(self, known: Session, talk: SourceSession, common: int) -> int | None:
        """Return with which entry a file goes on that tells otherwise what was said here."""
        ours = self._store.read(known.id, after=common)
        news = goes_on_with(ours, islice(talk.read_entries(EntryCounts()), common, None))
        is_taken_in = known.origin is not None and known.origin.entries > 0
        is_of_agent = known.agent_session_id == talk.incoming.agent_session_id
        may_go_on = is_of_agent and (not is_taken_in or is_same_file(known, talk.incoming))
        return news if news == NOTHING_NEW or may_go_on else None

    def _free(self, agent_session_id: str) -> str:
        """Return an agent's id that no session here has: two with one would hear each other."""
        return UNKNOWN_TO_AGENT if self._store.bound([agent_session_id]) else agent_session_id

    def _own_id(self, known: Session, arrived: IncomingSession) -> str:
        """Return by which id the tool's agent has the session, unless another one has that."""
        own_id = arrived.agent_session_id
        owner = self._store.known_to_agent_as(own_id)
        is_its_own = owner == known.id or (owner is None and own_id == known.id)
        return own_id if is_its_own else self._free(own_id)

    def _agent(self, agent: AgentIdentity) -> AgentIdentity:
        """Return an agent as it is started here, if anybody has ever started it here."""
        name = agent.name or ""
        if name not in self._commands:
            self._commands[name] = self._command_of(name)
        return replace(agent, command=self._commands[name])

    def _command_of(self, name: str) -> tuple[str, ...]:
        page = Page(agent=name, limit=_SESSIONS_A_PAGE, with_archived=True)
        for _ in range(_PAGES_LOOKED_AT):
            sessions = self._store.sessions(page)
            for session in sessions:
                if session.agent.command:
                    return session.agent.command
            if not sessions:
                break
            page = replace(page, before=(sessions[-1].updated_us, sessions[-1].id))
        return ()

    # -- what becomes of it -------------------------------------------------------------

    def _make(self, talk: SourceSession, how: How) -> Merged | None:
        arrived = talk.incoming
        if self._only_looks:
            return Merged(how, arrived.id, _count(talk))
        opened = Opened(
            session_id=arrived.id,
            at_us=arrived.created_us,
            agent_session_id=self._free(arrived.agent_session_id),
            agent=self._agent(arrived.agent),
            cwd=arrived.cwd,
            directories=arrived.directories,
            parent_id=arrived.parent_id,
        )
        count = Counted(session_id=arrived.id, at_us=arrived.created_us)
        writing = Writing(talk, [opened, *titled(arrived, arrived.titles)], count)
        if not writing.begin(self._store):
            return None
        if not writing.is_drawn:
            # From now on somebody could go on with it.
            with Driving(self._store, self._holder, arrived.id):
                if not writing.finish(self._store):
                    return None
        if talk.is_archived and how is How.NEW:
            put_away = Archived(session_id=arrived.id, at_us=arrived.created_us)
            self._store.write([put_away], sync=True)
        return Merged(how, arrived.id, writing.written)

    def _follow(
        self, known: Session, talk: SourceSession, found: Compared, at_us: int
    ) -> Merged | None:
        """Make the session what the file says, as far as it is not more than that already."""
        if found.theirs is None and not _has_to_be_less(known, talk, found):
            return self._unchanged(known, talk, at_us)
        if self._only_looks:
            return Merged(How.EXTENDED, known.id, _count(talk) - found.common)
        arrived = talk.incoming
        first: list[Change] = [
            Opened(
                session_id=known.id,
                at_us=at_us,
                # Whose it was is gone with what was purged.
                agent_session_id=self._own_id(known, arrived) if known.is_purged else None,
                agent=self._agent(arrived.agent) if known.is_purged else None,
                # Where it was moved to here counts.
                cwd=arrived.cwd if known.cwd is None else None,
                parent_id=arrived.parent_id if known.parent_id is None else None,
            ),
            *_titled_anew(arrived, found),
        ]
        with Driving(self._store, self._holder, known.id):
            if found.ours is not None:
                self._asides.keep(known, arrived, found.ours, at_us)
                first.append(Truncated(session_id=known.id, at_us=at_us, until_seq=found.common))
            count = Counted(
                session_id=known.id, at_us=at_us, turns=-known.turns, messages=-known.messages
            )
            writing = Writing(talk, first, count, common=found.common, after=known.last_seq)
            if not writing.finish(self._store):
                return None
        how = How.NEW if known.last_seq == 0 else How.EXTENDED
        return Merged(how, known.id, writing.written)

    def _unchanged(self, known: Session, talk: SourceSession, at_us: int) -> Merged:
        """Note that there is nothing new, and what the tool calls the session now."""
        arrived, theirs = talk.incoming, talk.incoming.origin
        is_back = known.deleted_us is not None
        merged = Merged(How.UNDELETED if is_back else How.UNCHANGED, known.id)
        if self._only_looks or theirs is None:
            return merged
        changes: list[Change] = []
        # Where it was nobody knew when it was imported first.
        cwd = arrived.cwd if known.cwd is None else None
        if is_back or cwd is not None:
            changes.append(Opened(session_id=known.id, at_us=at_us, cwd=cwd))
        ours = known.origin or replace(theirs, entries=0, settled=0, stamp="")
        if ours.path == theirs.path:
            origin = replace(ours, sha256=theirs.sha256)
            if origin != known.origin:
                changes.append(Imported(session_id=known.id, at_us=at_us, origin=origin))
        if is_its_own(known, arrived):
            has = self._store.titles(known.id)
            news = {by: it for by, it in _of_the_tool(arrived).items() if has.get(by) != it}
            changes += titled(arrived, news)
        if changes:
            self._store.write(changes, sync=True)
        return merged


def _is_the_same_file(known: Session, arrived: IncomingSession) -> bool:
    """Tell whether a session was imported from a file that says just what this one does."""
    ours, theirs = known.origin, arrived.origin
    if ours is None or theirs is None or not theirs.sha256:
        return False
    same = (theirs.tool, theirs.path, theirs.sha256, theirs.version)
    return (ours.tool, ours.path, ours.sha256, ours.version) == same


def _has_to_be_less(known: Session, talk: SourceSession, found: Compared) -> bool:
    """Tell whether what a session has more than the file was taken back, or only assumed.

    Any other file that has less than before is cut off: what it had is kept.
    """
    if known.origin is None or found.ours is None or not is_its_own(known, talk.incoming):
        return False
    return talk.is_rewound or found.ours.seq > known.origin.settled


def _titled_anew(arrived: IncomingSession, found: Compared) -> list[Titled]:
    """Return what gives a session the tool's titles, also if it begins with another prompt now."""
    titles = _of_the_tool(arrived)
    changes = titled(arrived, titles)
    is_recorded = arrived.origin is not None and arrived.origin.recorded is not None
    if found.ours is None or is_recorded or TitleSource.PROMPT not in titles:
        return changes
    # The first title that is made of a prompt stays, unless it is taken back.
    source, at_us = TitleSource.PROMPT, arrived.created_us
    return [Titled(session_id=arrived.id, at_us=at_us, source=source, title=None), *changes]


def _of_the_tool(arrived: IncomingSession) -> dict[TitleSource, str]:
    return {by: it for by, it in arrived.titles.items() if by is not TitleSource.USER}


def _count(talk: SourceSession) -> int:
    tally = EntryCounts()
    for _ in talk.read_entries(tally):
        pass
    return tally.entries
