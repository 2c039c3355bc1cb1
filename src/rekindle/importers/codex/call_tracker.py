"""Convert each tool call once, although Codex has up to three records of it.

The model's request comes first, then the event that the user saw, if any, and then the result that
the model received. All of them have the same id.
"""

from msgspec import Raw, Struct
from msgspec.structs import replace

from rekindle.importers.base import ImportNotes
from rekindle.importers.codex.records import (
    CodexError,
    CodexEvent,
    CodexInvocation,
    CodexItem,
    CodexTurnItem,
)
from rekindle.importers.codex.tool_calls import (
    PLAN_TOOL,
    call_fields,
    change_fields,
    command_fields,
    dynamic_tool_fields,
    mcp_fields,
    plan_entries,
    protocol_status,
    read_call_input,
    result_fields,
    search_fields,
)
from rekindle.importers.codex.user_text import CodexShellCommand
from rekindle.importers.entry_builder import (
    MAX_OPEN_CALLS,
    EntryBuilder,
    child_session_meta,
    text_block,
    tool_content,
)
from rekindle.importers.lenient_reader import is_nonempty_string
from rekindle.jsonvalue import Json

_IGNORED_EVENTS = frozenset(
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
"""Events that another record repeats, or that are not part of the conversation."""


class _KnownCall(Struct):
    """A call that was converted."""

    name: str = ""
    is_shown: bool = False
    """Whether it was converted from an event, which has more than the model's result."""


class CodexCallTracker:
    """Converts the tool calls of one session."""

    def __init__(self, builder: EntryBuilder, notes: ImportNotes, cwd: str | None) -> None:
        self._builder = builder
        self._notes = notes
        self._cwd = cwd
        self._calls: dict[str, _KnownCall] = {}
        self._count = 0
        self._last_search: tuple[str, str] = ("", "")

    def _next_id(self) -> str:
        self._count += 1
        return f"call-{self._count}"

    def _remember(self, call_id: str, call: _KnownCall) -> None:
        self._calls[call_id] = call
        if len(self._calls) > MAX_OPEN_CALLS:
            del self._calls[next(iter(self._calls))]

    # -- the model's requests and results -----------------------------------------------

    def add_call(self, item: CodexItem) -> None:
        """Convert a request of the model."""
        call_id = item.call_id or item.id
        if not call_id:
            self._notes.skip("a tool call has no id")
            return
        if call_id in self._calls:
            return
        given, raw_input = read_call_input(item)
        if item.type == "local_shell_call":
            command = (item.action.command if item.action is not None else None) or []
            item, given = replace(item, name="local_shell"), replace(given, command=command)
            raw_input = {"command": command}
        elif item.type == "tool_search_call":
            item = replace(item, name="tool_search")
        self._remember(call_id, _KnownCall(item.name))
        if item.name == PLAN_TOOL:
            self._builder.add_plan(plan_entries(raw_input))
        else:
            fields = call_fields(item, given, raw_input, self._cwd)
            self._builder.add_tool_call(call_id, **fields)

    def add_output(self, item: CodexItem) -> None:
        """Convert a result that the model received, unless an event has shown it better."""
        if not item.call_id:
            self._notes.skip("a tool result has no id")
            return
        call = self._calls.get(item.call_id) or _KnownCall(item.name)
        if call.name != PLAN_TOOL and not call.is_shown:
            fields = result_fields(call.name, item.output)
            self._builder.update_tool_call(item.call_id, **fields)

    def add_search(self, item: CodexItem) -> None:
        """Convert a web search of the model."""
        self._add_search(item.id or "", search_fields(None, item.action), "item")

    def add_image(self, item: CodexItem) -> None:
        """Convert an image that the model has generated."""
        self._add_image(item.id or "", item.status, item.revised_prompt, item.result)

    def add_shell_command(self, command: CodexShellCommand) -> None:
        """Convert a command that the user has run."""
        self._builder.add_tool_call(
            self._next_id(),
            title=command.command,
            kind="execute",
            status="failed" if command.is_failed else "completed",
            content=[tool_content(text_block(command.output))],
        )

    # -- events that the user saw -------------------------------------------------------

    def add_event(self, event: CodexEvent) -> None:
        """Convert a completed call in the format of older versions."""
        match event.type:
            case "patch_apply_end":
                self._add_shown(event.call_id, change_fields(event, self._cwd))
            case "mcp_tool_call_end" if event.invocation is not None:
                fields = mcp_fields(event.invocation, event.result, None, None)
                self._add_shown(event.call_id, fields)
            case "web_search_end":
                fields = search_fields(event.query, event.action)
                self._add_search(event.call_id, fields, "event")
            case "image_generation_end":
                self._add_image(event.call_id, event.status, event.revised_prompt, event.result)
            case "sub_agent_activity":
                self._add_sub_agent(
                    event.event_id, event.kind, event.agent_path, event.agent_thread_id
                )
            case kind if kind not in _IGNORED_EVENTS:
                self._notes.skip(
                    f"an event of unknown type: {kind}" if kind else "a record without a type"
                )
            case _:
                pass

    def add_turn_item(self, item: CodexTurnItem) -> None:
        """Convert a completed call in the format of newer versions."""
        match item.type:
            case "CommandExecution":
                self._add_shown(item.id, command_fields(item))
            case "FileChange":
                self._add_shown(item.id, change_fields(item, self._cwd))
            case "McpToolCall":
                invocation = CodexInvocation(item.server, item.tool, item.arguments)
                error = item.error.message if isinstance(item.error, CodexError) else item.error
                self._add_shown(item.id, mcp_fields(invocation, item.result, item.status, error))
            case "DynamicToolCall":
                self._add_shown(item.id, dynamic_tool_fields(item))
            case "CollabAgentToolCall":
                self._add_collaboration(item)
            case "SubAgentActivity":
                self._add_sub_agent(item.id, item.kind, item.agent_path, item.agent_thread_id)
            case _:
                self._add_other_item(item)

    def _add_other_item(self, item: CodexTurnItem) -> None:
        match item.kind if item.type == "Extension" else item.type:
            case "WebSearch" | "web.search":
                self._add_search(item.id, search_fields(item.query, item.action), "event")
            case "ImageGeneration" | "image_gen.generation":
                self._add_image(item.id, item.status, item.revised_prompt, item.result)
            case "ImageView":
                fields: Json = {"title": f"View Image {item.path}", "kind": "read"}
                locations = [{"path": item.path}] if item.path else []
                self._add_shown(item.id, fields | {"status": "completed", "locations": locations})
            case kind if kind != "clock.sleep":
                self._notes.skip(
                    f"an item of unknown type: {kind}" if kind else "a record without a type"
                )
            case _:
                pass

    def _add_shown(self, call_id: str, fields: Json) -> None:
        """Add a call as the user saw it, or update the call if it is known already."""
        call_id = call_id or self._next_id()
        call = self._calls.get(call_id)
        if call is None:
            self._builder.add_tool_call(call_id, **fields)
            self._remember(call_id, _KnownCall(is_shown=True))
        else:
            # The model's request had the whole input.
            fields.pop("rawInput", None)
            self._builder.update_tool_call(call_id, **fields)
            call.is_shown = True

    def _add_search(self, call_id: str, fields: Json, source: str) -> None:
        """Add a search once. In older versions its two records have no common id."""
        last_source, last_title = self._last_search
        title = str(fields["title"])
        if call_id in self._calls or (last_title == title and last_source != source):
            self._last_search = ("", "")
            return
        self._last_search = (source, title)
        self._add_shown(call_id, fields)

    def _add_image(self, call_id: str, status: str | None, prompt: str | None, image: Raw) -> None:
        if call_id in self._calls:
            return
        content = [tool_content(text_block(prompt))] if prompt else []
        if is_nonempty_string(image):
            block = {"type": "image", "data": image, "mimeType": "image/png"}
            content.append(tool_content(block))
        fields = {"title": "Generate an image", "kind": "other", "status": protocol_status(status)}
        self._add_shown(call_id, fields | {"content": content})

    def _add_collaboration(self, item: CodexTurnItem) -> None:
        tool = item.tool.replace("_", " ") or "agent"
        title = item.prompt or tool[:1].upper() + tool[1:]
        fields: Json = {"title": title, "kind": "think", "status": protocol_status(item.status)}
        if item.receiver_thread_ids:
            fields["_meta"] = child_session_meta(item.receiver_thread_ids[0])
        self._add_shown(item.id, fields)

    def _add_sub_agent(
        self, call_id: str, kind: str | None, path: str | None, thread_id: str | None
    ) -> None:
        fields: Json = {"_meta": child_session_meta(thread_id)} if thread_id else {}
        if call_id in self._calls:
            self._builder.update_tool_call(call_id, **fields)
            return
        title = " ".join(["Sub-agent", *filter(None, (path, kind))])
        self._add_shown(call_id, fields | {"title": title, "kind": "think", "status": "completed"})
