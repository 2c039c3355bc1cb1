"""Anthropic's messages."""

import json
from collections.abc import Iterator
from typing import Any

from interop.model.conversation import Call, Reply, Said, Shown, Tool
from interop.model.dialect import Event, halves, number
from rekindle.wire.envelope import rows, table, text

Json = dict[str, Any]

_USAGE = {"input_tokens": 100, "output_tokens": 10}


class Anthropic:
    """`POST /v1/messages`."""

    def read(self, body: Json) -> Shown:
        """Return what a request shows."""
        tools = map(table, rows(body.get("tools")))
        return Shown(
            said=tuple(it for part in rows(body.get("messages")) for it in _said(table(part))),
            tools=tuple(Tool(str(it.get("name")), table(it.get("input_schema"))) for it in tools),
            is_streamed=body.get("stream") is True,
            model=str(body.get("model")),
        )

    def whole(self, reply: Reply, shown: Shown) -> Json:
        """Return an answer in one piece."""
        return {**_head(shown), "content": [_block(reply, shown)], "stop_reason": _reason(reply)}

    def stream(self, reply: Reply, shown: Shown) -> Iterator[Event]:
        """Yield an answer as events."""
        for event in self._events(reply, shown):
            yield event["type"], event

    def _events(self, reply: Reply, shown: Shown) -> Iterator[Json]:
        yield {"type": "message_start", "message": _head(shown)}
        begun = _block(reply, shown)
        begun |= {"input": {}} if isinstance(reply, Call) else {"text": ""}
        yield {"type": "content_block_start", "index": 0, "content_block": begun}
        for delta in _deltas(reply):
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        end = {"stop_reason": _reason(reply), "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": _USAGE}
        yield {"type": "message_stop"}


def _head(shown: Shown) -> Json:
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


def _said(message: Json) -> Iterator[Said]:
    """Yield what a message has: results of tools come as messages of the user."""
    content = message.get("content")
    words = text(content)
    blocks = [{"type": "text", "text": words}] if words is not None else rows(content)
    results = [table(it) for it in blocks if table(it).get("type") == "tool_result"]
    for block in results:
        inner = block.get("content")
        yield Said("tool", text(inner) or _words(rows(inner)))
    if len(results) < len(blocks):
        yield Said("model" if message.get("role") == "assistant" else "user", _words(blocks))


def _words(blocks: list[Any]) -> str:
    parts = (text(table(block).get("text")) for block in blocks)
    return "\n".join(part for part in parts if part)


def _block(reply: Reply, shown: Shown) -> Json:
    if isinstance(reply, Call):
        call_id = f"toolu_{number(shown)}"
        return {"type": "tool_use", "id": call_id, "name": reply.name, "input": reply.arguments}
    return {"type": "text", "text": reply.text}


def _deltas(reply: Reply) -> Iterator[Json]:
    if isinstance(reply, Call):
        yield {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
        return
    for half in halves(reply.text):
        yield {"type": "text_delta", "text": half}


def _reason(reply: Reply) -> str:
    return "tool_use" if isinstance(reply, Call) else "end_turn"
