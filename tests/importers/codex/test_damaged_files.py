"""Damaged files of Codex: their intact parts are imported."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from codex_files import CWD, SESSION, CodexFile, write_file
from codex_sessions import legacy
from importer_results import entries_of, items_of, read_sessions, settled_entries
from rekindle.importers.base import ImportNotes, SourceSession
from rekindle.importers.codex.session import IMPORTER
from selection import some_of

NAME = CodexFile().name()


def test_truncated_file_keeps_its_settled_entries(tmp_path: Path) -> None:
    file = CodexFile(mode="paginated")
    file.begin(1)
    file.ask("Question \N{GRINNING FACE}")
    file.call("call_1", "exec_command", {"cmd": "ls"})
    file.output("call_1", "text")
    file.answer("Answer")
    file.end(1)
    data = file.data()
    path = tmp_path / NAME
    for length in some_of(range(len(data))):
        path.write_bytes(data[:length])
        cut = entries_of(main) if (main := first(path)) else []
        path.write_bytes(data[: data.rfind(b"\n", 0, length) + 1])
        settled = settled_entries(main) if (main := first(path)) else []
        assert cut[: len(settled)] == settled


def test_truncated_compressed_file_keeps_its_start(tmp_path: Path) -> None:
    file = legacy()
    path = file.write(tmp_path, is_compressed=True)
    data = path.read_bytes()
    (source,) = read_sessions(IMPORTER, path)
    whole = entries_of(source)
    for length in range(0, len(data), 17):
        path.write_bytes(data[:length])
        notes = ImportNotes()
        sources = read_sessions(IMPORTER, path, notes)
        assert (
            not sources or entries_of(sources[0])[:-1] == whole[: len(entries_of(sources[0])) - 1]
        )
        assert notes.skipped["a compressed file is incomplete or damaged"] == 1


@pytest.mark.parametrize("frames", [1, 3])
def test_all_complete_data_of_a_truncated_compressed_file_is_read(
    tmp_path: Path, frames: int
) -> None:
    file = CodexFile()
    for number in range(300):
        file.turn(number)
    path = file.write(tmp_path, is_compressed=True)
    packed = path.read_bytes()
    path.write_bytes(packed * (frames - 1) + packed[: len(packed) * 2 // 3])
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, path, notes)
    texts = items_of(source)
    asked = [number for _ in range(frames) for number in range(300)]
    whole = [f"{kind} {number}" for number in asked for kind in ("Question", "Answer")]
    assert len(texts) > 600 * (frames - 1) + 200
    assert texts == whole[: len(texts)]
    assert notes.skipped["a compressed file is incomplete or damaged"] == 1


def test_data_before_damage_in_a_compressed_file_is_read(tmp_path: Path) -> None:
    file = CodexFile()
    for number in range(300):
        file.turn(number)
    path = file.write(tmp_path, is_compressed=True)
    packed = path.read_bytes()
    path.write_bytes(packed[:-400] + bytes(400) + packed)
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, path, notes)
    texts = items_of(source)
    assert 200 < len(texts) < 600
    assert texts[-1] in {f"{kind} {len(texts) // 2 - 1}" for kind in ("Question", "Answer")}
    assert notes.skipped["a compressed file is incomplete or damaged"] == 1


@given(st.data())
def test_changed_bytes_do_not_affect_earlier_entries(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    file = CodexFile()
    for number in range(4):
        file.turn(number)
        file.call(f"call_{number}", "shell", {"command": ["ls"]})
        file.output(f"call_{number}", "a\nb")
    whole_data = file.data()
    is_compressed = data.draw(st.booleans())
    at = data.draw(st.integers(0, len(whole_data) - 1))
    changed = bytearray(whole_data)
    length = data.draw(st.integers(1, 40))
    changed[at : at + length] = data.draw(st.binary(min_size=0, max_size=40))
    folder = tmp_path_factory.mktemp("x")
    path = write_file(folder / NAME, bytes(changed), is_compressed=is_compressed)
    damaged_file = [entries_of(source) for source in read_sessions(IMPORTER, path)]
    path.unlink()
    path = write_file(folder / NAME, whole_data[: whole_data.rfind(b"\n", 0, at) + 1])
    settled = settled_entries(main) if (main := first(path)) else []
    if settled:
        assert damaged_file[0][: len(settled)] == settled


GARBAGE = st.one_of(
    st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")),
    st.sampled_from([b"{}", b"[]", b"7", b'{"type":7}', b'{"payload":null}', b"\0" * 50, b"{"]),
)


@given(
    st.lists(st.tuples(st.integers(0, 60), GARBAGE), max_size=12),
    st.sampled_from(["legacy", "paginated"]),
)
def test_garbage_lines_do_not_change_the_entries(
    tmp_path_factory: pytest.TempPathFactory, rubbish: list[tuple[int, bytes]], mode: str
) -> None:
    file = CodexFile(mode=mode)
    file.context()
    file.turn(1)
    file.call("call_1", "exec_command", {"cmd": "ls"})
    file.output("call_1", "a")
    file.turn(2)
    file.event("thread_rolled_back", num_turns=1)
    file.add("compacted", {"message": "So far"})
    file.turn(3)
    home = tmp_path_factory.mktemp("x")
    whole = [entries_of(source) for source in read_sessions(IMPORTER, file.write(home))]
    for at, line in rubbish:
        file.lines.insert(at, line)
    notes = ImportNotes()
    assert [
        entries_of(source) for source in read_sessions(IMPORTER, file.write(home), notes)
    ] == whole
    assert sum(notes.skipped.values()) <= len(rubbish)


def test_file_with_damaged_first_line_is_imported(tmp_path: Path) -> None:
    file = CodexFile()
    file.context()
    file.turn(1)
    file.lines[0] = file.lines[0][:40]
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, file.write(tmp_path), notes)
    assert items_of(source) == ["Question 1", "Answer 1"]
    assert (source.incoming.id, source.incoming.cwd) == (SESSION, CWD)
    assert notes.skipped == {"a line is not JSON": 1}
    path = file.write(tmp_path)
    assert notes.places == {"a line is not JSON": f"{path}, line 1"}


def test_skipped_items_have_a_file_and_a_line(tmp_path: Path) -> None:
    file = CodexFile()
    file.context()
    file.turn(1)
    file.item("hologram")
    file.turn(2)
    notes = ImportNotes()
    path = file.write(tmp_path)
    (source,) = read_sessions(IMPORTER, path, notes)
    entries_of(source)
    reason = "an item of unknown type: hologram"
    (line,) = (number for number, it in enumerate(file.lines, 1) if b"hologram" in it)
    assert notes.places == {reason: f"{path}, line {line}"}


@given(st.binary(max_size=60), st.integers(0, 4000))
def test_changed_bytes_in_a_compressed_file_are_not_fatal(
    tmp_path_factory: pytest.TempPathFactory, rubbish: bytes, at: int
) -> None:
    path = legacy().write(tmp_path_factory.mktemp("x"), is_compressed=True)
    data = bytearray(path.read_bytes())
    data[at : at + len(rubbish)] = rubbish
    path.write_bytes(bytes(data))
    for source in read_sessions(IMPORTER, path):
        entries_of(source)


def first(path: Path) -> SourceSession | None:
    return next(iter(read_sessions(IMPORTER, path)), None)
