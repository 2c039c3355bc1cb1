"""A conversation as pieces to be read: what each thing in it says, and how it is meant.

Pieces are safe for a terminal. What there is to say is made in `export`; how it looks is not known
here: `pretty` is for terminals, `plain_lines` for all else. Whatever shows a conversation does it
by these.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from rekindle.cli.formatting import (
    agent_label,
    folder_label,
    format_duration,
    format_time,
    one_line,
    printable,
    title_label,
)
from rekindle.cli.render.detail import Detail
from rekindle.cli.render.diff import diff_lines
from rekindle.export.content import (
    Call,
    Code,
    Diff,
    Link,
    Note,
    Part,
    Picture,
    Prose,
    Terminals,
    block_parts,
    change_parts,
    compact,
    result_parts,
    summary,
)
from rekindle.export.labels import HANDOVER, REMINDER, Ending, Step, ending, steps
from rekindle.jsonvalue import as_str
from rekindle.model import Session
from rekindle.transcript.model import (
    Gap,
    HandoverItem,
    Item,
    OtherItem,
    PlanItem,
    ReminderItem,
    Role,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)

_MEANINGS = {"completed": "done", "failed": "failed", "cancelled": "failed"}
_STEPS = {"completed": ("[x] ", "done"), "in_progress": ("[>] ", "going")}
_STEP = ("[ ] ", "plan")
_MARKS_OF_ROLES = {Role.USER: "> ", Role.AGENT: "", Role.THOUGHT: "~ "}
INDENT = "  "
_LINES_OF_A_FOLDED_DIFF = 24

# What is said in one breath stands together; all else has an empty line between.
_TOGETHER = (
    {"tool", "file", "diff", "output", "asked"},
    {"file", "diff", "asked", "question"},
    {"tool", "question"},
    {"plan"},
    {"heading", "note"},
    {"problem", "note"},
    {"question", "choice"},
    {"choice", "note"},
)


class Piece(Struct, frozen=True, kw_only=True):
    """Some lines that are meant alike; `mark` stands before them."""

    kind: str
    """heading, note, turn, user, agent, thought, tool, file, diff, output, plan, problem, asked,
    question, choice."""
    words: str
    mark: str = ""
    mark_kind: str = ""
    """What the mark tells: done, failed, going."""
    is_row: bool = False
    """Whether it may not take more than one row of a terminal: it is cut there, if need be."""


def plain_lines(piece: Piece) -> Iterator[str]:
    """Yield a piece as it is written where there is no terminal."""
    # A mark says something even where there are no words.
    for line in piece.words.splitlines() or [""] * bool(piece.mark):
        yield f"{piece.mark}{line}".rstrip() if not line else f"{piece.mark}{line}"


def belong_together(one: str, other: str) -> bool:
    """Tell whether two kinds of pieces stand together, without an empty line between."""
    return one == "turn" or any({one, other} <= kinds for kinds in _TOGETHER)


# -- a session and its turns ----------------------------------------------------------------


def heading(session: Session) -> Iterator[Piece]:
    """Yield what stands above a conversation."""
    yield Piece(kind="heading", words=title_label(session))
    where = f"{one_line(session.id)} · {agent_label(session.agent)} · {folder_label(session)}"
    yield Piece(kind="note", words=where)


def turn_pieces(turn: TranscriptTurn, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield a whole turn."""
    yield turn_heading(turn)
    for item in turn.items:
        yield from item_pieces(item, detail, terminals)
    yield from end_of(turn)


def turn_heading(turn: TranscriptTurn) -> Piece:
    """Return the line above a turn: its number, when it was, and how long it took."""
    words = f"turn {turn.number} · {format_time(turn.at_us)}"
    took = format_duration(turn.ended_us - turn.at_us) if turn.ended_us else ""
    return Piece(kind="turn", words=f"── {words}{took and f' · {took}'} ──")


def end_of(turn: TranscriptTurn) -> Iterator[Piece]:
    """Yield how a turn ended, unless it did as it should."""
    if end := ending(turn):
        yield ended(end)


def ended(end: Ending) -> Piece:
    """Return how a turn ended."""
    return Piece(kind="problem" if end.is_problem else "note", words=f"({end.words})")


# -- what turns are made of -----------------------------------------------------------------


def item_pieces(item: Item, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield one thing of a conversation."""
    match item:
        case TranscriptMessage():
            yield from _message(item, detail)
        case ToolCallItem():
            yield from tool_pieces(item, detail, terminals)
        case PlanItem():
            yield from map(plan_step, steps(item))
        case OtherItem():
            pass
        case HandoverItem():
            yield handover()
        case ReminderItem():
            yield Piece(kind="note", words=f"({REMINDER})")
        case Gap():
            yield Piece(kind="problem", words=f"({item})")


def handover() -> Piece:
    """Return that the agent was told the record."""
    return Piece(kind="note", words=f"({HANDOVER})")


def _message(message: TranscriptMessage, detail: Detail) -> Iterator[Piece]:
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
    return "".join(_said(block) for block in blocks)


def _said(block: dict[str, Any]) -> str:
    # As it was said: a document leaves colours out, but here one sees what somebody has tried.
    words = as_str(block.get("text"))
    return words if words is not None else "".join(map(_inline, block_parts([block])))


def _inline(part: Part) -> str:
    match part:
        case Prose():
            return part.text
        case Link():
            return f" [{part.name if part.name == part.uri else f'{part.name}: {part.uri}'}] "
        case Picture():
            return f" [{part.mime}] "
        case Note():
            return f" [{part.text}] "
        # What is inside of a file that was named.
        case Code() | Diff():
            return ""


def plan_step(step: Step) -> Piece:
    """Return a step of a plan."""
    box, meaning = _STEPS.get(step.status, _STEP)
    return Piece(kind="plan", words=step.words, mark=f"{INDENT}{box}", mark_kind=meaning)


# -- tool calls -----------------------------------------------------------------------------


def tool_pieces(call: Call, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield a tool call: folded, its line and its diffs."""
    if detail.tools is False:
        return
    yield tool_line(call, is_row=not detail.tools)
    given = call.fields.get("rawInput")
    if detail.tools and given not in (None, {}, ""):
        yield Piece(kind="output", words=compact(given), mark=f"{INDENT}← ")
    yield from tool_content(call, detail, terminals)


def tool_line(call: Call, *, is_row: bool) -> Piece:
    """Return a tool call in one line."""
    shown = summary(call)
    asked = f" ({one_line(call.outcome)})" if call.outcome else ""
    return Piece(
        kind="tool",
        words=f"{shown.title}{asked}",
        mark=f"{shown.mark} ",
        mark_kind=_MEANINGS.get(shown.status, "going"),
        is_row=is_row,
    )


def tool_content(call: Call, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield what a tool call has brought: folded, its diffs only."""
    if detail.tools:
        for part in result_parts(call, terminals):
            yield from _part(part, None)
    else:
        for part in change_parts(call):
            yield from _part(part, _LINES_OF_A_FOLDED_DIFF)


def _part(part: Part, longest: int | None) -> Iterator[Piece]:
    match part:
        case Diff():
            yield Piece(kind="file", words=part.about, mark=INDENT)
            lines = "\n".join(diff_lines(part, longest))
            if lines:
                yield Piece(kind="diff", words=lines, mark=INDENT)
        case Code() if part.text.strip():
            yield Piece(kind="output", words=part.text.rstrip(), mark=f"{INDENT}→ ")
        case Note():
            yield Piece(kind="file", words=f"({part.text})", mark=INDENT)
        case _:
            if words := _inline(part).strip():
                yield Piece(kind="output", words=words, mark=f"{INDENT}→ ")
