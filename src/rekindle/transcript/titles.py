"""Derive the titles of sessions from first prompts, and those of forks from their parents."""

import re
from typing import Any

from rekindle.jsonvalue import as_object, as_str
from rekindle.text.sanitize import is_harmful
from rekindle.transcript.preface import is_preface_title, user_words

MAX_TITLE = 80
DEFAULT_TITLE = "Session"
"""The title that the title of a fork is made from if its parent has none."""
_FORK_SUFFIX = " (fork)"
_MAX_AGENT_TITLE = 500
_MAX_USER_TITLE = 500
_PLACEHOLDER_NOUNS = frozenset({"session", "chat", "conversation", "thread", "untitled", "unnamed"})
_PLACEHOLDER_WORDS = _PLACEHOLDER_NOUNS | {"new", "child"}
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d\S*+)?"
    r"|[0-9a-f]{8}-[0-9a-f-]{27}"
    r"|\b\w{1,10}_(?=[a-z]*\d[0-9a-z])[0-9a-z]{10,60}\b"
)
"""A time, a UUID, or an id such as `ses_4f0c1e2d3b`, in lower case.

An id has a digit before its end. Otherwise it would be a name, such as `fix_authentication`.
"""


class InvalidTitle(ValueError):
    """A title of the user cannot be stored. The text completes the words "the title"."""


def title_from_user(text: str) -> str:
    """Return a title of the user with single spaces. Raises InvalidTitle.

    `rekindle rename` accepts the same titles.
    """
    title = " ".join(text.split())
    if not title:
        raise InvalidTitle("must not be empty")
    if is_harmful(title):
        raise InvalidTitle("must not contain control characters")
    if len(title) > _MAX_USER_TITLE:
        raise InvalidTitle(f"must not have more than {_MAX_USER_TITLE} characters")
    return title


def title_from_prompt(blocks: list[Any]) -> str | None:
    """Return the first words of a prompt as a title; None if it has no text."""
    for block in map(as_object, blocks):
        if block.get("type") == "text":
            # A prompt may be as long as a book, so only the words that can be shown are split off.
            text = user_words(as_str(block.get("text")) or "")
            title = " ".join(text.split(maxsplit=MAX_TITLE)[:MAX_TITLE])
            if title:
                return shorten(title)
    return None


def title_from_agent(title: object) -> str | None:
    """Return a title that an agent gives, in one line; None if it does not describe the session.

    Some agents name a session after its first prompt, which may be a handover. Others list it with
    a placeholder until they have found a title.
    """
    text = " ".join((as_str(title) or "").split(maxsplit=_MAX_AGENT_TITLE))[:_MAX_AGENT_TITLE]
    return None if is_preface_title(text) or is_placeholder(text) else text


def is_placeholder(title: str) -> bool:
    """Return whether a title names any session, as in "New session - 2026-01-02T03:04:05Z"."""
    rest = _STAMP.sub(" ", title.casefold())
    words = set(re.findall(r"[^\W\d_]+", rest))
    if not words:
        return re.search(r"\w", rest) is None
    return words <= _PLACEHOLDER_WORDS and not words.isdisjoint(_PLACEHOLDER_NOUNS)


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
