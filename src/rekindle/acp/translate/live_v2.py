"""What a version 1 agent says, as it says it, for a version 2 client. One instance a session.

Version 2 wants an id with every message. Where the agent gives none, one is made for each run of
chunks that the transcript will take for one message; whoever records them tells the record of it.
"""

from typing import Any

from msgspec import Struct

from rekindle.acp.translate.commands import commands_to_v2
from rekindle.acp.translate.config import options_to_v2
from rekindle.acp.translate.plans import plan_to_v2
from rekindle.acp.translate.tool_calls import call_to_v2
from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]

_MESSAGES = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})
_STATE = frozenset({"session_info_update", "usage_update", "notice"})


class NamedMessage(Struct, frozen=True):
    """A message for which an id was made: the kind of its chunks, and the id."""

    kind: str
    message_id: str


class LiveToV2:
    """Translates the updates of one session."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._made = 0
        self._running: NamedMessage | None = None
        """The message without an id of its own that the next chunk goes on with."""
        self._calls: set[str] = set()
        self._has_plan = False
        self.modes: Json = {}
        self.options: list[Any] = []
        self.wanted_mode: object = None
        """The mode that the client has asked for, until the agent has answered."""

    def take_wanted_mode(self) -> None:
        """Learn that the agent is in the mode that was asked for."""
        if self.wanted_mode is not None:
            self.modes = {**self.modes, "currentModeId": self.wanted_mode}
            self.wanted_mode = None

    def begin_turn(self) -> str:
        """Begin a turn; return the id of its prompt."""
        self._running, self._has_plan = None, False
        return self._make_id()

    def learn(self, answer: Json) -> list[Json]:
        """Take modes and options from an answer that opens a session; return the options."""
        self.modes = as_object(answer.get("modes")) or self.modes
        self.options = as_array(answer.get("configOptions")) or self.options
        return options_to_v2(self.options, self.modes)

    def see_call(self, call_id: str | None) -> None:
        """Notice a tool call: what is said after its first sight is another message."""
        if call_id is None or call_id not in self._calls:
            self._calls.add(call_id or "")
            self._running = None

    def update(self, update: Json) -> tuple[Json, NamedMessage | None]:
        """Return an update of version 2, and the message that was given an id for it, if any."""
        kind = as_str(update.get("sessionUpdate")) or ""
        if kind in _MESSAGES:
            return self._chunk(kind, update)
        return self._other(kind, update), None

    def _chunk(self, kind: str, update: Json) -> tuple[Json, NamedMessage | None]:
        if as_str(update.get("messageId")) is not None:
            self._running = None
            return update, None
        new: NamedMessage | None = None
        if self._running is None or self._running.kind != kind:
            self._running = new = NamedMessage(kind, self._make_id())
        return {**update, "messageId": self._running.message_id}, new

    def _other(self, kind: str, update: Json) -> Json:  # noqa: PLR0911 - one for each kind
        rest = {name: value for name, value in update.items() if name != "sessionUpdate"}
        match kind:
            case "tool_call" | "tool_call_update":
                self.see_call(as_str(update.get("toolCallId")))
                return {"sessionUpdate": "tool_call_update", **call_to_v2(rest)}
            case "plan":
                if not self._has_plan:
                    self._running, self._has_plan = None, True
                entries = rest.pop("entries", None)
                return {"sessionUpdate": "plan_update", **rest, "plan": plan_to_v2(entries)}
            case "current_mode_update":
                self.modes = {**self.modes, "currentModeId": rest.pop("currentModeId", None)}
                return self._options_update(rest)
            case "config_option_update":
                self.options = as_array(rest.pop("configOptions", None))
                return self._options_update(rest)
            case "available_commands_update":
                commands = commands_to_v2(rest.pop("availableCommands", None))
                return {"sessionUpdate": kind, **rest, "availableCommands": commands}
            case _:
                if kind in _STATE:
                    return update
                self._running = None
                if kind == "compaction_update":
                    return update
                # Kinds that version 2 does not know are kept under a name that it leaves free.
                name = kind if kind.startswith("_") else f"_{kind}"
                return {**rest, "sessionUpdate": name}

    def _options_update(self, rest: Json) -> Json:
        options = options_to_v2(self.options, self.modes)
        return {"sessionUpdate": "config_option_update", **rest, "configOptions": options}

    def _make_id(self) -> str:
        self._made += 1
        return f"{self._prefix}-{self._made}"
