"""Fuzzy matching of a typed word."""

import pytest

from rekindle.cli.picker.fuzzy import match_cost, substring_cost


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("bike", "mend the bike"),
        ("mndbk", "mend the bike"),
        ("mtb", "mend the bike"),
        ("btml", "buy oat milk"),
        ("ik", "mend the bike"),
        ("ktchn", "kitchen"),
        ("ea", "example-agent"),
        ("長い", "とても長い話"),
    ],
)
def test_letters_in_order_match(word: str, text: str) -> None:
    assert match_cost(word, text) is not None


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("ekib", "mend the bike"),
        ("bikes", "mend the bike"),
        ("x", ""),
        # The letters are there, but far apart.
        ("zbr", "fizzy drinks in the cupboard of the second house need order"),
    ],
)
def test_other_letters_do_not_match(word: str, text: str) -> None:
    assert match_cost(word, text) is None


def test_better_matches_cost_less() -> None:
    texts = ["bike shed", "motorbike", "b. i. k. e.", "basic kettle", "bright, quick and elegant"]
    costs = [match_cost("bike", text) for text in texts]
    assert costs[:3] == [0, 1, 3]
    known = [cost for cost in costs if cost is not None]
    assert known == sorted(known)


def test_letters_of_one_word_are_better_than_of_words_far_apart() -> None:
    near = match_cost("prsr", "fix the parser")
    far = match_cost("prsr", "explain the protocol of the store")
    assert near is not None
    assert far is not None
    assert near < far


def test_substring_at_a_word_start_is_the_best_one() -> None:
    assert substring_cost("roof", "proof of the roof") == 0
    assert substring_cost("roof", "waterproof") == 1
    assert substring_cost("roof", "house") is None
