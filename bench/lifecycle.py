"""Measures of loading a long session, and of listing many."""

import json
from pathlib import Path
from statistics import median
from time import perf_counter

import commands
import lines
from client import Client, WrongResult
from process_info import held_mb
from rekindle.model import AgentIdentity, Archived, Counted, EntryBatch, Kind, Opened, Page, Side
from rekindle.store.sqlite.store import SqliteStore
from setups import connected

_SESSION = "long"
_FOLDER = "/home/user/project"
_TURNS = 5
_CHUNK = "forty bytes of text, in every one chunk."
_SESSIONS_PER_COMMIT = 500
_NOW_US = 1_700_000_000_000_000

Figures = dict[str, float]


def load(_: str, store: Path, chunks: int) -> Figures:
    """Load a session with a number of chunks; return seconds, updates, and memory above idle."""
    _fill(store, chunks)
    with connected("rekindle", store) as connection:
        connection.client.initialize()
        idle = held_mb(connection.pid)
        begin = perf_counter()
        updates, text = _loaded(connection.client)
        taken = perf_counter() - begin
        held = held_mb(connection.pid)
    if text != _CHUNK * (chunks // _TURNS * _TURNS):
        raise WrongResult(f"{len(text)} characters were replayed, not the recorded ones")
    above = held.get("peak", held["resident"]) - idle["resident"]
    return {"seconds": taken, "updates": updates, "above": above}


def list_pages(_: str, store: Path, sessions: int) -> Figures:
    """List pages of many sessions, of all and of one folder; return the slowest, in ms.

    Also list the first page with `rekindle list`, on a terminal and through a pipe. Then archive
    the newest nine tenths, and list pages of the archived sessions and of the others.
    """
    with SqliteStore(store) as db:
        for start in range(0, sessions, _SESSIONS_PER_COMMIT):
            numbers = range(start, start + _SESSIONS_PER_COMMIT)
            db.write([change for number in numbers for change in _session(number)])
        slowest = slowest_page_ms(db, f"{_FOLDER}/7", _NOW_US + sessions // 2)
    times = {how: commands.list_ms(store, how) for how in ("terminal", "pipe")}
    with SqliteStore(store) as db:
        for start in range(sessions // 10, sessions, _SESSIONS_PER_COMMIT):
            numbers = range(start, min(start + _SESSIONS_PER_COMMIT, sessions))
            db.write([Archived(session_id=_name(number), at_us=_NOW_US) for number in numbers])
        for is_archived, middle in ((True, sessions // 2), (False, sessions // 20)):
            cwd, middle_us = f"{_FOLDER}/7", _NOW_US + middle
            ms = slowest_page_ms(db, cwd, middle_us, is_archived=is_archived)
            slowest = max(slowest, ms)
    return {"ms": slowest, **times}


def slowest_page_ms(
    db: SqliteStore, cwd: str, middle_us: int, *, is_archived: bool = False
) -> float:
    """Return the time of the slowest page: of all or one folder, the first or a middle one."""
    pages = [
        Page(cwd=folder, before=before, limit=51, prompted=not is_archived, archived=is_archived)
        for folder in (None, cwd)
        for before in (None, (middle_us, ""))
    ]
    return max(_median_ms(db, page) for page in pages)


def _median_ms(db: SqliteStore, page: Page) -> float:
    times: list[float] = []
    for _ in range(21):
        begin = perf_counter()
        if len(db.sessions(page)) != page.limit:
            raise WrongResult(f"no full page for {page}")
        times.append((perf_counter() - begin) * 1000)
    return median(times)


def _name(number: int) -> str:
    return f"ses_{number:08}"


def _session(number: int) -> list[Opened | EntryBatch | Counted]:
    name, at_us = _name(number), _NOW_US + number
    agent = AgentIdentity(name="bench", command=("bench",))
    cwd = f"{_FOLDER}/{number % 10}"
    prompt = EntryBatch(
        session_id=name, side=Side.CLIENT, kind=Kind.PROMPT, at_us=at_us, data=b"{}"
    )
    opened = Opened(session_id=name, at_us=at_us, agent=agent, cwd=cwd)
    # Only prompted sessions are listed.
    return [opened, prompt, Counted(session_id=name, at_us=at_us, turns=1, messages=1)]


def _fill(store: Path, chunks: int) -> None:
    """Record a session of five turns."""
    update = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": _CHUNK},
    }
    line = lines.encode(method="session/update", params={"sessionId": _SESSION, "update": update})
    prompt = {"sessionId": _SESSION, "prompt": [{"type": "text", "text": "Go on"}]}

    def entry(kind: Kind, data: bytes, count: int = 1) -> EntryBatch:
        return EntryBatch(
            session_id=_SESSION, side=Side.AGENT, kind=kind, at_us=1, data=data, count=count
        )

    with SqliteStore(store) as db:
        # The session belongs to another agent, so that the load needs a handover.
        agent = AgentIdentity(name="another")
        db.write([Opened(session_id=_SESSION, at_us=1, agent=agent, cwd=_FOLDER)])
        for _ in range(_TURNS):
            db.write([entry(Kind.PROMPT, lines.encode(id=1, params=prompt)[:-1])])
            left = chunks // _TURNS
            while left:
                count = min(left, 64)
                db.write([entry(Kind.UPDATE, b"\n".join([line[:-1]] * count), count)])
                left -= count
            answer = lines.encode(id=1, result={"stopReason": "end_turn"})[:-1]
            tally = Counted(session_id=_SESSION, at_us=1, turns=1, messages=2)
            db.write([entry(Kind.ANSWER, answer), tally])


def _loaded(client: Client) -> tuple[int, str]:
    """Load the session; return the number of updates and the text of the agent."""
    params = {"sessionId": _SESSION, "cwd": _FOLDER, "mcpServers": []}
    data = client.receive_until_answered("session/load", params)
    *updates, answer = map(json.loads, data.splitlines())
    if "result" not in answer:
        raise WrongResult(f"the session was not loaded: {answer}")
    bodies = [update["params"]["update"] for update in updates]
    texts = [
        body["content"]["text"]
        for body in bodies
        if body["sessionUpdate"].startswith("agent_message")
    ]
    return len(bodies), "".join(texts)
