"""A model of a version 1 client: the state that an editor builds from updates.

It is independent of `rekindle.transcript.reducer`, so that tests can compare the two.
"""

from typing import Any

Json = dict[str, Any]


class Editor:
    """The view that an editor has of one session."""

    def __init__(self) -> None:
        self.timeline: list[Json] = []
        self.state: dict[str, Json] = {}

    def prompt(self, blocks: list[Json]) -> None:
        """Show a prompt of the user."""
        self.timeline.append({"is": "user", "id": None, "blocks": joined(blocks)})

    def apply(self, update: Json) -> None:
        """Show an update."""
        kind = update["sessionUpdate"]
        if kind.startswith("session_message"):
            self.session_message(update)
        elif kind == "history_truncated":
            self._truncate(update["lastMessageId"])
        elif kind.endswith("_message_chunk") or kind == "agent_thought_chunk":
            self._chunk(kind.split("_")[0 if kind.endswith("message_chunk") else 1], update)
        elif kind in {"tool_call", "tool_call_update"}:
            self._tool_call(update)
        elif kind == "plan":
            self._plan(update)
        elif kind == "subagent_update":
            self.subagent(update)
        elif kind.startswith("_"):
            self.timeline.append({"is": kind, **update})
        elif kind != "notice":
            known = self.state.get(kind, {}) if kind == "session_info_update" else {}
            self.state[kind] = known | {k: v for k, v in update.items() if k != "_meta"}

    def subagent(self, update: Json) -> None:
        """Show a sub-agent: a field that is null is removed."""
        item = self._named("subagent", update["sessionId"])
        for name, value in update.items():
            if value is None:
                item.pop(name, None)
            elif name not in {"sessionUpdate", "sessionId", "_meta"}:
                item[name] = value
        item["capabilities"] = item.get("capabilities") or {}

    def session_message(self, update: Json) -> None:
        """Show a message between sessions."""
        item = self._named("session_message", update["messageId"])
        item.setdefault("parts", [])
        content = update.get("content")
        if update["sessionUpdate"].endswith("_chunk"):
            item["parts"] = joined([*item.get("parts", []), content])
            return
        if "content" in update:
            item["parts"] = joined(content or [])
        item |= {name: value for name, value in update.items() if name.endswith("SessionId")}

    def _named(self, what: str, name: str) -> Json:
        for item in self.timeline:
            if item["is"] == what and item["name"] == name:
                return item
        self.timeline.append({"is": what, "name": name})
        return self.timeline[-1]

    def _chunk(self, role: str, update: Json) -> None:
        name = update.get("messageId")
        for item in reversed(self.timeline):
            if name is not None and item["is"] == role and item["id"] == name:
                break
        else:
            last = self.timeline[-1] if self.timeline else {"is": None}
            item = last
            if name is not None or last["is"] != role or last["id"] is not None:
                item = {"is": role, "id": name, "blocks": []}
                self.timeline.append(item)
        item["blocks"] = joined([*item["blocks"], update["content"]])

    def message_ids(self) -> list[str]:
        """Return the ids of the messages, as far as they are known."""
        return [item["id"] for item in self.timeline if item.get("id") is not None]

    def subagent_ids(self) -> list[str]:
        """Return the ids of the sub-agents."""
        return [item["name"] for item in self.timeline if item["is"] == "subagent"]

    def _truncate(self, last_id: str | None) -> None:
        places = [at for at, item in enumerate(self.timeline) if item.get("id") == last_id]
        del self.timeline[places[-1] + 1 if last_id is not None else 0 :]

    def _plan(self, update: Json) -> None:
        for item in reversed(self.timeline):
            if item["is"] == "user":
                break
            if item["is"] == "plan":
                item["entries"] = update["entries"]
                return
        self.timeline.append({"is": "plan", "entries": update["entries"]})

    def _tool_call(self, update: Json) -> None:
        for item in self.timeline:
            if item["is"] == "tool" and item["toolCallId"] == update["toolCallId"]:
                break
        else:
            item = {"is": "tool"}
            self.timeline.append(item)
        given = {k: v for k, v in update.items() if v is not None}
        item |= {k: v for k, v in given.items() if k not in {"sessionUpdate", "_meta"}}

    def shown(self) -> list[Json]:
        """Return the visible timeline: without ids, `_meta` and empty messages."""
        hidden = {"id", "_meta", "sessionUpdate"}
        looks = [{k: v for k, v in item.items() if k not in hidden} for item in self.timeline]
        return [item for item in looks if item.get("blocks") != []]


def joined(blocks: list[Json]) -> list[Json]:
    """Join adjacent text blocks."""
    result: list[Json] = []
    for block in blocks:
        if block == {"type": "text", "text": ""}:
            continue
        if result and block.keys() == result[-1].keys() == {"type", "text"}:
            result[-1] = {"type": "text", "text": result[-1]["text"] + block["text"]}
        else:
            result.append(block)
    return result
