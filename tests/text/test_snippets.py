import re

from hypothesis import given, strategies as st

from rekindle.text.snippets import snippet


def shown(text: str, word: str, width: int = 60, secret: str | None = None) -> str:
    matches = [match.span() for match in re.finditer(word, text)]
    hidden = [match.span() for match in re.finditer(secret, text)] if secret else []
    pieces = snippet(text, matches, hidden, width)
    return "".join(f"[{part}]" if is_match else part for part, is_match in pieces)


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert shown("one\n  two\tthree", "two") == "one [two] three"


def test_a_long_text_is_cut_around_the_match() -> None:
    text = "word " * 50 + "needle " + "more " * 50
    assert shown(text, "needle") == ("…word word word word word word word [needle] more more more…")


def test_the_part_with_the_most_matches_is_chosen() -> None:
    text = "needle " + "word " * 50 + "needle needle " + "word " * 50
    assert shown(text, "needle").count("[needle]") == 2


def test_without_a_match_the_beginning_is_shown() -> None:
    assert shown("word " * 50, "needle").startswith("word word")


def test_a_hidden_span_hides_overlapping_matches() -> None:
    assert shown("key SECRETneedleKEY needle", "needle", secret="SECRET.*KEY") == (  # noqa: S106
        "key *** [needle]"
    )


def test_a_secret_at_the_edge_is_masked_whole() -> None:
    text = "needle " + "x" * 500 + " needle"
    for width in (30, 60, 100):
        assert "x" not in shown(text, "needle", width, secret="x+")  # noqa: S106


SPANS = st.lists(st.integers(0, 80), max_size=12).map(
    lambda at: [(a, b) for a, b in zip(sorted(set(at))[::2], sorted(set(at))[1::2], strict=False)]
)


@given(st.text(max_size=80), SPANS, SPANS, st.integers(50, 90))
def test_a_snippet_is_never_longer_than_its_width(
    text: str, matches: list[tuple[int, int]], hidden: list[tuple[int, int]], width: int
) -> None:
    matches, hidden = ([(a, b) for a, b in it if b <= len(text)] for it in (matches, hidden))
    pieces = snippet(text, matches, hidden, width)
    masks = sum(part == "***" for part, _ in pieces)
    assert len("".join(part for part, _ in pieces)) <= width + 2 + 3 * masks
    if not hidden and len(text) <= width:
        assert " ".join("".join(part for part, _ in pieces).split()) == " ".join(text.split())
