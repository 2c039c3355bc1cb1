import json

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET, Raw

from rekindle.acp.jsonrpc import error_response, read_envelope, request, request_key, split_batch
from rekindle.jsonvalue import as_array, as_object, as_str, decode, decode_object, encode

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
DEEP = b'{"method":"x","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("line", "is_request", "is_response"),
    [
        (b'{"id":1,"method":"m"}', True, False),
        (b'{"id":null,"method":"m"}', True, False),
        (b'{"method":"m"}', False, False),
        (b'{"id":1,"result":null}', False, True),
        (b'{"id":1,"error":{}}', False, True),
        (b'{"id":1}', False, False),
        (b'{"id":1,"method":5,"result":1}', False, True),
        (b" {} \r", False, False),
    ],
)
def test_requests_and_responses_are_distinguished(
    line: bytes, *, is_request: bool, is_response: bool
) -> None:
    message = read_envelope(line)
    assert message is not None
    assert message.is_request is is_request
    assert message.is_response is is_response


@pytest.mark.parametrize(
    "line", [b"", b"hello", b"17", b"null", b"[]", b'{"a":', b"\xff\xfe", b'{"a":1}{', DEEP]
)
def test_a_line_that_is_not_an_object_is_not_a_message(line: bytes) -> None:
    assert read_envelope(line) is None


@pytest.mark.parametrize(
    "broken",
    [rb"\ud83d", b"\xff\xfe", "\u2028".encode(), rb"\u0000"],
    ids=["lone surrogate", "invalid UTF-8", "line separator", "NUL"],
)
def test_invalid_text_does_not_hide_the_envelope(broken: bytes) -> None:
    line = (
        b'{"method":"session/update","params":{"sessionId":"s","update":'
        b'{"sessionUpdate":"plan","content":"' + broken + b'"}}}'
    )
    message = read_envelope(line)
    assert message is not None
    assert message.method == "session/update"
    assert message.session_id == "s"
    assert message.params is not UNSET
    assert message.params.update is not UNSET
    assert message.params.update.kind == "plan"


@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"m","params":[1]}',
        b'{"method":"m","params":null}',
        b'{"method":"m","params":{"sessionId":5,"update":[]}}',
        b'{"method":"m","params":{"update":{"sessionUpdate":null}}}',
        b'{"method":"m"}',
    ],
)
def test_fields_of_unexpected_types_count_as_missing(line: bytes) -> None:
    message = read_envelope(line)
    assert message is not None
    assert message.method == "m"
    assert message.session_id is None


@given(st.binary())
def test_reading_any_bytes_never_raises(line: bytes) -> None:
    read_envelope(line)
    split_batch(line)


@given(JSON)
def test_reading_any_json_never_raises(value: object) -> None:
    line = json.dumps(value).encode()
    assert (read_envelope(line) is not None) is isinstance(value, dict)
    assert decode(line) == value


@given(JSON)
def test_encoded_values_can_be_decoded(value: object) -> None:
    assert json.loads(encode(value)) == value


def test_lone_surrogates_survive_encoding() -> None:
    assert encode({"a": "\ud83d"}) == rb'{"a":"\ud83d"}'


@pytest.mark.parametrize(
    ("line", "batch"),
    [
        (b'[{"id":1}, {"id":2}]', [b'{"id":1}', b'{"id":2}']),
        (rb' [{"a":"\ud83d"}]', [rb'{"a":"\ud83d"}']),
        (b"[]", []),
        (b"[1", None),
        (b"{}", None),
        (b"[" * 100_000, None),
    ],
)
def test_batches_are_split(line: bytes, batch: list[bytes] | None) -> None:
    assert split_batch(line) == batch


def test_ids_are_compared_by_value() -> None:
    assert request_key(Raw(b'"a"')) == request_key(Raw(rb'"\u0061"'))
    assert request_key(Raw(b"1")) == request_key(Raw(b"1.0"))
    assert request_key(Raw(b"1")) != request_key(Raw(b'"1"'))
    assert request_key(Raw(b"null")) == request_key(Raw(b"null"))
    assert request_key(Raw(b"null")) != request_key(Raw(b"0"))


@pytest.mark.parametrize("raw", [b"true", b"[1]", b"{}"])
def test_an_invalid_id_has_no_key(raw: bytes) -> None:
    assert request_key(Raw(raw)) is None


def test_values_of_the_wrong_type_are_empty() -> None:
    assert as_object([1]) == {}
    assert as_array({"a": 1}) == []
    assert as_str(5) is None
    assert decode_object(b"[1]") is None


def test_any_text_can_be_stored() -> None:
    assert as_str("a\ud83db") == "a\\ud83db"
    assert as_str("😀") == "😀"


def test_messages_are_written() -> None:
    assert json.loads(request(1, "m", {"a": 2})) == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "m",
        "params": {"a": 2},
    }
    assert json.loads(error_response(Raw(b'"x"'), -32602, "no")) == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {"code": -32602, "message": "no"},
    }
    assert json.loads(error_response(None, -32700, "no", [1]))["error"]["data"] == [1]


def test_a_response_with_invalid_text_keeps_its_id() -> None:
    line = error_response(Raw(b'{"a":"b"}'), -1, "no", {"value": "\ud800"})
    assert json.loads(line)["id"] == {"a": "b"}
    with pytest.raises(TypeError, match="no JSON"):
        encode(["\ud800", object()])


def test_a_number_that_is_too_large_becomes_null() -> None:
    """JSON cannot express infinity, so it could not be encoded again."""
    assert decode(b'[1e999, -1e999, NaN, Infinity, "\\ud800", 1.5]') == [
        None,
        None,
        None,
        None,
        "\ud800",
        1.5,
    ]
