"""How version 1 puts what the agent tells."""

from collections.abc import Iterable, Iterator

from rekindle.example_agent.dialect import chunk, text_block
from rekindle.example_agent.rpc import Json


class DialectV1:
    """Messages come in chunks, terminals as text; there are no states."""

    withdraws_questions = False

    def __init__(self, *, message_ids: bool) -> None:
        self._message_ids = message_ids

    def live(self, update: Json) -> Iterator[Json]:
        """Yield what is sent for an update."""
        for told in _told(update):
            if not self._message_ids:
                told.pop("messageId", None)
            yield told

    def again(self, updates: Iterable[Json]) -> Iterator[Json]:
        """Yield what is sent for a conversation: the same as when it happened."""
        for update in updates:
            yield from self.live(update)

    def question(self, call: Json, options: list[Json]) -> Json:
        """Return the question before a tool call."""
        told = _call(call)
        del told["sessionUpdate"]
        return {"toolCall": told, "options": options}


def _told(update: Json) -> Iterator[Json]:
    match update:
        case {"sessionUpdate": "state_update"}:
            pass
        case {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}:
            for block in blocks:
                yield chunk("user_message_chunk", message_id, block)
        case {"toolCallId": _}:
            yield _call(update)
        case _:
            yield dict(update)


def _call(update: Json) -> Json:
    told = dict(update)
    if "content" in update:
        told["content"] = [_content(item) for item in update["content"]]
    if update.get("status") == "cancelled":
        told["status"] = "failed"
    return told


def _content(item: Json) -> Json:
    match item:
        case {"type": "terminal", "output": str(output)}:
            return {"type": "content", "content": text_block(output)}
        case _:
            return item
