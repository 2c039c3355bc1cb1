"""Codex's files as crashes, damage and strange hands leave them: what is sound in them is told."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from codex_files import CWD, SESSION, CodexFile, write_file
from codex_sessions import legacy
from importer_results import entries_of, settled_of, talks_of, told
from rekindle.importers.base import Notes, Talk
from rekindle.importers.codex import TOOL
from test_selection import some_of

NAME = CodexFile().name()


def test_a_file_that_is_cut_anywhere_tells_what_is_before(tmp_path: Path) -> None:
    it = CodexFile(mode="paginated")
    it.begin(1)
    it.ask("Question \N{GRINNING FACE}")
    it.call("call_1", "exec_command", {"cmd": "ls"})
    it.output("call_1", "text")
    it.answer("Answer")
    it.end(1)
    data = it.data()
    path = tmp_path / NAME
    for length in some_of(range(len(data))):
        path.write_bytes(data[:length])
        cut = entries_of(main) if (main := first(path)) else []
        path.write_bytes(data[: data.rfind(b"\n", 0, length) + 1])
        sure = settled_of(main) if (main := first(path)) else []
        assert cut[: len(sure)] == sure


def test_a_compressed_file_that_is_cut_anywhere_tells_what_is_before(tmp_path: Path) -> None:
    it = legacy()
    path = it.write(tmp_path, is_compressed=True)
    data = path.read_bytes()
    (talk,) = talks_of(TOOL, path)
    whole = entries_of(talk)
    for length in range(0, len(data), 17):
        path.write_bytes(data[:length])
        notes = Notes()
        talks = talks_of(TOOL, path, notes)
        assert not talks or entries_of(talks[0])[:-1] == whole[: len(entries_of(talks[0])) - 1]
        assert notes.skipped["a compressed file is cut off, or damaged"] == 1


@pytest.mark.parametrize("frames", [1, 3])
def test_all_that_is_in_a_torn_compressed_file_is_told(tmp_path: Path, frames: int) -> None:
    it = CodexFile()
    for number in range(300):
        it.turn(number)
    path = it.write(tmp_path, is_compressed=True)
    packed = path.read_bytes()
    path.write_bytes(packed * (frames - 1) + packed[: len(packed) * 2 // 3])
    notes = Notes()
    (talk,) = talks_of(TOOL, path, notes)
    words = told(talk)
    asked = [number for _ in range(frames) for number in range(300)]
    whole = [f"{kind} {it}" for it in asked for kind in ("Question", "Answer")]
    assert len(words) > 600 * (frames - 1) + 200
    assert words == whole[: len(words)]
    assert notes.skipped["a compressed file is cut off, or damaged"] == 1


def test_what_is_before_damage_in_a_compressed_file_is_told(tmp_path: Path) -> None:
    it = CodexFile()
    for number in range(300):
        it.turn(number)
    path = it.write(tmp_path, is_compressed=True)
    packed = path.read_bytes()
    path.write_bytes(packed[:-400] + bytes(400) + packed)
    notes = Notes()
    (talk,) = talks_of(TOOL, path, notes)
    words = told(talk)
    assert 200 < len(words) < 600
    assert words[-1] in {f"{kind} {len(words) // 2 - 1}" for kind in ("Question", "Answer")}
    assert notes.skipped["a compressed file is cut off, or damaged"] == 1


@given(st.data())
def test_a_file_with_changed_bytes_tells_what_is_before(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    it = CodexFile()
    for number in range(4):
        it.turn(number)
        it.call(f"call_{number}", "shell", {"command": ["ls"]})
        it.output(f"call_{number}", "a\nb")
    whole_data = it.data()
    is_compressed = data.draw(st.booleans())
    at = data.draw(st.integers(0, len(whole_data) - 1))
    changed = bytearray(whole_data)
    length = data.draw(st.integers(1, 40))
    changed[at : at + length] = data.draw(st.binary(min_size=0, max_size=40))
    folder = tmp_path_factory.mktemp("x")
    path = write_file(folder / NAME, bytes(changed), is_compressed=is_compressed)
    damaged_file = [entries_of(it) for it in talks_of(TOOL, path)]
    path.unlink()
    path = write_file(folder / NAME, whole_data[: whole_data.rfind(b"\n", 0, at) + 1])
    sure = settled_of(main) if (main := first(path)) else []
    if sure:
        assert damaged_file[0][: len(sure)] == sure


GARBAGE = st.one_of(
    st.binary(max_size=40).map(lambda it: it.replace(b"\n", b"")),
    st.sampled_from([b"{}", b"[]", b"7", b'{"type":7}', b'{"payload":null}', b"\0" * 50, b"{"]),
)


@given(
    st.lists(st.tuples(st.integers(0, 60), GARBAGE), max_size=12),
    st.sampled_from(["legacy", "paginated"]),
)
def test_lines_that_say_nothing_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, rubbish: list[tuple[int, bytes]], mode: str
) -> None:
    it = CodexFile(mode=mode)
    it.context()
    it.turn(1)
    it.call("call_1", "exec_command", {"cmd": "ls"})
    it.output("call_1", "a")
    it.turn(2)
    it.event("thread_rolled_back", num_turns=1)
    it.add("compacted", {"message": "So far"})
    it.turn(3)
    home = tmp_path_factory.mktemp("x")
    whole = [entries_of(talk) for talk in talks_of(TOOL, it.write(home))]
    for at, line in rubbish:
        it.lines.insert(at, line)
    notes = Notes()
    assert [entries_of(talk) for talk in talks_of(TOOL, it.write(home), notes)] == whole
    assert sum(notes.skipped.values()) <= len(rubbish)


def test_a_file_whose_first_line_is_torn_is_told(tmp_path: Path) -> None:
    it = CodexFile()
    it.context()
    it.turn(1)
    it.lines[0] = it.lines[0][:40]
    notes = Notes()
    (talk,) = talks_of(TOOL, it.write(tmp_path), notes)
    assert told(talk) == ["Question 1", "Answer 1"]
    assert (talk.arrived.id, talk.arrived.cwd) == (SESSION, CWD)
    assert notes.skipped == {"a line is no JSON": 1}


@given(st.binary(max_size=60), st.integers(0, 4000))
def test_a_compressed_file_with_changed_bytes_is_not_fatal(
    tmp_path_factory: pytest.TempPathFactory, rubbish: bytes, at: int
) -> None:
    path = legacy().write(tmp_path_factory.mktemp("x"), is_compressed=True)
    data = bytearray(path.read_bytes())
    data[at : at + len(rubbish)] = rubbish
    path.write_bytes(bytes(data))
    for talk in talks_of(TOOL, path):
        entries_of(talk)


def first(path: Path) -> Talk | None:
    return next(iter(talks_of(TOOL, path)), None)
