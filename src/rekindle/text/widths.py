"""How much room a text takes on a terminal, and how to make it fit.

Wide characters take two cells, combining ones none; `rich` knows, and is asked only where a text
is not plain, because its import is felt.
"""

ELLIPSIS = "…"


def width(text: str) -> int:
    """Return how many cells a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - most texts are ASCII

    return cell_len(text)


def pad(text: str, room: int, *, to_right: bool = False) -> str:
    """Fill a text with spaces up to `room` cells."""
    space = " " * (room - width(text))
    return space + text if to_right else text + space


def cut(text: str, room: int) -> str:
    """Make a text fit into `room` cells: its beginning, and a sign that there was more."""
    if width(text) <= room:
        return text
    head = text[: max(room - 1, 0)]
    while width(head) > room - 1 and head:
        head = head[:-1]
    return head.rstrip() + ELLIPSIS if room > 0 else ""


def cut_front(text: str, room: int) -> str:
    """Make a text fit into `room` cells: a sign that there was more, and its end."""
    if width(text) <= room:
        return text
    tail = text[-max(room - 1, 0) :] if room > 1 else ""
    while width(tail) > room - 1 and tail:
        tail = tail[1:]
    return ELLIPSIS + tail if room > 0 else ""


def cut_path(path: str, room: int) -> str:
    """Make a path fit into `room` cells: its last parts, whole if they can be."""
    if width(path) <= room:
        return path
    tail = path.partition("/")[2]
    while tail and width(tail) > room - 2:
        tail = tail.partition("/")[2]
    return f"{ELLIPSIS}/{tail}" if tail else cut_front(path, room)
