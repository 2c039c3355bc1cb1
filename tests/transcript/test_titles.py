import pytest
from hypothesis import example, given, strategies as st

from rekindle.transcript.titles import (
    MAX_TITLE,
    fork_title,
    shorten,
    title_from_prompt,
    without_fork_suffix,
)


@pytest.mark.parametrize(
    ("blocks", "title"),
    [
        ([{"type": "text", "text": "  Fix\n the\tparser "}], "Fix the parser"),
        ([{"type": "image"}, {"type": "text", "text": "What is this?"}], "What is this?"),
        ([{"type": "text", "text": " "}, {"type": "text", "text": "x"}], "x"),
        ([{"type": "text", "text": 5}, "odd", None], None),
        ([], None),
    ],
)
def test_the_title_is_the_first_words_of_the_prompt(
    blocks: list[object], title: str | None
) -> None:
    assert title_from_prompt(blocks) == title


def test_a_long_title_is_cut_between_words() -> None:
    cut = shorten("word " * 50)
    assert len(cut) <= MAX_TITLE
    assert cut.endswith("word…")


def test_one_long_word_is_cut_inside() -> None:
    assert shorten("x" * 200) == "x" * (MAX_TITLE - 1) + "…"
    assert shorten("a " + "x" * 200) == "a " + "x" * (MAX_TITLE - 3) + "…"


@example("a " * 100)
@given(st.text(st.sampled_from("ab \n\t\u2003"), max_size=400))
def test_only_the_beginning_of_a_long_prompt_is_read(text: str) -> None:
    title = title_from_prompt([{"type": "text", "text": text}])
    assert title == (shorten(" ".join(text.split())) or None)


def test_fork_of_a_fork_has_one_suffix() -> None:
    assert fork_title("Greeting") == fork_title("Greeting (fork)") == "Greeting (fork)"
    assert without_fork_suffix("Greeting (fork)") == without_fork_suffix("Greeting") == "Greeting"
