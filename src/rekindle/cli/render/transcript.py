"""Turn a conversation into pieces: texts with a kind, safe for a terminal.

The content comes from `export`. The look of a piece is decided elsewhere: `rich_text` renders for
terminals, `plain_lines` for everything else.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

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
    Code,
    Diff,
    LinkPart,
    Note,
    Part,
    Picture,
    Prose,
    ToolCallLike,
    block_parts,
    change_parts,
    compact,
    result_parts,
    summarize,
)
from rekindle.export.labels import ChecklistStep, Ending, ending
from rekindle.export.views import (
    Block,
    Checklist,
    RawUpdate,
    Remark,
    Speech,
    SubConversation,
    ToolUse,
    blocks_of,
)
from rekindle.jsonvalue import as_str
from rekindle.model import Session
from rekindle.transcript.model import (
    HandoverReason,
    Role,
    Terminals,
    TranscriptItem,
    TranscriptTurn,
    handover_remark,
)

_STATUS_STYLES = {"completed": "done", "failed": "failed", "cancelled": "failed"}
_STEPS = {"completed": ("[x] ", "done"), "in_progress": ("[>] ", "going")}
_OPEN_STEP = ("[ ] ", "plan")
_ROLE_MARKS = {Role.USER: "> ", Role.AGENT: "", Role.THOUGHT: "~ "}
INDENT = "  "
SUBAGENT_MARK = "◇ "
_MAX_FOLDED_DIFF_LINES = 24

# The kinds of pieces that have no empty line between them.
_TOGETHER = (
    {"tool", "file", "diff", "output", "permission"},
    {"file", "diff", "permission", "question"},
    {"tool", "question"},
    {"plan"},
    {"heading", "note"},
    {"problem", "note"},
    {"question", "choice"},
    {"choice", "note"},
)


class Piece(Struct, frozen=True, kw_only=True):
    """A text of one kind; `mark` is printed before it."""

    kind: str
    """heading, note, turn, user, agent, thought, tool, file, diff, output, plan, problem,
    permission, question, choice."""
    text: str
    mark: str = ""
    mark_style: str = ""
    """The style of the mark: done, failed, going."""
    is_row: bool = False
    """Whether it is cut to one row of a terminal."""


def plain_lines(piece: Piece) -> Iterator[str]:
    """Yield the lines of a piece for plain output. A mark alone is a line too."""
    for line in piece.text.splitlines() or [""] * bool(piece.mark):
        yield f"{piece.mark}{line}".rstrip() if not line else f"{piece.mark}{line}"


def belong_together(one: str, other: str) -> bool:
    """Return whether two kinds of pieces have no empty line between them."""
    return one == "turn" or any({one, other} <= kinds for kinds in _TOGETHER)


# -- a session and its turns ----------------------------------------------------------------


def heading(session: Session, *, redact: bool = True) -> Iterator[Piece]:
    """Yield the heading of a conversation."""
    yield Piece(kind="heading", text=title_label(session, redact=redact))
    where = f"{one_line(session.id)} · {agent_label(session.agent)} · {folder_label(session)}"
    yield Piece(kind="note", text=where)


def turn_pieces(turn: TranscriptTurn, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield the pieces of a turn."""
    yield turn_heading(turn)
    for item in turn.items:
        yield from item_pieces(item, detail, terminals)
    yield from ending_pieces(turn)


def turn_heading(turn: TranscriptTurn) -> Piece:
    """Return the line above a turn: its number, time and duration."""
    text = f"turn {turn.number} · {format_time(turn.at_us)}"
    took = format_duration(turn.ended_us - turn.at_us) if turn.ended_us else ""
    return Piece(kind="turn", text=f"── {text}{took and f' · {took}'} ──")


def ending_pieces(turn: TranscriptTurn) -> Iterator[Piece]:
    """Yield a piece for the end of a turn, unless it ended normally."""
    if end := ending(turn):
        yield ending_piece(end)


def ending_piece(end: Ending) -> Piece:
    """Return the piece for the end of a turn."""
    return Piece(kind="problem" if end.is_problem else "note", text=f"({end.text})")


# -- items ----------------------------------------------------------------------------------


def item_pieces(item: TranscriptItem, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield the pieces of an item."""
    for block in blocks_of(item):
        yield from block_pieces(block, detail, terminals)


def block_pieces(block: Block, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield the pieces of a block."""
    match block:
        case Speech():
            yield from _speech(block, detail)
        case ToolUse(call):
            yield from tool_pieces(call, detail, terminals)
        case Checklist(steps):
            yield from map(plan_step, steps)
        case Remark(text, is_problem):
            yield Piece(kind="problem" if is_problem else "note", text=f"({printable(text)})")
        case SubConversation(title, turns, own_terminals):
            yield Piece(
                kind="tool", text=printable(title), mark=SUBAGENT_MARK, is_row=not detail.tools
            )
            for turn in turns:
                for item in turn.items:
                    yield from map(_indented, item_pieces(item, detail, own_terminals))
        case RawUpdate():
            pass


def _indented(piece: Piece) -> Piece:
    return replace(piece, mark=f"{INDENT}{piece.mark}")


def handover_piece(reason: HandoverReason) -> Piece:
    """Return the remark that the agent received the history."""
    return Piece(kind="note", text=f"({handover_remark(reason)})")


def _speech(speech: Speech, detail: Detail) -> Iterator[Piece]:
    text = printable(text_of(speech.blocks))
    mark = _ROLE_MARKS[speech.role]
    if speech.role is not Role.THOUGHT:
        yield Piece(kind=speech.role.value, text=text, mark=mark)
    elif detail.thoughts is not False:
        shown = text if detail.thoughts else _first_line(text)
        yield Piece(kind="thought", text=shown, mark=mark)


def _first_line(text: str) -> str:
    first, *rest = text.strip().splitlines() or [""]
    return f"{first} …" if rest else first


def text_of(blocks: Iterable[dict[str, Any]]) -> str:
    """Return the text of content blocks, with a label for each attachment."""
    return "".join(map(_block_text, blocks))


def _block_text(block: dict[str, Any]) -> str:
    # Control sequences are kept here and spelled out later. Documents remove them instead.
    text = as_str(block.get("text"))
    return text if text is not None else "".join(map(_inline, block_parts([block])))


def _inline(part: Part) -> str:
    match part:
        case Prose():
            return part.text
        case LinkPart():
            return f" [{part.name if part.name == part.uri else f'{part.name}: {part.uri}'}] "
        case Picture():
            return f" [{part.mime}] "
        case Note():
            return f" [{part.text}] "
        # The content of an attached file. Its name is shown.
        case Code() | Diff():
            return ""


def plan_step(step: ChecklistStep) -> Piece:
    """Return the piece of an entry of a plan."""
    box, style = _STEPS.get(step.status, _OPEN_STEP)
    return Piece(kind="plan", text=step.text, mark=f"{INDENT}{box}", mark_style=style)


# -- tool calls -----------------------------------------------------------------------------


def tool_pieces(call: ToolCallLike, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield the pieces of a tool call; if folded, only its line and its diffs."""
    if detail.tools is False:
        return
    yield tool_line(call, is_row=not detail.tools)
    raw_input = call.fields.get("rawInput")
    if detail.tools and raw_input not in (None, {}, ""):
        yield Piece(kind="output", text=compact(raw_input), mark=f"{INDENT}← ")
    yield from tool_content(call, detail, terminals)


def tool_line(call: ToolCallLike, *, is_row: bool) -> Piece:
    """Return the line of a tool call."""
    shown = summarize(call)
    outcome = f" ({one_line(call.outcome)})" if call.outcome else ""
    return Piece(
        kind="tool",
        text=f"{shown.title}{outcome}",
        mark=f"{shown.mark} ",
        mark_style=_STATUS_STYLES.get(shown.status, "going"),
        is_row=is_row,
    )


def tool_content(call: ToolCallLike, detail: Detail, terminals: Terminals) -> Iterator[Piece]:
    """Yield the result of a tool call; if folded, only its diffs."""
    if detail.tools:
        for part in result_parts(call, terminals):
            yield from _part(part, None)
    else:
        for part in change_parts(call):
            yield from _part(part, _MAX_FOLDED_DIFF_LINES)


def _part(part: Part, max_lines: int | None) -> Iterator[Piece]:
    match part:
        case Diff():
            yield Piece(kind="file", text=part.about, mark=INDENT)
            lines = "\n".join(diff_lines(part, max_lines))
            if lines:
                yield Piece(kind="diff", text=lines, mark=INDENT)
        case Code() if part.text.strip():
            yield Piece(kind="output", text=part.text.rstrip(), mark=f"{INDENT}→ ")
        case Note():
            yield Piece(kind="file", text=f"({part.text})", mark=INDENT)
        case _:
            if text := _inline(part).strip():
                yield Piece(kind="output", text=text, mark=f"{INDENT}→ ")
