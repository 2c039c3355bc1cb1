import pytest

from rekindle.acp.terminal_output import Terminal, decode_bytes, raw_output_text


@pytest.mark.parametrize(
    ("data", "expected"),
    [("aGk=", b"hi"), ("", b""), (None, b""), (7, b""), ("no base64!", b""), ("ü", b"")],
)
def test_base64_is_decoded_and_invalid_data_is_empty(data: object, expected: bytes) -> None:
    assert decode_bytes(data) == expected


def test_text_has_no_control_sequences_and_no_invalid_bytes() -> None:
    terminal = Terminal(output=bytearray(b"\x1b[31mred\x1b[0m\r\n\xff"))
    assert terminal.text == "red\n\ufffd"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ({"output": "one", "metadata": {}}, "one"),
        ({"aggregated_output": "one", "stdout": "two"}, "one"),
        ({"formatted_output": "one"}, "one"),
        ({"stdout": "out", "stderr": "err"}, "outerr"),
        ({"output": "", "stdout": "out"}, "out"),
        ({"content": [{"type": "text", "text": "one"}, {"type": "image"}]}, "one"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "onetwo"),
        ("\x1b[31mred\x1b[0m", "red"),
        ({"exit_code": 0}, ""),
        (None, ""),
        (7, ""),
    ],
)
def test_the_text_of_a_raw_output_is_found(raw: object, text: str) -> None:
    assert raw_output_text(raw) == text
