"""Text that is typed while the agent works."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest
from prompt_toolkit.input import PipeInput, create_pipe_input

from rekindle.cli.chat.type_ahead import TypeAhead
from rekindle.cli.render.transcript import Piece
from stdio_client import TIMEOUT

UP, LEFT, ESCAPE, ALT_ENTER = "\x1b[A", "\x1b[D", "\x1b", "\x1b\r"
CTRL_A, CTRL_D, CTRL_E, CTRL_H, CTRL_K, CTRL_U, CTRL_W = map(
    chr, (0x01, 0x04, 0x05, 0x7F, 0x0B, 0x15, 0x17)
)


class Typing:
    """A `TypeAhead` with the other end of its keyboard."""

    def __init__(self, keyboard: PipeInput) -> None:
        self._keyboard = keyboard
        self.ahead = TypeAhead(keyboard, self._show)
        self.rows: list[str] = []
        self.shows = 0
        """The number of times that rows were shown."""

    def _show(self, pieces: Sequence[Piece]) -> None:
        self.shows += 1
        self.rows = [f"{piece.mark}{piece.text}".strip() for piece in pieces]

    async def type(self, keys: str, *rows: str) -> None:
        """Press keys, and wait until these rows are shown."""
        self._keyboard.send_text(keys)
        await self.until(lambda: self.rows == list(rows))

    async def until(self, is_expected: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not is_expected():
            assert time.monotonic() < deadline, self.rows
            await asyncio.sleep(0.001)

    @property
    def queue(self) -> list[str]:
        """The waiting prompts, which are taken."""
        return list(iter(self.ahead.take_prompt, None))


def run(steps: Callable[[Typing], Awaitable[None]]) -> Typing:
    async def read() -> Typing:
        with create_pipe_input() as keyboard:
            typing = Typing(keyboard)
            with typing.ahead.reading():
                await steps(typing)
            assert typing.rows == []
            return typing

    return asyncio.run(read())


EDIT = "↑ edits the last queued prompt"
DRAFT = "❯ "  # noqa: RUF001 - the prompt


@pytest.fixture(autouse=True)
def caret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.cli.chat.type_ahead.if_encodable", lambda _, plain: plain)


def test_typed_text_is_shown_and_queued() -> None:
    async def steps(it: Typing) -> None:
        await it.type("one", f"{DRAFT}one|")
        await it.type("\r", "queued: one", EDIT)
        await it.type("two\rthree", "queued: one", "queued: two", f"{DRAFT}three|")

    typing = run(steps)
    assert typing.queue == ["one", "two"]
    assert typing.ahead.take_draft() == "three"
    assert typing.ahead.take_draft() == ""


def test_last_queued_prompt_can_be_recalled_and_edited() -> None:
    async def steps(it: Typing) -> None:
        await it.type("one\rtwo\r", "queued: one", "queued: two", EDIT)
        await it.type(UP, "queued: one", f"{DRAFT}two|")
        # ↑ does not overwrite a text.
        await it.type(f"{UP}!", "queued: one", f"{DRAFT}two!|")
        await it.type("\r", "queued: one", "queued: two!", EDIT)

    assert run(steps).queue == ["one", "two!"]


@pytest.mark.parametrize(
    ("keys", "row"),
    [
        (f"ab{CTRL_H}c", "ac|"),
        (f"ab{LEFT}c", "ac|b"),
        (f"ab{CTRL_A}c", "c|ab"),
        (f"ab{CTRL_A}c{CTRL_E}d", "cabd|"),
        (f"ab{CTRL_A}{CTRL_D}", "|b"),
        (f"ab{LEFT}{CTRL_K}", "a|"),
        (f"ab{LEFT}{CTRL_U}", "|b"),
        (f"ab cd{CTRL_W}", "ab |"),
        ("長い", "長い|"),
        ("\t\x1b[15~x", "x|"),
        ("\x1b]0;x", "0;x|"),
    ],
)
def test_keys_edit_the_text(keys: str, row: str) -> None:
    async def steps(it: Typing) -> None:
        await it.type(keys, f"{DRAFT}{row}".strip())

    run(steps)


def test_prompt_may_have_several_lines() -> None:
    async def steps(it: Typing) -> None:
        await it.type(f"1{ALT_ENTER}2\\\r3\n4", "2", "3", "4|")
        await it.type("\r", "queued: 1 2 3 4", EDIT)

    assert run(steps).queue == ["1\n2\n3\n4"]


def test_pasted_text_is_not_sent() -> None:
    async def steps(it: Typing) -> None:
        await it.type("\x1b[200~one\r\ntwo\rthree\n\x1b[201~", "two", "three", "|")

    typing = run(steps)
    assert (typing.queue, typing.ahead.take_draft()) == ([], "one\ntwo\nthree\n")


def test_enter_after_a_lone_escape_sends() -> None:
    async def steps(it: Typing) -> None:
        await it.type("one", f"{DRAFT}one|")
        shows = it.shows
        await it.type(ESCAPE, f"{DRAFT}one|")
        # Once after the key, and once at the end of the wait for the rest of a sequence.
        await it.until(lambda: it.shows == shows + 2)
        await it.type("\r", "queued: one", EDIT)

    run(steps)


def test_long_queue_and_long_line_are_cut() -> None:
    async def steps(it: Typing) -> None:
        queued = ["queued: 2 more prompts", "queued: 3", "queued: 4", "queued: 5"]
        await it.type("1\r2\r3\r4\r5\r", *queued, EDIT)
        await it.type("x" * 100, *queued, f"{DRAFT}…{'x' * 58}|")

    run(steps)


def test_ctrl_d_on_an_empty_line_queues_the_end() -> None:
    async def steps(it: Typing) -> None:
        await it.type(CTRL_D, "queued: /quit", EDIT)

    typing = run(steps)
    typing.ahead.recall()
    assert typing.queue == ["/quit"]


def test_recalled_prompts_become_the_draft() -> None:
    async def steps(it: Typing) -> None:
        await it.type(
            f"one\rtwo\r{CTRL_D}rest",
            "queued: one",
            "queued: two",
            "queued: /quit",
            f"{DRAFT}rest|",
        )

    typing = run(steps)
    typing.ahead.recall()
    assert (typing.queue, typing.ahead.take_draft()) == ([], "one\ntwo\nrest")


def test_others_can_read_keys_meanwhile() -> None:
    async def steps(it: Typing) -> None:
        await it.type("a", f"{DRAFT}a|")
        with it.ahead.paused():
            it.rows = ["unchanged"]
            await it.type("b", "unchanged")
        await it.type("c", f"{DRAFT}abc|")

    run(steps)
