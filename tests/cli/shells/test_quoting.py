"""Shell quoting: lines are split like in bash, and insertions are read as intended."""

import subprocess

import pytest

from rekindle.cli.shells.quoting import insertions, split_words
from stdio_client import TIMEOUT

ODD = [
    "plain",
    "two words",
    "It's",
    'a "b" c',
    "$(touch /tmp/owned) `x` \\ !1 $HOME",
    "-'\"'!-",
    "日本 語",
]


def read_by_bash(arguments: list[str]) -> list[str]:
    script = "".join(f"printf '%s\\0' {word}\n" for word in arguments)
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", script], capture_output=True, timeout=TIMEOUT, check=True
    )
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("line", "texts", "quote"),
    [
        ("", [""], ""),
        ("a  b ", ["a", "b", ""], ""),
        ("a b", ["a", "b"], ""),
        ("a 'b c", ["a", "b c"], "'"),
        ('a "b\\" c', ["a", 'b" c'], '"'),
        ('a "\\b\\\\', ["a", "\\b\\"], '"'),
        ("a b\\ c'd'\"e\"", ["a", "b cde"], ""),
        ("a '' ", ["a", "", ""], ""),
        ("a b\\", ["a", "b"], ""),
    ],
)
def test_split_words(line: str, texts: list[str], quote: str) -> None:
    words = split_words(line)
    assert [word.text for word in words] == texts
    assert words[-1].quote == quote


@pytest.mark.parametrize(
    ("typed", "tail", "closing"),
    [
        ("x ", "", ""),
        ("x '", "", "'"),
        ('x "', "", '"'),
        ("x tw\\ o", "tw\\ o", ""),
        ("x --title=", "", ""),
        ("x --title='", "", "'"),
    ],
)
def test_bash_reads_insertions_as_the_candidates(typed: str, tail: str, closing: str) -> None:
    option = "--title=" if "=" in typed else ""
    meant = [option + words for words in ODD]
    found = insertions(meant, typed, tail)
    lines = [typed.removesuffix(tail) + str(item) + closing for item in found]
    assert read_by_bash([line.removeprefix("x ") for line in lines]) == meant


def test_common_prefix_of_insertions_can_be_continued() -> None:
    for words in ODD:
        (whole,) = insertions([words], "x ", "")
        assert whole is not None
        for length in range(len(whole)):
            line = f"x {whole[:length]}"
            quote = split_words(line)[-1].quote
            typed = line.rpartition(quote)[2] if quote else line.removeprefix("x ")
            (rest,) = insertions([words], line, typed)
            assert rest is not None
            become = line.removesuffix(typed) + rest + quote
            assert read_by_bash([become.removeprefix("x ")]) == [words]


def test_candidates_with_another_beginning_are_not_offered() -> None:
    assert insertions(["abc:def", "other"], "x abc:d", "d") == ["def", None]
