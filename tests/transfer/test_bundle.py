"""Bundles: a round trip keeps everything, and an incomplete or invalid bundle is rejected."""

import json
from hashlib import sha256

import pytest
from hypothesis import given, settings, strategies as st

from bundles import NOW, changes_of, make_bundle, make_compressed_bundle, read_bundle
from recorded_sessions import answered, asked, opened, told
from rekindle.errors import BadBundle
from rekindle.model import Change, EntryBatch, Kind, Side
from rekindle.store.memory import MemoryStore
from rekindle.transfer.bundle_format import bundle_lines


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "Hello"), told("s1", "Hi"), answered("s1")])
    store.write([opened("s2"), asked("s2", "Bye")])
    return store


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def signed(lines: list[bytes]) -> bytes:
    """Return a bundle of these lines with a correct checksum, as a forger would make it."""
    last = json.loads(lines[-1])
    last["sha256"] = sha256(b"".join(lines[:-1])).hexdigest()
    return b"".join([*lines[:-1], json.dumps(last).encode() + b"\n"])


def changed(line: bytes, /, **members: object) -> bytes:
    return json.dumps(json.loads(line) | members).encode() + b"\n"


@settings(deadline=None)
@given(changes_of("s1"), changes_of("s2"))
def test_bundle_round_trip_keeps_entries_and_titles(one: list[Change], other: list[Change]) -> None:
    store = MemoryStore()
    store.write([*one, *other])
    for pack in (make_bundle, make_compressed_bundle):
        with read_bundle(pack(store, "s1", "s2")) as reader:
            assert [line.session.id for line in reader.sessions] == ["s1", "s2"]
            for number, name in enumerate(("s1", "s2")):
                assert list(reader.entries(number)) == list(store.read(name))
                assert reader.sessions[number].session.titles == store.titles(name)


def test_same_sessions_make_identical_bundles(store: MemoryStore) -> None:
    assert make_compressed_bundle(store, "s1", "s2") == make_compressed_bundle(store, "s1", "s2")


def test_bundle_is_json_lines_with_header_and_end(store: MemoryStore) -> None:
    line = b'{"a":"\xff"}'
    store.write(
        [EntryBatch(session_id="s2", side=Side.AGENT, kind=Kind.OPAQUE, at_us=NOW, data=line)]
    )
    head, session, prompt, opaque, end = map(json.loads, lines_of(make_bundle(store, "s2")))
    assert head == {"rekindle": "bundle", "version": 1}
    assert (session["type"], session["entries"], session["session"]["id"]) == ("session", 2, "s2")
    assert (prompt["type"], prompt["seq"], prompt["side"], prompt["kind"]) == (
        "entry", 1, "client", "prompt",
    )  # fmt: skip
    assert json.loads(prompt["line"])["params"]["prompt"][0]["text"] == "Bye"
    assert opaque["base64"] == "eyJhIjoi/yJ9"
    assert (end["type"], end["sessions"], end["entries"]) == ("end", 1, 2)


def test_truncated_bundle_is_rejected(store: MemoryStore) -> None:
    for data in (make_bundle(store, "s1", "s2"), make_compressed_bundle(store, "s1", "s2")):
        for length in range(0, len(data), 7):
            with pytest.raises(BadBundle):
                read_bundle(data[:length])


@settings(deadline=None)
@given(st.data())
def test_bundle_with_flipped_bit_is_rejected(data: st.DataObject) -> None:
    store = MemoryStore()
    store.write([opened("s1"), asked("s1", "Hello"), answered("s1")])
    whole = make_bundle(store, "s1")
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BadBundle):
        read_bundle(bytes(flipped))


def test_bundle_with_missing_or_extra_lines_is_rejected(store: MemoryStore) -> None:
    lines = lines_of(make_bundle(store, "s1", "s2"))
    for number in range(1, len(lines) - 1):
        with pytest.raises(BadBundle):
            read_bundle(signed(lines[:number] + lines[number + 1 :]))
    with pytest.raises(BadBundle, match="it continues after its end"):
        read_bundle(b"".join([*lines, lines[-1]]))


@pytest.mark.parametrize(
    ("line", "members", "error"),
    [
        (0, {"version": 2}, "it has version 2, but this Rekindle knows only 1; upgrade it"),
        (0, {"rekindle": "store"}, "it is not a Rekindle bundle"),
        (1, {"entries": -1}, "cannot be read"),
        (1, {"entries": 2**40}, "cannot be read"),
        (1, {"type": "thing"}, "cannot be read"),
        (2, {"atUs": -1}, "cannot be read"),
        (2, {"atUs": 10**30}, "cannot be read"),
        (2, {"kind": "unheard of"}, "cannot be read"),
        (2, {"protocol": 0}, "cannot be read"),
        (2, {"line": "a\nb"}, "line 3: entry 1 has more than one line"),
        (2, {"line": None}, "line 3: entry 1 has more than one line"),
        (2, {"seq": 7}, "line 3: entry 1 is missing"),
    ],
)
def test_invalid_line_values_are_rejected(
    store: MemoryStore, line: int, members: dict[str, object], error: str
) -> None:
    lines = lines_of(make_bundle(store, "s1"))
    lines[line] = changed(lines[line], **members)
    with pytest.raises(BadBundle, match=error):
        read_bundle(signed(lines))


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"id": ""}, "a session has no id"),
        ({"id": "x" * 100_000}, "is too long"),
        ({"directories": ["d"] * 20_000}, "is too long"),
        ({"createdUs": -5}, "has no valid time"),
        ({"turns": 10**18}, "more turns than entries"),
        ({"cwd": "\ud800"}, "cannot be read"),
    ],
)
def test_oversized_session_metadata_is_rejected(
    store: MemoryStore, members: dict[str, object], error: str
) -> None:
    lines = lines_of(make_bundle(store, "s1"))
    lines[1] = changed(lines[1], session=json.loads(lines[1])["session"] | members)
    with pytest.raises(BadBundle, match=error):
        read_bundle(signed(lines))


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"PK\x03\x04", b"[]\n", b"\x1f\x8b", b"[" * 100_000 + b"\n", b"\x00" * 50],
)
def test_file_that_is_not_a_bundle_is_rejected(data: bytes) -> None:
    with pytest.raises(BadBundle):
        read_bundle(data)


def test_deeply_nested_json_is_rejected(store: MemoryStore) -> None:
    lines = lines_of(make_bundle(store, "s1"))
    lines[2] = b'{"type":"entry","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    with pytest.raises(BadBundle):
        read_bundle(signed(lines))


def test_session_removed_during_export_raises(store: MemoryStore) -> None:
    session = store.session("s1")
    with pytest.raises(BadBundle, match="removed meanwhile"):
        list(bundle_lines([(session, {}, [])]))


def test_entries_recorded_during_export_are_left_out(store: MemoryStore) -> None:
    session = store.session("s1")
    store.write([asked("s1", "more")])
    with read_bundle(b"".join(bundle_lines([(session, {}, store.read("s1"))]))) as reader:
        assert len(list(reader.entries(0))) == 3
