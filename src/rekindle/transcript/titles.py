"""A session's title where nobody has given one."""

from typing import Any

from rekindle.jsonvalue import as_object, as_str

LONGEST = 80


def title_from_prompt(blocks: list[Any]) -> str | None:
    """Make a title from a prompt's first words; None when it has no words."""
    for block in map(as_object, blocks):
        if block.get("type") == "text":
            # All that can be seen of it: a prompt may be a whole book.
            words = " ".join((as_str(block.get("text")) or "").split(maxsplit=LONGEST)[:LONGEST])
            if words:
                return shorten(words)
    return None


def shorten(words: str) -> str:
    """Cut at a word's end, and show that something was cut."""
    if len(words) <= LONGEST:
        return words
    cut = words[: LONGEST - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > LONGEST // 2 else cut) + "…"
