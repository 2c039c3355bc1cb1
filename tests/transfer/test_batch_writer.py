"""Long sessions: written in several transactions, and resumed after an interruption."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from claude_files import SESSION, ClaudeFile
from rekindle.errors import SessionInUse
from rekindle.importers.base import EntryCounts, ImportNotes
from rekindle.importers.claude.session import IMPORTER
from rekindle.model import Counted, Entry, Kind, LeaseHolder, Side, Truncated
from rekindle.store.base import Store
from rekindle.transfer import batch_writer
from rekindle.transfer.batch_writer import BatchWriter
from rekindle.transfer.import_apply import SessionImporter
from rekindle.transfer.merge import MergeOutcome
from tool_imports import HOLDER, NOW, Run, entries_of_file, everything

OTHER = LeaseHolder(token="other", pid=7, machine="there")  # noqa: S106 - no password


def test_interrupted_import_of_long_session_is_resumed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "_TRANSACTION_ENTRIES", 4)
    it = ClaudeFile()
    for number in range(6):
        it.turn(number)
    path = it.write(tmp_path)
    (found,) = IMPORTER.find(path, None)
    (source_session,) = IMPORTER.read(found, ImportNotes())

    def tell(counts: EntryCounts) -> Iterator[Entry]:
        for entry in source_session.read_entries(counts):
            if entry.seq == 10:
                raise KeyboardInterrupt
            yield entry

    with pytest.raises(KeyboardInterrupt):
        SessionImporter(store, HOLDER).import_session(
            replace(source_session, read_entries=tell), NOW
        )
    assert len(list(store.read(SESSION))) == 8
    assert store.lease_holder(SESSION) is None
    assert Run(store, tmp_path / ".claude").outcomes == [MergeOutcome.EXTENDED]
    ((session, _, entries),) = everything(store)
    assert entries == entries_of_file(path)
    assert (session.turns, session.messages) == (6, 12)


def test_the_first_changes_are_written_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A truncation that is written again would remove the entries of earlier transactions."""
    monkeypatch.setattr(batch_writer, "_TRANSACTION_ENTRIES", 2)
    numbers = range(1, 6)
    entries = [
        Entry(seq=seq, side=Side.AGENT, kind=Kind.UPDATE, at_us=NOW, line=b"%d" % seq, protocol=1)
        for seq in numbers
    ]
    store.write([Counted(session_id="s", at_us=NOW, turns=1)])
    first = [
        Truncated(session_id="s", at_us=NOW, until_seq=0),
        Counted(session_id="s", at_us=NOW, turns=1),
    ]
    assert BatchWriter("s", [*first], iter(entries)).finish(store)
    assert [entry.seq for entry in store.read("s")] == list(numbers)
    assert store.session("s").turns == 2


def test_import_holds_the_lease_between_transactions(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "_TRANSACTION_ENTRIES", 2)
    it = ClaudeFile()
    for number in range(3):
        it.turn(number)
    (found,) = IMPORTER.find(it.write(tmp_path), None)
    (source_session,) = IMPORTER.read(found, ImportNotes())

    def tell(counts: EntryCounts) -> Iterator[Entry]:
        for entry in source_session.read_entries(counts):
            if entry.seq == 6:
                assert store.acquire_lease(SESSION, OTHER).holder == HOLDER
            yield entry

    SessionImporter(store, HOLDER).import_session(replace(source_session, read_entries=tell), NOW)
    store.acquire_lease(SESSION, OTHER)
    grown = replace(
        source_session.incoming, origin=replace(source_session.incoming.origin, sha256="another")
    )  # type: ignore[type-var]
    with pytest.raises(SessionInUse):
        SessionImporter(store, HOLDER).import_session(
            replace(
                source_session, incoming=grown, read_entries=_with_more(source_session.read_entries)
            ),  # type: ignore[arg-type]
            NOW,
        )


def _with_more(tell: object) -> object:
    def more(counts: EntryCounts) -> Iterator[Entry]:
        entries = list(tell(counts))  # type: ignore[operator]
        yield from entries
        yield replace(entries[-1], seq=len(entries) + 1)

    return more
