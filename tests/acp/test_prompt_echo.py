from hypothesis import given, strategies as st

from rekindle.acp.prompt_echo import PromptEcho


def block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@given(st.lists(st.text()), st.lists(st.integers(0, 30)))
def test_a_prompt_in_any_pieces_is_an_echo(texts: list[str], cuts: list[int]) -> None:
    echo = PromptEcho([block(text) for text in texts])
    whole = "\n".join(texts)
    start = 0
    for cut in [*sorted(cuts), len(whole)]:
        assert echo.consume(block(whole[start:cut]))
        start = max(start, cut)


def test_other_text_is_not_an_echo() -> None:
    echo = PromptEcho([block("Hello there")])
    assert not echo.consume(block("there"))
    assert not echo.matches(block("there"))
    # A comparison consumes nothing.
    assert echo.matches(block("Hello"))
    assert echo.consume(block("Hello"))
    assert not echo.consume(block("Hello"))


def test_a_whole_message_may_be_an_echo() -> None:
    image = {"type": "image", "data": "x"}
    echo = PromptEcho([block("Look"), image])
    assert not echo.consume([block("Look"), {"type": "image", "data": "y"}])
    assert echo.consume([block("Look"), image])


def test_empty_content_is_an_echo() -> None:
    assert PromptEcho([block("Hello")]).consume([])
    assert PromptEcho([]).consume(None)
