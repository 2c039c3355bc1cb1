"""Single keys that answer a question."""

import asyncio
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from rekindle.cli.chat import keyboard as module
from rekindle.cli.chat.keyboard import Keyboard

NEVER = 1000.0


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Generator[int]:
    """Return the end of a terminal at which the user types."""
    users_end, programs_end = os.openpty()
    with Path(os.ttyname(programs_end)).open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with Keyboard().quiet():
            yield users_end
    os.close(users_end)
    os.close(programs_end)


def answer(typed: int, key: str, *, is_typing: bool = False) -> str | None:
    """Press a key at the moment of the question; return the answer."""
    os.write(typed, key.encode())
    polls = iter([False] * 3)
    question = Keyboard().read_key("yn", lambda: next(polls, True), is_typing=is_typing)
    return asyncio.run(question)


def test_a_key_pressed_with_the_question_is_no_answer(
    typed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_BEFORE", NEVER)
    assert answer(typed, "y") is None
    monkeypatch.setattr(module, "_PAUSE_BEFORE", 0)
    assert answer(typed, "Y") == "y"


def test_a_user_who_types_answers_after_a_longer_pause(
    typed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_BEFORE", 0)
    monkeypatch.setattr(module, "_PAUSE_WHILE_TYPING", NEVER)
    assert answer(typed, "y", is_typing=True) is None
    assert answer(typed, "y") == "y"
    monkeypatch.setattr(module, "_PAUSE_WHILE_TYPING", 0)
    assert answer(typed, "n", is_typing=True) == "n"
