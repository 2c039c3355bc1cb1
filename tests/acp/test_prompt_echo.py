from hypothesis import given, strategies as st

from rekindle.acp.prompt_echo import Echo


def block(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


@given(st.lists(st.text()), st.lists(st.integers(0, 30)))
def test_a_prompt_cut_anywhere_is_its_echo(texts: list[str], cuts: list[int]) -> None:
    echo = Echo([block(words) for words in texts])
    whole = "\n".join(texts)
    start = 0
    for cut in [*sorted(cuts), len(whole)]:
        assert echo.takes(block(whole[start:cut]))
        start = max(start, cut)


def test_other_words_are_no_echo() -> None:
    echo = Echo([block("Hello there")])
    assert not echo.takes(block("there"))
    assert echo.takes(block("Hello"))
    assert not echo.takes(block("Hello"))


def test_a_whole_message_may_be_an_echo() -> None:
    image = {"type": "image", "data": "x"}
    echo = Echo([block("Look"), image])
    assert not echo.takes([block("Look"), {"type": "image", "data": "y"}])
    assert echo.takes([block("Look"), image])


def test_nothing_said_is_an_echo_of_anything() -> None:
    assert Echo([block("Hello")]).takes([])
    assert Echo([]).takes(None)
