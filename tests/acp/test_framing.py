from hypothesis import given, strategies as st

from rekindle.acp.framing import LineBuffer

# Short pieces, so that newlines fall on every boundary.
STREAMS = st.lists(
    st.sampled_from([b"\n", b"\r", b"a", b"{}", "\u2028".encode(), b"\x85", b"\xff", b""])
).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 40)))
def test_chunk_boundaries_do_not_change_the_lines(stream: bytes, cuts: list[int]) -> None:
    buffer = LineBuffer()
    lines: list[bytes] = []
    start = 0
    for cut in [*sorted(cuts), len(stream)]:
        complete = buffer.feed(stream[start:cut])
        if complete is not None:
            lines += complete.split(b"\n")
        start = max(start, min(cut, len(stream)))
    *whole, rest = stream.split(b"\n")
    assert lines == whole
    assert buffer.pending == len(rest)
    assert buffer.rest() == rest
    assert buffer.pending == 0


@given(STREAMS)
def test_no_byte_is_lost_or_added(stream: bytes) -> None:
    buffer = LineBuffer()
    lines = buffer.feed(stream)
    assert (b"" if lines is None else lines + b"\n") + buffer.rest() == stream


def test_a_line_of_many_chunks_is_joined_once() -> None:
    buffer = LineBuffer()
    for _ in range(10_000):
        assert buffer.feed(b"x" * 100) is None
    assert buffer.feed(b"\n") == b"x" * 1_000_000
    assert buffer.rest() == b""
