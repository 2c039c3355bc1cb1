"""What importers make of files: written down, and held to what every importer must keep."""

import json
from collections.abc import Sequence
from pathlib import Path

from rekindle.acp.jsonrpc import update_line
from rekindle.importers.base import Notes, Talk, Tally, Tool
from rekindle.jsonvalue import decode_object
from rekindle.model import Entry, Kind, Session, Side
from rekindle.store.memory import MemoryStore
from rekindle.text.times import in_utc
from rekindle.transcript.model import TranscriptMessage
from rekindle.transcript.reducer import fold
from rekindle.transcript.replay_v1 import replay_v1
from tool_imports import Run, everything


def talks_of(tool: Tool, path: Path, notes: Notes | None = None) -> list[Talk]:
    """Return all conversations in a file, or below a folder."""
    taken = notes or Notes()
    return [talk for found in tool.find(path, None) for talk in tool.read(found, taken)]


def entries_of(talk: Talk) -> list[Entry]:
    """Return the entries of a conversation, once it is sure that they are sound."""
    tally = Tally()
    entries = list(talk.tell(tally))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert list(talk.tell(Tally())) == entries, "it is not the same each time"
    for entry in entries:
        assert b"\n" not in entry.line
        assert decode_object(entry.line) is not None, entry
        entry.line.decode()
    prompts = sum(entry.kind is Kind.PROMPT for entry in entries)
    assert (tally.entries, tally.turns) == (len(entries), prompts)
    assert tally.settled <= tally.entries
    fold(entries)
    return entries


def settled_of(talk: Talk) -> list[Entry]:
    """Return the entries that stay, however the file goes on."""
    tally = Tally()
    entries = list(talk.tell(tally))
    return entries[: tally.settled]


def told(talk: Talk) -> list[object]:
    """Return what happens in a conversation: of messages the words, of all else the item."""
    items = [item for turn in fold(entries_of(talk)).turns for item in turn.items]
    return [item.text if isinstance(item, TranscriptMessage) else item for item in items]


def check_growth(tool: Tool, path: Path, lines: Sequence[bytes]) -> None:
    """See that a file that grows line by line begins with what was told of it before."""
    before: list[Entry] = []
    for count in range(1, len(lines) + 1):
        path.write_bytes(b"".join(line + b"\n" for line in lines[:count]))
        talks = talks_of(tool, path)
        entries = entries_of(talks[0]) if talks else []
        assert entries[: len(before)] == before, f"after line {count}"
        before = settled_of(talks[0]) if talks else []


def check_any(tool: Tool, path: Path, data: bytes) -> None:
    """See that any bytes can be imported, once, and with nothing lost when there are more."""
    store = MemoryStore()
    path.write_bytes(data[: data.rfind(b"\n", 0, len(data) // 2) + 1])
    assert Run(store, path, tool).report.failed == {}
    before = [entries[: _settled(session)] for session, _, entries in everything(store)]
    path.write_bytes(data)
    for talk in talks_of(tool, path):
        entries_of(talk)
    path.touch()
    assert Run(store, path, tool).report.failed == {}
    now = [entries for _, _, entries in everything(store)]
    assert all(any(it[: len(had)] == had for it in now) for had in before)
    for entries in now:
        for update in replay_v1(fold(entries), title="x"):
            assert decode_object(update_line("s", update)) is not None
    path.touch()
    assert Run(store, path, tool).outcomes == []
    assert [entries for _, _, entries in everything(store)] == now


def _settled(session: Session) -> int:
    return session.origin.settled if session.origin is not None else session.last_seq


def written_down(tool: Tool, path: Path, hide: str) -> str:
    """Write down what is made of a file or folder, with `hide` left out of all paths."""
    notes = Notes()
    lines = [line for talk in talks_of(tool, path, notes) for line in [*_talk(talk), ""]]
    lines += [f"passed over: {count} {reason}" for reason, count in sorted(notes.skipped.items())]
    return "\n".join(lines).replace(hide, "") + "\n"


def _talk(talk: Talk) -> list[str]:
    arrived = talk.arrived
    entries = entries_of(talk)
    tally = Tally()
    list(talk.tell(tally))
    titles = ", ".join(f"{by} {title!r}" for by, title in arrived.titles.items())
    kind = "branch of" if talk.is_aside else "session"
    return [
        f"{kind} {arrived.id} of {arrived.parent_id or 'nobody'}, in {arrived.cwd or 'no folder'}",
        f"  {arrived.agent.name} {arrived.agent.version} has it as {arrived.agent_session_id!r}",
        f"  titles: {titles or 'none'}",
        f"  {tally.turns} turns, {tally.messages} messages",
        f"  {tally.entries} entries, of which {tally.settled} settled",
        *(_entry(it) for it in entries),
    ]


def _entry(entry: Entry) -> str:
    clock = in_utc(entry.at_us).strftime("%H:%M:%S")
    told = json.loads(entry.line)
    params = told.get("params", {})
    match entry.kind:
        case Kind.PROMPT:
            words = f"prompt {told['id']} {_json(params['prompt'])}"
        case Kind.ANSWER:
            words = f"answer {told['id']} {_json(told['result'])}"
        case _:
            update = dict(params["update"])
            words = f"{update.pop('sessionUpdate')} {_json(update)}"
    return f"{clock} {'>' if entry.side is Side.CLIENT else '<'} {words}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
