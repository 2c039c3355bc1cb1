"""A table of sessions that fits the terminal, without a line that wraps."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rekindle.cli.formatting import agent_label, folder_label, format_age, title_label
from rekindle.cli.terminal import columns, if_encodable, paint
from rekindle.model import Session, SessionStatus
from rekindle.text.widths import cut, cut_path, pad, width

_GAP = "  "
_NUMBERS = {"TURNS"}
_STYLES = {"AGE": "dim", "PROJECT": "dim"}
_STYLES_OF_MARKS = {"live": "green", "interrupted": "yellow", "archived": "dim"}
# What is given up for room, in this order: down to so many cells, or at 0 the whole column. What
# identifies a session goes last.
_GIVEN_UP = (
    ("PROJECT", 30),
    ("TITLE", 30),
    ("PROJECT", 12),
    ("AGENT", 8),
    ("TITLE", 16),
    ("AGENT", 0),
    ("TURNS", 0),
    ("PROJECT", 0),
    ("AGE", 0),
    ("TITLE", 4),
    ("TITLE", 0),
    ("ID", 1),
)


Row = list[tuple[str, str]]
"""Words, each with its style."""


class Line(NamedTuple):
    """A session, and what is shown of it that it does not know itself."""

    session: Session
    shown_id: str
    standing: SessionStatus


def print_table(lines: Sequence[Line]) -> None:
    """Print a line for each session."""
    head, rows = arranged(lines, columns())
    print(paint(head, "bold"))
    for row in rows:
        print("".join(paint(*words) for words in row).rstrip())


def arranged(lines: Sequence[Line], room: int) -> tuple[str, list[Row]]:
    """Return a table's head and a row for each session, none wider than `room` cells."""
    cells = [_cells(line) for line in lines]
    widths = {name: max(len(name), *(width(row[name]) for row in cells)) for name in cells[0]}
    _fit(widths, room - len(_GAP))
    head = _GAP + _joined({name: name for name in widths}, widths)
    return head, [_row(line, row, widths) for line, row in zip(lines, cells, strict=True)]


def legend(lines: Sequence[Line]) -> str:
    """Say what the marks in a table mean, as far as there are any."""
    found = {what: _mark(what) for line in lines if (what := _what(line))}
    return _GAP.join(f"{mark} {what}" for what, mark in sorted(found.items()))


def _cells(line: Line) -> dict[str, str]:
    session = line.session
    return {
        "ID": line.shown_id,
        "AGE": format_age(session.updated_us),
        "AGENT": agent_label(session.agent),
        "PROJECT": folder_label(session),
        "TURNS": str(session.turns),
        "TITLE": title_label(session),
    }


def _what(line: Line) -> str:
    """Return the one word that matters most about a session, if there is one."""
    if line.standing is not SessionStatus.IDLE:
        return line.standing.value
    return "archived" if line.session.archived_us is not None else ""


def _mark(what: str) -> str:
    marks = {"live": if_encodable("●", "*"), "interrupted": "!", "archived": if_encodable("▪", "-")}
    return marks.get(what, " ")


def _fit(widths: dict[str, int], room: int) -> None:
    """Make columns narrower, or leave them out, until all fit into `room` cells."""
    for name, least in _GIVEN_UP:
        excess = sum(widths.values()) + len(_GAP) * (len(widths) - 1) - room
        if excess <= 0:
            break
        if least:
            widths[name] = min(widths[name], max(least, widths[name] - excess))
        else:
            del widths[name]


def _joined(row: dict[str, str], widths: dict[str, int]) -> str:
    return _GAP.join(words for words, _ in _styled(row, widths)).rstrip()


def _row(line: Line, cells: dict[str, str], widths: dict[str, int]) -> Row:
    what = _what(line)
    row = [(_mark(what), _STYLES_OF_MARKS.get(what, "")), (" ", "")]
    for words in _styled(cells, widths):
        row += [words, (_GAP, "")]
    return row


def _styled(row: dict[str, str], widths: dict[str, int]) -> Iterator[tuple[str, str]]:
    for name, room in widths.items():
        # What tells folders apart is at their end.
        words = (cut_path if name == "PROJECT" else cut)(row[name], room)
        yield pad(words, room, to_right=name in _NUMBERS), _STYLES.get(name, "")
