"""JSON is decoded and read without exceptions, and encoded as one line."""

import pytest
from msgspec import Raw

from rekindle.jsonvalue import (
    MAX_DEPTH,
    as_array,
    as_object,
    as_str,
    decode,
    decode_object,
    encode,
    without,
)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": [1, null]}', {"a": [1, None]}),
        (b"no JSON", None),
        (b"", None),
        (b'"\xff"', "\ufffd"),
        (b'{"\xff": 1}', {"\ufffd": 1}),
        (b"[1e400, -1e400, NaN, Infinity]", [None, None, None, None]),
        (b'["\xff", 1.5]', ["\ufffd", 1.5]),
        pytest.param(b"9" * 5000, None, id="number"),
    ],
)
def test_decode_replaces_what_cannot_be_read(line: bytes, value: object) -> None:
    assert decode(line) == value
    assert decode(Raw(line)) == value


def test_decode_limits_the_depth_and_not_the_number_of_values() -> None:
    assert decode(nested(MAX_DEPTH)) is not None
    assert decode(nested(MAX_DEPTH + 1)) is None
    assert decode(b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1)) is None
    assert decode(nested(100_000)) is None
    assert decode(b"[" + b"[]," * 1000 + b"{}]") == [*([[]] * 1000), {}]
    assert decode(b'"' + b"[" * 1000 + b'"') == "[" * 1000


def test_decode_object_accepts_only_objects() -> None:
    assert decode_object(b'{"a": 1}') == {"a": 1}
    assert decode_object(b"[1]") is None
    assert decode_object(b"{") is None


def test_encode_writes_one_line() -> None:
    assert encode({"a": "é\n", "b": Raw(b"[1]")}) == '{"a":"é\\n","b":[1]}'.encode()


def test_encode_escapes_lone_surrogates() -> None:
    line = encode({"a": "\ud800", "b": Raw(b'{"c": 1}')})
    assert line == b'{"a":"\\ud800","b":{"c":1}}'


def test_encode_refuses_values_that_are_not_json() -> None:
    with pytest.raises(TypeError, match="no JSON"):
        encode(["\ud800", Exception])


def test_values_of_another_type_are_read_as_empty() -> None:
    assert (as_object({"a": 1}), as_object([1]), as_object(None)) == ({"a": 1}, {}, {})
    assert (as_array([1]), as_array({"a": 1}), as_array(None)) == ([1], [], [])
    assert (as_str("a"), as_str(1), as_str(None)) == ("a", None, None)


def test_as_str_escapes_lone_surrogates() -> None:
    assert as_str("a\ud800") == "a\\ud800"


def test_without_leaves_out_the_named_fields() -> None:
    assert without({"a": 1, "b": 2, "c": 3}, "a", "c", "d") == {"b": 2}
    assert without({"a": 1}) == {"a": 1}
