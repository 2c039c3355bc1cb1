"""Print a table of sessions that fits the width of the terminal."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rekindle.cli.formatting import agent_label, folder_label, format_age, title_label
from rekindle.cli.terminal import columns, if_encodable, paint
from rekindle.model import Session, SessionStatus
from rekindle.text.widths import cut, cut_path, pad, width

_GAP = "  "
_NUMBERS = {"TURNS"}
_STYLES = {"AGE": "dim", "PROJECT": "dim"}
_MARK_STYLES = {
    "live": "green",
    "running": "green",
    "waiting": "yellow",
    "interrupted": "yellow",
    "archived": "dim",
}
# The order in which columns become narrower: to this width, or at 0 they are left out. People know
# a session by its title, so the title keeps its room longer than the rest. A shortened id still is
# the beginning of the id.
_SHRINK_ORDER = (
    ("PROJECT", 30),
    ("TITLE", 50),
    ("PROJECT", 16),
    ("AGENT", 10),
    ("TURNS", 0),
    ("ID", 12),
    ("TITLE", 36),
    ("PROJECT", 12),
    ("AGENT", 8),
    ("TITLE", 24),
    ("AGENT", 0),
    ("PROJECT", 0),
    ("TITLE", 16),
    ("AGE", 0),
    ("ID", 9),
    ("TITLE", 4),
    ("TITLE", 0),
    ("ID", 1),
)


Row = list[tuple[str, str]]
"""Texts, each with its style."""


class SessionRow(NamedTuple):
    """A session with the id and the status that are shown for it."""

    session: Session
    shown_id: str
    status: SessionStatus
    turn: str = ""
    """The state of the turn, if the process answers that has the session."""


def print_table(rows: Sequence[SessionRow], *, redact: bool = True) -> None:
    """Print the table. Secrets in titles are masked if `redact` is true."""
    head, styled = layout(rows, columns(), redact=redact)
    print(paint(head, "bold"))
    for row in styled:
        print("".join(paint(*text) for text in row).rstrip())


def layout(rows: Sequence[SessionRow], room: int, *, redact: bool = True) -> tuple[str, list[Row]]:
    """Return the heading and the rows of a table, none wider than `room` cells."""
    cells = [_cells(row, redact=redact) for row in rows]
    widths = {name: max(len(name), *(width(it[name]) for it in cells)) for name in cells[0]}
    _fit(widths, room - len(_GAP))
    head = _GAP + _joined({name: name for name in widths}, widths)
    return head, [_row(row, it, widths) for row, it in zip(rows, cells, strict=True)]


def legend(rows: Sequence[SessionRow]) -> str:
    """Return the meaning of the marks in a table; an empty text if it has none."""
    marks = {state: _mark(state) for row in rows if (state := _state(row))}
    return _GAP.join(f"{mark} {state}" for state, mark in sorted(marks.items()))


def _cells(row: SessionRow, *, redact: bool) -> dict[str, str]:
    session = row.session
    return {
        "ID": row.shown_id,
        "AGE": format_age(session.updated_us),
        "AGENT": agent_label(session.agent),
        "PROJECT": folder_label(session),
        "TURNS": str(session.turns),
        "TITLE": title_label(session, redact=redact),
    }


def _state(row: SessionRow) -> str:
    """Return the most important state of a session; an empty text if it is idle."""
    if row.status is SessionStatus.LIVE:
        states = {"running": "running", "requires_action": "waiting"}
        return states.get(row.turn, row.status.value)
    if row.status is not SessionStatus.IDLE:
        return row.status.value
    return "archived" if row.session.archived_us is not None else ""


def _mark(state: str) -> str:
    marks = {
        "live": if_encodable("●", "*"),
        "running": if_encodable("▶", ">"),
        "waiting": "?",
        "interrupted": "!",
        "archived": if_encodable("▪", "-"),
    }
    return marks.get(state, " ")


def _fit(widths: dict[str, int], room: int) -> None:
    """Make columns narrower, or leave them out, until the table fits into `room` cells."""
    for name, least in _SHRINK_ORDER:
        excess = sum(widths.values()) + len(_GAP) * (len(widths) - 1) - room
        if excess <= 0:
            break
        if least:
            widths[name] = min(widths[name], max(least, widths[name] - excess))
        else:
            del widths[name]


def _joined(row: dict[str, str], widths: dict[str, int]) -> str:
    return _GAP.join(text for text, _ in _styled(row, widths)).rstrip()


def _row(row: SessionRow, cells: dict[str, str], widths: dict[str, int]) -> Row:
    state = _state(row)
    styled = [(_mark(state), _MARK_STYLES.get(state, "")), (" ", "")]
    for text in _styled(cells, widths):
        styled += [text, (_GAP, "")]
    return styled


def _styled(row: dict[str, str], widths: dict[str, int]) -> Iterator[tuple[str, str]]:
    for name, room in widths.items():
        # The end of a path distinguishes it.
        text = (cut_path if name == "PROJECT" else cut)(row[name], room)
        yield pad(text, room, to_right=name in _NUMBERS), _STYLES.get(name, "")
