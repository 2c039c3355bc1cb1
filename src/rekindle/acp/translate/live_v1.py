"""What a version 2 agent says, as it says it, for a version 1 client. One instance a session.

Version 1 can only add to what was said. Where a version 2 agent takes something back, the client
is told the new as a message of its own; when the session is loaded again, all is as it should be.
"""

from itertools import groupby
from typing import Any

from rekindle.acp.methods import STATE_UPDATE, TERMINAL_OUTPUT_CHUNK
from rekindle.acp.translate.commands import commands_to_v1
from rekindle.acp.translate.config import modes_to_v1, options_to_v1
from rekindle.acp.translate.live_tool_calls import LiveToolCallsToV1
from rekindle.acp.translate.plans import plan_to_v1
from rekindle.acp.translate.updates import block_to_v1
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object

Json = dict[str, Any]

_WHOLE = {
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}
_CHUNKS = frozenset(_WHOLE.values())
_SAME = frozenset({"session_info_update", "usage_update"})

_MESSAGES_KEPT = 8


class LiveToV1:
    """Translates the updates of one session."""

    def __init__(self, *, with_booleans: bool = False) -> None:
        self._with_booleans = with_booleans
        self._said: dict[str, list[Any]] = {}
        self._passed_words: list[bytes] = []
        self._is_terminal = False
        """Whether what passes by is a terminal's."""
        self._calls = LiveToolCallsToV1()
        self._told_as: dict[str, str] = {}
        """The ids under which what was said anew is told."""
        self._mode: object = None
        self.options: list[Any] = []
        self._replaced = 0

    @property
    def has_renamed(self) -> bool:
        """Whether something is told under another id than the agent's."""
        return bool(self._told_as)

    def update(self, update: Json) -> list[Json]:  # noqa: PLR0911 - one for each kind
        """Return the updates of version 1 that tell the same."""
        kind = as_str(update.get("sessionUpdate")) or ""
        rest = {name: value for name, value in update.items() if name != "sessionUpdate"}
        self._is_terminal = kind == TERMINAL_OUTPUT_CHUNK
        match kind:
            case "tool_call_update":
                return self._calls.update(rest)
            case "tool_call_content_chunk":
                return self._calls.add(rest)
            case "terminal_update":
                return self._calls.terminal(rest)
            case "terminal_output_chunk":
                return self._calls.output(rest)
            case "plan_update":
                entries = plan_to_v1(as_object(rest.pop("plan", None)))
                # Lost: plans that are no lists.
                told = {"sessionUpdate": "plan", **rest, "entries": entries}
                return [told] if entries is not None else []
            case "config_option_update":
                return self._options(rest)
            case "available_commands_update":
                commands = commands_to_v1(rest.pop("availableCommands", None))
                return [{"sessionUpdate": kind, **rest, "availableCommands": commands}]
            case _:
                return self._message_or_other(kind, update, rest)

    def hear(self, lines: bytes) -> bool:
        """Take notice of chunks that pass by. They are read when there is need.

        Tell whether there may be enough of a terminal's output to show it again.
        """
        if self._is_terminal:
            return self._calls.hear(lines)
        self._passed_words.append(lines)
        return False

    def _read_words(self) -> None:
        passed, self._passed_words = self._passed_words, []
        for update in map(_update_in, _split(passed)):
            self._say(as_str(update.get("messageId")) or "", update.get("content"))

    def _say(self, message_id: str, block: object) -> None:
        self._said.setdefault(message_id, []).append(block)
        while len(self._said) > _MESSAGES_KEPT:
            # What is said anew of an older one is told beside it.
            del self._said[next(iter(self._said))]

    def show_terminal(self, terminal_id: str) -> str:
        """Return what a terminal has put out, as text that harms nobody."""
        return self._calls.show_terminal(terminal_id)

    # -- messages -----------------------------------------------------------------------

    def _message_or_other(self, kind: str, update: Json, rest: Json) -> list[Json]:
        message_id = as_str(rest.get("messageId")) or ""
        if kind in _CHUNKS:
            self._read_words()
            self._say(message_id, rest.get("content"))
            block = as_object(rest.get("content"))
            told = (
                update if block_to_v1(block) is block else {**update, "content": block_to_v1(block)}
            )
            told_id = self._told_as.get(message_id)
            return [told if told_id is None else {**told, "messageId": told_id}]
        if kind in _WHOLE:
            return self._whole(_WHOLE[kind], message_id, rest)
        if kind in _SAME or kind.startswith("_"):
            return [update]
        if kind == STATE_UPDATE and update.get("state") == "idle":
            self._said.clear()
            self._passed_words.clear()
            return self._calls.end_turn()
        # Lost: states, which the prompt's answer tells; notices; compactions; kinds to come.
        return []

    def _whole(self, kind: str, message_id: str, rest: Json) -> list[Json]:
        if "content" not in rest:
            return []
        self._read_words()
        blocks = as_array(rest["content"])
        said = self._said.get(message_id, [])
        self._said[message_id] = blocks
        news = _rest_of(blocks, said)
        if news is None:
            # What was said cannot be taken back here; what is said instead is told beside it.
            self._replaced += 1
            self._told_as[message_id] = f"{message_id}~{self._replaced}"
            news = blocks
        told_id = self._told_as.get(message_id, message_id)
        blocks = map(block_to_v1, map(as_object, news))
        return [{"sessionUpdate": kind, "messageId": told_id, "content": it} for it in blocks]

    # -- state --------------------------------------------------------------------------

    def _options(self, rest: Json) -> list[Json]:
        options = self.options = as_array(rest.pop("configOptions", None))
        told = options_to_v1(options, with_booleans=self._with_booleans)
        updates: list[Json] = [
            {"sessionUpdate": "config_option_update", **rest, "configOptions": told}
        ]
        modes = modes_to_v1(options)
        mode = as_str(modes["currentModeId"]) if modes else None
        if mode not in {None, self._mode}:
            self._mode = mode
            updates.append({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        return updates


def _split(passed: list[bytes]) -> list[bytes]:
    return b"\n".join(passed).split(b"\n") if passed else []


def _update_in(line: bytes) -> Json:
    return as_object(as_object((decode_object(line) or {}).get("params")).get("update"))


def _rest_of(blocks: list[Any], said: list[Any]) -> list[Any] | None:
    """Return the blocks that go on from what was said; None if they do not begin with it."""
    whole, known = _joined(blocks), _joined(said)
    for index, block in enumerate(known):
        if index >= len(whole):
            return None
        if whole[index] != block:
            words, before = as_str(whole[index].get("text")), as_str(block.get("text"))
            is_last = index == len(known) - 1
            if words is None or before is None or not is_last or not words.startswith(before):
                return None
            return [{"type": "text", "text": words[len(before) :]}, *whole[index + 1 :]]
    return whole[len(known) :]


def _joined(blocks: list[Any]) -> list[Json]:
    """Join neighbouring plain texts."""
    result: list[Json] = []
    for is_plain, group in groupby(
        map(as_object, blocks), lambda it: it.keys() == {"type", "text"}
    ):
        same = list(group)
        if is_plain and len(same) > 1:
            words = "".join(str(block["text"]) for block in same)
            same = [{"type": "text", "text": words}]
        result += same
    return result
