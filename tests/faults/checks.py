"""What must hold after every fault: functions of what the clients received and what is stored."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rekindle.errors import SessionNotFound
from rekindle.model import Entry, Kind
from rekindle.store.sqlite.inspect import Inspection
from rekindle.store.sqlite.store import SqliteStore

from .ledger import Conversation, Serial, asked_in, said_in
from .violation import Violation


@dataclass(frozen=True)
class Recorded:
    """What a store has of one session."""

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
                    said += said_in(entry.line)
                    answers += b'"state":"idle"' in entry.line
                case Kind.PROMPT:
                    asked += asked_in(entry.line)[-1:]
                case Kind.ANSWER:
                    # From version 2 on, such a one only says that the prompt was taken.
                    answers += b'"messageId"' not in entry.line
                case Kind.GAP:
                    gaps += 1
                case _:
                    pass
        return cls(said, asked, seqs, gaps, answers)


def recorded(store_path: Path, session_id: str) -> Recorded:
    """Read a session, as `rekindle show` would."""
    with SqliteStore(store_path, create=False) as store:
        try:
            return Recorded.of(store.read(session_id))
        except SessionNotFound:
            return Recorded([], [], [], 0)


def check_record(conversation: Conversation, record: Recorded) -> None:
    """Every update that a client received is in the record, once and in order, with no hole."""
    said = record.said
    _once(said, "an update is recorded twice")
    _once(record.asked, "a prompt is recorded twice")
    if record.seqs != list(range(1, len(record.seqs) + 1)):
        raise Violation("the record has a hole", str(record.seqs[-5:]))
    at = 0
    for name, piece in conversation.pieces.items():
        at = _after_piece(name, piece, said, at)
    if not conversation.is_excused:
        _unbroken(said)
    _in_order(record.asked, conversation.asked, "prompts are recorded in another order")
    missing = conversation.answered - set(record.asked)
    if missing and not conversation.is_excused:
        raise Violation("a prompt is lost", str(sorted(missing)[:5]))
    if record.answers < conversation.ended and not conversation.is_excused:
        raise Violation("the end of a turn is lost", f"{record.answers} of {conversation.ended}")


def _after_piece(name: str, piece: list[Serial], said: list[Serial], at: int) -> int:
    """Return where in the record a piece ends that a connection received without a break."""
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
    """Check that nothing is missing, also of what nobody saw: agents count what they say."""
    last: dict[str, int] = {}
    for who, number in said:
        if number != last.get(who, 0) + 1:
            raise Violation("an update is lost", f"<{who}.{number}> follows {last.get(who, 0)}")
        last[who] = number


def _in_order(some: Sequence[Serial], of: Sequence[Serial], promise: str) -> None:
    places = {serial: place for place, serial in enumerate(of)}
    if any(places[one] >= places[next_] for one, next_ in pairwise(some)):
        raise Violation(promise, str(some))


def check_replay(told: list[bytes], record: Recorded) -> None:
    """Every replay tells what was recorded, which is what was told live: no more, no less."""
    again = [serial for line in told for serial in said_in(line)]
    prompts = [serial for line in told for serial in asked_in(line) if b"user_message" in line]
    _once(again, "an update is replayed twice")
    # Calls come with all that was told of them; what they brought stands with them.
    if _without_results(again) != _without_results(record.said) or set(again) != set(record.said):
        missing = [one for one in record.said if one not in set(again)]
        raise Violation("a replay differs from the record", f"lacks {missing[:5]}")
    if prompts != record.asked:
        raise Violation("a replay differs from the record", f"{prompts} of {record.asked}")


def _without_results(serials: list[Serial]) -> list[Serial]:
    return [(who, number) for who, number in serials if number % 8 != 1 or number == 1]


def check_leases(store_path: Path) -> None:
    """No session is held by somebody who is gone."""
    # Call when nobody drives any.
    if store_path.exists():
        with SqliteStore(store_path, create=False) as store:
            if driven := store.leased_ids():
                raise Violation("a lease is stuck", str(driven))


def check_soundness(store_path: Path) -> None:
    """SQLite and Rekindle's own doctor find nothing wrong, without a repair."""
    if store_path.exists():
        with Inspection(store_path) as store:
            wrong = store.complaints(full=True)
            if not wrong:
                wrong = store.unreadable_entries()
                wrong += [f"no session {key}" for key in store.orphaned_keys()]
        if wrong:
            raise Violation("the store is not sound", "; ".join(wrong[:3]))


def check_no_faults_of_ours(stderr: str) -> None:
    """Rekindle's own stderr has no traceback, and no fault that nobody thought of."""
    for words in ("Traceback", "a fault in Rekindle"):
        if words in stderr:
            raise Violation("a fault of Rekindle's own", stderr[-2000:])
