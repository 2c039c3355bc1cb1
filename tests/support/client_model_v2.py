"""A model of a version 2 client: the state that its updates build up.

Written apart from `rekindle.transcript.reducer`, so that the two can be held against each other.
"""

from typing import Any

from client_model_v1 import joined

Json = dict[str, Any]

MESSAGES = ("user_message", "agent_message", "agent_thought")


class EditorV2:
    """What a version 2 editor shows of one session."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], Json] = {}
        self.state: dict[str, Json] = {}

    def apply(self, update: Json) -> None:
        """Show an update."""
        kind = update["sessionUpdate"]
        told = {k: v for k, v in update.items() if k not in {"sessionUpdate", "_meta"}}
        self._apply(kind, told)
        if "_meta" in update and kind.removesuffix("_chunk") in (*MESSAGES, "tool_call_update"):
            self._patch_meta(kind, update)

    def _patch_meta(self, kind: str, update: Json) -> None:
        what = kind.removesuffix("_chunk")
        name = update.get("messageId") or update["toolCallId"]
        item = self._item("tool" if what == "tool_call_update" else what, name)
        said = update["_meta"]
        meta = {**item.get("meta", {}), **said} if said is not None else {}
        kept = {k: v for k, v in meta.items() if v is not None and k != "rekindle"}
        item.pop("meta", None)
        item |= {"meta": kept} if kept else {}

    def _apply(self, kind: str, told: Json) -> None:
        if kind.removesuffix("_chunk") in MESSAGES:
            self._message(kind, told)
        elif kind in {"tool_call_update", "tool_call_content_chunk"}:
            self._call(kind, told)
        elif kind == "plan_update":
            self._item("plan", told["plan"]["planId"])["plan"] = told["plan"]
        elif kind.startswith("_"):
            self._item(kind, str(len(self.items)))["told"] = told
        elif kind == "session_info_update":
            self.state[kind] = self.state.get(kind, {}) | told
        elif kind not in {"state_update", "notice"}:
            self.state[kind] = told

    def _message(self, kind: str, told: Json) -> None:
        message = self._item(kind.removesuffix("_chunk"), told["messageId"])
        message.setdefault("blocks", [])
        if kind.endswith("_chunk"):
            message["blocks"] = joined([*message["blocks"], told["content"]])
        elif "content" in told:
            message["blocks"] = joined(told["content"] or [])

    def _call(self, kind: str, told: Json) -> None:
        call = self._item("tool", told.pop("toolCallId"))
        if kind == "tool_call_content_chunk":
            call["content"] = [*call.get("content", []), told["content"]]
            return
        call |= told
        for name in [name for name, value in call.items() if value is None]:
            del call[name]

    def _item(self, what: str, name: str) -> Json:
        return self.items.setdefault((what, name), {})

    def shown(self) -> list[tuple[str, Json]]:
        """Return the timeline, without messages that say nothing."""
        looks = [(f"{what} {name}", item) for (what, name), item in self.items.items()]
        return [it for it in looks if it[1].get("blocks") != []]
