"""Masking of a text in chunks."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from rekindle.text.redact.detect import mask
from rekindle.text.redact.stream import StreamMask

BODY = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
KEY = f"ghp_{BODY}"
LINES = ["MIIEpAIBAAKCAQEA0Z3VS5JJ", "q+/=abcd"]
PEM = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *LINES, "-----END RSA PRIVATE KEY-----"])
SHORT = BODY[:6]
PHRASE = "correct horse battery"
TEXT = f"""Here it is:
password = "{PHRASE}"
Use {KEY} and postgres://bob:{SHORT}@db/x.

{PEM}
Done, with two words.
"""


def streamed(chunks: list[str]) -> str:
    stream = StreamMask()
    return "".join(map(stream.feed, chunks)) + stream.finish()


@given(st.sets(st.integers(0, len(TEXT))))
def test_chunks_are_masked_like_the_whole_text(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(TEXT)]
    chunks = [TEXT[begin:end] for begin, end in pairwise(edges)]
    assert streamed(chunks) == mask(TEXT)


def test_ordinary_words_are_not_held_back() -> None:
    stream = StreamMask()
    assert stream.feed("Let us") == "Let "
    assert stream.feed(" see") == "us "
    assert stream.feed(", now.\n") == "see, now.\n"
    assert stream.finish() == ""


@pytest.mark.parametrize("chunk", [KEY[:10], "my password ", "curl ", f"{PEM[:60]}"])
def test_possible_beginning_of_a_secret_is_held_back(chunk: str) -> None:
    stream = StreamMask()
    assert stream.feed(chunk) == ""
    assert stream.finish() == mask(chunk)


def test_text_is_released_in_a_pause() -> None:
    stream = StreamMask()
    assert stream.feed("And thr") == "And "
    assert stream.release() == "thr"
    assert stream.feed("ee more") == "ee "
    assert stream.finish() == "more"


def test_secret_is_masked_although_its_beginning_was_released() -> None:
    stream = StreamMask()
    assert stream.feed(f"Use {KEY[:6]}") == "Use "
    assert stream.release() == KEY[:6]
    assert stream.feed(f"{KEY[6:]} now\n") == "*** now\n"


def test_old_text_is_forgotten() -> None:
    stream = StreamMask()
    line = "some words of a long text\n"
    for _ in range(1_000):
        assert stream.feed(line) == line
    assert len(stream._text) <= 4_000  # noqa: SLF001


def test_held_text_is_bounded() -> None:
    stream = StreamMask()
    text = "x" * 30_000
    assert stream.feed(text) == text
