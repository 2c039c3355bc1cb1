"""A conversation as pieces to be read: what each thing in it says, and how it is meant.

Pieces are safe for a terminal. How they look is not known here: `pretty` is for terminals,
`plain_lines` for all else. Everything that shows a conversation does it by these.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from rekindle.cli.diffing import diff_lines
from rekindle.cli.words import (
    agent_name,
    clock,
    folder,
    lasting,
    one_line,
    printable,
    title,
)
from rekindle.core.items import (
    Gap,
    Handover,
    Item,
    Message,
    Other,
    Plan,
    Role,
    Terminal,
    ToolCall,
    Turn,
)
from rekindle.model import Session
from rekindle.wire.envelope import rows, table, text

_STATUSES = {
    "completed": ("✓ ", "done"),
    "failed": ("✗ ", "failed"),
    "cancelled": ("✗ ", "failed"),
    "in_progress": ("… ", "going"),
    "pending": ("· ", "going"),
    "paused": ("· ", "going"),
}
_STEPS = {"completed": ("[x] ", "done"), "in_progress": ("[>] ", "going")}
_STEP = ("[ ] ", "plan")
_MARKS_OF_ROLES = {Role.USER: "> ", Role.AGENT: "", Role.THOUGHT: "~ "}
_INDENT = "  "
_LINES_OF_A_FOLDED_DIFF = 24

# What is said in one breath stands together; all else has an empty line between.
_TOGETHER = (
    {"tool", "diff", "output"},
    {"plan"},
    {"heading", "note"},
    {"problem", "note"},
    {"question", "choice"},
    {"choice", "note"},
)

FINAL = frozenset({"completed", "failed", "cancelled"})
"""The statuses that a tool call stays in."""


class Piece(Struct, frozen=True, kw_only=True):
    """Some lines that are meant alike; `mark` stands before them."""

    kind: str
    """heading, note, turn, user, agent, thought, tool, diff, output, plan, problem, question,
    choice."""
    words: str
    mark: str = ""
    mark_kind: str = ""
    """What the mark tells: done, failed, going."""


class Detail(Struct, frozen=True, kw_only=True):
    """How much to show of thoughts and tools: None is folded, True whole, False nothing."""

    thoughts: bool | None = None
    tools: bool | None = None


FOLDED = Detail()
Terminals = Mapping[str, Terminal]


def plain_lines(piece: Piece) -> Iterator[str]:
    """Yield a piece as it is written where there is no terminal."""
    for line in piece.words.splitlines():
        yield f"{piece.mark}{line}"


def belong_together(one: str, other: str) -> bool:
    """Tell whether two kinds of pieces stand together, without an empty line between."""
    return one == "turn" or any({one, other} <= kinds for kinds in _TOGETHER)


# -- a session and its turns ----------------------------------------------------------------


def heading(session: Session) -> Iterator[Piece]:
    """Yield what stands above a conversation."""
    yield Piece(kind="heading", words=title(session))
    where = f"{one_line(session.id)} · {agent_name(session.agent)} · {folder(session)}"
    yield Piece(kind="note", words=where)


def turn_pieces(turn: Turn, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield a whole turn."""
    yield turn_heading(turn)
    for item in turn.items:
        yield from item_pieces(item, detail, terminals)
    yield from ending(turn)


def turn_heading(turn: Turn) -> Piece:
    """Return the line above a turn: its number, when it was, and how long it took."""
    words = f"turn {turn.number} · {clock(turn.at_us)}"
    took = lasting(turn.ended_us - turn.at_us) if turn.ended_us else ""
    return Piece(kind="turn", words=f"── {words}{took and f' · {took}'} ──")


def ending(turn: Turn) -> Iterator[Piece]:
    """Yield how a turn ended, unless it did as it should."""
    if turn.error is not None:
        yield failure(str(turn.error.get("message", "no reason given")))
    elif turn.ended_us is None:
        yield Piece(kind="problem", words="(cut off, or still going on)")
    elif turn.stop_reason not in {None, "end_turn"}:
        yield stopped(str(turn.stop_reason))


def failure(reason: str) -> Piece:
    """Return that a turn failed."""
    return Piece(kind="problem", words=f"(failed: {one_line(reason)})")


def stopped(reason: str) -> Piece:
    """Return why a turn ended."""
    return Piece(kind="note", words=f"({one_line(reason)})")


# -- what turns are made of -----------------------------------------------------------------


def item_pieces(item: Item, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield one thing of a conversation."""
    match item:
        case Message():
            yield from _message(item, detail)
        case ToolCall():
            yield from tool_pieces(call_of(item), detail, terminals)
        case Plan():
            yield from map(plan_step, map(table, item.entries))
        case Other():
            pass
        case Handover():
            yield handover()
        case Gap():
            words = f"({item.lost} entries are missing: the store could not be written)"
            yield Piece(kind="problem", words=words)


def handover() -> Piece:
    """Return that the agent was told the record."""
    words = "(the agent did not remember this session, so it was told the record)"
    return Piece(kind="note", words=words)


def _message(message: Message, detail: Detail) -> Iterator[Piece]:
    words = printable(said_in(message.blocks))
    if message.role is Role.THOUGHT:
        yield from thought(words, detail)
    else:
        mark = _MARKS_OF_ROLES[message.role]
        yield Piece(kind=message.role.value, words=words, mark=mark)


def thought(words: str, detail: Detail) -> Iterator[Piece]:
    """Yield a thought; folded, it is its first line."""
    if detail.thoughts is not False:
        shown = words if detail.thoughts else _first_line(words)
        yield Piece(kind="thought", words=shown, mark=_MARKS_OF_ROLES[Role.THOUGHT])


def _first_line(words: str) -> str:
    first, *rest = words.strip().splitlines() or [""]
    return f"{first} …" if rest else first


def said_in(blocks: Iterable[dict[str, Any]]) -> str:
    """Return what blocks say, with a word for what is not text."""
    return "".join(
        words if (words := text(block.get("text"))) is not None else _attachment(block)
        for block in blocks
    )


def _attachment(block: dict[str, Any]) -> str:
    uri = block.get("uri") or table(block.get("resource")).get("uri")
    return f" [{block.get('type', 'something')}{f' {uri}' if uri else ''}] "


def plan_step(step: dict[str, Any]) -> Piece:
    """Return a step of a plan."""
    box, meaning = _STEPS.get(str(step.get("status")), _STEP)
    words = one_line(str(step.get("content", "")))
    return Piece(kind="plan", words=words, mark=f"{_INDENT}{box}", mark_kind=meaning)


# -- tool calls -----------------------------------------------------------------------------


class Call(Struct, frozen=True):
    """A tool call as it was at a moment: live or on record."""

    id: str
    fields: dict[str, Any]
    outcome: str | None = None

    @property
    def status(self) -> str:
        """How far it is."""
        return str(self.fields.get("status") or "pending")

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in FINAL


def call_of(item: ToolCall) -> Call:
    """Return a recorded tool call."""
    return Call(item.id, item.fields, item.outcome)


def tool_pieces(call: Call, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield a tool call: folded, its line and its diffs."""
    if detail.tools is False:
        return
    yield tool_line(call)
    if detail.tools:
        yield from _input(call)
    yield from tool_content(call, detail, terminals)


def tool_line(call: Call) -> Piece:
    """Return a tool call in one line."""
    mark, meaning = _STATUSES.get(call.status, ("? ", "going"))
    name = call.fields.get("title") or call.fields.get("kind") or call.id
    asked = f" ({one_line(call.outcome)})" if call.outcome else ""
    words = f"{one_line(str(name))}{asked}"
    return Piece(kind="tool", words=words, mark=mark, mark_kind=meaning)


def tool_content(call: Call, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield what a tool call has brought: folded, its diffs only."""
    parts = [table(part) for part in rows(call.fields.get("content"))]
    longest = None if detail.tools else _LINES_OF_A_FOLDED_DIFF
    for part in parts:
        if part.get("type") == "diff":
            words = printable("\n".join(diff_lines(part, longest)))
            yield Piece(kind="diff", words=words, mark=_INDENT)
        elif detail.tools:
            yield from _output(_words_of(part, terminals))
    if detail.tools and not parts and call.fields.get("rawOutput") is not None:
        yield from _output(_as_words(call.fields["rawOutput"]))


def _input(call: Call) -> Iterator[Piece]:
    given = call.fields.get("rawInput")
    if given not in (None, {}, ""):
        yield Piece(kind="output", words=one_line(_as_words(given)), mark=f"{_INDENT}← ")


def _output(words: str) -> Iterator[Piece]:
    if words.strip():
        yield Piece(kind="output", words=printable(words.rstrip()), mark=f"{_INDENT}→ ")


def _words_of(part: dict[str, Any], terminals: Terminals) -> str:
    if part.get("type") == "terminal":
        terminal = terminals.get(str(part.get("terminalId")))
        return terminal.text if terminal is not None else ""
    return said_in([table(part.get("content"))])


def _as_words(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
