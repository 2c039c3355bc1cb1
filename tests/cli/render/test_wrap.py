"""Text that arrives in chunks is wrapped on a terminal."""

import re

from hypothesis import given, strategies as st

from rekindle.cli.render.wrap import WordWrapper

WIDTH = 20
BACK = re.compile(r"(.*?)\x1b\[(\d+)D\x1b\[K", re.DOTALL)


def printed(bits: list[str], indent: int = 0) -> str:
    """Return the text on the screen at the end."""
    filling = WordWrapper(lambda: WIDTH, indent)
    screen = ""
    for piece in map(filling.feed, bits):
        rest = piece
        while found := BACK.match(rest):
            screen = (screen + found[1])[: -int(found[2])]
            rest = rest[found.end() :]
        screen += rest
    return "\n".join(line.rstrip() for line in screen.split("\n"))


def test_lines_are_wrapped_between_words_for_any_chunks() -> None:
    expected = "The quick brown fox\njumps over the lazy\ndog."
    text = "The quick brown fox jumps over the lazy dog."
    assert printed([text]) == printed(list(text)) == expected


def test_a_word_is_printed_before_it_is_complete() -> None:
    assert WordWrapper(lambda: WIDTH, 0).feed("wai") == "wai"


def test_wrapped_lines_are_indented_by_the_mark() -> None:
    assert printed(["a thought that is long\nand two"], 2) == "a thought that is\n  long\n  and two"


@given(st.lists(st.text(alphabet="ab \n", max_size=30)))
def test_no_text_is_lost_and_no_line_is_too_long(bits: list[str]) -> None:
    text = "".join(bits)
    screen = printed(bits)
    assert screen.split() == text.split() or max(map(len, text.split())) > WIDTH
    assert "".join(screen.split()) == "".join(text.split())
    longest = max([WIDTH, *map(len, text.split())])
    assert all(len(line) <= longest for line in screen.split("\n"))


def test_tabs_have_the_width_of_a_terminal() -> None:
    assert printed(["a\tb", "\t\tc d"]) == "a       b\nc d"
    assert printed(list("ab\tc")) == "ab      c"


def test_a_resized_terminal_changes_the_width() -> None:
    width = 20
    filling = WordWrapper(lambda: width, 0)
    assert filling.feed("one two three ") == "one two three "
    width = 8
    assert filling.feed("four five") == "\nfour \nfive"
