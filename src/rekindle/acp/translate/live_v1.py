"""Translate the live updates of a version 2 agent for version 1 clients. One instance per session.

Version 1 can only append to a message. Where a version 2 agent replaces a message, the client
receives the new text as another message. A later replay shows it correctly. The caller leaves out
the parts that some clients cannot show: boolean options and sub-agents.

`acp/update_kinds` chooses the method for each update.
"""

from collections.abc import Collection
from itertools import groupby
from typing import Any

from rekindle.acp.translate.commands import commands_to_v1
from rekindle.acp.translate.config import modes_to_v1, options_to_v1
from rekindle.acp.translate.content import block_to_v1
from rekindle.acp.translate.live_tool_calls import LiveToolCallsToV1
from rekindle.acp.translate.plans import plan_to_v1
from rekindle.acp.translate.subagents import session_message_to_v1, subagent_to_v1
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object, without

_MAX_KEPT_MESSAGES = 8


class LiveToV1:
    """The translator of one session's updates. Each method returns the updates of version 1."""

    def __init__(self) -> None:
        self._contents: dict[str, list[Any]] = {}
        """The content of the last messages, by message id."""
        self._passed_chunks: list[bytes] = []
        """Lines that the fast path has forwarded, and `_contents` does not yet have."""
        self.follows_terminal = False
        """Whether the lines of the fast path are the output of a terminal."""
        self.tool_calls = LiveToolCallsToV1()
        self._new_ids: dict[str, str] = {}
        """The ids that the client knows for messages which the agent has replaced."""
        self._mode: object = None
        self.options: list[Any] = []
        self._replaced = 0

    @property
    def has_renamed(self) -> bool:
        """Whether the client knows a message by another id than the agent's."""
        return bool(self._new_ids)

    def note_passed(self, lines: bytes) -> bool:
        """Note chunks that the fast path has forwarded. They are read only when needed.

        Returns whether there may be enough output of a terminal to send its text again.
        """
        if self.follows_terminal:
            return self.tool_calls.note_passed(lines)
        self._passed_chunks.append(lines)
        return False

    def show_terminal(self, terminal_id: str) -> str:
        """Return the output of a terminal as text without control sequences."""
        return self.tool_calls.show_terminal(terminal_id)

    # -- messages --------------------------------------------------------------------------

    def chunk(self, update: Json) -> list[Json]:
        """Translate a chunk of a message."""
        message_id = as_str(update.get("messageId")) or ""
        self._read_passed()
        self._append(message_id, update.get("content"))
        block = as_object(update.get("content"))
        shown = block_to_v1(block)
        translated = update if shown is block else {**update, "content": shown}
        new_id = self._new_ids.get(message_id)
        return [translated if new_id is None else {**translated, "messageId": new_id}]

    def whole_message(self, update: Json) -> list[Json]:
        """Translate a whole message: send the part that the client does not yet have."""
        if "content" not in update:
            return []
        message_id = as_str(update.get("messageId")) or ""
        self._read_passed()
        blocks = as_array(update["content"])
        known = self._contents.get(message_id, [])
        self._contents[message_id] = blocks
        added = _blocks_after(blocks, known)
        if added is None:
            # Version 1 cannot replace a message.
            self._replaced += 1
            self._new_ids[message_id] = f"{message_id}~{self._replaced}"
            added = blocks
        own_id = self._new_ids.get(message_id, message_id)
        kind = f"{update['sessionUpdate']}_chunk"
        shown = map(block_to_v1, map(as_object, added))
        return [{"sessionUpdate": kind, "messageId": own_id, "content": it} for it in shown]

    def _append(self, message_id: str, block: object) -> None:
        self._contents.setdefault(message_id, []).append(block)
        while len(self._contents) > _MAX_KEPT_MESSAGES:
            # If the agent replaces an older message, the client receives it as a new one.
            del self._contents[next(iter(self._contents))]

    def _read_passed(self) -> None:
        passed, self._passed_chunks = self._passed_chunks, []
        for update in map(_update_in, _split(passed)):
            self._append(as_str(update.get("messageId")) or "", update.get("content"))

    # -- plans, state ----------------------------------------------------------------------

    def plan(self, update: Json) -> list[Json]:
        """Translate a `plan_update`. Lost: plans that are not lists of entries."""
        entries = plan_to_v1(as_object(update.get("plan")))
        rest = without(update, "sessionUpdate", "plan")
        translated = {"sessionUpdate": "plan", **rest, "entries": entries}
        return [translated] if entries is not None else []

    def config_options(self, update: Json) -> list[Json]:
        """Translate a `config_option_update`; add a `current_mode_update` if the mode changes."""
        options = self.options = as_array(update.get("configOptions"))
        shown = options_to_v1(options, with_booleans=True)
        rest = without(update, "sessionUpdate", "configOptions")
        updates: list[Json] = [
            {"sessionUpdate": "config_option_update", **rest, "configOptions": shown}
        ]
        modes = modes_to_v1(options)
        mode = as_str(modes["currentModeId"]) if modes else None
        if mode not in {None, self._mode}:
            self._mode = mode
            updates.append({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        return updates

    def available_commands(self, update: Json) -> list[Json]:
        """Translate an `available_commands_update`."""
        commands = commands_to_v1(update.get("availableCommands"))
        rest = without(update, "sessionUpdate", "availableCommands")
        kind = "available_commands_update"
        return [{"sessionUpdate": kind, **rest, "availableCommands": commands}]

    def session_state(self, update: Json) -> list[Json]:
        """Send the late content of tool calls when a turn ends.

        Lost: the state itself. The response to the prompt reports the end of the turn.
        """
        if update.get("state") != "idle":
            return []
        self._contents.clear()
        self._passed_chunks.clear()
        return self.tool_calls.end_turn()

    # -- sub-agents ------------------------------------------------------------------------

    def subagent(self, update: Json) -> list[Json]:
        """Translate a `subagent_update`. Only some clients know sub-agents."""
        return [subagent_to_v1(update)]

    def session_message(self, update: Json) -> list[Json]:
        """Translate a message between sessions, or a chunk of one. Only such clients know them."""
        return [session_message_to_v1(update)]

    # -- rewinds ---------------------------------------------------------------------------

    def truncation(self, update: Json) -> list[Json]:
        """Leave out a truncation of the agent's own. Lost: version 1 does not have it."""
        del update
        return []

    def forget(self, removed: Collection[str]) -> None:
        """Forget messages and tool calls: after a rewind the agent may use their ids again."""
        self._read_passed()
        for item_id in removed:
            self._contents.pop(item_id, None)
            self._new_ids.pop(item_id, None)
        self.tool_calls.forget(removed)

    def original_id(self, message_id: str) -> str:
        """Return the agent's id of a message that the client may know by another id."""
        originals = {new: old for old, new in self._new_ids.items()}
        return originals.get(message_id, message_id)

    # -- other updates ---------------------------------------------------------------------

    def unchanged(self, update: Json) -> list[Json]:
        """Return an update that is the same in both versions."""
        return [update]

    def unknown(self, update: Json) -> list[Json]:
        """Return an update only if its name is free in version 1, as names with `_` are.

        Lost: notices, compactions and all kinds that only version 2 has.
        """
        kind = as_str(update.get("sessionUpdate")) or ""
        return [update] if kind.startswith("_") else []


def _split(passed: list[bytes]) -> list[bytes]:
    return b"\n".join(passed).split(b"\n") if passed else []


def _update_in(line: bytes) -> Json:
    return as_object(as_object((decode_object(line) or {}).get("params")).get("update"))


def _blocks_after(blocks: list[Any], known: list[Any]) -> list[Any] | None:
    """Return the blocks that continue the known ones; None if they do not begin with those."""
    whole, begun = _join_texts(blocks), _join_texts(known)
    for index, block in enumerate(begun):
        if index >= len(whole):
            return None
        if whole[index] != block:
            text, before = as_str(whole[index].get("text")), as_str(block.get("text"))
            is_last = index == len(begun) - 1
            if text is None or before is None or not is_last or not text.startswith(before):
                return None
            return [{"type": "text", "text": text[len(before) :]}, *whole[index + 1 :]]
    return whole[len(begun) :]


def _join_texts(blocks: list[Any]) -> list[Json]:
    """Join neighbouring blocks of plain text."""
    joined: list[Json] = []
    for is_plain, group in groupby(
        map(as_object, blocks), lambda it: it.keys() == {"type", "text"}
    ):
        same = list(group)
        if is_plain and len(same) > 1:
            text = "".join(str(block["text"]) for block in same)
            same = [{"type": "text", "text": text}]
        joined += same
    return joined
