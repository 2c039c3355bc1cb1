"""Derive the titles of sessions from first prompts, and those of forks from their parents."""

from typing import Any

from rekindle.jsonvalue import as_object, as_str

MAX_TITLE = 80
DEFAULT_TITLE = "Session"
"""The title that the title of a fork is made from if its parent has none."""
_FORK_SUFFIX = " (fork)"


def title_from_prompt(blocks: list[Any]) -> str | None:
    """Return the first words of a prompt as a title; None if it has no text."""
    for block in map(as_object, blocks):
        if block.get("type") == "text":
            # A prompt may be as long as a book, so only the words that can be shown are split off.
            text = as_str(block.get("text")) or ""
            title = " ".join(text.split(maxsplit=MAX_TITLE)[:MAX_TITLE])
            if title:
                return shorten(title)
    return None


def shorten(title: str) -> str:
    """Cut a title to its maximum length, between two words if possible, and add an ellipsis."""
    if len(title) <= MAX_TITLE:
        return title
    cut = title[: MAX_TITLE - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > MAX_TITLE // 2 else cut) + "…"


def fork_title(parent_title: str) -> str:
    """Return the title of a fork. A fork of a fork has the suffix only once."""
    return without_fork_suffix(parent_title) + _FORK_SUFFIX


def without_fork_suffix(title: str) -> str:
    """Return a title without the suffix that `fork_title` adds."""
    return title.removesuffix(_FORK_SUFFIX)
