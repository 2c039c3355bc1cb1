"""How version 2 puts what the agent tells."""

import base64
import itertools
from collections.abc import Iterable, Iterator

from rekindle.example_agent.dialect import chunk, text_block
from rekindle.example_agent.rpc import Json
from rekindle.example_agent.v2.patch import diff

_PLAN_ID = "main"  # there is one plan a session, as in version 1
# Small, so that even a short output comes in several chunks, each of them encoded on its own.
_BYTES_A_CHUNK = 4
_PIECES_A_UPDATE = 10_000  # so that a count to ten million is not one line


class DialectV2:
    """Everything has an id and is created or changed by it. States tell who has the word."""

    withdraws_questions = True

    def __init__(self, *, echo_in_chunks: bool) -> None:
        self._echo_in_chunks = echo_in_chunks

    def live(self, update: Json) -> Iterator[Json]:
        """Yield what is sent for an update when it happens."""
        match update:
            case {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks} if (
                self._echo_in_chunks
            ):
                for block in blocks:
                    yield chunk("user_message_chunk", message_id, block)
            case {"toolCallId": _}:
                yield from _live_call(update)
            case {"sessionUpdate": "plan", "entries": entries}:
                yield _plan(entries)
            case _:
                yield update

    def again(self, updates: Iterable[Json]) -> Iterator[Json]:
        """Yield what is sent for a conversation: whole messages, and terminals that have ended."""
        for (kind, message_id), group in itertools.groupby(updates, _message):
            if kind.endswith("_chunk"):
                yield from _whole_message(kind, message_id, group)
            else:
                for update in group:
                    yield from _again(update)

    def question(self, call: Json, options: list[Json]) -> Json:
        """Return the question before a tool call."""
        told = _call(call)
        del told["sessionUpdate"]
        return {
            "title": f"Allow: {call['title']}",
            "subject": {"type": "tool_call", "toolCall": told},
            "options": options,
        }


def _message(update: Json) -> tuple[str, str]:
    return update["sessionUpdate"], update.get("messageId", "")


def _whole_message(kind: str, message_id: str, chunks: Iterator[Json]) -> Iterator[Json]:
    """Yield a message as one update; a very long count goes on in chunks."""
    texts = (it["content"]["text"] for it in chunks)
    first = "".join(itertools.islice(texts, _PIECES_A_UPDATE))
    yield {
        "sessionUpdate": kind.removesuffix("_chunk"),
        "messageId": message_id,
        "content": [text_block(first)],
    }
    while more := "".join(itertools.islice(texts, _PIECES_A_UPDATE)):
        yield chunk(kind, message_id, text_block(more))


def _again(update: Json) -> Iterator[Json]:
    match update:
        case {"toolCallId": _}:
            for terminal in _terminals(update):
                yield {**_opened(terminal), **_output(terminal), **_exited(terminal)}
            yield _call(update)
        case {"sessionUpdate": "plan", "entries": entries}:
            yield _plan(entries)
        case _:
            yield update


def _plan(entries: list[Json]) -> Json:
    plan = {"type": "items", "planId": _PLAN_ID, "entries": entries}
    return {"sessionUpdate": "plan_update", "plan": plan}


def _live_call(update: Json) -> Iterator[Json]:
    """Yield an update of a tool call. A terminal is opened in it and written to before that."""
    told = _call(update)
    for terminal in _terminals(update):
        yield _opened(terminal)
        yield {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": update["toolCallId"],
            "content": _content(terminal),
        }
        yield from _output_chunks(terminal)
        yield _exited(terminal)
        told.pop("content", None)  # the chunks have said it
    yield told


def _call(update: Json) -> Json:
    told = {**update, "sessionUpdate": "tool_call_update"}
    if "content" in update:
        told["content"] = [_content(item) for item in update["content"]]
    return told


def _content(item: Json) -> Json:
    match item:
        case {"type": "terminal", "terminalId": terminal_id}:
            return {"type": "terminal", "terminalId": terminal_id}
        case {"type": "diff", "path": path, "oldText": old, "newText": new}:
            return diff(path, old, new)
        case _:
            return item


# Terminals.


def _terminals(update: Json) -> list[Json]:
    return [item for item in update.get("content", []) if item["type"] == "terminal"]


def _terminal_update(terminal: Json, **changes: object) -> Json:
    return {
        "sessionUpdate": "terminal_update",
        "terminalId": terminal["terminalId"],
        **changes,
    }


def _opened(terminal: Json) -> Json:
    return _terminal_update(terminal, command=terminal["command"], cwd=terminal["cwd"])


def _output(terminal: Json) -> Json:
    return _terminal_update(terminal, output={"data": _base64(terminal["output"].encode())})


def _exited(terminal: Json) -> Json:
    return _terminal_update(terminal, exitStatus={"exitCode": terminal["exitCode"]})


def _output_chunks(terminal: Json) -> Iterator[Json]:
    output = terminal["output"].encode()
    for start in range(0, len(output), _BYTES_A_CHUNK):
        yield {
            "sessionUpdate": "terminal_output_chunk",
            "terminalId": terminal["terminalId"],
            "data": _base64(output[start : start + _BYTES_A_CHUNK]),
        }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
