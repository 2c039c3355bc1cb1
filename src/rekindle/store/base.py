"""What a store is. The docstrings here are the specification; one test holds every store to it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol, Self

from msgspec import Struct

from rekindle.model import (
    Change,
    Entry,
    LeaseHolder,
    LeaseResult,
    Origin,
    Overview,
    Page,
    Session,
    SessionStatus,
    TitleSource,
)


class ImportedSession(Struct, frozen=True):
    """A session that was imported: which, of which folder, from where."""

    session_id: str
    cwd: str | None
    origin: Origin
    is_deleted: bool = False


MOST_FOUND = 100
"""How many sessions are looked at that begin with the same letters."""
_MARKS = (".", "~")
"""Stand in the ids of sub-agents and of branches, after that of their session."""


def are_one(ids: Sequence[str]) -> bool:
    """Tell whether all of these, in order, are the first and what hangs on it."""
    marked = tuple(ids[0] + mark for mark in _MARKS)
    return len(ids) < MOST_FOUND and all(it.startswith(marked) for it in ids[1:])


class Store(Protocol):
    """Keeps sessions and their entries. One process writes through one instance.

    Several processes may use one store at once. Every method raises StoreUnavailable
    when the store cannot be used at the moment. A method may be called from any thread.
    """

    def write(
        self, changes: Sequence[Change], *, sync: bool = False, patience: float | None = None
    ) -> None:
        """Apply `changes` in order, all or none, so that a crash of this process keeps them.

        With `sync`, also a crash of the machine keeps them and everything before them.
        Other writers are waited for some `patience` seconds, a second if not said otherwise.

        - EntryBatch: its lines become entries with the session's next seqs, from 1 on, without
          a gap; ACTIVITY moves `updated_us`, never back.
        - Opened: tells what is known of the session; what is None stays as it is. A session
          that was deleted is there again.
        - Titled: the user's title outranks the agent's, and the agent's one made from a
          prompt. The first title made from a prompt stays; other titles are replaced,
          and with None taken back.
        - Tallied: adds to the session's `turns` and `messages`.
        - Deleted: the session is no longer listed by default.
        - Archived: likewise, or with False it is listed again; the first time stays.
        - Forked: a new session gets the parent's entries up to `until_seq`, its agent, folder
          and title, and no others; the parent stays as it is. Raises SessionNotFound.
        - Imported: tells where the session is from.
        - Cut: the entries after `until_seq` are gone; the next one gets the seq after that. Only
          for what nobody drives. Raises SessionNotFound.

        A change that names an unknown session makes it, except Deleted and Archived, which
        then do nothing.
        """
        ...

    def extend(
        self, session_id: str, after: int, changes: Iterable[Change], *, sync: bool = True
    ) -> bool:
        """Apply `changes` as `write` does, if the session has just `after` entries.

        All are of this session; one that is not there has no entries. They are drawn one by
        one, so memory stays bounded however many there are; where drawing fails, nothing is
        applied. Return whether it was done: else somebody has written to the session.
        """
        ...

    def take_pending(
        self, token: str, changes: Iterable[Change], *, patience: float | None = None
    ) -> list[str]:
        """Apply those of `changes` that were not taken before, as `write` does, synced.

        They are all that has waited under `token`, from the first on; how many of them were taken
        is remembered by the same transaction. So it may be called again, with the same and what has
        come since. What was said in a session before it was purged is left out. Return what is
        wrong with changes that could never be applied: they keep no other from it.
        """
        ...

    def drop_pending(self, token: str) -> None:
        """Forget how much was taken: nothing waits under `token` any more, or ever will."""
        ...

    def read(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of a session with seq > `after`, in the order of their seq.

        The session is read as it is now or later, in pieces: memory stays bounded however
        long it is. Raises SessionNotFound.
        """
        ...

    def session(self, session_id: str) -> Session:
        """Return one session, whether archived, deleted or not. Raises SessionNotFound."""
        ...

    def sessions(self, page: Page) -> list[Session]:
        """List sessions, the last updated first, at most `page.limit`."""
        ...

    def find(self, prefix: str) -> Session:
        """Return the session with this id, or the only one whose id begins with it.

        What is purged is meant by its whole id only. Sub-agents and branches, which have the id of
        their session before their own, do not count beside it.
        Raises SessionNotFound, SessionAmbiguous.
        """
        ...

    def titles(self, session_id: str) -> dict[TitleSource, str]:
        """Return all titles of a session, also those that another outranks.

        Raises SessionNotFound.
        """
        ...

    def bound(self, session_ids: Sequence[str]) -> set[str]:
        """Return those ids that a session here has, deleted or not: its own, or the agent's.

        The agent's are those that Opened has told, now or before.
        """
        ...

    def known_to_agent_as(self, agent_session_id: str) -> str | None:
        """Return the session that an agent knows, or has known, by that id, as Opened told."""
        ...

    def agent_commands(self, identities: Collection[str]) -> list[tuple[str, ...]]:
        """Return the commands that started agents with these identities, the last used first.

        Each command is returned once. Identities (`AgentIdentity.identity`) are compared whole, and
        ignoring the case of ASCII letters; an empty one matches no agent. Sessions that are deleted
        or that no client has opened do not count.
        """
        ...

    def imported(self) -> Iterator[ImportedSession]:
        """Yield every session that Imported was told of, also those that were deleted."""
        ...

    def claim(self, session_id: str, holder: LeaseHolder, *, takeover: bool = False) -> LeaseResult:
        """Make `holder` the one that drives a session, unless another does.

        A holder whose process has ended drives nothing. With `takeover`, the session is
        `holder`'s whoever had it. Raises SessionNotFound.
        """
        ...

    def holder(self, session_id: str) -> LeaseHolder | None:
        """Return the living holder of a session, if there is one."""
        ...

    def driven(self) -> set[str]:
        """Return the sessions that have a living holder."""
        ...

    def release(self, holder: LeaseHolder, session_id: str | None = None) -> None:
        """Give up a session, or all of them, so far as they are `holder`'s."""
        ...

    def standings(self, session_ids: Sequence[str]) -> dict[str, SessionStatus]:
        """Tell how it stands with sessions, without reading them whole; of unknown ones nothing.

        A turn ends with the answer to its prompt, from version 2 of the protocol on with an
        error or the state "idle". What an agent has told of a session without a prompt of ours
        has ended.
        """
        ...

    def purge(self, *session_ids: str) -> None:
        """Remove for good all that is known of deleted sessions, but not that they were deleted.

        So no agent's own list can bring them back. What is not deleted is left as it is.
        """
        ...

    def scrub(self, tick: Callable[[], object]) -> None:
        """See to it that no file holds anything of what was purged, not even in unused parts.

        Others cannot write meanwhile; `tick` is called now and then. Raises StoreUnavailable
        also if others read just now, or would have to wait for long: what was purged stays so.
        """
        ...

    def deleted(self, before_us: int, limit: int = -1) -> list[str]:
        """Return the sessions that were deleted before then, and are not purged.

        Those that were deleted first come first; a negative `limit` is none.
        """
        ...

    def weigh(self, session_ids: Sequence[str]) -> int:
        """Return how many bytes the entries of these sessions have."""
        ...

    def overview(self) -> Overview:
        """Return what there is in all, without reading any session."""
        ...

    def compact(self) -> Iterator[float]:
        """Give back the space that holds nothing; yield which part of the work is done.

        Others may write between any two steps, and whoever stops at one, or is killed at any
        moment, loses nothing. Raises StoreUnavailable also if others must end first.
        """
        ...

    def erase(self, session_id: str) -> None:
        """Remove a session and its entries for good; an unknown one is gone already."""
        ...

    def succeed(self, former: Self) -> None:
        """Take the place of one that is closed next: what it has claimed stays claimed."""
        ...

    def close(self) -> None:
        """Let go of everything held. What was written stays."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
