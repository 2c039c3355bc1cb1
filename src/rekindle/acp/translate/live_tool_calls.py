"""Tool calls and terminals of a version 2 agent, for a version 1 client. One instance a session.

Version 1 can only tell all of a call's content once more. So what grows is told when there is
twice as much of it, and otherwise with the next word about the call, or at the end of the turn.
"""

from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import MsgspecError, Struct, field

from rekindle.acp.terminal_output import Terminal, decode_bytes
from rekindle.acp.translate.tool_calls import call_to_v1
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object, encode

Json = dict[str, Any]

_LEAST_NEWS = 4096
_TOLD_FREELY = 8192
_MOST_TERMINALS = 16
"""Of a call: what further ones put out is told with the next word about it."""
_MOST_KEPT = 8 << 20
_READ_AT_ONCE = 128 << 10
"""What lies in the caches of a processor: more of it at once takes twice as long."""
_NO_OUTPUT = "[no output]"
_NOT_KEPT = "[what this showed is in the record: load the session again to see it]"


class _Call(Struct):
    number: int
    content: list[Any] = []
    terminals: dict[str, None] = {}
    """Those that it shows."""
    size: int = 0
    """How much of it there is, but for what terminals have put out."""
    changes: int = 0
    told_size: int = 0
    told_changes: int = 0


class _Terminal(Struct):
    output: bytearray = field(default_factory=bytearray)
    calls: set[str] = set()
    """The tool calls that show it."""
    has_ended: bool = False
    changes: int = 0


class LiveToolCallsToV1:
    """Translates what is told of the tool calls and terminals of one session."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._terminals: dict[str, _Terminal] = {}
        self._touched: set[str] = set()
        """The calls of which something was said in this turn."""
        self._kept: dict[str, int] = {}
        """How much each call keeps of terminals that have ended."""
        self._passed: list[bytes] = []
        self._passed_size = 0
        self._news = 0
        """How much has passed since a terminal was looked at."""
        self._enough = _LEAST_NEWS
        """How much has to pass before it is worth another look."""

    def update(self, rest: Json) -> list[Json]:
        """Take a `tool_call_update`."""
        self._catch_up()
        call_id, call, is_new = self._known(rest)
        if "content" in rest:
            call.content, call.terminals, call.size = [], {}, 0
            for part in as_array(rest["content"]):
                self._add(call_id, call, part)
            call.changes += 1
        elif self._is_late(call):
            rest = {**rest, "content": call.content}
        return [self._told(call_id, call, rest, is_new=is_new)]

    def add(self, rest: Json) -> list[Json]:
        """Take a `tool_call_content_chunk`."""
        self._catch_up()
        call_id, call, is_new = self._known(rest)
        self._add(call_id, call, rest.get("content"))
        is_small = self._size(call) <= _TOLD_FREELY
        if not is_new and not is_small and not self._has_doubled(call):
            return []
        return [self._told(call_id, call, {"content": call.content}, is_new=is_new)]

    def terminal(self, rest: Json) -> list[Json]:
        """Take a `terminal_update`."""
        self._catch_up()
        terminal = self._terminal(as_str(rest.get("terminalId")) or "")
        if "output" in rest:
            terminal.output = bytearray(decode_bytes(as_object(rest["output"]).get("data")))
            terminal.changes += 1
        has_ended = rest.get("exitStatus") is not None
        terminal.has_ended = terminal.has_ended or has_ended
        return self._shown_in(terminal, is_worth_it="output" in rest or has_ended)

    def output(self, rest: Json) -> list[Json]:
        """Take a `terminal_output_chunk`."""
        self._catch_up()
        terminal = self._terminal(as_str(rest.get("terminalId")) or "")
        terminal.output += decode_bytes(rest.get("data"))
        terminal.changes += 1
        news = self._shown_in(terminal)
        self._enough = max(_LEAST_NEWS, len(terminal.output))
        return news

    def hear(self, lines: bytes) -> bool:
        """Take notice of output that passes by; tell whether there may be enough to show it."""
        self._passed.append(lines)
        self._passed_size += len(lines)
        self._news += len(lines)
        if self._passed_size >= _READ_AT_ONCE:
            self._read()
        return self._news >= self._enough

    def end_turn(self) -> list[Json]:
        """Tell what is yet to be told, and let go of terminals that have ended."""
        self._catch_up()
        touched = sorted(
            ((name, self._calls[name]) for name in self._touched), key=lambda it: it[1].number
        )
        self._touched.clear()
        late = [
            self._told(call_id, call, {"content": call.content}, is_new=False)
            for call_id, call in touched
            if self._is_late(call)
        ]
        for name in [name for name, it in self._terminals.items() if it.has_ended]:
            for call_id in self._terminals[name].calls:
                self._keep_as_text(call_id, name)
            del self._terminals[name]
        for _, call in touched:
            call.told_changes = self._changes(call)
        return late

    def show_terminal(self, terminal_id: str) -> str:
        """Return what a terminal has put out, as text that harms nobody.

        Lost: colours, and everything else that a terminal obeys.
        """
        terminal = self._terminals.get(terminal_id, _Terminal())
        return Terminal(output=terminal.output).text or _NO_OUTPUT

    # -- calls --------------------------------------------------------------------------

    def _known(self, rest: Json) -> tuple[str, _Call, bool]:
        call_id = as_str(rest.get("toolCallId")) or ""
        is_new = call_id not in self._calls
        if is_new:
            self._calls[call_id] = _Call(len(self._calls))
        self._touched.add(call_id)
        return call_id, self._calls[call_id], is_new

    def _add(self, call_id: str, call: _Call, part: object) -> None:
        call.content.append(part)
        call.changes += 1
        shown = _terminals_in([part])
        has_room = len(call.terminals) < _MOST_TERMINALS
        call.size += 0 if shown and has_room else len(encode(part))
        for terminal_id in shown if has_room else []:
            call.terminals[terminal_id] = None
            self._terminal(terminal_id).calls.add(call_id)

    def _told(self, call_id: str, call: _Call, rest: Json, *, is_new: bool) -> Json:
        if "content" in rest:
            call.told_size, call.told_changes = self._size(call), self._changes(call)
        told = call_to_v1({**rest, "toolCallId": call_id}, self.show_terminal)
        if is_new:
            return {"sessionUpdate": "tool_call", "title": "", **told}
        return {"sessionUpdate": "tool_call_update", **told}

    def _shown_in(self, terminal: _Terminal, *, is_worth_it: bool = False) -> list[Json]:
        """Tell of the calls that show a terminal, as far as there is news enough."""
        shown_in = [(call_id, self._calls[call_id]) for call_id in sorted(terminal.calls)]
        return [
            self._told(call_id, call, {"content": call.content}, is_new=False)
            for call_id, call in shown_in
            if self._is_late(call) and (is_worth_it or self._has_doubled(call))
        ]

    def _is_late(self, call: _Call) -> bool:
        return self._changes(call) != call.told_changes

    def _has_doubled(self, call: _Call) -> bool:
        return self._size(call) >= 2 * call.told_size

    def _size(self, call: _Call) -> int:
        return call.size + sum(len(it.output) for it in self._terminals_of(call))

    def _changes(self, call: _Call) -> int:
        return call.changes + sum(it.changes for it in self._terminals_of(call))

    # -- terminals ----------------------------------------------------------------------

    def _terminal(self, terminal_id: str) -> _Terminal:
        terminal = self._terminals.get(terminal_id)
        if terminal is None:
            terminal = self._terminals[terminal_id] = _Terminal()
        self._touched |= terminal.calls
        return terminal

    def _terminals_of(self, call: _Call) -> list[_Terminal]:
        return [self._terminals[name] for name in call.terminals if name in self._terminals]

    def _keep_as_text(self, call_id: str, terminal_id: str) -> None:
        """Keep of a terminal what a call shows, as far as there is room."""
        call, words = self._calls[call_id], self.show_terminal(terminal_id)
        shown = {"type": "content", "content": {"type": "text", "text": words}}
        call.content = [
            shown if _terminals_in([part]) == [terminal_id] else part for part in call.content
        ]
        self._kept[call_id] = self._kept.get(call_id, 0) + len(words)
        while sum(self._kept.values()) > _MOST_KEPT:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            note = {"type": "content", "content": {"type": "text", "text": _NOT_KEPT}}
            self._calls[oldest].content = [note]

    def _catch_up(self) -> None:
        self._read()
        self._news = 0

    def _read(self) -> None:
        """Take the output that has passed by."""
        passed, self._passed, self._passed_size = self._passed, [], 0
        if not passed:
            return
        try:
            lines = _decode_lines(b"[" + b",".join(passed).replace(b"\n", b",") + b"]")
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            for line in b"\n".join(passed).split(b"\n"):
                update = as_object(
                    as_object((decode_object(line) or {}).get("params")).get("update")
                )
                terminal = self._terminal(as_str(update.get("terminalId")) or "")
                terminal.output += decode_bytes(update.get("data"))
                terminal.changes += 1
            return
        for terminal_id, group in groupby(lines, _terminal_id_in):
            terminal = self._terminal(terminal_id)
            terminal.output += b"".join(map(_data_in, group))
            terminal.changes += 1


class _Output(Struct, gc=False):
    terminal_id: str = field(name="terminalId")
    data: bytes


class _Params(Struct, gc=False):
    update: _Output


class _Line(Struct, gc=False):
    params: _Params


_decode_lines = msgspec.json.Decoder(list[_Line]).decode
"""Reads lines of terminals' output, of which there may be very many."""


_terminal_id_in = attrgetter("params.update.terminal_id")
_data_in = attrgetter("params.update.data")


def _terminals_in(content: list[Any]) -> list[str]:
    parts = map(as_object, content)
    return [str(part.get("terminalId")) for part in parts if part.get("type") == "terminal"]
