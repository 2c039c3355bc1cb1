"""The targets of `make fuzz` with a few random inputs each."""

import random

import pytest
from hypothesis import given, note, settings, strategies as st

from fuzz.__main__ import SEED, bytes_of_seed
from fuzz.hostile import PATHS, TEXTS, value, written
from fuzz.seeds import corpus
from fuzz.targets import TARGETS
from selection import some

CONVERSATIONS = ("peers", "script")
WORDS = st.sampled_from([it.encode("utf-8", "replace") for it in (*PATHS, *TEXTS)])
VALUES = st.integers(0, 2**32).map(lambda seed: written(value(random.Random(seed))))


@st.composite
def damaged(draw: st.DrawFn, target: str) -> bytes:
    """Draw an input of the corpus, and damage it in up to three places."""
    data = draw(st.sampled_from(corpus(target)))
    for _ in range(draw(st.integers(0, 3))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 20)))
        data = data[:begin] + draw(st.binary(max_size=4) | WORDS | VALUES) + data[end:]
    return data


@pytest.mark.parametrize("target", [it for it in TARGETS if it not in CONVERSATIONS])
@settings(max_examples=some(40))
@given(data=st.data())
def test_any_bytes(target: str, data: st.DataObject) -> None:
    TARGETS[target](data.draw(damaged(target) | st.binary()))


@pytest.mark.parametrize("target", CONVERSATIONS)
@settings(max_examples=some(25))
@given(seed=st.integers(0, 2**64))
def test_any_conversation(target: str, seed: int) -> None:
    note(f"again: make fuzz TARGET={target} FILE={SEED}{seed}")
    TARGETS[target](bytes_of_seed(seed))
