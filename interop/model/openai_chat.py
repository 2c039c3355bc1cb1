"""OpenAI's chat completions API."""

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

_ROLES: dict[str | None, Role] = {"user": "user", "assistant": "model", "tool": "tool"}
_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


class OpenaiChat:
    """`POST /v1/chat/completions`."""

    def read(self, body: Json) -> ModelRequest:
        """Parse a request."""
        messages = map(as_object, as_array(body.get("messages")))
        functions = (
            as_object(as_object(item).get("function")) for item in as_array(body.get("tools"))
        )
        return ModelRequest(
            messages=tuple(
                ModelMessage(role, _text(message.get("content")))
                for message in messages
                if (role := _ROLES.get(as_str(message.get("role")))) is not None
            ),
            tools=tuple(
                Tool(str(function.get("name")), as_object(function.get("parameters")))
                for function in functions
            ),
            is_streamed=body.get("stream") is True,
            model=str(body.get("model")),
        )

    def whole(self, reply: Reply, shown: ModelRequest) -> Json:
        """Return a reply as one response."""
        message: Json = {"role": "assistant", **_content(reply, shown)}
        choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
        return {**_head(shown, "chat.completion"), "choices": [choice], "usage": _USAGE}

    def stream(self, reply: Reply, shown: ModelRequest) -> Iterator[Event]:
        """Yield a reply as events."""
        head = _head(shown, "chat.completion.chunk")
        for delta in _deltas(reply, shown):
            yield None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        end: Json = {"index": 0, "delta": {}, "finish_reason": _reason(reply)}
        yield None, {**head, "choices": [end], "usage": _USAGE}
        yield None, "[DONE]"


def _head(shown: ModelRequest, kind: str) -> Json:
    return {"id": f"chat_{number(shown)}", "object": kind, "created": 0, "model": shown.model}


def _text(content: object) -> str:
    parts = (as_str(as_object(part).get("text")) for part in as_array(content))
    return as_str(content) or "\n".join(part for part in parts if part)


def _content(reply: Reply, shown: ModelRequest) -> Json:
    thought = {"reasoning_content": reply.thought} if reply.thought else {}
    if not isinstance(reply, ToolReply):
        return {"content": reply.text, **thought}
    function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
    call = {"index": 0, "id": f"call_{number(shown)}", "type": "function", "function": function}
    return {"content": None, "tool_calls": [call], **thought}


def _deltas(reply: Reply, shown: ModelRequest) -> Iterator[Json]:
    if isinstance(reply, ToolReply):
        yield {"role": "assistant", **_content(reply, shown)}
        return
    first, second = halves(reply.text)
    if reply.thought:
        yield {"role": "assistant", "reasoning_content": reply.thought}
    yield {"role": "assistant", "content": first}
    yield {"content": second}


def _reason(reply: Reply) -> str:
    return "tool_calls" if isinstance(reply, ToolReply) else "stop"
