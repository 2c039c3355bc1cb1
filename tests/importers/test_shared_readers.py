"""The code that importers share: lines, records, ids, times, entries."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec import Raw, Struct

from rekindle.importers import line_reader as line_reader_module
from rekindle.importers.base import EntryCounts, ImportNotes
from rekindle.importers.entry_builder import (
    MAX_TIME_US,
    EntryBuilder,
    TimestampParser,
    plan_entry,
    text_block,
)
from rekindle.importers.id_index import IdIndex
from rekindle.importers.lenient_reader import LenientReader, is_json_string
from rekindle.importers.line_reader import LineReader
from rekindle.transcript.model import TranscriptMessage
from rekindle.transcript.reducer import fold


@given(st.lists(st.binary(max_size=50).map(lambda line: line.replace(b"\n", b"")), max_size=20))
def test_only_newlines_end_a_line(
    tmp_path_factory: pytest.TempPathFactory, said: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("x") / "f"
    path.write_bytes(b"".join(line + b"\n" for line in said))
    marked = [item.removeprefix(b"\xef\xbb\xbf") if not n else item for n, item in enumerate(said)]
    assert [line for _, line in LineReader(path)] == marked
    places = [place for place, _ in LineReader(path)]
    for place, line in zip(places, said, strict=True):
        assert path.read_bytes()[place : place + len(line)] == line
    checksum, scan_each = LineReader(path).with_checksum()
    assert len(list(scan_each)) == len(said)
    assert checksum.hexdigest == sha256(path.read_bytes()).hexdigest()


def test_last_line_without_newline_is_read_and_marked_as_torn(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes("\ufeffone\ntwo \u2028\u0085\r\nthr".encode())
    lines = LineReader(path)
    assert [line.decode() for _, line in lines] == ["one", "two \u2028\u0085\r", "thr"]
    assert lines.is_torn


def test_bytes_after_the_end_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\nthree\n")
    assert [line for _, line in LineReader(path, 4, 10)] == [b"two", b"th"]


def test_too_long_line_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader_module, "MAX_LINE_BYTES", 10)
    path = tmp_path / "f"
    for data in (b"a\n" + b"x" * 35 + b"\nb\n" + b"y" * 11 + b"\nc", b"a\nb\nc\n" + b"z" * 99):
        path.write_bytes(data)
        lines = LineReader(path)
        assert [line for _, line in lines] == [b"a", b"b", b"c"]
        assert lines.too_long == data.count(b"xxx") // 11 + data.count(b"y" * 11) + (b"z" in data)
        assert [data[place : place + 1] for place, _ in LineReader(path)] == [b"a", b"b", b"c"]


class Inner(Struct):
    """A part."""

    a: str = ""
    raw: Raw = Raw()


class Outer(Struct, rename="camel"):
    """The whole."""

    some_name: str | None = None
    inner: Inner | None = None
    several: list[Inner] = []
    either: str | list[Inner] = ""


read = LenientReader(Outer)


@pytest.mark.parametrize(
    ("line", "name", "inner", "several"),
    [
        (b'{"someName":"x","inner":{"a":"y","raw":[1]},"z":1}', "x", "y", 0),
        (b'\0\0 {"someName":"x"}\0\0', "x", None, 0),
        (b'{"someName":"\\ud83d!"}', "\ufffd!", None, 0),
        (b'{"someName":"\xff"}', "\ufffd", None, 0),
        (b'{"someName":5,"inner":{"a":"y","raw":"\xff"}}', None, "y", 0),
        (b'{"inner":{"a":5,"raw":1},"several":[{"a":"1"},2,{"a":3}]}', None, "", 2),
        (b'{"inner":[],"several":{},"either":[{"a":1},"x"]}', None, None, 0),
        (b'{"someName":"x","deep":' + b"[" * 300 + b"]" * 300 + b"}", "x", None, 0),
    ],
)
def test_invalid_fields_of_a_record_get_their_defaults(
    line: bytes, name: str | None, inner: str | None, several: int
) -> None:
    record = read(line)
    assert record is not None
    assert record.some_name == name
    assert (record.inner.a if record.inner else None) == inner
    assert len(record.several) == several


@pytest.mark.parametrize("line", [b"", b"[]", b"5", b'{"a":', b"\0\0", b"[" * 100_000, b'"x"'])
def test_line_that_is_not_an_object_is_rejected(line: bytes) -> None:
    assert read(line) is None


def test_undecoded_strings_are_recognised() -> None:
    record = read('{"inner":{"raw":"\N{GRINNING FACE}"}}'.encode())
    assert record is not None
    assert record.inner is not None
    assert is_json_string(record.inner.raw)
    assert not is_json_string(Raw(b"5"))
    assert not is_json_string(Raw())


def test_id_index_finds_old_and_recent_ids() -> None:
    uuids = IdIndex()
    for number in range(150_000):
        uuids.add(f"name {number}", number)
    assert [uuids.find(f"name {number}") for number in (0, 70_000, 149_999)] == [0, 70_000, 149_999]
    assert uuids.find("nobody") is None
    assert uuids.is_recent("name 149999")
    assert not uuids.is_recent("name 5")


@pytest.mark.parametrize(
    ("written", "at_us"),
    [
        ("2025-10-09T00:00:01.123Z", 1_759_968_001_123_000),
        ("2025-10-09T00:00:59.999Z", 1_759_968_059_999_000),
        ("2025-10-09T00:00:01.12aZ", None),
        ("2025-10-09T00:00:0\u0661.123Z", None),
        ("2025-10-09T02:00:01.123+02:00", 1_759_968_001_123_000),
        ("2025-10-09T00:00:01", 1_759_968_001_000_000),
        ("1969-12-31T23:59:59Z", None),
        ("9999-12-31T23:59:59.999-12:00", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_timestamps_are_parsed_or_rejected(written: str | None, at_us: int | None) -> None:
    clock = TimestampParser()
    clock.parse("2025-10-09T00:00:30.000Z")
    assert clock.parse(written) == TimestampParser().parse(written) == at_us


def test_builder_ignores_times_out_of_range() -> None:
    builder = EntryBuilder("s", EntryCounts(), 5)
    for at_us in (7, None, -1, MAX_TIME_US + 1):
        builder.set_time(at_us)
        builder.add_agent_text("x")
    assert {entry.at_us for entry in builder.take_entries()} == {7}


def test_message_that_continues_after_another_item_gets_a_new_id() -> None:
    builder = EntryBuilder("s", counts := EntryCounts())
    builder.add_prompt("p", [text_block("Go")])
    for texts in ("One", "."):
        builder.add_agent_text(texts, "m")
    builder.add_tool_call("c", title="C", status="pending")
    builder.add_agent_text("Two", "m")
    # An update of a call does not interrupt the message.
    builder.update_tool_call("c", status="completed")
    builder.add_agent_text(".", "m")
    builder.add_thought("Hm", "m")
    builder.add_agent_text("Three.", "m")
    builder.add_plan([plan_entry("Do", "pending")])
    builder.add_agent_text("Four.", "m")
    builder.add_agent_text("Another.", "n")
    builder.end_turn()
    (turn,) = fold(builder.take_entries()).turns
    items = [
        item.text if isinstance(item, TranscriptMessage) else type(item).__name__
        for item in turn.items
    ]
    assert items == [
        "Go", "One.", "ToolCallItem", "Two.", "Hm", "Three.", "PlanItem", "Four.", "Another.",
    ]  # fmt: skip
    assert counts.messages == 6


def test_notes_limit_reasons_and_count_each_section_once() -> None:
    notes = ImportNotes()
    for number in range(100):
        notes.skip(f"reason {number}" + "x" * 1000)
    assert len(notes.skipped) == 51
    assert sum(notes.skipped.values()) == 100
    assert max(map(len, notes.skipped)) == 80
    for _ in range(3):
        notes.restart("part").skip("again")
    assert notes.skipped["again"] == 1


def test_notes_keep_the_first_place_of_each_reason() -> None:
    notes = ImportNotes()
    notes.skip("unknown")
    part = notes.restart("part")
    for line in (3, 5):
        part.place = lambda line=line: f"f, line {line}"
        part.skip("in a line")
        part.skip("named", place="g, line 1")
    part.skip("nothing", 0)
    expected = {"unknown": "", "in a line": "f, line 3", "named": "g, line 1"}
    assert notes.places == expected
    assert notes.skipped == {"unknown": 1, "in a line": 2, "named": 2}


def test_reader_knows_the_number_of_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_reader_module, "MAX_LINE_BYTES", 10)
    path = tmp_path / "f"
    path.write_bytes(b"a\n\n" + b"x" * 35 + b"\nb\n" + b"y" * 11 + b"\nc")
    lines = LineReader(path)
    for _ in range(2):
        assert [(line, lines.place()) for _, line in lines] == [
            (b"a", f"{path}, line 1"),
            (b"", f"{path}, line 2"),
            (b"b", f"{path}, line 4"),
            (b"c", f"{path}, line 6"),
        ]
    assert lines.too_long_place == f"{path}, line 3"
    later = LineReader(path, 3, lines_before=2)
    assert [later.place() for _ in later][:1] == [f"{path}, line 4"]
