"""What can be given any bytes: small functions, each with what must hold whatever they are.

Used twice: as properties, in `make test`, and by a fuzzer that is led by coverage, in `make fuzz`.
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
from fuzz.peers import act_out, converse
from fuzz.ring import Ring
from importer_results import check_any, entries_of, read_sessions
from recorded_sessions import NOW, answered, asked, opened, told
from rekindle.acp.framing import LineBuffer
from rekindle.acp.jsonrpc import read_envelope, request_key, split_batch, update_line
from rekindle.cli.render.detail import Detail
from rekindle.cli.render.rich_text import make_console, spaced
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
from rekindle.store.memory import MemoryStore
from rekindle.text.redact.secrets import mask
from rekindle.transcript.handover import handover_text, reminder_text
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2
from safe_documents import UNSEEN, check, check_shown

_KINDS = list(Kind)
_PAIRS = ["1 1", "1 2", "2 1", "2 2"]
_PREFIX = 2
_SPITES = [0.0, 0.02, 0.1, 0.3]


def framing(data: bytes) -> None:
    """However a stream is cut, its lines come out as they went in."""
    size = data[0] + 1 if data else 1
    lines = LineBuffer()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    complete = [it for it in map(lines.feed, pieces) if it is not None]
    rest = lines.rest()
    assert b"".join(it + b"\n" for it in complete) + rest == data
    assert b"\n" not in rest


def envelope(data: bytes) -> None:
    """Any line is a message or it is none, and what was read can be written."""
    message, whole = read_envelope(data), decode_object(data)
    assert message is not None or whole is None
    if message is not None:
        kinds = (message.is_request, message.is_response, message.is_update)
        assert sum(kinds) <= 1
        assert isinstance(message.update_kind, str)
        if isinstance(message.id, Raw):
            hash(request_key(message.id))
    for member in split_batch(data):
        read_envelope(member)
    value = decode(data)
    # What is no number, as 1e999, was read as none.
    assert value is None or decode(encode(value)) == value


def record(data: bytes) -> None:
    """Any record can be folded, told again in either version, and told to an agent."""
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
    assert len(handover_text(transcript)) + len(reminder_text(transcript)) < 200_000


def documents(data: bytes) -> None:
    """Whatever was said, documents and terminals only show it."""
    store = MemoryStore()
    store.write([opened("s"), *(stretch_of("s", it) for it in _entries(data))])
    title = data[:200].decode("utf-8", "replace")
    store.write([Titled(session_id="s", at_us=NOW, source=TitleSource.USER, title=title)])
    session, transcript = store.session("s"), fold(store.read("s"))
    turns = transcript.turns
    check("".join(as_html(session, transcript, turns)))
    for render in (as_markdown, as_json):
        assert not UNSEEN.search("".join(render(session, transcript, turns)))
    for version in (1, 2):
        assert not any(map(UNSEEN.search, as_acp(session, transcript, turns, version)))
    detail = Detail(thoughts=True, tools=True)
    pieces = list(heading(session))
    pieces += [it for turn in turns for it in turn_pieces(turn, detail, transcript.terminals)]
    assert not any(UNSEEN.search(line) for piece in pieces for line in plain_lines(piece))
    console = make_console(file=io.StringIO(), width=60)
    for renderable in spaced(pieces):
        console.print(renderable, crop=False)
    check_shown(console.file.getvalue())  # type: ignore[attr-defined]


def secrets(data: bytes) -> None:
    """Any text can be masked, and once is enough."""
    masked = mask(data.decode("utf-8", "replace"))
    assert len(masked) <= 2 * len(data) + 100


def lines(data: bytes) -> None:
    """Any lines of both sides, in any two versions: no fault, and a record that can be told."""
    ring = Ring()
    ring.do_speaks(_PAIRS[data[0] % len(_PAIRS) if data else 0])
    ring.do_agent("Fake load list")
    ring.do_open("s1 modes")
    for line in data[1:].split(b"\n"):
        side = Side.CLIENT if line[:1] == b"c" else Side.AGENT
        ring.take(side, line[1:])
    ring.look_at_record()


def bundle(data: bytes) -> None:
    """Anything that is no bundle is refused, and nothing that is here is changed by one."""
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "Hello"), told("s1", "Hi"), answered("s1")])
    before = list(store.read("s1"))
    with suppress(BadBundle):
        merge_bundle(store, data)
    assert list(store.read("s1"))[: len(before)] == before
    with suppress(BadBundle):
        read_bundle(data).close()


def claude(data: bytes) -> None:
    """Any file of Claude Code's can be imported, and nothing that was in it is lost."""
    with TemporaryDirectory() as folder:
        check_any(CLAUDE, Path(folder) / f"{SESSION}.jsonl", data)


def codex(data: bytes) -> None:
    """Any file of Codex's can be imported, and nothing that was in it is lost."""
    with TemporaryDirectory() as folder:
        check_any(CODEX, Path(folder) / CodexFile().name(), data)


def opencode(data: bytes) -> None:
    """Any records of OpenCode's can be imported."""
    for talk in OpenCodeSessionReader(opencode_lines.LinesSession(data), ImportNotes()).sessions():
        entries_of(talk)


def gemini(data: bytes) -> None:
    """Any file of Gemini CLI's can be imported, and nothing that was in it is lost."""
    with TemporaryDirectory() as folder:
        check_any(GEMINI, Path(folder) / "session-2025-11-09T00-00-22222222.jsonl", data)


def gemini_object(data: bytes) -> None:
    """So can any of its older ones; when more is written, all of such a file is written anew."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "session-2025-11-09T00-00-22222222.json"
        path.write_bytes(data)
        for talk in read_sessions(GEMINI, path):
            entries_of(talk)


def peers(data: bytes) -> None:
    """Both peers say what they like."""
    choices = Choices(data)
    converse(choices, choices.choice(_SPITES), acts=200)


def script(data: bytes) -> None:
    """Peers who forget themselves act out a golden transcript."""
    choices = Choices(data)
    act_out(choices, choices.choice(_SPITES))


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
    """Read bytes as entries: lines, of which the first byte says the kind, the next the version."""
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


def stretch_of(session_id: str, entry: Entry) -> EntryBatch:
    """Return what records an entry."""
    return EntryBatch(
        session_id=session_id,
        side=entry.side,
        kind=entry.kind,
        at_us=entry.at_us,
        data=entry.line,
        protocol=entry.protocol,
    )
