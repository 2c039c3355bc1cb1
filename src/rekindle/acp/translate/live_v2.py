"""Translate the live updates of a version 1 agent for a version 2 client. One instance per session.

Version 2 requires an id with every message. Where the agent gives none, the translator makes one
for each run of chunks that the transcript joins to one message. The caller records these ids.

`acp/update_kinds` chooses the method for each update.
"""

from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct

from rekindle.acp.translate.commands import commands_to_v2
from rekindle.acp.translate.config import options_to_v2
from rekindle.acp.translate.plans import plan_to_v2
from rekindle.acp.translate.tool_calls import call_to_v2
from rekindle.jsonvalue import Json, as_array, as_object, as_str, without


class NamedMessage(Struct, frozen=True):
    """A message that the translator made an id for: the kind of its chunks, and the id."""

    kind: str
    message_id: str


class LiveToV2:
    """The translator of one session's updates. Each method returns the update of version 2."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._made_ids = 0
        self._open_message: NamedMessage | None = None
        """The message that the next chunk without an id continues."""
        self.new_message: NamedMessage | None = None
        """The message that the last update has begun, if the translator made an id for it."""
        self._known_calls: set[str] = set()
        self._known_items: set[tuple[str, str]] = set()
        """The sub-agents and the messages between sessions that the client knows."""
        self._has_plan = False
        self.modes: Json = {}
        self.options: list[Any] = []
        self.requested_mode: object = None
        """The mode that the client has requested, until the agent has answered."""

    def begin_turn(self) -> str:
        """Begin a turn; return the id of its prompt."""
        self._open_message, self._has_plan = None, False
        return self._make_id()

    def know(self, call_ids: Iterable[str], *, has_plan: bool) -> None:
        """Note the tool calls and the plan that the client has received before."""
        self._known_calls.update(call_ids)
        self._has_plan = has_plan

    def continue_message(self, message: NamedMessage) -> None:
        """Let the next chunk without an id continue a message that the client has."""
        self._open_message = message

    # -- modes and options -----------------------------------------------------------------

    def read_options(self, result: Json) -> list[Json]:
        """Note the modes and options in a response; return all options that the session has."""
        self.modes = as_object(result.get("modes")) or self.modes
        self.options = as_array(result.get("configOptions")) or self.options
        return options_to_v2(self.options, self.modes)

    def accept_requested_mode(self) -> None:
        """Note that the agent is now in the requested mode."""
        if self.requested_mode is not None:
            self.modes = {**self.modes, "currentModeId": self.requested_mode}
            self.requested_mode = None

    def current_mode(self, update: Json) -> Json:
        """Translate a `current_mode_update`."""
        self.modes = {**self.modes, "currentModeId": update.get("currentModeId")}
        return self._options_update(without(update, "sessionUpdate", "currentModeId"))

    def config_options(self, update: Json) -> Json:
        """Translate a `config_option_update`."""
        self.options = as_array(update.get("configOptions"))
        return self._options_update(without(update, "sessionUpdate", "configOptions"))

    def _options_update(self, rest: Json) -> Json:
        options = options_to_v2(self.options, self.modes)
        return {"sessionUpdate": "config_option_update", **rest, "configOptions": options}

    def available_commands(self, update: Json) -> Json:
        """Translate an `available_commands_update`."""
        commands = commands_to_v2(update.get("availableCommands"))
        rest = without(update, "sessionUpdate", "availableCommands")
        kind = "available_commands_update"
        return {"sessionUpdate": kind, **rest, "availableCommands": commands}

    # -- messages --------------------------------------------------------------------------

    def chunk(self, update: Json) -> Json:
        """Translate a chunk of a message; add an id if it has none."""
        if as_str(update.get("messageId")) is not None:
            self._open_message = None
            return update
        kind = update["sessionUpdate"]
        if self._open_message is None or self._open_message.kind != kind:
            self._open_message = self.new_message = NamedMessage(kind, self._make_id())
        return {**update, "messageId": self._open_message.message_id}

    def end_message(self) -> None:
        """End the open message: later chunks without an id are another message."""
        self._open_message = None

    def _make_id(self) -> str:
        self._made_ids += 1
        return f"{self._prefix}-{self._made_ids}"

    # -- tool calls and plans --------------------------------------------------------------

    def tool_call(self, update: Json) -> Json:
        """Translate a `tool_call` or a `tool_call_update`."""
        self.note_call(as_str(update.get("toolCallId")))
        return {"sessionUpdate": "tool_call_update", **call_to_v2(without(update, "sessionUpdate"))}

    def note_call(self, call_id: str | None) -> None:
        """End the open message if the tool call is new: later chunks are another message."""
        if call_id is None or call_id not in self._known_calls:
            self._known_calls.add(call_id or "")
            self._open_message = None

    def plan(self, update: Json) -> Json:
        """Translate a `plan`."""
        if not self._has_plan:
            self._open_message, self._has_plan = None, True
        rest = without(update, "sessionUpdate", "entries")
        plan = plan_to_v2(update.get("entries"))
        return {"sessionUpdate": "plan_update", **rest, "plan": plan}

    # -- sub-agents ------------------------------------------------------------------------

    def subagent(self, update: Json) -> Json:
        """Return a `subagent_update`. A new sub-agent ends the open message."""
        self._begin_item("subagent", update.get("sessionId"))
        return update

    def session_message(self, update: Json) -> Json:
        """Return a message between sessions, or a chunk of one. A new one ends the open message."""
        self._begin_item("session_message", update.get("messageId"))
        return update

    def _begin_item(self, what: str, name: object) -> None:
        key = (what, as_str(name) or "")
        if key not in self._known_items:
            self._known_items.add(key)
            self._open_message = None

    # -- rewinds ---------------------------------------------------------------------------

    def forget(self, removed: Collection[str]) -> None:
        """Forget tool calls: after a rewind the agent may use their ids again."""
        self._open_message, self._has_plan = None, False
        self._known_calls.difference_update(removed)

    # -- other updates ---------------------------------------------------------------------

    def unchanged(self, update: Json) -> Json:
        """Return an update that is the same in both versions."""
        return update

    def unknown(self, update: Json) -> Json:
        """Rename a kind that version 2 does not have: names with an underscore are free there."""
        self.end_message()
        kind = as_str(update.get("sessionUpdate")) or ""
        name = kind if kind.startswith("_") else f"_{kind}"
        return {**without(update, "sessionUpdate"), "sessionUpdate": name}
