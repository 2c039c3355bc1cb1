"""Fuzz targets: small functions that accept any bytes and check a property.

`make test` runs them with random input, `make fuzz` with input that is guided by coverage.
"""

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Raw

import opencode_lines
from bundles import merge_bundle, read_bundle
from claude_files import SESSION
from codex_files import CodexFile
from fuzz.choices import Choices
from fuzz.peers import converse, play_transcript
from fuzz.strict_playbook import StrictPlaybook
from importer_results import check_any, entries_of, read_sessions
from recorded_sessions import NOW, answered, asked, opened, told
from rekindle.acp.framing import LineBuffer
from rekindle.acp.jsonrpc import read_envelope, request_key, split_batch, update_line
from rekindle.cli.render.detail import Detail
from rekindle.cli.render.rich_text import make_console, render_pieces
from rekindle.cli.render.transcript import heading, plain_lines, turn_pieces
from rekindle.errors import BadBundle
from rekindle.export.acp import as_acp
from rekindle.export.html import as_html
from rekindle.export.json import as_json
from rekindle.export.markdown import as_markdown
from rekindle.importers.base import ImportNotes
from rekindle.importers.claude.session import IMPORTER as CLAUDE
from rekindle.importers.codex.session import IMPORTER as CODEX
from rekindle.importers.gemini.session import IMPORTER as GEMINI
from rekindle.importers.opencode.session import OpenCodeSessionReader
from rekindle.jsonvalue import decode, decode_object, encode
from rekindle.model import Entry, EntryBatch, Kind, Side, Titled, TitleSource
from rekindle.proxy.peers import AGENT, FIRST_CLIENT
from rekindle.store.memory import MemoryStore
from rekindle.text.redact.detect import mask
from rekindle.transcript.handover import handover_text, reminder_text
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2
from safe_documents import INVISIBLE, check, check_shown

_KINDS = list(Kind)
_PAIRS = ["1 1", "1 2", "2 1", "2 2"]
_PREFIX = 2
_ERROR_RATES = [0.0, 0.02, 0.1, 0.3]


def framing(data: bytes) -> None:
    """Check that a stream gives the same lines however it is cut."""
    size = data[0] + 1 if data else 1
    lines = LineBuffer()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    complete = [it for it in map(lines.feed, pieces) if it is not None]
    rest = lines.rest()
    assert b"".join(it + b"\n" for it in complete) + rest == data
    assert b"\n" not in rest


def envelope(data: bytes) -> None:
    """Check that any line is parsed or rejected, and that its value can be written again."""
    message, whole = read_envelope(data), decode_object(data)
    assert message is not None or whole is None
    if message is not None:
        kinds = (message.is_request, message.is_response, message.is_update)
        assert sum(kinds) <= 1
        assert isinstance(message.update_kind, str)
        if isinstance(message.id, Raw):
            hash(request_key(message.id))
    for member in split_batch(data) or []:
        read_envelope(member)
    value = decode(data)
    # A number out of range, such as 1e999, is decoded as None.
    assert value is None or decode(encode(value)) == value


def record(data: bytes) -> None:
    """Check that any record can be folded, replayed in both versions, and handed over."""
    entries = _entries(data)
    transcript = fold(entries)
    one_by_one = Transcript()
    for entry in entries:
        one_by_one.add(entry)
    one_by_one.settle()
    first, second = (list(replay_v1(it, title="T")) for it in (transcript, one_by_one))
    assert first == second
    for update in (*first, *replay_v2(transcript.turns, transcript)):
        assert decode_object(update_line("s", update)) is not None
    reminder = reminder_text(transcript, transcript.turns)
    assert len(handover_text(transcript)) + len(reminder) < 200_000


def documents(data: bytes) -> None:
    """Check that documents and terminal output are harmless, whatever was recorded."""
    store = MemoryStore()
    store.write([opened("s"), *(entry_batch("s", it) for it in _entries(data))])
    title = data[:200].decode("utf-8", "replace")
    store.write([Titled(session_id="s", at_us=NOW, source=TitleSource.USER, title=title)])
    session, transcript = store.session("s"), fold(store.read("s"))
    turns = transcript.turns
    check("".join(as_html(session, transcript, turns)))
    for render in (as_markdown, as_json):
        assert not INVISIBLE.search("".join(render(session, transcript, turns)))
    for version in (1, 2):
        assert not any(map(INVISIBLE.search, as_acp(session, transcript, turns, version)))
    detail = Detail(thoughts=True, tools=True)
    pieces = list(heading(session))
    pieces += [it for turn in turns for it in turn_pieces(turn, detail, transcript.terminals)]
    assert not any(INVISIBLE.search(line) for piece in pieces for line in plain_lines(piece))
    console = make_console(file=io.StringIO(), width=60)
    for renderable in render_pieces(pieces):
        console.print(renderable, crop=False)
    check_shown(console.file.getvalue())  # type: ignore[attr-defined]


def secrets(data: bytes) -> None:
    """Check that any text can be masked, and does not grow much."""
    masked = mask(data.decode("utf-8", "replace"))
    assert len(masked) <= 2 * len(data) + 100


def lines(data: bytes) -> None:
    """Check that any lines of both peers cause no internal error, and can be replayed."""
    playbook = StrictPlaybook()
    playbook.do_speaks(_PAIRS[data[0] % len(_PAIRS) if data else 0])
    playbook.do_agent("Fake load list")
    playbook.do_open("s1 modes")
    for line in data[1:].split(b"\n"):
        peer = FIRST_CLIENT if line[:1] == b"c" else AGENT
        playbook.receive_bytes(peer, line[1:])
    playbook.check_record()


def bundle(data: bytes) -> None:
    """Check that an invalid bundle is refused, and that none changes an existing record."""
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "Hello"), told("s1", "Hi"), answered("s1")])
    before = list(store.read("s1"))
    with suppress(BadBundle):
        merge_bundle(store, data)
    assert list(store.read("s1"))[: len(before)] == before
    with suppress(BadBundle):
        read_bundle(data).close()


def claude(data: bytes) -> None:
    """Check that any file of Claude Code can be imported, and that a later import loses nothing."""
    with TemporaryDirectory() as folder:
        check_any(CLAUDE, Path(folder) / f"{SESSION}.jsonl", data)


def codex(data: bytes) -> None:
    """Check that any file of Codex can be imported, and that a later import loses nothing."""
    with TemporaryDirectory() as folder:
        check_any(CODEX, Path(folder) / CodexFile().name(), data)


def opencode(data: bytes) -> None:
    """Check that any records of OpenCode can be imported."""
    for session in OpenCodeSessionReader(
        opencode_lines.LinesSession(data), ImportNotes()
    ).sessions():
        entries_of(session)


def gemini(data: bytes) -> None:
    """Check that any file of Gemini CLI can be imported, and that a later import loses nothing."""
    with TemporaryDirectory() as folder:
        check_any(GEMINI, Path(folder) / "session-2025-11-09T00-00-22222222.jsonl", data)


def gemini_object(data: bytes) -> None:
    """Check that any older file of Gemini CLI can be imported."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "session-2025-11-09T00-00-22222222.json"
        path.write_bytes(data)
        for talk in read_sessions(GEMINI, path):
            entries_of(talk)


def peers(data: bytes) -> None:
    """Check the guarantees of the engine in a random conversation."""
    choices = Choices(data)
    converse(choices, choices.choice(_ERROR_RATES), acts=200)


def script(data: bytes) -> None:
    """Check the guarantees of the engine in a golden transcript with random errors."""
    choices = Choices(data)
    play_transcript(choices, choices.choice(_ERROR_RATES))


TARGETS: dict[str, Callable[[bytes], None]] = {
    it.__name__: it
    for it in (
        framing,
        envelope,
        record,
        documents,
        secrets,
        lines,
        bundle,
        claude,
        codex,
        opencode,
        gemini,
        gemini_object,
        peers,
        script,
    )
}


def _entries(data: bytes) -> list[Entry]:
    """Read each line as an entry: the first byte is the kind, the second the version."""
    said = [line for line in data.split(b"\n") if len(line) >= _PREFIX]
    return [
        Entry(
            seq=seq,
            side=Side.AGENT,
            kind=_KINDS[line[0] % len(_KINDS)],
            at_us=NOW + seq,
            line=line[_PREFIX:],
            protocol=1 + line[1] % 2,
        )
        for seq, line in enumerate(said, 1)
    ]


def entry_batch(session_id: str, entry: Entry) -> EntryBatch:
    """Return the change that records an entry."""
    return EntryBatch(
        session_id=session_id,
        side=entry.side,
        kind=entry.kind,
        at_us=entry.at_us,
        data=entry.line,
        protocol=entry.protocol,
    )
