from xml.etree import ElementTree as ET

import pytest

from tools.terminal_svg import (
    LINE_HEIGHT,
    Recording,
    Shown,
    Style,
    draw,
    film,
    pace,
    without_end,
)

SVG = "{http://www.w3.org/2000/svg}"


def recording(*events: tuple[float, str], columns: int = 20, rows: int = 3) -> Recording:
    return Recording(columns, rows, events)


def texts(shown: Shown) -> str:
    return "".join(text for text, _ in shown.row)


def states(made: Recording) -> list[tuple[str, int, float, float | None]]:
    """Return each row of a film with its line, its first moment and its last one."""
    found = [(texts(it), it.line, it.start, it.end) for it in film(made, hold=1).shown]
    return [
        (text, line, round(start, 1), end and round(end, 1)) for text, line, start, end in found
    ]


def test_growing_line_is_a_state_for_each_tick() -> None:
    made = recording((0.0, "a"), (0.02, "b"), (0.5, "c"), (1.0, "\r\nd"))
    assert states(made) == [("ab", 0, 0.0, 0.5), ("abc", 0, 0.5, None), ("d", 1, 1.0, None)]


def test_scrolled_lines_keep_their_numbers() -> None:
    made = recording((0.0, "1\r\n2\r\n3"), (1.0, "\r\n4"), (2.0, "\r\n5\r\n6"))
    played = film(made, hold=2)
    assert [(texts(it), it.line) for it in played.shown] == [(str(n + 1), n) for n in range(6)]
    assert played.scrolls == [(1.0, 1), (2.0, 3)]
    assert played.duration == 4.0


def test_cleared_line_ends_and_empty_rows_are_not_drawn() -> None:
    made = recording((0.0, "menu\r\n"), (1.0, "\x1b[H\x1b[2Jlist"))
    assert states(made) == [("menu", 0, 0.0, 1.0), ("list", 0, 1.0, None)]


def test_colours_and_attributes_are_kept() -> None:
    made = recording(
        (0, "\x1b[1;32mok\x1b[0m \x1b[2mdim\x1b[22m \x1b[38;2;1;2;3mrgb\x1b[0m \x1b[7mno\x1b[0m")
    )
    (shown,) = film(made, hold=1).shown
    assert dict(shown.row) == {
        "ok": Style("green", is_bold=True),
        " ": Style(),
        "dim": Style(is_dim=True),
        "rgb": Style("010203"),
        "no": Style("#000000", "white"),
    }
    picture = draw(made, title="x")
    assert 'class="c-green b">ok<' in picture
    assert ".c-010203{fill:#010203}" in picture
    assert 'class="d">dim<' in picture


def test_picture_is_valid_xml_with_all_text_and_the_same_each_time() -> None:
    made = recording((0.0, 'a<b> & "c"'), (1.0, "\r\n1\r\n2\r\n3"))
    picture = draw(made, title='A "title" & more')
    assert picture == draw(made, title='A "title" & more')
    root = ET.fromstring(picture)  # noqa: S314 - made here
    assert root.get("aria-label") == 'A "title" & more'
    assert [text.text for text in root.iter(f"{SVG}text")] == ['a<b> & "c"', "1", "2", "3"]
    # The last state is drawn without an animation: the text has scrolled by one line.
    moved = root.find(f"{SVG}svg/{SVG}g")
    assert moved is not None
    assert moved.get("transform") == f"translate(0 {-LINE_HEIGHT})"
    assert moved.find(f"{SVG}animateTransform") is not None


def test_replaced_rows_are_hidden_in_the_last_state() -> None:
    picture = draw(recording((0.0, "old"), (1.0, "\rnew")), title="x", hold=1)
    root = ET.fromstring(picture)  # noqa: S314 - made here
    groups = {
        text.text: group for group in root.iter(f"{SVG}g") for text in group.findall(f"{SVG}text")
    }
    assert (groups["old"].get("visibility"), groups["new"].get("visibility")) == ("hidden", None)
    animation = groups["old"].find(f"{SVG}animate")
    assert animation is not None
    assert animation.get("values") == "visible;hidden"
    assert animation.get("keyTimes") == "0;0.5"
    assert animation.get("dur") == "2.0s"


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.0, 0.1, 0.2], [0.0, 0.1, 0.2]),
        ([0.0, 9.0], [0.0, 3.0]),  # a long pause is shortened
        ([0.0, 0.5], [0.0, 2.0]),  # ten lines need two seconds
    ],
)
def test_pauses_let_people_read(times: list[float], expected: list[float]) -> None:
    events = [(at, "line\n" * 10) for at in times]
    paced = pace(recording(*events))
    assert [round(at, 2) for at, _ in paced.events] == expected


def test_recording_ends_before_a_program_leaves_the_screen() -> None:
    made = recording((0.0, "list"), (1.0, "last\x1b[?1049l$ "), (2.0, "more"))
    assert without_end(made).events == ((0.0, "list"), (1.0, "last"))


def test_requests_to_the_keyboard_are_not_drawn() -> None:
    assert states(recording((0.0, "a\x1b[>1u\x1b[<ub"))) == [("ab", 0, 0.0, None)]
