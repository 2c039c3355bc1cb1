import argparse

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from rekindle.cli.arguments import count, duration
from rekindle.cli.formatting import format_size, plural
from rekindle.text.widths import cut, cut_front, cut_path, pad, width

TEXTS = st.text(
    st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S", "Z"]) | st.just("修")
)


@given(text=TEXTS, room=st.integers(0, 30))
def test_cut_text_fits(text: str, room: int) -> None:
    for fitting in (cut(text, room), cut_front(text, room), cut_path(text, room)):
        assert cell_len(fitting) <= room
        assert fitting == text or cell_len(text) > room
        assert cell_len(pad(fitting, room)) == room


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("parser", 6, "parser"),
        ("parser", 5, "pars…"),
        ("a parser", 3, "a…"),
        ("修复解析器", 6, "修复…"),
        ("修复解析器", 5, "修复…"),
        ("parser", 1, "…"),
        ("parser", 0, ""),
    ],
)
def test_a_text_is_cut_at_its_end(text: str, room: int, expected: str) -> None:
    assert cut(text, room) == expected


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (14, "~/work/grammar"),
        (13, "…/grammar"),
        (9, "…/grammar"),
        (8, "…grammar"),
        (4, "…mar"),
        (1, "…"),
        (0, ""),
    ],
)
def test_a_path_is_cut_at_its_beginning(room: int, expected: str) -> None:
    assert cut_path("~/work/grammar", room) == expected


def test_wide_characters_take_two_cells() -> None:
    assert [width(text) for text in ("ab", "修", "e\u0301", "")] == [2, 2, 1, 0]
    assert pad("修", 4, to_right=True) == "  修"


@pytest.mark.parametrize(
    ("text", "hours"),
    [("36h", 36), ("90d", 2160), ("12W", 2016), ("6m", 4320), ("1 y", 8760), ("0d", 0)],
)
def test_durations_are_parsed(text: str, hours: int) -> None:
    assert duration(text) == hours * 3_600_000_000


@pytest.mark.parametrize("text", ["", "d", "90", "-1d", "1.5d", "9999999d", "1d2h", "٣d"])
def test_an_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 36h, 90d, 12w, 6m or 1y"):
        duration(text)


@pytest.mark.parametrize("text", ["", "-1", "x", "1e3", "٣", "9" * 13])
def test_an_invalid_number_is_an_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a number"):
        count(text)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_240_000, "1.2 MB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_have_one_unit(amount: int, expected: str) -> None:
    assert format_size(amount) == expected


def test_nouns_agree_with_numbers() -> None:
    assert [plural(number, "turn") for number in (0, 1, 1234)] == [
        "0 turns",
        "1 turn",
        "1,234 turns",
    ]


def test_wide_characters_are_cut_whole_from_either_end() -> None:
    assert cut("日本語", 4) == "日…"
    assert cut_front("日本語", 4) == "…語"
