"""Recording sessions as an editor and an agent would have them, and finding them again."""

import json
from pathlib import Path

from rekindle.model import AgentIdentity, Counted, EntryBatch, Kind, Opened, Page, Side
from rekindle.store.search import SearchHit, SearchRequest
from rekindle.store.sqlite.search_index import SqliteSearchIndex, table_of
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.search_syntax import parse
from rekindle.transfer.indexer import update_index

NOW = 1_700_000_000_000_000


def entry(
    session: str, kind: Kind, message: object, at_us: int = NOW, protocol: int = 1
) -> EntryBatch:
    line = json.dumps(message).encode()
    side = Side.CLIENT if kind is Kind.PROMPT else Side.AGENT
    return EntryBatch(
        session_id=session, side=side, kind=kind, at_us=at_us, data=line, protocol=protocol
    )


def opened(session: str, cwd: str = "/p") -> Opened:
    return Opened(session_id=session, at_us=NOW, cwd=cwd, agent=AgentIdentity(name="Agent"))


def asked(session: str, words: str, at_us: int = NOW) -> EntryBatch:
    return entry(session, Kind.PROMPT, {"params": {"prompt": [text(words)]}}, at_us)


def counted(session: str, turns: int = 1) -> Counted:
    return Counted(session_id=session, at_us=NOW, turns=turns)


def told(session: str, words: str, message_id: str | None = None) -> EntryBatch:
    update = {"sessionUpdate": "agent_message_chunk", "content": text(words)}
    update |= {"messageId": message_id} if message_id else {}
    return entry(session, Kind.UPDATE, {"params": {"update": update}})


def called(session: str, call: str, **fields: object) -> EntryBatch:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": call, **fields}
    return entry(session, Kind.UPDATE, {"params": {"update": update}})


def answered(session: str, at_us: int = NOW) -> EntryBatch:
    return entry(session, Kind.ANSWER, {"result": {"stopReason": "end_turn"}}, at_us)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def update(path: Path) -> None:
    with SqliteStore(path, create=False) as store, SqliteSearchIndex(path) as index:
        index.remove_missing()
        for _ in update_index(index, store):
            pass


def look(path: Path, typed: str, *, since_us: int | None = None, **page: object) -> list[SearchHit]:
    """Look for words as the command does: first bring the index up to date."""
    update(path)
    wanted = SearchRequest(
        terms=parse(typed), page=Page(**{"limit": 50, **page}), since_us=since_us
    )  # type: ignore[arg-type]
    with SqliteSearchIndex(path) as index:
        return index.search(wanted)


def found(path: Path, typed: str, **options: object) -> list[tuple[str, int]]:
    return sorted((hit.session_id, hit.turn) for hit in look(path, typed, **options))  # type: ignore[arg-type]


def everything(path: Path) -> list[tuple[object, ...]]:
    with SqliteSearchIndex(path) as index:
        columns = "rowid, turn, at_us, origin, ident, words, parts"
        tables = [table_of(shard) for shard in reversed(index.shards())]
        return [row for it in tables for row in index.query(f"select {columns} from {it}")]  # noqa: S608


def files(path: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in path.parent.iterdir() if it.is_file()}
