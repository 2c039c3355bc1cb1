"""What is known of the terminals that tool calls show, from all who may tell of them."""

from collections.abc import Iterable
from typing import Any

from rekindle.acp.methods import TERMINAL_OUTPUT_CHUNK
from rekindle.acp.terminal_output import Terminal, decode_bytes
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.transcript.model import ToolCallItem

Json = dict[str, Any]
Terminals = dict[str, Terminal]


def take_from_client(terminals: Terminals, told: Json, seq: int) -> None:
    """Take what a terminal of the client's shows, as the agent was told it."""
    output = bytearray((as_str(told.get("output")) or "").encode())
    terminals[str(told.get("terminalId"))] = Terminal(output=output, last_seq=seq)


def take_update(terminals: Terminals, update: Json, seq: int) -> None:
    """Take what a version 2 agent tells of a terminal."""
    terminal = terminals.setdefault(as_str(update.get("terminalId")) or "", Terminal())
    terminal.last_seq = seq
    if update.get("sessionUpdate") == TERMINAL_OUTPUT_CHUNK:
        terminal.output += decode_bytes(update.get("data"))
        return
    if "output" in update:
        terminal.output = bytearray(decode_bytes(as_object(update["output"]).get("data")))
    hidden = {"sessionUpdate", "terminalId", "output"}
    terminal.rest |= {k: v for k, v in update.items() if k not in hidden}


def take_from_meta(terminals: Terminals, meta: Json, seq: int) -> None:
    """Take what agents that run terminals themselves tell of them, beside the standard."""
    for name in ("terminal_output", "terminal_output_delta"):
        told = as_object(meta.get(name))
        terminal_id, output = as_str(told.get("terminal_id")), as_str(told.get("data"))
        if terminal_id is not None and output is not None:
            terminal = terminals.setdefault(terminal_id, Terminal())
            terminal.output += output.encode()
            terminal.last_seq = seq


def retire(terminals: Terminals, calls: Iterable[ToolCallItem], suffix: str) -> None:
    """Give the terminals there were other names: their ids may come to mean others."""
    names = {name: f"{name}{suffix}" for name in terminals if "~" not in name}
    if not names:
        # A session may be opened very often, and few have any.
        return
    for name, other in names.items():
        terminals[other] = terminals.pop(name)
    for call in calls:
        content = as_array(call.fields.get("content"))
        if any(as_str(as_object(part).get("terminalId")) in names for part in content):
            call.fields["content"] = [_renamed(part, names) for part in content]


def _renamed(part: object, names: dict[str, str]) -> object:
    known = as_object(part)
    name = as_str(known.get("terminalId"))
    return part if name not in names else {**known, "terminalId": names[name]}
