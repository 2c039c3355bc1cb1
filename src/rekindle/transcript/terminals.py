"""Fold the output of terminals, which the client or the agent may report."""

from collections.abc import Iterable

from rekindle.acp.terminal_output import Terminal, decode_bytes
from rekindle.jsonvalue import Json, as_array, as_object, as_str
from rekindle.transcript.model import ToolCallItem

Terminals = dict[str, Terminal]


def fold_client_output(terminals: Terminals, fields: Json, seq: int) -> None:
    """Fold the output of a client's terminal, as the agent has read it."""
    output = bytearray((as_str(fields.get("output")) or "").encode())
    terminals[str(fields.get("terminalId"))] = Terminal(output=output, last_seq=seq)


def fold_update(terminals: Terminals, update: Json, seq: int) -> None:
    """Fold a `terminal_update`."""
    terminal = _find_or_add(terminals, as_str(update.get("terminalId")) or "", seq)
    if "output" in update:
        terminal.output = bytearray(decode_bytes(as_object(update["output"]).get("data")))
    known = {"sessionUpdate", "terminalId", "output"}
    terminal.rest |= {k: v for k, v in update.items() if k not in known}


def fold_output_chunk(terminals: Terminals, update: Json, seq: int) -> None:
    """Fold a `terminal_output_chunk`."""
    terminal = _find_or_add(terminals, as_str(update.get("terminalId")) or "", seq)
    terminal.output += decode_bytes(update.get("data"))


def fold_meta(terminals: Terminals, meta: Json, seq: int) -> None:
    """Fold the output that some agents put into the `_meta` of a tool call."""
    for name in ("terminal_output", "terminal_output_delta"):
        fields = as_object(meta.get(name))
        terminal_id, output = as_str(fields.get("terminal_id")), as_str(fields.get("data"))
        if terminal_id is not None and output is not None:
            _find_or_add(terminals, terminal_id, seq).output += output.encode()


def retire(terminals: Terminals, calls: Iterable[ToolCallItem], suffix: str) -> None:
    """Add a suffix to the ids of all terminals, because the agent may use the ids again."""
    new_ids = {old: f"{old}{suffix}" for old in terminals if "~" not in old}
    if not new_ids:
        # A session may be opened many times, and few sessions have terminals.
        return
    for old, new in new_ids.items():
        terminals[new] = terminals.pop(old)
    for call in calls:
        content = as_array(call.fields.get("content"))
        if any(as_str(as_object(part).get("terminalId")) in new_ids for part in content):
            call.fields["content"] = [_renamed(part, new_ids) for part in content]


def _find_or_add(terminals: Terminals, terminal_id: str, seq: int) -> Terminal:
    terminal = terminals.setdefault(terminal_id, Terminal())
    terminal.last_seq = seq
    return terminal


def _renamed(part: object, new_ids: dict[str, str]) -> object:
    fields = as_object(part)
    old = as_str(fields.get("terminalId"))
    return part if old not in new_ids else {**fields, "terminalId": new_ids[old]}
