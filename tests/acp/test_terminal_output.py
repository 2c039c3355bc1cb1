import pytest

from rekindle.acp.terminal_output import Terminal, decode_bytes


@pytest.mark.parametrize(
    ("data", "expected"),
    [("aGk=", b"hi"), ("", b""), (None, b""), (7, b""), ("no base64!", b""), ("ü", b"")],
)
def test_base64_is_decoded_and_invalid_data_is_empty(data: object, expected: bytes) -> None:
    assert decode_bytes(data) == expected


def test_text_has_no_control_sequences_and_no_invalid_bytes() -> None:
    terminal = Terminal(output=bytearray(b"\x1b[31mred\x1b[0m\r\n\xff"))
    assert terminal.text == "red\n\ufffd"
