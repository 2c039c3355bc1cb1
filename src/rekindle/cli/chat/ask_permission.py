"""Permission requests that the user answers with a key."""

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

_CHOICE_KEYS = "123456789bcdefghijklmopqrstuvwxz"
"""Keys in the order of the choices. The letters a, n and y have a fixed meaning or none."""
# There is no letter for "allow always": a habitual key press must not grant that.
_KIND_KEYS = {"allow_once": "y", "reject_once": "n", "reject_always": "n"}


def short_description(question: PermissionRequest) -> str:
    """Return a short description of a permission request."""
    return one_line(permission_summary(question.title, question.params, question.tool_call))


async def ask_permission(
    question: PermissionRequest, live: LiveRenderer, keyboard: Keyboard, *, is_typing: bool = False
) -> None:
    """Show a permission request, and answer it with the user's choice.

    With `is_typing`, the user has begun to type the next prompt. At the end of input, the request
    is cancelled. A turn that is cancelled meanwhile has answered the request already.
    """
    choice = await choose_answer(question, live, keyboard, is_typing=is_typing)
    if choice is None:
        question.cancel()
    else:
        question.choose(choice)


async def choose_answer(
    question: PermissionRequest,
    live: LiveRenderer,
    keyboard: Keyboard,
    *,
    is_typing: bool = False,
    leave_keys: str = "",
) -> Choice | None:
    """Show a permission request, and return the user's choice.

    Return None if the request has been answered meanwhile, at the end of input, and if the user
    presses one of `leave_keys`.
    """
    if question.is_answered:
        return None
    keyboard.discard_input()
    live.show_permission(question.tool_call, permission_pieces(question.params, question.tool_call))
    # Some agents send only a path as the title.
    text = f"Allow {one_line(permission_title(question.title, question.tool_call))}?"
    live.show(Piece(kind="question", text=text, mark="? ", mark_style="going"))
    choice_keys = "".join(key for key in _CHOICE_KEYS if key not in leave_keys)
    choices = _choices_by_key(question.choices, choice_keys)
    for key, choice in zip(choice_keys, question.choices, strict=False):
        other_keys = (other for other, its in choices.items() if its is choice and other != key)
        letter = next(other_keys, "")
        text = f"{one_line(choice.name)}{letter and f' ({letter})'}"
        live.show(Piece(kind="choice", text=text, mark=f"  {key}  ", mark_style="going"))
    keys = "".join(choices) + leave_keys
    pressed = await keyboard.read_key(keys, lambda: question.is_answered, is_typing=is_typing)
    chosen = None if pressed is None else choices.get(pressed)
    if chosen is not None:
        live.show(Piece(kind="note", text=f"→ {one_line(chosen.name)}"))
    return chosen


def _choices_by_key(choices: tuple[Choice, ...], keys: str) -> dict[str, Choice]:
    by_key = dict(zip(keys, choices, strict=False))
    for choice in choices:
        letter = _KIND_KEYS.get(choice.kind or "")
        if letter is not None:
            by_key.setdefault(letter, choice)
    return by_key
