"""OpenAI's responses API."""

import json
from collections.abc import Iterator
from typing import Any

from interop.model.dialect import (
    Event,
    ModelMessage,
    ModelRequest,
    Reply,
    Role,
    Tool,
    ToolReply,
    halves,
    number,
)
from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]

_ROLES: dict[str | None, Role] = {"user": "user", "assistant": "model"}
_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 110,
}


class OpenaiResponses:
    """`POST /v1/responses`."""

    def read(self, body: Json) -> ModelRequest:
        """Parse a request."""
        asked = body.get("input")
        items = [{"role": "user", "content": asked}] if isinstance(asked, str) else as_array(asked)
        tools = map(as_object, as_array(body.get("tools")))
        return ModelRequest(
            messages=tuple(
                message for item in items if (message := _message(as_object(item))) is not None
            ),
            tools=tuple(
                Tool(str(tool.get("name")), as_object(tool.get("parameters")))
                for tool in tools
                if tool.get("type") == "function"
            ),
            is_streamed=body.get("stream") is True,
            model=str(body.get("model")),
        )

    def whole(self, reply: Reply, shown: ModelRequest) -> Json:
        """Return a reply as one response."""
        return _response(shown, "completed", [*_thoughts(reply, shown), _item(reply, shown)])

    def stream(self, reply: Reply, shown: ModelRequest) -> Iterator[Event]:
        """Yield a reply as numbered events."""
        for seq, event in enumerate(self._events(reply, shown)):
            yield event["type"], {**event, "sequence_number": seq}

    def _events(self, reply: Reply, shown: ModelRequest) -> Iterator[Json]:
        thoughts = _thoughts(reply, shown)
        whole, place = _item(reply, shown), len(thoughts)
        begun = {**whole, "status": "in_progress"}
        begun |= {"arguments": ""} if isinstance(reply, ToolReply) else {"content": []}
        yield {"type": "response.created", "response": _response(shown, "in_progress", [])}
        for thought in thoughts:
            yield from _thinking(thought)
        yield {"type": "response.output_item.added", "output_index": place, "item": begun}
        where = {"item_id": whole["id"], "output_index": place}
        if isinstance(reply, ToolReply):
            words = {"arguments": whole["arguments"]}
            what = "response.function_call_arguments"
            yield {"type": f"{what}.delta", **where, "delta": whole["arguments"]}
            yield {"type": f"{what}.done", **where, **words}
        else:
            where["content_index"] = 0
            part = whole["content"][0]
            empty = {**part, "text": ""}
            yield {"type": "response.content_part.added", **where, "part": empty}
            for half in halves(reply.text):
                yield {"type": "response.output_text.delta", **where, "delta": half}
            yield {"type": "response.output_text.done", **where, "text": reply.text}
            yield {"type": "response.content_part.done", **where, "part": part}
        yield {"type": "response.output_item.done", "output_index": place, "item": whole}
        output = [*thoughts, whole]
        yield {"type": "response.completed", "response": _response(shown, "completed", output)}


def _message(item: Json) -> ModelMessage | None:
    if str(item.get("type")).endswith("_call_output"):
        return ModelMessage("tool", _text(item.get("output")))
    role = _ROLES.get(as_str(item.get("role")))
    return None if role is None else ModelMessage(role, _text(item.get("content")))


def _text(content: object) -> str:
    parts = (as_str(as_object(part).get("text")) for part in as_array(content))
    return as_str(content) or "\n".join(part for part in parts if part)


def _thoughts(reply: Reply, shown: ModelRequest) -> list[Json]:
    summary = [{"type": "summary_text", "text": reply.thought}]
    item = {"type": "reasoning", "id": f"rs_{number(shown)}", "summary": summary}
    return [item] if reply.thought else []


def _thinking(item: Json) -> Iterator[Json]:
    part = item["summary"][0]
    where = {"item_id": item["id"], "output_index": 0, "summary_index": 0}
    what = "response.reasoning_summary"
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "summary": []}}
    yield {"type": f"{what}_part.added", **where, "part": {**part, "text": ""}}
    for half in halves(part["text"]):
        yield {"type": f"{what}_text.delta", **where, "delta": half}
    yield {"type": f"{what}_text.done", **where, "text": part["text"]}
    yield {"type": f"{what}_part.done", **where, "part": part}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}


def _item(reply: Reply, shown: ModelRequest) -> Json:
    if isinstance(reply, ToolReply):
        return {
            "type": "function_call",
            "id": f"fc_{number(shown)}",
            "call_id": f"call_{number(shown)}",
            "name": reply.name,
            "arguments": json.dumps(reply.arguments),
            "status": "completed",
        }
    return {
        "type": "message",
        "id": f"msg_{number(shown)}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
    }


def _response(shown: ModelRequest, status: str, output: list[Json]) -> Json:
    return {
        "id": f"resp_{number(shown)}",
        "object": "response",
        "created_at": 0,
        "model": shown.model,
        "status": status,
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": _USAGE if status == "completed" else None,
    }
