"""The keyboard while the agent talks: nothing typed shows, and single keys are asked for."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

_READ = 4096
_TICK = 0.2
_SILENCE = 0.25
"""A key that answers stands alone: whoever types or pastes a sentence answers nothing with it."""
_INPUT, _LOCAL = 0, 3


class Keyboard:
    """The terminal's input, between prompts."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._pressed: asyncio.Future[str] | None = None
        self._last = 0.0
        """When something was last typed."""
        self._answering: asyncio.TimerHandle | None = None

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Let what is typed wait for the next prompt, instead of showing in between."""
        before = termios.tcgetattr(self._fd)
        mode = termios.tcgetattr(self._fd)
        mode[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
        # So that Enter is still Enter for the prompt that comes after.
        mode[_INPUT] &= ~termios.ICRNL
        termios.tcsetattr(self._fd, termios.TCSADRAIN, mode)
        try:
            yield
        finally:
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, before)

    def forget(self) -> None:
        """Drop what was typed so far: it is no answer to a question that comes now."""
        termios.tcflush(self._fd, termios.TCIFLUSH)

    async def press(self, among: str, is_moot: Callable[[], bool]) -> str | None:
        """Return the first of these keys that is pressed; None once the question `is_moot`."""
        loop = asyncio.get_running_loop()
        self._pressed, self._last = loop.create_future(), -_SILENCE
        loop.add_reader(self._fd, self._read, among)
        try:
            while not is_moot():
                done, _ = await asyncio.wait([self._pressed], timeout=_TICK)
                if done:
                    return self._pressed.result() or None
            return None
        finally:
            loop.remove_reader(self._fd)
            self._wait_no_more()
            self._pressed = None

    def give_up(self) -> None:
        """Let nobody wait for a key any more."""
        self._settle("")

    def _read(self, among: str) -> None:
        typed = os.read(self._fd, _READ).decode("utf-8", "ignore")
        if not typed:
            self.give_up()
            return
        loop = asyncio.get_running_loop()
        is_after_silence = loop.time() - self._last >= _SILENCE
        self._last = loop.time()
        self._wait_no_more()
        # Arrows and the like, and what is pasted, come as several characters.
        if is_after_silence and len(typed) == 1 and typed.lower() in among:
            self._answering = loop.call_later(_SILENCE, self._settle, typed.lower())

    def _wait_no_more(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            self._answering = None

    def _settle(self, key: str) -> None:
        if self._pressed is not None and not self._pressed.done():
            self._pressed.set_result(key)
