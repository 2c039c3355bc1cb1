"""Measure and cut text in the cells of a terminal.

Wide characters take two cells, combining characters none. `rich` measures them; it is imported
only for text that is not ASCII, because the import takes long.
"""

ELLIPSIS = "…"


def width(text: str) -> int:
    """Return the width of a text in cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - most texts are ASCII

    return cell_len(text)


def pad(text: str, room: int, *, to_right: bool = False) -> str:
    """Fill a text with spaces up to `room` cells."""
    space = " " * (room - width(text))
    return space + text if to_right else text + space


def cut(text: str, room: int) -> str:
    """Cut the end of a text so that it fits into `room` cells, with an ellipsis."""
    if width(text) <= room:
        return text
    head = text[: max(room - 1, 0)]
    while width(head) > room - 1 and head:
        head = head[:-1]
    return head.rstrip() + ELLIPSIS if room > 0 else ""


def cut_front(text: str, room: int) -> str:
    """Cut the beginning of a text so that it fits into `room` cells, with an ellipsis."""
    if width(text) <= room:
        return text
    tail = text[-max(room - 1, 0) :] if room > 1 else ""
    while width(tail) > room - 1 and tail:
        tail = tail[1:]
    return ELLIPSIS + tail if room > 0 else ""


def cut_path(path: str, room: int) -> str:
    """Cut a path so that its last parts fit into `room` cells, whole if possible."""
    if width(path) <= room:
        return path
    tail = path.partition("/")[2]
    while tail and width(tail) > room - 2:
        tail = tail.partition("/")[2]
    return f"{ELLIPSIS}/{tail}" if tail else cut_front(path, room)
