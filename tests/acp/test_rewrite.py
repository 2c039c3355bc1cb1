import json

from hypothesis import given, strategies as st
from msgspec import Raw

from rekindle.acp.rewrite import with_id, with_session_id


def test_only_the_session_id_changes() -> None:
    line = b'{ "jsonrpc":"2.0", "params" : {"x":1.0e0, "sessionId" : "old" }, "method":"m"}  '
    assert with_session_id(line, "old", "new") == line.replace(b'"old"', b'"new"')


def test_only_the_session_id_in_params_changes_if_it_occurs_twice() -> None:
    inner = {"_meta": {"sessionId": "old"}, "content": "old"}
    line = json.dumps({"method": "m", "params": {"update": inner, "sessionId": "old"}}).encode()
    params = json.loads(with_session_id(line, "old", "new"))["params"]
    assert params == {"update": inner, "sessionId": "new"}


def test_an_escaped_session_id_is_found() -> None:
    line = rb'{"params":{"sessionId":"\u006fld"}}'
    assert json.loads(with_session_id(line, "old", "new")) == {"params": {"sessionId": "new"}}


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")), st.booleans())
def test_any_session_id_can_be_replaced(old: str, new: str, is_ascii: bool) -> None:  # noqa: FBT001
    message = {"method": "m", "params": {"sessionId": old, "text": old}}
    line = json.dumps(message, ensure_ascii=is_ascii).encode()
    rewritten = json.loads(with_session_id(line, old, new))
    assert rewritten == {"method": "m", "params": {"sessionId": new, "text": old}}


def test_the_id_of_a_line_that_cannot_be_decoded_changes() -> None:
    line = b'{"id" : "a\\"b","result":{"id":"c","x":1.}}'
    assert with_id(line, Raw(b"7")) == line.replace(b'"a\\"b"', b"7")
    assert with_id(b'{"id":-5,"result":1.}', Raw(b'"n"')) == b'{"id":"n","result":1.}'
    assert with_id(b"no id", Raw(b"7")) == b"no id"
