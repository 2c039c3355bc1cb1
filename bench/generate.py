"""Makes long sessions and crowded stores with the store's own writes, as recording makes them.

What is said is a function of its number, so whoever reads it again knows what must come.
"""

import random
from collections.abc import Iterator
from itertools import accumulate, chain

import lines
from rekindle.model import (
    AgentIdentity,
    Change,
    Counted,
    EntryBatch,
    Kind,
    LeaseHolder,
    Opened,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.store import SqliteStore

LONG = "long"
FOLDER = "/home/user/project"
ENTRIES_A_TURN = 2_000
RARE = "zebrafish"
A_RARE = 1_000
"""Each so many sessions have the rare word."""
BEGIN_US = 1_600_000_000_000_000
APART_US = 60_000_000
"""How long after one session the next begins."""

_CALLS_A_TURN = 10
_CHUNKS_A_READ = 64
_CHUNKS_A_TURN = ENTRIES_A_TURN - 2 - 2 * _CALLS_A_TURN
_SESSIONS_A_COMMIT = 500
_SYLLABLES = "ba ke lo mi nu pra sto tri ve xan qu ers ing al or en".split()  # noqa: SIM905
_VOCABULARY = 50_000
_OUTPUT = "a line that a tool has put out, and that nobody looks for\n" * 35
# Of another name than the fake agent, so that this one has to be told the record.
_AGENT = AgentIdentity(name="another", command=("another",))


def open_long(db: SqliteStore) -> None:
    """Make the long session."""
    db.write([Opened(session_id=LONG, at_us=BEGIN_US, agent=_AGENT, cwd=FOLDER)])


def lengthen(db: SqliteStore, begin: int, end: int) -> None:
    """Add turns to the long session, from one count of entries to another, a read at a time."""
    for number in range(begin // ENTRIES_A_TURN, end // ENTRIES_A_TURN):
        at_us = BEGIN_US + number * APART_US
        db.write([_prompt(LONG, at_us, f"Go on with part {number}")])
        chunks = _CHUNKS_A_TURN // _CALLS_A_TURN
        for call in range(_CALLS_A_TURN):
            first = number * _CHUNKS_A_TURN + call * chunks
            last = first + chunks + (_CHUNKS_A_TURN % _CALLS_A_TURN if call == 9 else 0)  # noqa: PLR2004
            for stretch in _chunks(at_us, first, last):
                db.write([stretch])
            for stretch in _tool_call(LONG, at_us, f"call-{number}-{call}", _OUTPUT):
                db.write([stretch])
        tally = Counted(session_id=LONG, at_us=at_us, turns=1, messages=1 + _CALLS_A_TURN)
        db.write([_answer(LONG, at_us), tally], sync=True)


def spoken(entries: int) -> Iterator[str]:
    """Yield what the agent says in a long session of so many entries."""
    return map(_text, range(entries // ENTRIES_A_TURN * _CHUNKS_A_TURN))


def crowd(db: SqliteStore, begin: int, end: int, padding: int) -> None:
    """Add sessions of one turn each, from one number to another, with a tool's output if asked."""
    words = _words(begin)
    for start in range(begin, end, _SESSIONS_A_COMMIT):
        numbers = range(start, min(start + _SESSIONS_A_COMMIT, end))
        db.write(list(chain.from_iterable(_session(n, words, padding) for n in numbers)))
        # Each has been driven by somebody who is gone.
        holder = LeaseHolder(token=f"gone-{start}", pid=start, machine="here")
        for number in numbers:
            db.acquire_lease(session_name(number), holder)
        db.release_leases(holder)


def session_name(number: int) -> str:
    """Return the id of a session, which begins with its time, as those of many agents do."""
    return f"ses_{begun_us(number):014x}{number * 2654435761 % 2**32:08x}"


def begun_us(number: int) -> int:
    """Return when a session of a crowded store was begun."""
    return BEGIN_US + number * APART_US


def _session(number: int, words: Iterator[str], padding: int) -> Iterator[Change]:
    name, at_us, asked = session_name(number), begun_us(number), next(words)
    cwd = f"{FOLDER}/{number % 5}"
    answered = f"{next(words)} {RARE}" if number % A_RARE == 0 else next(words)
    yield Opened(session_id=name, at_us=at_us, agent=_AGENT, cwd=cwd)
    yield _prompt(name, at_us, asked)
    yield Titled(session_id=name, at_us=at_us, source=TitleSource.PROMPT, title=asked[:60])
    if padding:
        yield from _tool_call(name, at_us, "call", (_OUTPUT * (padding // len(_OUTPUT) + 1)))
    yield _update(name, at_us, sessionUpdate="agent_message_chunk", content=_content(answered))
    yield _answer(name, at_us)
    yield Counted(session_id=name, at_us=at_us, turns=1, messages=2)


def _words(seed: int) -> Iterator[str]:
    """Yield messages of 12 words, as unevenly common as those of a language."""
    dice = random.Random(1)  # noqa: S311 - the same ones every time
    vocabulary = [
        "".join(dice.choices(_SYLLABLES, k=dice.randint(1, 4))) for _ in range(_VOCABULARY)
    ]
    weights = list(accumulate(1 / (rank + 1) for rank in range(_VOCABULARY)))
    dice.seed(seed)
    while True:
        drawn = dice.choices(vocabulary, cum_weights=weights, k=1_200)
        for start in range(0, len(drawn), 12):
            yield "the " + " ".join(drawn[start : start + 12])


def _chunks(at_us: int, begin: int, end: int) -> Iterator[EntryBatch]:
    for start in range(begin, end, _CHUNKS_A_READ):
        numbers = range(start, min(start + _CHUNKS_A_READ, end))
        data = b"\n".join(_CHUNK % number for number in numbers)
        yield _entry(LONG, Kind.UPDATE, at_us, data, count=len(numbers))


def _text(number: int) -> str:
    return f"{number:012} of forty bytes a chunk says. "


def _tool_call(name: str, at_us: int, call_id: str, output: str) -> Iterator[EntryBatch]:
    call = {"toolCallId": call_id, "title": "Run the tests", "kind": "execute"}
    yield _update(name, at_us, sessionUpdate="tool_call", **call, status="pending")
    content = [{"type": "content", "content": _content(output)}]
    done = {"toolCallId": call_id, "status": "completed", "content": content}
    yield _update(name, at_us, sessionUpdate="tool_call_update", **done)


def _content(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def _prompt(name: str, at_us: int, asked: str) -> EntryBatch:
    params = {"sessionId": name, "prompt": [_content(asked)]}
    line = lines.encode(id=1, method="session/prompt", params=params)
    return _entry(name, Kind.PROMPT, at_us, line[:-1])


def _update(name: str, at_us: int, **update: object) -> EntryBatch:
    line = lines.encode(method="session/update", params={"sessionId": name, "update": update})
    return _entry(name, Kind.UPDATE, at_us, line[:-1])


def _answer(name: str, at_us: int) -> EntryBatch:
    line = lines.encode(id=1, result={"stopReason": "end_turn"})
    return _entry(name, Kind.ANSWER, at_us, line[:-1])


def _entry(name: str, kind: Kind, at_us: int, data: bytes, count: int = 1) -> EntryBatch:
    side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
    return EntryBatch(session_id=name, side=side, kind=kind, at_us=at_us, data=data, count=count)


_CHUNK = lines.encode(
    method="session/update",
    params={
        "sessionId": LONG,
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": _content(_text(0)),
        },
    },
)[:-1].replace(b"0" * 12, b"%012d")
