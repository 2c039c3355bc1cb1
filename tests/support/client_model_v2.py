"""A model of a version 2 client: the state that an editor builds from updates.

It is independent of `rekindle.transcript.reducer`, so that tests can compare the two.
"""

from typing import Any

from client_model_v1 import joined

Json = dict[str, Any]

MESSAGES = ("user_message", "agent_message", "agent_thought")


class EditorV2:
    """The view that a version 2 editor has of one session."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], Json] = {}
        self.state: dict[str, Json] = {}

    def apply(self, update: Json) -> None:
        """Show an update."""
        kind = update["sessionUpdate"]
        fields = {k: v for k, v in update.items() if k not in {"sessionUpdate", "_meta"}}
        if kind == "history_truncated":
            self._truncate(fields["lastMessageId"])
            return
        self._apply(kind, fields)
        if "_meta" in update and kind.removesuffix("_chunk") in (*MESSAGES, "tool_call_update"):
            self._patch_meta(kind, update)

    def message_ids(self, *roles: str) -> list[str]:
        """Return the ids of the messages of some roles."""
        return [name for what, name in self.items if what in roles]

    def subagent_ids(self) -> list[str]:
        """Return the ids of the sub-agents."""
        return self.message_ids("subagent")

    def _truncate(self, last_id: str | None) -> None:
        keys = list(self.items)
        places = [
            at for at, (what, name) in enumerate(keys) if what in MESSAGES and name == last_id
        ]
        for key in keys[places[-1] + 1 if last_id is not None else 0 :]:
            del self.items[key]

    def _patch_meta(self, kind: str, update: Json) -> None:
        what = kind.removesuffix("_chunk")
        name = update.get("messageId") or update["toolCallId"]
        item = self._item("tool" if what == "tool_call_update" else what, name)
        patch = update["_meta"]
        meta = {**item.get("meta", {}), **patch} if patch is not None else {}
        kept = {k: v for k, v in meta.items() if v is not None and k != "rekindle"}
        item.pop("meta", None)
        item |= {"meta": kept} if kept else {}

    def _apply(self, kind: str, fields: Json) -> None:
        if kind.removesuffix("_chunk") in MESSAGES:
            self._message(kind, fields)
        elif kind in {"tool_call_update", "tool_call_content_chunk"}:
            self._call(kind, fields)
        elif kind == "plan_update":
            self._item("plan", fields["plan"]["planId"])["plan"] = fields["plan"]
        elif kind.startswith("_"):
            self._item(kind, str(len(self.items)))["told"] = fields
        elif kind == "subagent_update":
            self._subagent(fields)
        elif kind.startswith("session_message"):
            self._session_message(kind, fields)
        elif kind == "session_info_update":
            self.state[kind] = self.state.get(kind, {}) | fields
        elif kind not in {"state_update", "notice"}:
            self.state[kind] = fields

    def _message(self, kind: str, fields: Json) -> None:
        message = self._item(kind.removesuffix("_chunk"), fields["messageId"])
        message.setdefault("blocks", [])
        if kind.endswith("_chunk"):
            message["blocks"] = joined([*message["blocks"], fields["content"]])
        elif "content" in fields:
            message["blocks"] = joined(fields["content"] or [])

    def _call(self, kind: str, fields: Json) -> None:
        call = self._item("tool", fields.pop("toolCallId"))
        if kind == "tool_call_content_chunk":
            call["content"] = [*call.get("content", []), fields["content"]]
            return
        call |= fields
        for name in [name for name, value in call.items() if value is None]:
            del call[name]

    def _subagent(self, fields: Json) -> None:
        item = self._item("subagent", fields.pop("sessionId"))
        item |= fields
        for name in [name for name, value in item.items() if value is None]:
            del item[name]
        item["capabilities"] = item.get("capabilities") or {}

    def _session_message(self, kind: str, fields: Json) -> None:
        item = self._item("session_message", fields.pop("messageId"))
        item.setdefault("parts", [])
        content = fields.pop("content", None)
        if kind.endswith("_chunk"):
            item["parts"] = joined([*item.get("parts", []), content])
        elif content is not None:
            item["parts"] = joined(content)
        item |= fields

    def _item(self, what: str, name: str) -> Json:
        return self.items.setdefault((what, name), {})

    def shown(self) -> list[tuple[str, Json]]:
        """Return the visible timeline, without empty messages."""
        looks = [(f"{what} {name}", item) for (what, name), item in self.items.items()]
        return [it for it in looks if it[1].get("blocks") != []]
