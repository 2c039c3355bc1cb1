"""A block of ours in a text that is somebody else's, between two marks. Pure."""

from rekindle.errors import FileUnclear


def put_block(text: str, name: str, body: str, comment: str) -> str:
    """Return the text with the block of that name in it: in its place, else at the end.

    `comment` is what begins a comment in the text's language. Raises FileUnclear.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    begin, end = f"{comment} >>> rekindle: {name} >>>", f"{comment} <<< rekindle: {name} <<<"
    block = [begin, *body.splitlines(), end]
    lines = text.split(newline)
    begins = [at for at, line in enumerate(lines) if line.strip() == begin]
    ends = [at for at, line in enumerate(lines) if line.strip() == end]
    if not begins and not ends:
        before = [*lines[:-1], ""] if text.endswith(newline) else [*lines, ""]
        return newline.join([*(before if text.strip() else []), *block, ""])
    if len(begins) != 1 or len(ends) != 1 or begins > ends:
        raise FileUnclear(f"the marks around the block {name!r} are not one pair")
    return newline.join([*lines[: begins[0]], *block, *lines[ends[0] + 1 :]])
