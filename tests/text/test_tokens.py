import pytest

from rekindle.text.tokens import GAP, camel_case_parts, split_unspaced


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("plain words, ÄÖÜ", "plain words, ÄÖÜ"),
        ("SQLite全文検索 ok", "SQLite|全|文|検|索 ok"),
        ("ひらガナ", "ひ|ら|ガ|ナ"),
        ("한국어", "한|국|어"),
    ],
)
def test_scripts_without_blanks_are_split_into_characters(given: str, expected: str) -> None:
    assert split_unspaced(given).replace(GAP, "|") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("SqliteStore", "Sqlite Store"),
        ("getUserName2, getUserName2", "get User Name 2"),
        ("an HTTPServer on GitHub", "HTTP Server Git Hub"),
        ("snake_case and plain Words", ""),
        ("aB" * 50, ""),
    ],
)
def test_camel_case_names_are_split(given: str, expected: str) -> None:
    assert camel_case_parts(given) == expected
