"""The printer for terminals: rows that are pinned below the output."""

import io

import pytest

from pty_terminal import Screen
from rekindle.cli.render.rich_text import make_console
from rekindle.cli.render.screen import INPUT, PLAN, SIGN, ScreenPrinter
from rekindle.cli.render.transcript import Piece

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Shown:
    """A printer, and the screen of its terminal."""

    def __init__(self, columns: int = 80) -> None:
        self.raw = io.StringIO()
        self.printer = ScreenPrinter(make_console(file=self.raw))
        self._columns = columns

    @property
    def lines(self) -> list[str]:
        screen = Screen(self._columns)
        screen.feed(self.raw.getvalue().replace("\n", "\r\n"))
        return screen.text.split("\n")


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    size(monkeypatch, 80, 24)


def size(monkeypatch: pytest.MonkeyPatch, columns: int, lines: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))


def row(text: str, style: str = "") -> Piece:
    return Piece(kind="note", text=text, mark_style=style, is_row=True)


def test_pinned_rows_stay_below_the_output() -> None:
    shown = Shown()
    shown.printer.pin(SIGN, [row("working")])
    assert shown.lines == ["", "working"]
    shown.printer.show(Piece(kind="note", text="one"))
    shown.printer.begin("agent", "")
    shown.printer.add("two ")
    assert shown.lines == ["one", "", "two", "working"]
    shown.printer.add("three\nfour")
    assert shown.lines == ["one", "", "two three", "four", "working"]
    shown.printer.finish()
    shown.printer.pin(SIGN, [])
    shown.printer.show(Piece(kind="agent", text="end"))
    assert shown.lines == ["one", "", "two three", "four", "", "end", ""]


def test_sections_have_a_fixed_order() -> None:
    shown = Shown()
    shown.printer.pin(INPUT, [row("input")])
    shown.printer.pin(SIGN, [row("sign")])
    shown.printer.pin(PLAN, [row("plan 1"), row("plan 2")])
    assert shown.lines == ["", "plan 1", "plan 2", "sign", "input"]
    shown.printer.pin(SIGN, [])
    assert shown.lines == ["", "plan 1", "plan 2", "input"]


def test_word_that_moves_to_the_next_line_is_erased_above_the_pins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size(monkeypatch, 12, 24)
    shown = Shown(12)
    shown.printer.pin(SIGN, [row("working")])
    shown.printer.begin("agent", "")
    for chunk in ("one two th", "ree"):
        shown.printer.add(chunk)
    assert shown.lines == ["one two", "three", "working"]


@pytest.mark.parametrize("length", [9, 10, 11, 20, 25])
def test_word_longer_than_a_row_continues_where_the_terminal_wraps(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    size(monkeypatch, 10, 24)
    shown = Shown(10)
    shown.printer.pin(SIGN, [row("working")])
    shown.printer.begin("agent", "")
    shown.printer.add("x" * length)
    shown.printer.add("y")
    *text, sign = shown.lines
    assert ("".join(text), sign) == ("x" * length + "y", "working")


def test_tool_line_is_replaced_above_the_pins() -> None:
    shown = Shown()
    shown.printer.pin(SIGN, [row("working")])
    for text in ("going", "done"):
        piece = Piece(kind="tool", text=text, is_row=True)
        shown.printer.show(piece, replacing=text == "done")
    assert shown.lines == ["done", "", "working"]


def test_pinned_rows_are_cut_to_the_width_and_half_of_the_height(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size(monkeypatch, 20, 12)
    shown = Shown(20)
    steps = [row(f"step {number}", "done" if number < 6 else "going") for number in range(10)]
    shown.printer.pin(PLAN, steps)
    shown.printer.pin(SIGN, [row("working " * 9)])
    # The last finished step is shown, and those after it.
    assert shown.lines == [
        "",
        *(f"step {number}" for number in range(5, 10)),
        "working working wo…",
    ]


def test_pins_are_hidden_while_others_use_the_terminal() -> None:
    shown = Shown()
    shown.printer.pin(SIGN, [row("working")])
    assert shown.raw.getvalue().rfind(HIDE_CURSOR) > shown.raw.getvalue().rfind(SHOW_CURSOR)
    with shown.printer.without_pins():
        shown.printer.pin(SIGN, [row("still working")])
        shown.printer.show(Piece(kind="question", text="Really?"))
        assert shown.lines == ["Really?", ""]
        assert shown.raw.getvalue().rfind(SHOW_CURSOR) > shown.raw.getvalue().rfind(HIDE_CURSOR)
    assert shown.lines == ["Really?", "", "still working"]


def test_terminal_that_cannot_replace_lines_has_no_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    shown = Shown()
    shown.printer.pin(SIGN, [row("working")])
    shown.printer.show(Piece(kind="note", text="one"))
    assert shown.raw.getvalue() == "one\n"
