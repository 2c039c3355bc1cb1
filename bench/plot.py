"""Curves as SVG: a few lines over logarithmic axes, readable on white and on black."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 190, 44, 48
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9")
_LINE_APART = 15
_STYLE = """\
text { font: 12px sans-serif; fill: #333; }
.title { font-weight: bold; font-size: 14px; }
.grid { stroke: #8884; }
.axis { stroke: #888; fill: none; }
.bar { stroke: #888; stroke-dasharray: 6 4; }
@media (prefers-color-scheme: dark) { text { fill: #ccc; } }"""


@dataclass(frozen=True)
class Chart:
    """Named lines with labels of the axes. `bar` is the limit of the values."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Points]
    bar: float | None = None


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis between two powers of ten, and its position in pixels."""

    low: int
    high: int
    begin: float
    end: float

    def at(self, value: float) -> float:
        part = (log10(value) - self.low) / (self.high - self.low)
        return round(self.begin + part * (self.end - self.begin), 1)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def draw(chart: Chart) -> str:
    """Return the chart as SVG."""
    points = [point for line in chart.lines.values() for point in line]
    heights = [y for _, y in points] + ([] if chart.bar is None else [chart.bar])
    across = _axis([x for x, _ in points], _LEFT, _WIDTH - _RIGHT)
    up = _axis(heights, _HEIGHT - _BOTTOM, _TOP)
    parts = [*_frame(chart, across, up), *_curves(chart, across, up)]
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    body = "\n".join(parts)
    return f"<svg {head}>\n<style>\n{_STYLE}\n</style>\n{body}\n</svg>\n"


def _axis(values: list[float], begin: float, end: float) -> _Axis:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return _Axis(low, max(high, low + 1), begin, end)


def _frame(chart: Chart, across: _Axis, up: _Axis) -> Iterator[str]:
    yield f"<title>{escape(chart.title)}</title>"
    yield _text(_LEFT, 20, chart.title, "title")
    yield _text(_LEFT, 37, chart.up)
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, chart.across, anchor="middle")
    for value in across.ticks:
        x = across.at(value)
        yield _line(x, _TOP, x, _HEIGHT - _BOTTOM, "grid")
        yield _text(x, _HEIGHT - _BOTTOM + 17, _short(value), anchor="middle")
    for value in up.ticks:
        y = up.at(value)
        yield _line(_LEFT, y, _WIDTH - _RIGHT, y, "grid")
        yield _text(_LEFT - 6, y + 4, _short(value), anchor="end")
    corner = f"M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"
    yield f'<path class="axis" d="{corner}"/>'
    if chart.bar is not None:
        y = up.at(chart.bar)
        yield _line(_LEFT, y, _WIDTH - _RIGHT, y, "bar")
        yield _text(_LEFT + 4, y - 4, f"bar: {_short(chart.bar)}")


def _curves(chart: Chart, across: _Axis, up: _Axis) -> Iterator[str]:
    ends: list[float] = []
    for number, (name, line) in enumerate(chart.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(across.at(x), up.at(y)) for x, y in line]
        joined = " ".join(f"{x},{y}" for x, y in places)
        yield f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places)
        x, y = places[-1]
        # The name is at the end of its line. It moves down to avoid other names.
        while any(abs(y - other) < _LINE_APART for other in ends):
            y += 1
        ends.append(y)
        label = f"{escape(name)}: {_short(line[-1][1])}"
        yield f'<text x="{x + 10}" y="{y + 4}" style="fill:{colour}">{label}</text>'


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    css_class = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{css_class}>{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, style: str) -> str:
    return f'<path class="{style}" d="M{x} {y}L{to_x} {to_y}"/>'


def _short(value: float) -> str:
    """Format a number with a unit: 10 k, 1 M."""
    for unit, name in ((1_000_000, " M"), (1_000, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"
