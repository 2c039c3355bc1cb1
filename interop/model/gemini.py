"""Gemini's generateContent. The path, not the body, selects streaming."""

from collections.abc import Iterator
from typing import Any

from interop.model.dialect import Event, ModelMessage, ModelRequest, Reply, Tool, ToolReply, halves
from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]

_USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}


class Gemini:
    """`POST /v1beta/models/…:generateContent` and `:streamGenerateContent`."""

    def __init__(self, *, is_streamed: bool) -> None:
        self._is_streamed = is_streamed

    def read(self, body: Json) -> ModelRequest:
        """Parse a request."""
        declared = (
            as_object(declaration)
            for tool in as_array(body.get("tools"))
            for declaration in as_array(as_object(tool).get("functionDeclarations"))
        )
        return ModelRequest(
            messages=tuple(
                message
                for part in as_array(body.get("contents"))
                for message in _messages(as_object(part))
            ),
            tools=tuple(Tool(str(item.get("name")), _schema(item)) for item in declared),
            is_streamed=self._is_streamed,
            model="gemini",
        )

    def whole(self, reply: Reply, shown: ModelRequest) -> Json:
        """Return a reply as one response."""
        del shown
        return _chunk([*_thoughts(reply), _part(reply)], is_last=True)

    def stream(self, reply: Reply, shown: ModelRequest) -> Iterator[Event]:
        """Yield a reply as events."""
        del shown
        for thought in _thoughts(reply):
            yield None, _chunk([thought], is_last=False)
        if isinstance(reply, ToolReply):
            yield None, _chunk([_part(reply)], is_last=True)
            return
        first, second = halves(reply.text)
        yield None, _chunk([{"text": first}], is_last=False)
        yield None, _chunk([{"text": second}], is_last=True)


def _schema(declaration: Json) -> Json:
    return as_object(declaration.get("parametersJsonSchema") or declaration.get("parameters"))


def _messages(content: Json) -> Iterator[ModelMessage]:
    parts = [as_object(part) for part in as_array(content.get("parts"))]
    results = [as_object(part["functionResponse"]) for part in parts if "functionResponse" in part]
    for result in results:
        response = as_object(result.get("response"))
        yield ModelMessage("tool", as_str(response.get("output")) or str(response))
    if len(results) < len(parts):
        text = "\n".join(as_str(part.get("text")) or "" for part in parts)
        yield ModelMessage("model" if content.get("role") == "model" else "user", text)


def _thoughts(reply: Reply) -> list[Json]:
    return [{"text": reply.thought, "thought": True}] if reply.thought else []


def _part(reply: Reply) -> Json:
    if isinstance(reply, ToolReply):
        return {"functionCall": {"name": reply.name, "args": reply.arguments}}
    return {"text": reply.text}


def _chunk(parts: list[Json], *, is_last: bool) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    if is_last:
        candidate["finishReason"] = "STOP"
    return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": "fake"}
