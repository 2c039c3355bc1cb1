"""Harmful characters are removed, replaced or spelled out."""

import json
from unicodedata import category

import pytest

from rekindle.text.sanitize import (
    clean,
    escaped,
    is_harmful,
    one_line,
    spelled_out,
    without_controls,
)

COLOURED = (
    "\x1b[1;31mred\x1b[0m \x9b32mgreen \x1b]0;title\x07\x9d0;title\x9c\x1b(B\x1b7\x00a\r\nb\tc"
)
TURNING = "\u061c\u200e\u200f\u202e\u2066"


def test_control_sequences_are_removed() -> None:
    assert without_controls(COLOURED) == "red green a\nb\tc"
    assert without_controls(f"plain\r\n{TURNING}") == f"plain\n{TURNING}"


@pytest.mark.parametrize("beside", ["", "é"])
def test_every_control_character_except_white_space_is_harmful(beside: str) -> None:
    for character in map(chr, range(0x180)):
        acts = category(character) == "Cc" and character not in "\t\n"
        assert is_harmful(beside + character) is acts
        assert without_controls(beside + character) == beside + ("" if acts else character)


def test_documents_show_replacement_characters() -> None:
    assert clean(COLOURED) == "red green \ufffda\nb\tc"
    assert clean(f"x{TURNING}\ud800") == "x" + "\ufffd" * 6
    assert clean("plain\r\n") == "plain\n"


def test_control_characters_are_spelled_out_for_terminals() -> None:
    assert spelled_out("\x1b[31m \x9b\x7f\r\n") == "\\x1b[31m \\x9b\\x7f\n"
    assert spelled_out(f"x{TURNING}\ud800") == "x" + "\ufffd" * 6
    assert spelled_out("plain\t\n") == "plain\t\n"


@pytest.mark.parametrize("text", [COLOURED, TURNING, "\ud800", "\u2028\u2029", "é"])
def test_escaped_json_has_the_same_value(text: str) -> None:
    written = escaped(json.dumps(text, ensure_ascii=False))
    assert json.loads(written) == text
    assert not is_harmful(written)
    assert "\u2028" not in written


def test_one_line_joins_words_and_spells_out_controls() -> None:
    assert one_line(" a\n b\t\x1b ") == "a b \\x1b"
