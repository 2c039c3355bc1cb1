"""Read sessions with importers, and check the rules that every importer must follow."""

import json
from collections.abc import Sequence
from pathlib import Path

from rekindle.acp.jsonrpc import update_line
from rekindle.importers.base import EntryCounts, ImportNotes, SourceSession, ToolImporter
from rekindle.jsonvalue import decode_object
from rekindle.model import Entry, Kind, Session, Side
from rekindle.store.memory import MemoryStore
from rekindle.text.times import in_utc
from rekindle.transcript.model import TranscriptMessage
from rekindle.transcript.reducer import fold
from rekindle.transcript.replay_v1 import replay_v1
from tool_imports import Run, everything


def read_sessions(
    importer: ToolImporter, path: Path, notes: ImportNotes | None = None
) -> list[SourceSession]:
    """Return all sessions in a file or below a folder."""
    notes = notes or ImportNotes()
    return [source for found in importer.find(path, None) for source in importer.read(found, notes)]


def entries_of(source: SourceSession) -> list[Entry]:
    """Return the entries of a session, after checking that they are valid."""
    counts = EntryCounts()
    entries = list(source.read_entries(counts))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert list(source.read_entries(EntryCounts())) == entries, "a second reading differs"
    for entry in entries:
        assert b"\n" not in entry.line
        assert decode_object(entry.line) is not None, entry
        entry.line.decode()
    prompts = sum(entry.kind is Kind.PROMPT for entry in entries)
    assert (counts.entries, counts.turns) == (len(entries), prompts)
    assert counts.settled <= counts.entries
    fold(entries)
    return entries


def settled_entries(source: SourceSession) -> list[Entry]:
    """Return the entries that stay the same when the file grows."""
    counts = EntryCounts()
    entries = list(source.read_entries(counts))
    return entries[: counts.settled]


def items_of(source: SourceSession) -> list[object]:
    """Return the items of a session's transcript; for messages, their texts."""
    items = [item for turn in fold(entries_of(source)).turns for item in turn.items]
    return [item.text if isinstance(item, TranscriptMessage) else item for item in items]


def check_growth(importer: ToolImporter, path: Path, lines: Sequence[bytes]) -> None:
    """Check that a file that grows line by line keeps its settled entries."""
    before: list[Entry] = []
    for count in range(1, len(lines) + 1):
        path.write_bytes(b"".join(line + b"\n" for line in lines[:count]))
        sources = read_sessions(importer, path)
        entries = entries_of(sources[0]) if sources else []
        assert entries[: len(before)] == before, f"after line {count}"
        before = settled_entries(sources[0]) if sources else []


def check_any(importer: ToolImporter, path: Path, data: bytes) -> None:
    """Check that any bytes can be imported, once, and that growth loses nothing."""
    store = MemoryStore()
    path.write_bytes(data[: data.rfind(b"\n", 0, len(data) // 2) + 1])
    assert Run(store, path, importer).report.failed == {}
    before = [entries[: _settled_count(session)] for session, _, entries in everything(store)]
    path.write_bytes(data)
    for source in read_sessions(importer, path):
        entries_of(source)
    path.touch()
    assert Run(store, path, importer).report.failed == {}
    now = [entries for _, _, entries in everything(store)]
    assert all(any(entries[: len(had)] == had for entries in now) for had in before)
    for entries in now:
        for update in replay_v1(fold(entries), title="x"):
            assert decode_object(update_line("s", update)) is not None
    path.touch()
    assert Run(store, path, importer).outcomes == []
    assert [entries for _, _, entries in everything(store)] == now


def _settled_count(session: Session) -> int:
    return session.origin.settled if session.origin is not None else session.last_seq


def describe_import(importer: ToolImporter, path: Path, hidden: str) -> str:
    """Return a description of an import as text, with `hidden` removed from all paths."""
    notes = ImportNotes()
    sources = read_sessions(importer, path, notes)
    lines = [line for source in sources for line in [*_describe_session(source), ""]]
    lines += [f"passed over: {count} {reason}" for reason, count in sorted(notes.skipped.items())]
    return "\n".join(lines).replace(hidden, "") + "\n"


def _describe_session(source: SourceSession) -> list[str]:
    incoming = source.incoming
    entries = entries_of(source)
    counts = EntryCounts()
    list(source.read_entries(counts))
    titles = ", ".join(f"{by} {title!r}" for by, title in incoming.titles.items())
    kind = "branch of" if source.is_abandoned else "session"
    parent, cwd = incoming.parent_id or "nobody", incoming.cwd or "no folder"
    agent = incoming.agent
    return [
        f"{kind} {incoming.id} of {parent}, in {cwd}",
        f"  {agent.name} {agent.version} has it as {incoming.agent_session_id!r}",
        f"  titles: {titles or 'none'}",
        f"  {counts.turns} turns, {counts.messages} messages",
        f"  {counts.entries} entries, of which {counts.settled} settled",
        *map(_describe_entry, entries),
    ]


def _describe_entry(entry: Entry) -> str:
    time = in_utc(entry.at_us).strftime("%H:%M:%S")
    message = json.loads(entry.line)
    params = message.get("params", {})
    match entry.kind:
        case Kind.PROMPT:
            text = f"prompt {message['id']} {_json(params['prompt'])}"
        case Kind.ANSWER:
            text = f"answer {message['id']} {_json(message['result'])}"
        case _:
            update = dict(params["update"])
            text = f"{update.pop('sessionUpdate')} {_json(update)}"
    return f"{time} {'>' if entry.side is Side.CLIENT else '<'} {text}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
