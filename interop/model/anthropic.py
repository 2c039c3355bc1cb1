"""Anthropic's messages API."""

import json
from collections.abc import Iterator
from typing import Any

from interop.model.dialect import (
    Event,
    ModelMessage,
    ModelRequest,
    Reply,
    Tool,
    ToolReply,
    halves,
    number,
)
from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]

_USAGE = {"input_tokens": 100, "output_tokens": 10}
_SIGNATURE = "c2lnbmVk"
_EMPTY: dict[str, Json] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}
"""The empty fields of a block at its start in a stream."""


class Anthropic:
    """`POST /v1/messages`."""

    def read(self, body: Json) -> ModelRequest:
        """Parse a request."""
        tools = map(as_object, as_array(body.get("tools")))
        return ModelRequest(
            messages=tuple(
                message
                for part in as_array(body.get("messages"))
                for message in _messages(as_object(part))
            ),
            tools=tuple(
                Tool(str(tool.get("name")), as_object(tool.get("input_schema"))) for tool in tools
            ),
            is_streamed=body.get("stream") is True,
            model=str(body.get("model")),
        )

    def whole(self, reply: Reply, shown: ModelRequest) -> Json:
        """Return a reply as one response."""
        content = [block for block, _ in _blocks(reply, shown)]
        return {**_head(shown), "content": content, "stop_reason": _reason(reply)}

    def stream(self, reply: Reply, shown: ModelRequest) -> Iterator[Event]:
        """Yield a reply as events."""
        for event in self._events(reply, shown):
            yield event["type"], event

    def _events(self, reply: Reply, shown: ModelRequest) -> Iterator[Json]:
        yield {"type": "message_start", "message": _head(shown)}
        for index, (block, deltas) in enumerate(_blocks(reply, shown)):
            begun = block | _EMPTY[block["type"]]
            yield {"type": "content_block_start", "index": index, "content_block": begun}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        end = {"stop_reason": _reason(reply), "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": _USAGE}
        yield {"type": "message_stop"}


def _head(shown: ModelRequest) -> Json:
    return {
        "id": f"msg_{number(shown)}",
        "type": "message",
        "role": "assistant",
        "model": shown.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _messages(message: Json) -> Iterator[ModelMessage]:
    """Yield the messages in one message: tool results are part of messages of the user."""
    content = message.get("content")
    text = as_str(content)
    blocks = [{"type": "text", "text": text}] if text is not None else as_array(content)
    results = [as_object(item) for item in blocks if as_object(item).get("type") == "tool_result"]
    for block in results:
        inner = block.get("content")
        yield ModelMessage("tool", as_str(inner) or _text(as_array(inner)))
    if len(results) < len(blocks):
        yield ModelMessage("model" if message.get("role") == "assistant" else "user", _text(blocks))


def _text(blocks: list[Any]) -> str:
    parts = (as_str(as_object(block).get("text")) for block in blocks)
    return "\n".join(part for part in parts if part)


def _blocks(reply: Reply, shown: ModelRequest) -> Iterator[tuple[Json, list[Json]]]:
    """Yield the blocks of a reply, each with its deltas."""
    if reply.thought:
        thinking = {"type": "thinking", "thinking": reply.thought, "signature": _SIGNATURE}
        pieces = [{"type": "thinking_delta", "thinking": half} for half in halves(reply.thought)]
        yield thinking, [*pieces, {"type": "signature_delta", "signature": _SIGNATURE}]
    if isinstance(reply, ToolReply):
        call_id = f"toolu_{number(shown)}"
        call = {"type": "tool_use", "id": call_id, "name": reply.name, "input": reply.arguments}
        arguments = json.dumps(reply.arguments)
        yield call, [{"type": "input_json_delta", "partial_json": arguments}]
    else:
        pieces = [{"type": "text_delta", "text": half} for half in halves(reply.text)]
        yield {"type": "text", "text": reply.text}, pieces


def _reason(reply: Reply) -> str:
    return "tool_use" if isinstance(reply, ToolReply) else "end_turn"
