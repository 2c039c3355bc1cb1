"""Draw the recording of a terminal as an animated SVG. The same recording gives the same bytes.

This module is pure: it starts no process, reads no file and no clock. `pty_recording` makes
recordings, and `pictures` has the scenes.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from xml.sax.saxutils import escape

import pyte
from pyte.screens import Char

CELL_WIDTH = 8.4
LINE_HEIGHT = 18
FONT_SIZE = 14
MARGIN = 14
TITLE_HEIGHT = 30
TICK = 0.1
"""The shortest time between two states of the picture, in seconds."""

_PAUSE = 0.35
"""A longer gap in the output, in seconds, is a pause. A shorter one belongs to the output."""
_TIME_PER_LINE = 0.2
_LONGEST_PAUSE = 3.0

_LEAVE_SCREEN = "\x1b[?1049l"
# Requests of the keyboard protocol, whose end pyte would draw as text.
_KEYBOARD = re.compile(r"\x1b\[[<=>][0-9;]*u")

_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
_BACKGROUND, _FOREGROUND, _FRAME = "#16181d", "#d6d9e0", "#2b2f38"
_COLOURS = {
    "default": _FOREGROUND,
    "black": "#3b4048",
    "red": "#f0717b",
    "green": "#8fce7e",
    "brown": "#e5c07b",
    "blue": "#6cb0f5",
    "magenta": "#d08ee8",
    "cyan": "#5fc4d1",
    "white": "#d6d9e0",
    "brightblack": "#7d8590",
    "brightred": "#ff8f98",
    "brightgreen": "#a9e39a",
    "brightbrown": "#f2d594",
    "brightblue": "#8cc4ff",
    "brightmagenta": "#e0a8f5",
    "brightcyan": "#7fdbe6",
    "brightwhite": "#ffffff",
}


@dataclass(frozen=True)
class Recording:
    """The output of a program on a terminal: its size, and pieces of text with their times."""

    columns: int
    rows: int
    events: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Style:
    """The look of a character."""

    colour: str = "default"
    background: str = "default"
    is_bold: bool = False
    is_dim: bool = False
    is_italic: bool = False
    is_underlined: bool = False


Row = tuple[tuple[str, Style], ...]
"""A line of the terminal: pieces of text, each in one style, without blanks at the end."""


@dataclass
class Shown:
    """A row that the picture shows at one place, from `start` to `end` or to the end of it."""

    line: int
    """Counted from the first line ever printed, also from lines that have scrolled away."""
    row: Row
    start: float
    end: float | None = None


@dataclass
class Film:
    """The states of a terminal over time."""

    shown: list[Shown] = field(default_factory=list[Shown])
    scrolls: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """The number of lines that have scrolled away, from each time on."""
    duration: float = 0.0


def pace(recording: Recording) -> Recording:
    """Return the recording with pauses that let a person read: not too short, and not too long.

    A pause is lengthened by the number of lines that were printed before it.
    """
    events: list[tuple[float, str]] = []
    now = before = 0.0
    lines = 0
    for at, text in recording.events:
        gap = max(at - before, 0.0)
        if gap >= _PAUSE:
            gap = min(max(gap, lines * _TIME_PER_LINE), _LONGEST_PAUSE)
            lines = 0
        now, before, lines = now + gap, at, lines + text.count("\n")
        events.append((now, text))
    return replace(recording, events=tuple(events))


def without_end(recording: Recording) -> Recording:
    """Return the recording up to the moment when a full-screen program leaves the screen."""
    events: list[tuple[float, str]] = []
    for at, text in recording.events:
        before, leaves, _ = text.partition(_LEAVE_SCREEN)
        events.append((at, before))
        if leaves:
            break
    return replace(recording, events=tuple(events))


class _Screen(pyte.Screen):
    """A screen that counts the lines that have scrolled away, and knows dim text."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows)
        self.scrolled = 0

    def index(self) -> None:
        _, bottom = self.margins or (0, self.lines - 1)
        self.scrolled += self.cursor.y == bottom
        super().index()

    def select_graphic_rendition(self, *attributes: int, **_: object) -> None:
        # pyte ignores dim text. Nothing here blinks, so the attribute of blinking text means dim.
        plain: list[int] = []
        for number in attributes:
            plain += {2: [5], 22: [22, 25]}.get(number, [number])
        super().select_graphic_rendition(*_keep_colours(attributes, plain))


def _keep_colours(attributes: tuple[int, ...], plain: list[int]) -> list[int]:
    """Return the attributes unchanged if the numbers in them belong to a colour: `38;2;…`."""
    return list(attributes) if {38, 48} & {*attributes} else plain


def film(recording: Recording, *, hold: float) -> Film:
    """Play a recording; return its states. The last state stays for `hold` seconds."""
    screen = _Screen(recording.columns, recording.rows)
    stream = pyte.Stream(screen)
    made, visible, scrolled = Film(), dict[int, Shown](), 0
    for tick, events in groupby(recording.events, key=lambda event: round(event[0] / TICK)):
        for _, text in events:
            stream.feed(_KEYBOARD.sub("", text))
        now = tick * TICK
        if screen.scrolled != scrolled:
            scrolled = screen.scrolled
            made.scrolls.append((now, scrolled))
        _update(made, visible, _rows(screen), now)
        made.duration = now + hold
    return made


def _update(made: Film, visible: dict[int, Shown], rows: dict[int, Row], now: float) -> None:
    """Add the changes of one moment to a film."""
    for line, row in rows.items():
        known = visible.get(line)
        if known is not None and known.row == row:
            continue
        if known is not None:
            known.end = now
            del visible[line]
        if row:
            visible[line] = Shown(line, row, now)
            made.shown.append(visible[line])


def _rows(screen: _Screen) -> dict[int, Row]:
    return {screen.scrolled + y: _row(screen, y) for y in range(screen.lines)}


def _row(screen: _Screen, y: int) -> Row:
    cells = [screen.buffer[y][x] for x in range(screen.columns)]
    while cells and cells[-1].data == " " and cells[-1].bg == "default" and not cells[-1].reverse:
        cells.pop()
    pieces = groupby(cells, key=_style)
    return tuple(("".join(cell.data for cell in piece), style) for style, piece in pieces)


def _style(cell: Char) -> Style:
    colour, background = cell.fg, cell.bg
    if cell.reverse:
        colour = "#000000" if background == "default" else background
        background = cell.fg if cell.fg != "default" else "white"
    return Style(
        colour=colour,
        background=background,
        is_bold=cell.bold,
        is_dim=cell.blink,
        is_italic=cell.italics,
        is_underlined=cell.underscore,
    )


def draw(recording: Recording, *, title: str, hold: float = 4.0) -> str:
    """Return the SVG of a recording. A viewer that does not animate shows the last state."""
    made = film(recording, hold=hold)
    width = round(recording.columns * CELL_WIDTH + 2 * MARGIN)
    inner = recording.rows * LINE_HEIGHT
    height = inner + TITLE_HEIGHT + MARGIN
    size = f'width="{width}" height="{height}"'
    last = made.scrolls[-1][1] if made.scrolls else 0
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}"',
            f' role="img" aria-label="{_attribute(title)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{_stylesheet(made)}</style>",
            f'<rect {size} rx="8" fill="{_BACKGROUND}" stroke="{_FRAME}"/>',
            *(
                f'<circle cx="{MARGIN + 6 + 18 * place}" cy="16" r="5.5" fill="{colour}"/>'
                for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
            ),
            f'<svg x="{MARGIN}" y="{TITLE_HEIGHT}" width="{width - 2 * MARGIN}" height="{inner}">',
            f'<g transform="translate(0 {-last * LINE_HEIGHT})">',
            *_scrolling(made),
            *_groups(made),
            "</g></svg></svg>",
            "",
        ]
    )


def _stylesheet(made: Film) -> str:
    rules = [
        f"text{{font:{FONT_SIZE}px {_FONTS};white-space:pre;fill:{_FOREGROUND}}}",
        ".b{font-weight:bold}.d{opacity:.62}.i{font-style:italic}.u{text-decoration:underline}",
    ]
    used = {style.colour for style in _styles(made)} - {"default"}
    rules += [f".{_class(colour)}{{fill:{_hex(colour)}}}" for colour in sorted(used)]
    return "".join(rules)


def _styles(made: Film) -> set[Style]:
    return {style for shown in made.shown for _, style in shown.row}


def _class(colour: str) -> str:
    return f"c-{colour.lstrip('#')}"


def _hex(colour: str) -> str:
    """Return a colour for SVG. pyte has names for the first sixteen, and six digits for others."""
    return _COLOURS.get(colour) or f"#{colour.lstrip('#')}"


def _scrolling(made: Film) -> Iterator[str]:
    if made.scrolls:
        steps = [(0.0, 0), *made.scrolls]
        values = ";".join(f"0 {-count * LINE_HEIGHT}" for _, count in steps)
        times = ";".join(_share(at, made.duration) for at, _ in steps)
        yield (
            '<animateTransform attributeName="transform" type="translate" calcMode="discrete"'
            f' values="{values}" keyTimes="{times}" dur="{made.duration:.1f}s"'
            ' repeatCount="indefinite"/>'
        )


def _groups(made: Film) -> Iterator[str]:
    """Yield the rows. Rows that appear and disappear together share one animation."""
    groups: dict[tuple[float, float | None], list[Shown]] = defaultdict(list)
    for shown in made.shown:
        groups[shown.start, shown.end].append(shown)
    for (start, end), members in groups.items():
        rows = "".join(text for shown in members for text in _texts(shown))
        if start == 0 and end is None:
            yield f"<g>{rows}</g>"
            continue
        values, times = ["hidden", "visible"], [0.0, start]
        if start == 0:
            values, times = ["visible"], [0.0]
        if end is not None:
            values.append("hidden")
            times.append(end)
        hidden = ' visibility="hidden"' if end is not None else ""
        yield (
            f'<g{hidden}><animate attributeName="visibility" calcMode="discrete"'
            f' values="{";".join(values)}"'
            f' keyTimes="{";".join(_share(at, made.duration) for at in times)}"'
            f' dur="{made.duration:.1f}s" repeatCount="indefinite"/>{rows}</g>'
        )


def _texts(shown: Shown) -> Iterator[str]:
    column, top = 0, shown.line * LINE_HEIGHT
    for text, style in shown.row:
        x, width = _number(column * CELL_WIDTH), _number(len(text) * CELL_WIDTH)
        column += len(text)
        if style.background != "default":
            yield (
                f'<rect x="{x}" y="{top}" width="{width}" height="{LINE_HEIGHT}"'
                f' fill="{_hex(style.background)}"/>'
            )
        if text.strip():
            # The width keeps columns aligned in any font.
            yield (
                f'<text x="{x}" y="{top + FONT_SIZE}" textLength="{width}"{_classes(style)}>'
                f"{escape(text)}</text>"
            )


def _classes(style: Style) -> str:
    names = [
        name
        for name, is_set in (
            (_class(style.colour), style.colour != "default"),
            ("b", style.is_bold),
            ("d", style.is_dim),
            ("i", style.is_italic),
            ("u", style.is_underlined),
        )
        if is_set
    ]
    return f' class="{" ".join(names)}"' if names else ""


def _share(at: float, duration: float) -> str:
    return f"{at / duration:.4f}".rstrip("0").rstrip(".") or "0"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _attribute(text: str) -> str:
    return escape(text, {'"': "&quot;"})
