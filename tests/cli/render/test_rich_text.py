"""Rendering of an agent's Markdown on a terminal."""

import io
import re

import pytest

from rekindle.cli.render.rich_text import make_console, render_piece
from rekindle.cli.render.transcript import Piece

ADDRESS = "https://example.com/a/very/long/path/that/does/not/fit/into/a/cell.html"
WIDE = "|".join(f"column{number}" for number in range(14))


def rendered(text: str, columns: int) -> str:
    file = io.StringIO()
    make_console(file=file, width=columns).print(render_piece(Piece(kind="agent", text=text)))
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_cell_of_a_table_is_cut(columns: int) -> None:
    shown = rendered(f"|§|where|\n|---|---|\n|§|{ADDRESS}|\n", columns)
    assert ADDRESS in re.sub(r"[\s§─]", "", shown)


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_no_column_of_a_table_is_left_out(columns: int) -> None:
    shown = rendered(f"|{WIDE}|\n|{'-|' * 14}\n|{WIDE.replace('column', 'value')}|\n", columns)
    letters = re.sub(r"\s", "", shown)
    for number in range(14):
        assert f"column{number}" in letters
        assert f"value{number}" in letters
