"""Generates long sessions and full stores, with the writes that recording makes.

Each text is a function of its number, so that a reader can compute the expected text.
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
ENTRIES_PER_TURN = 2_000
RARE = "zebrafish"
RARE_INTERVAL = 1_000
"""One session in this number has the rare word."""
BEGIN_US = 1_600_000_000_000_000
APART_US = 60_000_000
"""The time between the starts of two sessions."""

_CALLS_PER_TURN = 10
_CHUNKS_PER_READ = 64
_CHUNKS_PER_TURN = ENTRIES_PER_TURN - 2 - 2 * _CALLS_PER_TURN
_SESSIONS_PER_COMMIT = 500
_SYLLABLES = "ba ke lo mi nu pra sto tri ve xan qu ers ing al or en".split()  # noqa: SIM905
_VOCABULARY = 50_000
_OUTPUT = "a line that a tool has put out, and that nobody looks for\n" * 35
# Another name than that of the fake agent, so that a load needs a handover.
_AGENT = AgentIdentity(name="another", command=("another",))


def open_long(db: SqliteStore) -> None:
    """Create the long session."""
    db.write([Opened(session_id=LONG, at_us=BEGIN_US, agent=_AGENT, cwd=FOLDER)])


def lengthen(db: SqliteStore, begin: int, end: int) -> None:
    """Append turns to the long session, from one count of entries to another."""
    for number in range(begin // ENTRIES_PER_TURN, end // ENTRIES_PER_TURN):
        at_us = BEGIN_US + number * APART_US
        db.write([_prompt(LONG, at_us, f"Go on with part {number}")])
        chunks = _CHUNKS_PER_TURN // _CALLS_PER_TURN
        for call in range(_CALLS_PER_TURN):
            first = number * _CHUNKS_PER_TURN + call * chunks
            last = first + chunks + (_CHUNKS_PER_TURN % _CALLS_PER_TURN if call == 9 else 0)  # noqa: PLR2004
            for batch in _chunks(at_us, first, last):
                db.write([batch])
            for batch in _tool_call(LONG, at_us, f"call-{number}-{call}", _OUTPUT):
                db.write([batch])
        counts = Counted(session_id=LONG, at_us=at_us, turns=1, messages=1 + _CALLS_PER_TURN)
        db.write([_answer(LONG, at_us), counts], sync=True)


def agent_texts(entries: int) -> Iterator[str]:
    """Yield the chunks of the agent in a long session with a number of entries."""
    return map(_text, range(entries // ENTRIES_PER_TURN * _CHUNKS_PER_TURN))


def add_sessions(db: SqliteStore, begin: int, end: int, padding: int) -> None:
    """Add sessions of one turn each, with `padding` bytes of tool output."""
    texts = _texts(begin)
    for start in range(begin, end, _SESSIONS_PER_COMMIT):
        numbers = range(start, min(start + _SESSIONS_PER_COMMIT, end))
        db.write(list(chain.from_iterable(_session(n, texts, padding) for n in numbers)))
        # Each session had a lease whose holder has exited.
        holder = LeaseHolder(token=f"gone-{start}", pid=start, machine="here")
        for number in numbers:
            db.acquire_lease(session_name(number), holder)
        db.release_leases(holder)


def session_name(number: int) -> str:
    """Return the id of a session. It begins with its time, as many agents' ids do."""
    return f"ses_{started_us(number):014x}{number * 2654435761 % 2**32:08x}"


def started_us(number: int) -> int:
    """Return the start time of a session."""
    return BEGIN_US + number * APART_US


def _session(number: int, texts: Iterator[str], padding: int) -> Iterator[Change]:
    name, at_us, asked = session_name(number), started_us(number), next(texts)
    cwd = f"{FOLDER}/{number % 5}"
    answered = f"{next(texts)} {RARE}" if number % RARE_INTERVAL == 0 else next(texts)
    yield Opened(session_id=name, at_us=at_us, agent=_AGENT, cwd=cwd)
    yield _prompt(name, at_us, asked)
    yield Titled(session_id=name, at_us=at_us, source=TitleSource.PROMPT, title=asked[:60])
    if padding:
        yield from _tool_call(name, at_us, "call", (_OUTPUT * (padding // len(_OUTPUT) + 1)))
    yield _update(name, at_us, sessionUpdate="agent_message_chunk", content=_content(answered))
    yield _answer(name, at_us)
    yield Counted(session_id=name, at_us=at_us, turns=1, messages=2)


def make_vocabulary(dice: random.Random) -> tuple[list[str], list[float]]:
    """Return words, and cumulative weights with the frequencies of a natural language."""
    vocabulary = [
        "".join(dice.choices(_SYLLABLES, k=dice.randint(1, 4))) for _ in range(_VOCABULARY)
    ]
    return vocabulary, list(accumulate(1 / (rank + 1) for rank in range(_VOCABULARY)))


def _texts(seed: int) -> Iterator[str]:
    """Yield messages of 12 words with the frequencies of a natural language."""
    dice = random.Random(1)  # noqa: S311 - the same messages in every run
    vocabulary, weights = make_vocabulary(dice)
    dice.seed(seed)
    while True:
        drawn = dice.choices(vocabulary, cum_weights=weights, k=1_200)
        for start in range(0, len(drawn), 12):
            yield "the " + " ".join(drawn[start : start + 12])


def _chunks(at_us: int, begin: int, end: int) -> Iterator[EntryBatch]:
    for start in range(begin, end, _CHUNKS_PER_READ):
        numbers = range(start, min(start + _CHUNKS_PER_READ, end))
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


def _content(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


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
