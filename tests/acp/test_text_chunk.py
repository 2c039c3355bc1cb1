import json
from typing import Any

import pytest

from rekindle.acp.text_chunk import read_text_chunk


def line(**update: Any) -> bytes:  # noqa: ANN401 - any update
    return json.dumps({"params": {"update": update}}).encode()


TEXT = {"type": "text", "text": "hello"}


def test_a_chunk_of_plain_text_is_read() -> None:
    chunk = read_text_chunk(line(sessionUpdate="agent_message_chunk", content=TEXT, messageId="m"))
    assert chunk is not None
    assert (chunk.kind, chunk.message_id) == ("agent_message_chunk", "m")
    assert chunk.content.text == "hello"


@pytest.mark.parametrize(
    "update",
    [
        {"content": TEXT},
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "text": ""}},
        {"sessionUpdate": "agent_message_chunk", "content": {**TEXT, "annotations": {}}},
        {"sessionUpdate": "agent_message_chunk", "content": TEXT, "_meta": {}},
        {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": 7},
    ],
)
def test_any_other_update_is_left_to_the_full_parser(update: dict[str, Any]) -> None:
    assert read_text_chunk(line(**update)) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"params":{"update":"\xff"}}'])
def test_invalid_lines_are_not_chunks(data: bytes) -> None:
    assert read_text_chunk(data) is None
