"""Where a session that went on here and its file tell the same, and where only the file goes on.

An agent that is driven from here writes its own file of the same talk, in other words: but what
was asked is the same. If the file goes on from where ours ends, only that is taken over, after
what was recorded here; the next time it is known where the two were joined.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from msgspec.structs import replace

from rekindle.importers.base import EntryCounts, SourceSession
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object
from rekindle.model import Entry, Kind, RecordedPrefix, Session
from rekindle.store.base import Store
from rekindle.transcript.handover import carries_history
from rekindle.transfer.branches import is_same_file

NOTHING_NEW = 0
"""In the place of the entry with which a file goes on: it does not."""


def goes_on_with(ours: Iterator[Entry], theirs: Iterator[Entry]) -> int | None:
    """Return with which entry a file goes on from where ours ends; None if it is another talk.

    Both are given from where they are not the same any more.
    """
    asked, has_begun = _Asked(ours), False
    for entry in theirs:
        if _is_prompt(entry):
            words = _words(entry)
            # Only what was handed a session has what was asked of another before.
            asked.is_handed = asked.is_handed or (not has_begun and carries_history(words))
            has_begun, own = True, next(asked, None)
            if own is None:
                return entry.seq if not asked.is_anothers else None
            while own is not None and not _is_asked(own, words):
                # It may have come to nothing, and then the agent has not kept it.
                own = next(asked, None)
            if own is None:
                return None
        elif entry.kind is Kind.UPDATE and not has_begun:
            return None
    return NOTHING_NEW if has_begun else None


class _Asked(Iterator[str]):
    """What was asked here, up to where another agent was handed the session.

    One that `is_handed` it has heard the rest; any other file has not, even if the same was asked.
    """

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self._prompt: Entry | None = None
        """The next one: what comes after it tells whose it is."""
        self.is_handed = False
        self.is_anothers = False

    def __next__(self) -> str:
        prompt, self._prompt = self._prompt, None
        for entry in self._entries:
            if entry.kind is Kind.HANDOVER and not self.is_handed:
                self.is_anothers = True
                break
            if _is_prompt(entry) and prompt is not None:
                self._prompt = entry
                break
            prompt = entry if _is_prompt(entry) else prompt
        if prompt is None or self.is_anothers:
            raise StopIteration
        return _words(prompt)


def joined_now(store: Store, known: Session, talk: SourceSession, begins: int) -> SourceSession:
    """Return what is here, and then what a file tells from an entry on."""
    recorded = RecordedPrefix(entries=known.last_seq, turns=known.turns, messages=known.messages)
    return _joined(store, known, talk, recorded, begins)


def joined_before(store: Store, known: Session, talk: SourceSession) -> SourceSession:
    """Return what a file tells as it was joined to what was recorded here, if it was."""
    recorded = known.origin.recorded if known.origin is not None else None
    if recorded is None or not is_same_file(known, talk.incoming):
        return talk
    for first in islice(store.read(known.id, after=recorded.entries), 1):
        for entry in talk.read_entries(EntryCounts()):
            if replace(entry, seq=first.seq) == first:
                return _joined(store, known, talk, recorded, entry.seq)
    return talk


def _joined(
    store: Store, known: Session, talk: SourceSession, recorded: RecordedPrefix, begins: int
) -> SourceSession:
    def ours() -> Iterator[Entry]:
        return islice(store.read(known.id), recorded.entries)

    def tell(tally: EntryCounts) -> Iterator[Entry]:
        tally.turns, tally.messages = recorded.turns, recorded.messages
        tally.entries = tally.settled = recorded.entries
        yield from ours()
        yield from _renumbered(talk.read_entries, tally, begins)

    arrived = talk.incoming
    origin = arrived.origin and replace(arrived.origin, recorded=recorded)
    # Who was told the record has named the session after that.
    titles = arrived.titles if known.agent_session_id == known.id else {}
    return replace(talk, incoming=replace(arrived, origin=origin, titles=titles), read_entries=tell)


def _renumbered(
    tell: Callable[[EntryCounts], Iterator[Entry]], tally: EntryCounts, begins: int
) -> Iterator[Entry]:
    """Yield what is told from an entry on, as what comes after what was counted."""
    counted, less, before = EntryCounts(), begins - 1 - tally.entries, replace(tally)
    for entry in tell(counted):
        if entry.seq < begins:
            continue
        if entry.seq == begins:
            # With it, the next message is counted.
            before.messages -= counted.messages - 1
        tally.entries = entry.seq - less
        tally.settled = max(before.settled, counted.settled - less)
        tally.turns += _is_prompt(entry)
        tally.messages = before.messages + counted.messages
        yield replace(entry, seq=tally.entries)
    tally.settled = max(before.settled, counted.settled - less)


def _is_prompt(entry: Entry) -> bool:
    return entry.kind is Kind.PROMPT


def _is_asked(ours: str, theirs: str) -> bool:
    """Tell whether both are one: what the agent was told stands before the user's words.

    Else it is another one that ends alike, as short ones often do.
    """
    return ours == theirs or (ours != "" and theirs.endswith(ours) and carries_history(theirs))


def _words(prompt: Entry) -> str:
    """Return what was asked, without regard to blanks."""
    params = as_object((decode_object(prompt.line) or {}).get("params"))
    said = (as_str(as_object(block).get("text")) or "" for block in as_array(params.get("prompt")))
    return " ".join(" ".join(said).split())
