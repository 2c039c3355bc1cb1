"""A block of ours in a text that is somebody else's, between two marks. Pure."""

from rekindle.errors import FileUnclear


def put_block(text: str, name: str, body: str, comment: str) -> str:
    """Return the text with the block of that name in it: in its place, else at the end.

    `comment` is what begins a comment in the text's language. Raises FileUnclear.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    begin, end = _marks(name, comment)
    block = [begin, *body.splitlines(), end]
    lines = text.split(newline)
    place = _place(lines, name, comment)
    if place is None:
        before = [*lines[:-1], ""] if text.endswith(newline) else [*lines, ""]
        return newline.join([*(before if text.strip() else []), *block, ""])
    return newline.join([*lines[: place.start], *block, *lines[place.stop :]])


def get_block(text: str, name: str, comment: str) -> str:
    """Return what stands between the marks of that name, if anything does. Raises FileUnclear."""
    lines = text.splitlines()
    place = _place(lines, name, comment)
    return "\n".join(lines[place.start + 1 : place.stop - 1]) if place else ""


def _marks(name: str, comment: str) -> tuple[str, str]:
    return f"{comment} >>> rekindle: {name} >>>", f"{comment} <<< rekindle: {name} <<<"


def _place(lines: list[str], name: str, comment: str) -> range | None:
    """Return the lines of a block, its marks included."""
    begin, end = _marks(name, comment)
    begins = [at for at, line in enumerate(lines) if line.strip() == begin]
    ends = [at for at, line in enumerate(lines) if line.strip() == end]
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins > ends:
        raise FileUnclear(f"the marks around the block {name!r} are not one pair")
    return range(begins[0], ends[0] + 1)
