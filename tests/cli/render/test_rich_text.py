"""Text of agents on a screen."""

import io
import re

import pytest

from rekindle.cli.render.rich_text import make_console, rendered
from rekindle.cli.render.transcript import Piece

ADDRESS = "https://example.com/a/very/long/path/that/does/not/fit/into/a/cell.html"
WIDE = "|".join(f"column{number}" for number in range(14))


def looks(text: str, columns: int) -> str:
    file = io.StringIO()
    make_console(file=file, width=columns).print(rendered(Piece(kind="agent", words=text)))
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_table_cells_are_not_cut(columns: int) -> None:
    shown = looks(f"|§|where|\n|---|---|\n|§|{ADDRESS}|\n", columns)
    assert ADDRESS in re.sub(r"[\s§─]", "", shown)


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_table_columns_are_not_dropped(columns: int) -> None:
    shown = looks(f"|{WIDE}|\n|{'-|' * 14}\n|{WIDE.replace('column', 'value')}|\n", columns)
    letters = re.sub(r"\s", "", shown)
    for number in range(14):
        assert f"column{number}" in letters
        assert f"value{number}" in letters
