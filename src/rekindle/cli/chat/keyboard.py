"""The keyboard during a turn: typed text is not echoed, and single keys answer questions."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

_READ_SIZE = 4096
_POLL_INTERVAL = 0.2
_PAUSE_BEFORE = _PAUSE_AFTER = 0.25
"""An answer is a single key with a pause before and after it. A typed or pasted sentence is not."""
_PAUSE_WHILE_TYPING = 1.0
"""Both pauses, if the question came while the user typed something else."""
_INPUT_FLAGS, _LOCAL_FLAGS = 0, 3


class Keyboard:
    """The terminal's input, between prompts."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._answer: asyncio.Future[str] | None = None
        self._last_input = 0.0
        """The loop time of the last input."""
        self._timer: asyncio.TimerHandle | None = None
        """Accepts a key as the answer if nothing follows it."""

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Turn echo off. Typed text waits for the next prompt."""
        before = termios.tcgetattr(self._fd)
        mode = termios.tcgetattr(self._fd)
        mode[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
        # The next prompt expects a carriage return for Enter.
        mode[_INPUT_FLAGS] &= ~termios.ICRNL
        termios.tcsetattr(self._fd, termios.TCSADRAIN, mode)
        try:
            yield
        finally:
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, before)

    def discard_input(self) -> None:
        """Discard typed text, because it cannot answer a question that is asked only now."""
        termios.tcflush(self._fd, termios.TCIFLUSH)

    async def read_key(
        self,
        keys: str,
        is_moot: Callable[[], bool],
        *,
        is_typing: bool = False,
        at_once: bool = False,
    ) -> str | None:
        """Return the first pressed key of `keys`; None at the end of input, or if `is_moot`.

        A key that follows the question at once is no answer: the user has not read it yet. With
        `is_typing`, the user was typing something else when the question came. With `at_once`, no
        question was asked: any key counts.
        """
        loop = asyncio.get_running_loop()
        self._answer, self._last_input = loop.create_future(), loop.time()
        before, after = _PAUSE_BEFORE, _PAUSE_AFTER
        if is_typing:
            before = after = _PAUSE_WHILE_TYPING
        if at_once:
            before = after = 0.0
        loop.add_reader(self._fd, self._read, keys, before, after)
        try:
            while not is_moot():
                done, _ = await asyncio.wait([self._answer], timeout=_POLL_INTERVAL)
                if done:
                    return self._answer.result() or None
            return None
        finally:
            loop.remove_reader(self._fd)
            self._cancel_timer()
            self._answer = None

    def stop_waiting(self) -> None:
        """End `read_key` without a key."""
        self._accept("")

    def _read(self, keys: str, before: float, after: float) -> None:
        typed = os.read(self._fd, _READ_SIZE).decode("utf-8", "ignore")
        if not typed:
            self.stop_waiting()
            return
        loop = asyncio.get_running_loop()
        is_after_pause = loop.time() - self._last_input >= before
        self._last_input = loop.time()
        self._cancel_timer()
        # Arrow keys and pasted text arrive as several characters.
        if is_after_pause and len(typed) == 1 and typed.lower() in keys:
            self._timer = loop.call_later(after, self._accept, typed.lower())

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _accept(self, key: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(key)
