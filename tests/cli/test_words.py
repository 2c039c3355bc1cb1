import time

import pytest

from rekindle.cli.words import age, one_line, printable, short_ids


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (7200, "2 h"),
        (86400 * 3, "3 d"),
        (86400 * 21, "3 w"),
        (86400 * 800, "2 y"),
        (-50, "0 s"),
    ],
)
def test_ages_are_told_in_one_unit(seconds: int, words: str) -> None:
    assert age(int((time.time() - seconds - 0.5) * 1e6)) == words


def test_control_characters_are_shown_and_not_obeyed() -> None:
    assert printable("a\x1b[31m\tb\r\nc\x07\x9b\u202e") == "a\\x1b[31m\tb\nc\\x07\\x9b\ufffd"
    assert one_line(" a\n b\t\x1b ") == "a b \\x1b"


def test_short_ids_tell_sessions_apart() -> None:
    ids = ["ses_e1edc8d3fffe1EdV", "ses_e1edc8d3aaaaaaaa", "example-aa060f10d7a3", "x"]
    assert short_ids(ids) == {
        "ses_e1edc8d3fffe1EdV": "ses_e1edc8d3fff",
        "ses_e1edc8d3aaaaaaaa": "ses_e1edc8d3aaa",
        "example-aa060f10d7a3": "example-aa060f10",
        "x": "x",
    }
    assert short_ids([]) == {}
    assert short_ids(["ab", "abc"]) == {"ab": "ab", "abc": "abc"}
