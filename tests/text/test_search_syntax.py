import pytest
from hypothesis import given, strategies as st

from rekindle.errors import UsageError
from rekindle.text.search_syntax import Term, parse


@pytest.mark.parametrize(
    ("typed", "terms"),
    [
        ("two words", [Term("two"), Term("words")]),
        ('"a phrase" word', [Term("a phrase"), Term("word")]),
        ("beg*", [Term("beg", is_prefix=True)]),
        ('"a beg"*', [Term("a beg", is_prefix=True)]),
        ("foo_be*", [Term("foo_be", is_prefix=True)]),
        ("a -b", [Term("a"), Term("b", is_excluded=True)]),
        ('a -"b c"', [Term("a"), Term("b c", is_excluded=True)]),
        ("src/foo_bar.py", [Term("src/foo_bar.py")]),
        ("検索", [Term("検\u200b索")]),
        # Incomplete syntax is read as words.
        ("b*", [Term("b", is_too_short=True)]),
        ("foo(bar", [Term("foo(bar")]),
        ("a AND", [Term("a"), Term("AND")]),
        ("OR NOT NEAR(a b)", [Term("OR"), Term("NOT"), Term("NEAR(a"), Term("b)")]),
        ('"not closed', [Term('"not'), Term("closed")]),
        ('"a"b c', [Term('"a"b'), Term("c")]),
        ("col:x {col}:y ^z", [Term("col:x"), Term("{col}:y"), Term("^z")]),
        ("a*b *c", [Term("a*b"), Term("*c")]),
        ("--flag", [Term("--flag")]),
        ('a - * "" -* ?', [Term("a")]),
    ],
)
def test_input_is_parsed(typed: str, terms: list[Term]) -> None:
    assert parse(typed) == terms


@pytest.mark.parametrize("typed", ["", "  ", "-word", '-"a phrase"', "-word ?"])
def test_blank_or_only_excluding_input_is_a_usage_error(typed: str) -> None:
    with pytest.raises(UsageError, match="no words to search for; type a word"):
        parse(typed)


@pytest.mark.parametrize("typed", ["*", '""', '"', "-", "?! …", "🎉"])
def test_punctuation_alone_has_no_terms(typed: str) -> None:
    assert parse(typed) == []


@given(st.text())
def test_any_other_input_is_accepted(typed: str) -> None:
    assert parse(f"word {typed}")[0] == Term("word")
