"""Questions for permission, and who answers them: the user by a key, or a rule."""

from collections.abc import Iterator

from rekindle.cli.chat.keyboard import Keyboard
from rekindle.cli.formatting import one_line
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.permission import (
    permission_pieces,
    permission_summary,
    permission_title,
)
from rekindle.cli.render.transcript import Piece
from rekindle.client import Choice, PermissionRequest

_KEYS = "123456789bcdefghijklmopqrstuvwxz"
"""Without a, n and y: what they mean elsewhere is not to be meant here by chance."""
# What is allowed for ever takes more than a letter that is pressed by habit.
_LETTERS = {"allow_once": "y", "reject_once": "n", "reject_always": "n"}


def about(question: PermissionRequest) -> str:
    """Say in short what a question is about."""
    return one_line(permission_summary(question.title, question.params, question.tool_call))


async def ask(question: PermissionRequest, live: LiveRenderer, keyboard: Keyboard) -> None:
    """Let the user choose by a key. What is cancelled meanwhile, is answered already."""
    if question.is_answered:
        return
    keyboard.forget()
    live.show_permission(question.tool_call, permission_pieces(question.params, question.tool_call))
    words = f"{one_line(permission_title(question.title, question.tool_call))}?"
    live.show(Piece(kind="question", text=words, mark="? ", mark_style="going"))
    keys = _keys(question.choices)
    for key, choice in zip(_KEYS, question.choices, strict=False):
        letter = next((it for it, one in keys.items() if one is choice and it != key), "")
        words = f"{one_line(choice.name)}{letter and f' ({letter})'}"
        live.show(Piece(kind="choice", text=words, mark=f"  {key}  ", mark_style="going"))
    pressed = await keyboard.press("".join(keys), lambda: question.is_answered)
    if pressed is None:
        question.cancel()
    else:
        live.show(Piece(kind="note", text=f"→ {one_line(keys[pressed].name)}"))
        question.choose(keys[pressed])


def _keys(choices: tuple[Choice, ...]) -> dict[str, Choice]:
    """Return which key means which choice."""
    keys = dict(zip(_KEYS, choices, strict=False))
    for letter, choice in _letters(choices):
        keys.setdefault(letter, choice)
    return keys


def _letters(choices: tuple[Choice, ...]) -> Iterator[tuple[str, Choice]]:
    for choice in choices:
        letter = _LETTERS.get(choice.kind or "")
        if letter is not None:
            yield letter, choice
