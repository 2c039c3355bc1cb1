"""Checks after every fault: they compare the messages that clients received with the store."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rekindle.errors import SessionNotFound
from rekindle.model import Entry, Kind, Page
from rekindle.store.sqlite.inspect import Inspection
from rekindle.store.sqlite.store import SqliteStore

from .ledger import Conversation, Serial, agent_serials, prompt_serials
from .violation import Violation


@dataclass(frozen=True)
class Recorded:
    """The record of one session."""

    said: list[Serial]
    asked: list[Serial]
    seqs: list[int]
    gaps: int
    answers: int = 0

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Recorded":
        said: list[Serial] = []
        asked: list[Serial] = []
        seqs: list[int] = []
        gaps = answers = 0
        for entry in entries:
            seqs.append(entry.seq)
            match entry.kind:
                case Kind.UPDATE:
                    said += agent_serials(entry.line)
                    answers += b'"state":"idle"' in entry.line
                case Kind.PROMPT:
                    asked += prompt_serials(entry.line)[-1:]
                case Kind.ANSWER:
                    # In version 2, a response with a message id only accepts the prompt.
                    answers += b'"messageId"' not in entry.line
                case Kind.GAP:
                    gaps += 1
                case _:
                    pass
        return cls(said, asked, seqs, gaps, answers)


def recorded(store_path: Path, session_id: str) -> Recorded:
    """Read a session from the store. An unknown session gives an empty record."""
    with SqliteStore(store_path, create=False) as store:
        try:
            return Recorded.of(store.read(session_id))
        except SessionNotFound:
            return Recorded([], [], [], 0)


def branches_of(store_path: Path, session_id: str) -> list[Recorded]:
    """Read the branches with the entries of processes that have lost the lease of a session."""
    with SqliteStore(store_path, create=False) as store:
        ids = [it.id for it in store.sessions(Page(limit=10_000))]
    return [recorded(store_path, it) for it in ids if it.startswith(f"{session_id}~")]


def check_record(
    conversation: Conversation, record: Recorded, branches: Sequence[Recorded] = ()
) -> None:
    """Every update that a client received is in the record, once and in order, with no hole.

    A client of a process that has lost the lease may have received what is in a branch.
    """
    said = record.said
    _once(said, "an update is recorded twice")
    _once(record.asked, "a prompt is recorded twice")
    if record.seqs != list(range(1, len(record.seqs) + 1)):
        raise Violation("the record has a hole", str(record.seqs[-5:]))
    at = 0
    for name, piece in conversation.pieces.items():
        if any(is_part(piece, branch.said) for branch in branches):
            continue
        at = _after_piece(name, piece, said, 0 if conversation.is_shared else at)
    if not conversation.may_have_gaps:
        _unbroken(said)
    # Prompts of several clients arrive in any order.
    for who in {who for who, _ in record.asked} if conversation.is_shared else {None}:
        asked = [one for one in record.asked if who in {None, one[0]}]
        _in_order(asked, conversation.asked, "prompts are recorded in another order")
    missing = conversation.answered.difference(record.asked, *(it.asked for it in branches))
    if missing and not conversation.may_have_gaps:
        raise Violation("a prompt is lost", str(sorted(missing)[:5]))
    answers = record.answers + sum(it.answers for it in branches)
    if answers < conversation.ended and not conversation.may_have_gaps:
        raise Violation("the end of a turn is lost", f"{answers} of {conversation.ended}")


def is_part(piece: list[Serial], said: list[Serial]) -> bool:
    """Return whether updates are recorded one after the other."""
    begin = said.index(piece[0]) if piece and piece[0] in said else len(said)
    return bool(piece) and said[begin : begin + len(piece)] == piece


def _after_piece(name: str, piece: list[Serial], said: list[Serial], at: int) -> int:
    """Check that the updates of one connection are in the record; return the index after them."""
    if not piece:
        return at
    try:
        begin = said.index(piece[0], at)
    except ValueError:
        where = "earlier" if piece[0] in said else "not at all"
        raise Violation("an update is lost", f"{piece[0]}, seen by {name}: {where}") from None
    there = said[begin : begin + len(piece)]
    if there != piece:
        first = next(
            (pair for pair in zip(piece, there, strict=False) if pair[0] != pair[1]),
            (piece[len(there) :][:1], "the end"),
        )
        raise Violation("an update is lost", f"{name} saw {first[0]}; recorded is {first[1]}")
    return begin + len(piece)


def _once(serials: list[Serial], promise: str) -> None:
    if len(set(serials)) != len(serials):
        twice = [serial for serial, times in Counter(serials).items() if times > 1]
        raise Violation(promise, str(twice[:5]))


def _unbroken(said: list[Serial]) -> None:
    """Check that no update of an agent is missing, even if no client received it."""
    last: dict[str, int] = {}
    for who, number in said:
        if number != last.get(who, 0) + 1:
            raise Violation("an update is lost", f"<{who}.{number}> follows {last.get(who, 0)}")
        last[who] = number


def _in_order(some: Sequence[Serial], of: Sequence[Serial], promise: str) -> None:
    places = {serial: place for place, serial in enumerate(of)}
    if any(places[one] >= places[next_] for one, next_ in pairwise(some)):
        raise Violation(promise, str(some))


def check_replay(replayed: list[bytes], record: Recorded) -> None:
    """Every replay has exactly the recorded messages, in the same order."""
    again = [serial for line in replayed for serial in agent_serials(line)]
    prompts = [
        serial for line in replayed for serial in prompt_serials(line) if b"user_message" in line
    ]
    _once(again, "an update is replayed twice")
    # A replayed tool call includes its later updates, so results are compared without order.
    if _without_results(again) != _without_results(record.said) or set(again) != set(record.said):
        missing = [one for one in record.said if one not in set(again)]
        raise Violation("a replay differs from the record", f"lacks {missing[:5]}")
    if prompts != record.asked:
        raise Violation("a replay differs from the record", f"{prompts} of {record.asked}")


def _without_results(serials: list[Serial]) -> list[Serial]:
    return [(who, number) for who, number in serials if number % 8 != 1 or number == 1]


def check_leases(store_path: Path) -> None:
    """No session is leased by a process that has exited."""
    # Call this when no Rekindle process runs.
    if store_path.exists():
        with SqliteStore(store_path, create=False) as store:
            if driven := store.leased_ids():
                raise Violation("a lease is stuck", str(driven))


def check_integrity(store_path: Path) -> None:
    """SQLite and `rekindle doctor` find nothing wrong, without a repair."""
    if store_path.exists():
        with Inspection(store_path) as store:
            wrong = store.complaints(full=True)
            if not wrong:
                wrong = store.unreadable_entries()
                wrong += [f"no session {key}" for key in store.orphaned_keys()]
        if wrong:
            raise Violation("the store is not sound", "; ".join(wrong[:3]))


def check_no_internal_errors(stderr: str) -> None:
    """No traceback and no internal error is in the stderr of Rekindle."""
    for words in ("Traceback", "a bug in Rekindle"):
        if words in stderr:
            raise Violation("a fault of Rekindle's own", stderr[-2000:])
