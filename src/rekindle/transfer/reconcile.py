"""Reconcile a session that was recorded here with the file that its agent wrote of the same turns.

An agent that Rekindle runs also writes its own file. The file has the same prompts, and everything
else in another form. If the file continues after the last recorded prompt, only that part is new:
it is appended to the record. The record is not changed, and `Origin.recorded` stores where the two
meet.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from msgspec.structs import replace

from rekindle.importers.base import EntryCounts, SourceSession
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object
from rekindle.model import Entry, Kind, RecordedPrefix, Session
from rekindle.store.base import Store
from rekindle.transcript.handover import carries_history
from rekindle.transcript.preface import user_words
from rekindle.transfer.branches import is_from_file

NOTHING_NEW = 0
"""Instead of a seq: the file has no prompt that the record lacks."""


def find_continuation(ours: Iterator[Entry], theirs: Iterator[Entry]) -> int | None:
    """Return the seq of the first prompt of a file that the record lacks, or NOTHING_NEW.

    Return None if the file does not contain the recorded conversation. Both iterators start with
    the first entry that differs.
    """
    recorded, has_prompt = _RecordedPrompts(ours), False
    for entry in theirs:
        if _is_prompt(entry):
            text = _prompt_text(entry)
            # Only the first prompt can carry the history that the agent was handed.
            if not has_prompt and carries_history(text):
                recorded.is_agent_handed_over = True
            has_prompt, recorded_text = True, next(recorded, None)
            if recorded_text is None:
                return entry.seq if not recorded.is_of_other_agent else None
            while recorded_text is not None and not _is_same_prompt(recorded_text, text):
                # The agent may have refused a recorded prompt, and then its file lacks it.
                recorded_text = next(recorded, None)
            if recorded_text is None:
                return None
        elif entry.kind is Kind.UPDATE and not has_prompt:
            return None
    return NOTHING_NEW if has_prompt else None


class _RecordedPrompts(Iterator[str]):
    """The texts of the recorded prompts, up to the prompt that carries a handover.

    From the handover on, the prompts went to another agent, and the file of the first one does not
    have them. If `is_agent_handed_over`, the file is that of the other agent: it has the prompts
    from the handover on.
    """

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self._next_prompt: Entry | None = None
        """A prompt that was read ahead: a handover is recorded after the prompt that carries it."""
        self.is_agent_handed_over = False
        self.is_of_other_agent = False

    def __next__(self) -> str:
        prompt, self._next_prompt = self._next_prompt, None
        for entry in self._entries:
            if entry.kind is Kind.HANDOVER and not self.is_agent_handed_over:
                self.is_of_other_agent = True
                break
            if _is_prompt(entry) and prompt is not None:
                self._next_prompt = entry
                break
            prompt = entry if _is_prompt(entry) else prompt
        if prompt is None or self.is_of_other_agent:
            raise StopIteration
        return _prompt_text(prompt)


def append_to_record(
    store: Store, known: Session, source_session: SourceSession, first_seq: int
) -> SourceSession:
    """Return the recorded entries of a session, followed by those of a file from a seq on."""
    recorded = RecordedPrefix(entries=known.last_seq, turns=known.turns, messages=known.messages)
    return _with_prefix(store, known, source_session, recorded, first_seq)


def with_recorded_prefix(
    store: Store, known: Session, source_session: SourceSession
) -> SourceSession:
    """Return a file's session as an earlier import appended it to the record, if one did."""
    recorded = known.origin.recorded if known.origin is not None else None
    if recorded is None or not is_from_file(known, source_session.incoming):
        return source_session
    for first in islice(store.read(known.id, after=recorded.entries), 1):
        for entry in source_session.read_entries(EntryCounts()):
            if replace(entry, seq=first.seq) == first:
                return _with_prefix(store, known, source_session, recorded, entry.seq)
    return source_session


def _with_prefix(
    store: Store,
    known: Session,
    source_session: SourceSession,
    recorded: RecordedPrefix,
    first_seq: int,
) -> SourceSession:
    def entries(counts: EntryCounts) -> Iterator[Entry]:
        counts.turns, counts.messages = recorded.turns, recorded.messages
        counts.entries = counts.settled = recorded.entries
        yield from islice(store.read(known.id), recorded.entries)
        yield from _renumbered(source_session.read_entries, counts, first_seq)

    incoming = source_session.incoming
    origin = incoming.origin and replace(incoming.origin, recorded=recorded)
    # An agent that was handed the history has made its title from that text.
    titles = incoming.titles if known.agent_session_id == known.id else {}
    return replace(
        source_session,
        incoming=replace(incoming, origin=origin, titles=titles),
        read_entries=entries,
    )


def _renumbered(
    entries: Callable[[EntryCounts], Iterator[Entry]], counts: EntryCounts, first_seq: int
) -> Iterator[Entry]:
    """Yield the entries from `first_seq` on, numbered and counted after those in `counts`."""
    file_counts, before = EntryCounts(), replace(counts)
    offset = first_seq - 1 - before.entries
    for entry in entries(file_counts):
        if entry.seq < first_seq:
            continue
        if entry.seq == first_seq:
            # The file's count includes the messages before this entry, and the new message.
            before.messages -= file_counts.messages - 1
        counts.entries = entry.seq - offset
        counts.settled = max(before.settled, file_counts.settled - offset)
        counts.turns += _is_prompt(entry)
        counts.messages = before.messages + file_counts.messages
        yield replace(entry, seq=counts.entries)
    counts.settled = max(before.settled, file_counts.settled - offset)


def _is_prompt(entry: Entry) -> bool:
    return entry.kind is Kind.PROMPT


def _is_same_prompt(recorded: str, in_file: str) -> bool:
    """Return whether two texts are one prompt. The file's may begin with a history.

    Without that condition, a short prompt would match every longer prompt with the same ending.
    """
    if recorded == in_file:
        return True
    if recorded == "" or not carries_history(in_file):
        return False
    # The texts of earlier releases have no end that separates them from the prompt.
    return recorded == (user_words(in_file) or in_file[-len(recorded) :])


def _prompt_text(prompt: Entry) -> str:
    """Return the text of a prompt, with whitespace normalized."""
    params = as_object((decode_object(prompt.line) or {}).get("params"))
    blocks = as_array(params.get("prompt"))
    texts = (as_str(as_object(block).get("text")) or "" for block in blocks)
    return " ".join(" ".join(texts).split())
