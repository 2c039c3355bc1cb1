"""Translate live tool calls and terminals of version 2 for a version 1 client.

Version 1 can only send the whole content of a tool call again. Content that grows is therefore
sent when its size has doubled, and otherwise with the next update of the call or at the end of the
turn. There is one instance per session.
"""

from collections.abc import Collection, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import MsgspecError, Struct, field

from rekindle.acp.terminal_output import Terminal, decode_bytes
from rekindle.acp.translate.content import text_part
from rekindle.acp.translate.tool_calls import call_to_v1
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object, encode, without

_MIN_NEW_BYTES = 4096
"""The number of bytes of output after which a terminal is considered again."""
_SMALL_CALL_BYTES = 8192
"""Up to this size the content of a call is sent with each chunk."""
_MAX_TERMINALS_PER_CALL = 16
"""The output of further terminals is sent with the next update of the call."""
_MAX_KEPT_CHARACTERS = 8 << 20
_READ_BYTES = 128 << 10
"""Portions that fit into a processor's cache: larger ones take twice as long to decode."""
_NO_OUTPUT = "[no output]"
_NOT_KEPT = "[not shown here: load the session again to see this output]"


class _Call(Struct):
    number: int
    content: list[Any] = []
    terminals: dict[str, None] = {}
    """The ids of the terminals that it shows, in order."""
    size: int = 0
    """The size of its content without the output of terminals."""
    changes: int = 0
    sent_size: int = 0
    sent_changes: int = 0


class _Terminal(Struct):
    output: bytearray = field(default_factory=bytearray)
    calls: set[str] = set()
    """The ids of the tool calls that show it."""
    has_ended: bool = False
    changes: int = 0


class LiveToolCallsToV1:
    """The tool calls and terminals of one session. Each method returns updates of version 1."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._terminals: dict[str, _Terminal] = {}
        self._touched: set[str] = set()
        """The calls that this turn has changed."""
        self._kept: dict[str, int] = {}
        """The size of the text that each call keeps of terminals that have ended."""
        self._passed: list[bytes] = []
        """Lines of output that the fast path has accepted, not yet decoded."""
        self._passed_bytes = 0
        self._new_bytes = 0
        """The number of bytes since an update of a terminal was last translated."""
        self._enough_bytes = _MIN_NEW_BYTES
        """The number of bytes after which the next update should be translated."""

    def know(self, call_ids: Iterable[str]) -> None:
        """Note the calls that the client has received before."""
        for call_id in call_ids:
            self._calls.setdefault(call_id, _Call(len(self._calls)))

    def tool_call(self, update: Json) -> list[Json]:
        """Translate a `tool_call_update`."""
        self._catch_up()
        rest = without(update, "sessionUpdate")
        call_id, call, is_new = self._find_or_add(rest)
        if "content" in rest:
            call.content, call.terminals, call.size = [], {}, 0
            for part in as_array(rest["content"]):
                self._append(call_id, call, part)
            call.changes += 1
        elif self._is_late(call):
            rest = {**rest, "content": call.content}
        return [self._translate(call_id, call, rest, is_new=is_new)]

    def content_chunk(self, update: Json) -> list[Json]:
        """Translate a `tool_call_content_chunk`."""
        self._catch_up()
        call_id, call, is_new = self._find_or_add(update)
        self._append(call_id, call, update.get("content"))
        is_small = self._size(call) <= _SMALL_CALL_BYTES
        if not is_new and not is_small and not self._has_doubled(call):
            return []
        return [self._translate(call_id, call, {"content": call.content}, is_new=is_new)]

    def terminal(self, update: Json) -> list[Json]:
        """Translate a `terminal_update`."""
        self._catch_up()
        terminal = self._terminal(as_str(update.get("terminalId")) or "")
        if "output" in update:
            terminal.output = bytearray(decode_bytes(as_object(update["output"]).get("data")))
            terminal.changes += 1
        has_ended = update.get("exitStatus") is not None
        terminal.has_ended = terminal.has_ended or has_ended
        return self._updates_for(terminal, is_forced="output" in update or has_ended)

    def terminal_output(self, update: Json) -> list[Json]:
        """Translate a `terminal_output_chunk`."""
        self._catch_up()
        terminal = self._terminal(as_str(update.get("terminalId")) or "")
        terminal.output += decode_bytes(update.get("data"))
        terminal.changes += 1
        updates = self._updates_for(terminal)
        self._enough_bytes = max(_MIN_NEW_BYTES, len(terminal.output))
        return updates

    def forget(self, call_ids: Collection[str]) -> None:
        """Forget tool calls that a rewind has removed, and the terminals that only they show."""
        self._catch_up()
        self._touched -= set(call_ids)
        for call_id in call_ids:
            self._calls.pop(call_id, None)
            self._kept.pop(call_id, None)
        for name, terminal in list(self._terminals.items()):
            if terminal.calls:
                terminal.calls -= set(call_ids)
                if not terminal.calls:
                    del self._terminals[name]

    def note_passed(self, lines: bytes) -> bool:
        """Note output that the fast path has accepted; return whether it may suffice to be sent."""
        self._passed.append(lines)
        self._passed_bytes += len(lines)
        self._new_bytes += len(lines)
        if self._passed_bytes >= _READ_BYTES:
            self._read()
        return self._new_bytes >= self._enough_bytes

    def end_turn(self) -> list[Json]:
        """Send the content that is late, and drop the terminals that have ended."""
        self._catch_up()
        touched = sorted(
            ((name, self._calls[name]) for name in self._touched), key=lambda it: it[1].number
        )
        self._touched.clear()
        late = [
            self._translate(call_id, call, {"content": call.content}, is_new=False)
            for call_id, call in touched
            if self._is_late(call)
        ]
        for name in [name for name, it in self._terminals.items() if it.has_ended]:
            for call_id in self._terminals[name].calls:
                self._keep_as_text(call_id, name)
            del self._terminals[name]
        for _, call in touched:
            call.sent_changes = self._changes(call)
        return late

    def show_terminal(self, terminal_id: str) -> str:
        """Return the output of a terminal as text.

        Lost: colours and other control sequences.
        """
        terminal = self._terminals.get(terminal_id, _Terminal())
        return Terminal(output=terminal.output).text or _NO_OUTPUT

    # -- calls --------------------------------------------------------------------------

    def _find_or_add(self, update: Json) -> tuple[str, _Call, bool]:
        call_id = as_str(update.get("toolCallId")) or ""
        is_new = call_id not in self._calls
        if is_new:
            self._calls[call_id] = _Call(len(self._calls))
        self._touched.add(call_id)
        return call_id, self._calls[call_id], is_new

    def _append(self, call_id: str, call: _Call, part: object) -> None:
        call.content.append(part)
        call.changes += 1
        shown = _terminals_in([part])
        has_room = len(call.terminals) < _MAX_TERMINALS_PER_CALL
        call.size += 0 if shown and has_room else len(encode(part))
        for terminal_id in shown if has_room else []:
            call.terminals[terminal_id] = None
            self._terminal(terminal_id).calls.add(call_id)

    def _translate(self, call_id: str, call: _Call, rest: Json, *, is_new: bool) -> Json:
        if "content" in rest:
            call.sent_size, call.sent_changes = self._size(call), self._changes(call)
        translated = call_to_v1({**rest, "toolCallId": call_id}, self.show_terminal)
        if is_new:
            return {"sessionUpdate": "tool_call", "title": "", **translated}
        return {"sessionUpdate": "tool_call_update", **translated}

    def _updates_for(self, terminal: _Terminal, *, is_forced: bool = False) -> list[Json]:
        """Return updates of the calls that show a terminal, if enough has changed."""
        shown_in = [(call_id, self._calls[call_id]) for call_id in sorted(terminal.calls)]
        return [
            self._translate(call_id, call, {"content": call.content}, is_new=False)
            for call_id, call in shown_in
            if self._is_late(call) and (is_forced or self._has_doubled(call))
        ]

    def _is_late(self, call: _Call) -> bool:
        return self._changes(call) != call.sent_changes

    def _has_doubled(self, call: _Call) -> bool:
        return self._size(call) >= 2 * call.sent_size

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
        """Replace a terminal in the content of a call by its text, within a limit for all calls."""
        call, text = self._calls[call_id], self.show_terminal(terminal_id)
        shown = text_part(text)
        call.content = [
            shown if _terminals_in([part]) == [terminal_id] else part for part in call.content
        ]
        self._kept[call_id] = self._kept.get(call_id, 0) + len(text)
        while sum(self._kept.values()) > _MAX_KEPT_CHARACTERS:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._calls[oldest].content = [text_part(_NOT_KEPT)]

    def _catch_up(self) -> None:
        self._read()
        self._new_bytes = 0

    def _read(self) -> None:
        """Decode the output that the fast path has accepted."""
        passed, self._passed, self._passed_bytes = self._passed, [], 0
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
"""Decodes many lines of terminal output at once."""


_terminal_id_in = attrgetter("params.update.terminal_id")
_data_in = attrgetter("params.update.data")


def _terminals_in(content: list[Any]) -> list[str]:
    parts = map(as_object, content)
    return [str(part.get("terminalId")) for part in parts if part.get("type") == "terminal"]
