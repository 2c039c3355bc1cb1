"""Calls of tools, told once each, though there are up to three records of each.

What the model has asked for comes first, then how the user was shown it, if at all, and what the
model was answered. They have the same id.
"""

from msgspec import Raw, Struct

from rekindle.importers.base import Notes
from rekindle.importers.codex.records import Event, Invocation, Item, Mishap, TurnItem
from rekindle.importers.codex.tool_calls import (
    PLAN,
    call_fields,
    change_fields,
    child_meta,
    command_fields,
    given_to,
    plan_steps,
    result_fields,
    searched_fields,
    server_fields,
    shown_parts,
    status_of,
)
from rekindle.importers.codex.user_text import Typed
from rekindle.importers.entry_builder import Json, Teller, shown, text
from rekindle.importers.lenient_reader import has_words

_QUIET_EVENTS = frozenset(
    {
        "token_count", "context_compacted", "thread_rolled_back", "thread_settings_applied",
        "thread_goal_updated", "thread_name_updated", "agent_reasoning_section_break",
        "exec_command_begin", "exec_command_output_delta", "exec_command_end",
        "mcp_tool_call_begin", "patch_apply_begin", "web_search_begin", "item_started",
        "turn_diff", "session_configured", "background_event", "plan_update", "warning",
        "stream_error", "hook_started", "hook_completed", "thread_queue_changed",
        "collab_agent_spawn_begin", "collab_agent_spawn_end", "collab_waiting_begin",
        "collab_waiting_end", "collab_close_begin", "collab_close_end", "view_image_tool_call",
        "collab_agent_interaction_begin", "collab_agent_interaction_end", "shutdown_complete",
        "image_generation_begin", "deprecation_notice", "undo_started", "undo_completed",
    }
)  # fmt: skip
"""What is told by another record, or of no interest to whoever reads the conversation."""
_MOST_CALLS = 10_000


class _Call(Struct):
    """A call that was told."""

    name: str = ""
    is_shown: bool = False
    """Whether it was told as the user was shown it: nothing better will come."""


class Calls:
    """Tells the calls of one session."""

    def __init__(self, teller: Teller, notes: Notes, cwd: str | None) -> None:
        self._teller = teller
        self._notes = notes
        self._cwd = cwd
        self._told: dict[str, _Call] = {}
        self._count = 0
        self._searched: tuple[str, str] = ("", "")

    def _next_id(self) -> str:
        self._count += 1
        return f"call-{self._count}"

    def _remember(self, call_id: str, call: _Call) -> None:
        self._told[call_id] = call
        if len(self._told) > _MOST_CALLS:
            del self._told[next(iter(self._told))]

    # -- what the model has asked for, and was answered ---------------------------------

    def call(self, item: Item) -> None:
        """Tell that the model calls a tool."""
        call_id = item.call_id or item.id
        if not call_id:
            self._notes.skip("a call has no id")
            return
        if call_id in self._told:
            return
        given, raw = given_to(item)
        if item.type == "local_shell_call":
            item.name = "local_shell"
            given.command = (item.action.command if item.action is not None else None) or []
            raw = {"command": given.command}
        elif item.type == "tool_search_call":
            item.name = "tool_search"
        self._remember(call_id, _Call(item.name))
        if item.name == PLAN:
            self._teller.plan(plan_steps(raw))
        else:
            self._teller.call(call_id, **call_fields(item, given, raw, self._cwd))

    def output(self, item: Item) -> None:
        """Tell what a tool has answered, unless the user was shown it in better words."""
        if not item.call_id:
            self._notes.skip("a result has no id")
            return
        call = self._told.get(item.call_id) or _Call(item.name)
        if call.name != PLAN and not call.is_shown:
            self._teller.called(item.call_id, **result_fields(call.name, item.output))

    def searched(self, item: Item) -> None:
        """Tell that the model has looked for something in the web."""
        self._search(item.id or "", searched_fields(None, item.action), "item")

    def made_image(self, item: Item) -> None:
        """Tell that the model has made a picture."""
        self._image(item.id or "", item.status, item.revised_prompt, item.result)

    def typed(self, typed: Typed) -> None:
        """Tell a command that the user has run."""
        self._teller.call(
            self._next_id(),
            title=typed.command,
            kind="execute",
            status="failed" if typed.is_failed else "completed",
            content=[shown(text(typed.printed))],
        )

    # -- what the user was shown --------------------------------------------------------

    def event(self, event: Event) -> None:
        """Tell a call as it was shown by older versions."""
        match event.type:
            case "patch_apply_end":
                self._shown(event.call_id, change_fields(event, self._cwd))
            case "mcp_tool_call_end" if event.invocation is not None:
                fields = server_fields(event.invocation, event.result, None, None)
                self._shown(event.call_id, fields)
            case "web_search_end":
                self._search(event.call_id, searched_fields(event.query, event.action), "event")
            case "image_generation_end":
                self._image(event.call_id, event.status, event.revised_prompt, event.result)
            case "sub_agent_activity":
                self._sub_agent(event.event_id, event.kind, event.agent_path, event.agent_thread_id)
            case it if it not in _QUIET_EVENTS:
                self._notes.skip(f"an event of unknown type: {it}" if it else "no type")
            case _:
                pass

    def item(self, item: TurnItem) -> None:
        """Tell a call as it is shown."""
        match item.type:
            case "CommandExecution":
                self._shown(item.id, command_fields(item))
            case "FileChange":
                self._shown(item.id, change_fields(item, self._cwd))
            case "McpToolCall":
                called = Invocation(item.server, item.tool, item.arguments)
                error = item.error.message if isinstance(item.error, Mishap) else item.error
                self._shown(item.id, server_fields(called, item.result, item.status, error))
            case "DynamicToolCall":
                self._shown(item.id, _own_tool(item))
            case "CollabAgentToolCall":
                self._collaborate(item)
            case "SubAgentActivity":
                self._sub_agent(item.id, item.kind, item.agent_path, item.agent_thread_id)
            case _:
                self._other_item(item)

    def _other_item(self, item: TurnItem) -> None:
        kind = item.kind if item.type == "Extension" else item.type
        match kind:
            case "WebSearch" | "web.search":
                self._search(item.id, searched_fields(item.query, item.action), "event")
            case "ImageGeneration" | "image_gen.generation":
                self._image(item.id, item.status, item.revised_prompt, item.result)
            case "ImageView":
                fields: Json = {"title": f"View Image {item.path}", "kind": "read"}
                places = [{"path": item.path}] if item.path else []
                self._shown(item.id, fields | {"status": "completed", "locations": places})
            case it if it != "clock.sleep":
                self._notes.skip(f"an item of unknown type: {it}" if it else "no type")
            case _:
                pass

    def _shown(self, call_id: str, fields: Json) -> None:
        """Tell a call as the user was shown it, or more of one that was told already."""
        call_id = call_id or self._next_id()
        call = self._told.get(call_id)
        if call is None:
            self._teller.call(call_id, **fields)
            self._remember(call_id, _Call(is_shown=True))
        else:
            # What it was given was told in full.
            fields.pop("rawInput", None)
            self._teller.called(call_id, **fields)
            call.is_shown = True

    def _search(self, call_id: str, fields: Json, source: str) -> None:
        """Tell a search once: older versions do not say which of both records belong together."""
        last_source, last_title = self._searched
        title = str(fields["title"])
        if call_id in self._told or (last_title == title and last_source != source):
            self._searched = ("", "")
            return
        self._searched = (source, title)
        self._shown(call_id, fields)

    def _image(self, call_id: str, status: str | None, prompt: str | None, result: Raw) -> None:
        if call_id in self._told:
            return
        content = [shown(text(prompt))] if prompt else []
        if has_words(result):
            content.append(shown({"type": "image", "data": result, "mimeType": "image/png"}))
        fields = {"title": "Generate an image", "kind": "other", "status": status_of(status)}
        self._shown(call_id, fields | {"content": content})

    def _collaborate(self, item: TurnItem) -> None:
        tool = item.tool.replace("_", " ") or "agent"
        title = item.prompt or tool[:1].upper() + tool[1:]
        fields: Json = {"title": title, "kind": "think", "status": status_of(item.status)}
        if item.receiver_thread_ids:
            fields["_meta"] = child_meta(item.receiver_thread_ids[0])
        self._shown(item.id, fields)

    def _sub_agent(
        self, call_id: str, kind: str | None, path: str | None, thread_id: str | None
    ) -> None:
        fields: Json = {"_meta": child_meta(thread_id)} if thread_id else {}
        if call_id in self._told:
            self._teller.called(call_id, **fields)
            return
        title = " ".join(["Sub-agent", *filter(None, (path, kind))])
        self._shown(call_id, fields | {"title": title, "kind": "think", "status": "completed"})


def _own_tool(item: TurnItem) -> Json:
    name = f"{item.namespace}.{item.tool}" if item.namespace else item.tool
    fields: Json = {"title": name or "a tool", "kind": "other", "status": status_of(item.status)}
    if bytes(item.arguments):
        fields["rawInput"] = item.arguments
    content = shown_parts(item.content_items or [])
    if isinstance(item.error, str):
        content.append(shown(text(item.error)))
    return fields | ({"content": content} if content else {})
