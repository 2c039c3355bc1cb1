"""What a version 2 agent says, as it says it, for a version 1 client. One instance a session.

Version 1 can only add to what was said. Where a version 2 agent takes something back, the client
is told the new as a message of its own; when the session is loaded again, all is as it should be.
"""

from itertools import groupby
from typing import Any

import msgspec
from msgspec import MsgspecError, Struct, field

from rekindle.core.items import Terminal
from rekindle.core.transcript import decode_bytes
from rekindle.core.translate.commands import commands_to_v1
from rekindle.core.translate.options import modes_to_v1, options_to_v1
from rekindle.core.translate.plans import plan_to_v1
from rekindle.core.translate.tool_calls import call_to_v1
from rekindle.wire.envelope import members, rows, table, text
from rekindle.wire.methods import TERMINAL_OUTPUT_CHUNK

Json = dict[str, Any]

_WHOLE = {
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}
_CHUNKS = frozenset(_WHOLE.values())
_SAME = frozenset({"session_info_update", "usage_update"})

_MESSAGES_KEPT = 8
_LEAST_NEWS = 4096


class _Call(Struct):
    content: list[Any] = []
    shown: int = 0
    """How much of its terminals the client was shown."""


class _Terminal(Struct):
    output: bytearray = field(default_factory=bytearray)
    calls: set[str] = set()
    """The tool calls that show it."""
    has_ended: bool = False


class LiveToV1:
    """Translates the updates of one session."""

    def __init__(self, *, with_booleans: bool = False) -> None:
        self._with_booleans = with_booleans
        self._said: dict[str, list[Any]] = {}
        self._passed_words: list[bytes] = []
        self._passed_output: list[bytes] = []
        self._passed_size = 0
        self._is_terminal = False
        self._enough = _LEAST_NEWS
        """How much has to pass before a terminal is worth another look."""
        self._calls: dict[str, _Call] = {}
        self._terminals: dict[str, _Terminal] = {}
        self._told_as: dict[str, str] = {}
        """The ids under which what was said anew is told."""
        self._mode: object = None
        self.options: list[Any] = []
        self._replaced = 0

    def update(self, update: Json) -> list[Json]:  # noqa: PLR0911 - one for each kind
        """Return the updates of version 1 that tell the same."""
        kind = text(update.get("sessionUpdate")) or ""
        rest = {name: value for name, value in update.items() if name != "sessionUpdate"}
        self._read_output()
        self._is_terminal = kind == TERMINAL_OUTPUT_CHUNK
        match kind:
            case "tool_call_update":
                return self._call(rest)
            case "tool_call_content_chunk":
                return self._call_chunk(rest)
            case "terminal_update" | "terminal_output_chunk":
                return self._terminal(kind, rest)
            case "plan_update":
                entries = plan_to_v1(table(rest.pop("plan", None)))
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
        if not self._is_terminal:
            self._passed_words.append(lines)
            return False
        self._passed_output.append(lines)
        self._passed_size += len(lines)
        return self._passed_size >= self._enough

    def _read_words(self) -> None:
        passed, self._passed_words = self._passed_words, []
        for update in map(_update_in, _split(passed)):
            self._say(text(update.get("messageId")) or "", update.get("content"))

    def _read_output(self) -> None:
        passed, self._passed_output, self._passed_size = self._passed_output, [], 0
        try:
            lines = _decode_lines(b"[" + b",".join(passed).replace(b"\n", b",") + b"]")
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            for line in _split(passed):
                self._put_out(_update_in(line))
            return
        for terminal_id, group in groupby(lines, _terminal_id_in):
            output = self._of_terminal(terminal_id).output
            output += b"".join([line.params.update.data for line in group])

    def _put_out(self, update: Json) -> _Terminal:
        terminal = self._of_terminal(text(update.get("terminalId")) or "")
        terminal.output += decode_bytes(update.get("data"))
        return terminal

    def _of_terminal(self, terminal_id: str) -> _Terminal:
        terminal = self._terminals.get(terminal_id)
        if terminal is None:
            terminal = self._terminals[terminal_id] = _Terminal()
        return terminal

    def _say(self, message_id: str, block: object) -> None:
        self._said.setdefault(message_id, []).append(block)
        while len(self._said) > _MESSAGES_KEPT:
            # What is said anew of an older one is told beside it.
            del self._said[next(iter(self._said))]

    def show_terminal(self, terminal_id: str) -> str:
        """Return what a terminal has put out, as text that harms nobody.

        Lost: colours, and everything else that a terminal obeys.
        """
        terminal = self._terminals.get(terminal_id, _Terminal())
        return Terminal(output=bytes(terminal.output)).text or "[no output]"

    # -- messages -----------------------------------------------------------------------

    def _message_or_other(self, kind: str, update: Json, rest: Json) -> list[Json]:
        message_id = text(rest.get("messageId")) or ""
        if kind in _CHUNKS:
            self._read_words()
            self._say(message_id, rest.get("content"))
            told_id = self._told_as.get(message_id)
            return [update if told_id is None else {**update, "messageId": told_id}]
        if kind in _WHOLE:
            return self._whole(_WHOLE[kind], message_id, rest)
        if kind in _SAME or kind.startswith("_"):
            return [update]
        if update.get("state") == "idle":
            return self._end_turn()
        # Lost: states, which the prompt's answer tells; notices; compactions; kinds to come.
        return []

    def _whole(self, kind: str, message_id: str, rest: Json) -> list[Json]:
        if "content" not in rest:
            return []
        self._read_words()
        blocks = rows(rest["content"])
        said = self._said.get(message_id, [])
        self._said[message_id] = blocks
        news = _rest_of(blocks, said)
        if news is None:
            # What was said cannot be taken back here; what is said instead is told beside it.
            self._replaced += 1
            self._told_as[message_id] = f"{message_id}~{self._replaced}"
            news = blocks
        told_id = self._told_as.get(message_id, message_id)
        return [{"sessionUpdate": kind, "messageId": told_id, "content": it} for it in news]

    # -- tool calls and terminals -------------------------------------------------------

    def _call(self, rest: Json) -> list[Json]:
        call_id = text(rest.get("toolCallId")) or ""
        is_new = call_id not in self._calls
        call = self._calls.setdefault(call_id, _Call())
        if "content" in rest:
            self._show(call_id, call, rows(rest["content"]))
        elif self._size(call) != call.shown:
            rest = {**rest, "content": call.content}
        return [self._told_call(call_id, call, rest, is_new=is_new)]

    def _call_chunk(self, rest: Json) -> list[Json]:
        call_id = text(rest.get("toolCallId")) or ""
        is_new = call_id not in self._calls
        call = self._calls.setdefault(call_id, _Call())
        self._show(call_id, call, [*call.content, rest.get("content")])
        whole = {"toolCallId": call_id, "content": call.content}
        return [self._told_call(call_id, call, whole, is_new=is_new)]

    def _show(self, call_id: str, call: _Call, content: list[Any]) -> None:
        call.content = content
        for terminal_id in _terminals_in(call):
            self._of_terminal(terminal_id).calls.add(call_id)

    def _told_call(self, call_id: str, call: _Call, rest: Json, *, is_new: bool) -> Json:
        call.shown = self._size(call)
        told = call_to_v1({**rest, "toolCallId": call_id}, self.show_terminal)
        if is_new:
            return {"sessionUpdate": "tool_call", "title": "", **told}
        return {"sessionUpdate": "tool_call_update", **told}

    def _terminal(self, kind: str, rest: Json) -> list[Json]:
        terminal_id = text(rest.get("terminalId")) or ""
        terminal = self._of_terminal(terminal_id)
        if kind == TERMINAL_OUTPUT_CHUNK:
            self._put_out(rest)
        elif "output" in rest:
            terminal.output = bytearray(decode_bytes(table(rest["output"]).get("data")))
        terminal.has_ended = has_ended = rest.get("exitStatus") is not None
        shown_in = [(call_id, self._calls[call_id]) for call_id in sorted(terminal.calls)]
        news = [
            self._told_call(call_id, call, {"content": call.content}, is_new=False)
            for call_id, call in shown_in
            if terminal_id in _terminals_in(call) and self._is_news(call, has_ended=has_ended)
        ]
        self._enough = max(_LEAST_NEWS, len(terminal.output) // 2)
        return news

    def _end_turn(self) -> list[Json]:
        """Tell what is yet to be told of terminals, and forget what nobody asks for any more."""
        late = [
            self._told_call(call_id, call, {"content": call.content}, is_new=False)
            for call_id, call in self._calls.items()
            if self._size(call) != call.shown
        ]
        self._terminals = {k: it for k, it in self._terminals.items() if not it.has_ended}
        for call in self._calls.values():
            call.shown = self._size(call)
        self._said.clear()
        self._passed_words.clear()
        return late

    def _is_news(self, call: _Call, *, has_ended: bool) -> bool:
        """Tell whether to show a call again: all of it is sent each time, so not for every word."""
        size = self._size(call)
        return size != call.shown and (has_ended or size >= 2 * call.shown)

    def _size(self, call: _Call) -> int:
        return sum(len(self._terminals[name].output) for name in self._known_in(call))

    def _known_in(self, call: _Call) -> list[str]:
        return [name for name in _terminals_in(call) if name in self._terminals]

    # -- state --------------------------------------------------------------------------

    def _options(self, rest: Json) -> list[Json]:
        options = self.options = rows(rest.pop("configOptions", None))
        told = options_to_v1(options, with_booleans=self._with_booleans)
        updates: list[Json] = [
            {"sessionUpdate": "config_option_update", **rest, "configOptions": told}
        ]
        modes = modes_to_v1(options)
        mode = modes["currentModeId"] if modes else None
        if mode not in {None, self._mode}:
            self._mode = mode
            updates.append({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        return updates


class _Output(Struct, gc=False):
    terminal_id: str = field(name="terminalId")
    data: bytes


class _Params(Struct, gc=False):
    update: _Output


class _Line(Struct, gc=False):
    params: _Params


_decode_lines = msgspec.json.Decoder(list[_Line]).decode
"""Reads lines of terminals' output, of which there may be very many."""


def _terminal_id_in(line: _Line) -> str:
    return line.params.update.terminal_id


def _split(passed: list[bytes]) -> list[bytes]:
    return b"\n".join(passed).split(b"\n") if passed else []


def _update_in(line: bytes) -> Json:
    return table(table((members(line) or {}).get("params")).get("update"))


def _rest_of(blocks: list[Any], said: list[Any]) -> list[Any] | None:
    """Return the blocks that go on from what was said; None if they do not begin with it."""
    whole, known = _joined(blocks), _joined(said)
    for index, block in enumerate(known):
        if index >= len(whole):
            return None
        if whole[index] != block:
            words, before = text(whole[index].get("text")), text(block.get("text"))
            is_last = index == len(known) - 1
            if words is None or before is None or not is_last or not words.startswith(before):
                return None
            return [{"type": "text", "text": words[len(before) :]}, *whole[index + 1 :]]
    return whole[len(known) :]


def _joined(blocks: list[Any]) -> list[Json]:
    """Join neighbouring plain texts."""
    result: list[Json] = []
    for block in map(table, blocks):
        last = result[-1] if result else {}
        if block.keys() == last.keys() == {"type", "text"}:
            result[-1] = {"type": "text", "text": f"{last['text']}{block['text']}"}
        else:
            result.append(block)
    return result


def _terminals_in(call: _Call) -> list[str]:
    parts = map(table, call.content)
    return [str(part.get("terminalId")) for part in parts if part.get("type") == "terminal"]
