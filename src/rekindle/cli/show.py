"""Show a session: what was said, done and planned, turn by turn.

SESSION is a session's id, or the beginning of one.

example:
  rekindle show 3cc4cc56
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from rekindle.cli.list import describe, stand
from rekindle.cli.reading import add_session, add_store_option, open_for_reading
from rekindle.cli.words import (
    agent_name,
    clock,
    folder,
    iso,
    one_line,
    print_json,
    printable,
    title,
)
from rekindle.core.items import Gap, Handover, Item, Message, Other, Plan, Role, ToolCall, Turn
from rekindle.core.transcript import fold
from rekindle.model import Session
from rekindle.wire.envelope import table, text

_MARKS = {"completed": "✓", "failed": "✗", "in_progress": "…", "pending": "·"}
_MARKS_OF_ROLES = {Role.USER: "> ", Role.AGENT: "", Role.THOUGHT: "~ "}
_STYLES = {
    "heading": "bold",
    "user": "bold cyan",
    "agent": "",
    "thought": "dim italic",
    "tool": "yellow",
    "plan": "magenta",
    "problem": "red",
    "end": "dim",
}

_Line = tuple[str, str]
"""A style's name and a text."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print the session."""
    with open_for_reading(arguments.store) as store:
        session = store.find(arguments.session)
        turns = fold(store.read(session.id)).turns
        state = stand(store, [session])[session.id]
    if arguments.json:
        conversation = [_turn_as_json(turn) for turn in turns]
        print_json(describe(session) | {"state": state, "conversation": conversation})
    else:
        _print(_lines(session, turns))
    return 0


def _print(lines: Iterator[_Line]) -> None:
    if not sys.stdout.isatty():
        for _, words in lines:
            print(words)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for style, words in lines:
        console.print(Text(words, style=_STYLES[style]))


def _lines(session: Session, turns: list[Turn]) -> Iterator[_Line]:
    yield "heading", title(session)
    yield "end", f"{one_line(session.id)} · {agent_name(session.agent)} · {folder(session)}"
    for turn in turns:
        yield "end", ""
        yield "end", f"── turn {turn.number} · {clock(turn.at_us)} ──"
        for item in turn.items:
            yield from _item_lines(item)
        yield from _ending(turn)


def _item_lines(item: Item) -> Iterator[_Line]:
    match item:
        case Message():
            mark = _MARKS_OF_ROLES[item.role]
            for line in _words(item).splitlines():
                yield item.role.value, f"{mark}{printable(line)}"
        case ToolCall():
            yield "tool", _tool_call_line(item)
        case Plan():
            for step in map(table, item.entries):
                done = "x" if step.get("status") == "completed" else " "
                yield "plan", f"  [{done}] {one_line(str(step.get('content', '')))}"
        case Other():
            pass
        case Handover():
            yield "end", "(the agent did not remember this session, so it was told the record)"
        case Gap():
            yield "problem", f"({item.lost} entries are missing: the store could not be written)"


def _words(message: Message) -> str:
    return "".join(
        words if (words := text(block.get("text"))) is not None else _attachment(block)
        for block in message.blocks
    )


def _attachment(block: dict[str, Any]) -> str:
    uri = block.get("uri") or table(block.get("resource")).get("uri")
    return f" [{block.get('type', 'something')}{f' {uri}' if uri else ''}] "


def _tool_call_line(call: ToolCall) -> str:
    fields = call.fields
    status = str(fields.get("status", "pending"))
    asked = f" ({one_line(call.outcome)})" if call.outcome else ""
    name = fields.get("title") or fields.get("kind") or call.id
    return f"{_MARKS.get(status, '?')} {one_line(str(name))}{asked}"


def _ending(turn: Turn) -> Iterator[_Line]:
    if turn.error is not None:
        yield "problem", f"(failed: {one_line(str(turn.error.get('message', 'no reason given')))})"
    elif turn.ended_us is None:
        yield "problem", "(cut off, or still going on)"
    elif turn.stop_reason not in {None, "end_turn"}:
        yield "end", f"({one_line(str(turn.stop_reason))})"


def _turn_as_json(turn: Turn) -> dict[str, Any]:
    return {
        "turn": turn.number,
        "at": iso(turn.at_us),
        "endedAt": iso(turn.ended_us) if turn.ended_us else None,
        "stopReason": turn.stop_reason,
        "error": turn.error,
        "items": [_item_as_json(item) for item in turn.items],
    }


def _item_as_json(item: Item) -> dict[str, Any]:
    match item:
        case Message():
            kind = {"type": "message", "role": item.role, "messageId": item.id}
            return kind | {"content": item.blocks, "at": iso(item.at_us)}
        case ToolCall():
            kind = {"type": "tool_call", "toolCallId": item.id, "permission": item.outcome}
            return item.fields | kind | {"at": iso(item.at_us)}
        case Plan():
            return {"type": "plan", "entries": item.entries, "at": iso(item.at_us)}
        case Other():
            return {"type": "update", "update": item.update, "at": iso(item.at_us)}
        case Handover():
            return {"type": "handover", "at": iso(item.at_us)}
        case Gap():
            return {"type": "gap", "lostEntries": item.lost, "at": iso(item.at_us)}
