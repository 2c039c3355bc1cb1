import pytest
from hypothesis import example, given, strategies as st

from rekindle.cli.store_changes import validated_title
from rekindle.errors import UsageError
from rekindle.text.sanitize import is_harmful
from rekindle.transcript.titles import (
    MAX_TITLE,
    InvalidTitle,
    fork_title,
    is_placeholder,
    shorten,
    title_from_agent,
    title_from_prompt,
    title_from_user,
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


@pytest.mark.parametrize(
    "title",
    [
        "",
        "New session",
        "New session - 2026-01-02T03:04:05.678Z",
        "Child session - 2026-01-02T03:04:05Z",
        "New Chat",
        "Untitled",
        "Untitled (3)",
        "Session 12",
        "session 0f0f0f0f-1111-2222-3333-444455556666",
        "Session ses_4f0c1e2d3b4a",
        "ses_4f0c1e2d3b4aQwErTyUiOp",
        "thread_1234567890",
        "2026-01-02",
    ],
)
def test_a_title_that_fits_any_session_is_a_placeholder(title: str) -> None:
    assert is_placeholder(title)
    assert title_from_agent(title) is None


@pytest.mark.parametrize(
    "title",
    [
        *("New", "1.2.3", "42", "New session store", "Разговор", "新しい"),
        *(
            "fix_authentication",
            "test_parse_headers",
            "fix_authentication2",
            "Session test_parse_it",
        ),
    ],
)
def test_other_titles_are_not_placeholders(title: str) -> None:
    assert not is_placeholder(title)
    assert title_from_agent(f" {title}\n") == title


def test_title_of_an_agent_is_one_line_of_limited_length() -> None:
    assert title_from_agent("Fix\nthe  parser") == "Fix the parser"
    assert title_from_agent("x" * 900) == "x" * 500
    assert title_from_agent(None) is title_from_agent(7) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must not be empty"),
        (" \n\t\u2003", "must not be empty"),
        ("a\x07b", "must not contain control characters"),
        ("a\u202eb", "must not contain control characters"),
        ("a\ud800", "must not contain control characters"),
        ("x" * 501, "must not have more than 500 characters"),
    ],
)
def test_an_invalid_title_of_the_user_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidTitle, match=reason):
        title_from_user(text)


@given(st.text(st.characters()) | st.text("ab \t\n\x07\u202e", max_size=600))
@example("  My \n title ")
@example("x" * 500)
@example("x" * 501)
@example("\x1b[31m")
def test_a_title_of_the_user_is_the_same_in_the_protocol_and_in_a_command(text: str) -> None:
    try:
        title = title_from_user(text)
    except InvalidTitle:
        title = None
    try:
        assert validated_title(text) == title
    except UsageError:
        assert title is None
    if title is not None:
        assert title == " ".join(title.split()) == title_from_user(title)
        assert not is_harmful(title)
