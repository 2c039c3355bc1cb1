"""A terminal with its screen, drawn by tmux. Every wait is bounded."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from stdio_client import REKINDLE, TIMEOUT

TMUX = shutil.which("tmux")
# The screen stays after the command has exited.
_SETTINGS = "set -g remain-on-exit on\nset -g status off\n"
_POLL_INTERVAL = 0.03
_LONGEST_REACTION = 1.0


class Tmux:
    """`rekindle` in tmux. `folder` is for the socket and the exit code."""

    def __init__(
        self,
        folder: Path,
        *arguments: str | Path,
        cwd: Path | None = None,
        columns: int = 80,
        rows: int = 24,
        **environ: str,
    ) -> None:
        self._socket = folder / "tmux"
        # tmux does not always report the exit code of a command.
        self._code = folder / "code"
        self._settings = folder / "tmux.conf"
        self._settings.write_text(_SETTINGS, encoding="utf-8")
        changed = {"PROMPT_TOOLKIT_NO_CPR": "1", "PAGER": "cat", **environ}
        variables = [f"{name}={value}" for name, value in changed.items()]
        # LINES and COLUMNS may have the size of another terminal.
        without = ("-u", "NO_COLOR", "-u", "LINES", "-u", "COLUMNS")
        command = shlex.join(["env", *without, *variables, *REKINDLE, *map(str, arguments)])
        code = shlex.quote(str(self._code))
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux(
            "new-session", "-d", *size, "-c", str(cwd or folder), f"{command}; echo $? >{code}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    @property
    def screen(self) -> str:
        """The current content of the screen."""
        return self._tmux("capture-pane", "-p")

    @property
    def painted(self) -> str:
        """The screen with escape sequences for colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def type(self, text: str) -> None:
        """Type a text."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        self._tmux("send-keys", *keys)

    def answer(self, key: str) -> None:
        """Answer a question with a key. A key that comes too soon after it is pressed again."""
        before, pressed_at = self.screen, -_LONGEST_REACTION

        def is_answered(screen: str) -> bool:
            nonlocal pressed_at
            if screen == before and time.monotonic() - pressed_at >= _LONGEST_REACTION:
                self.press(key)
                pressed_at = time.monotonic()
            return screen != before

        self.wait_until(is_answered)

    def resize(self, columns: int) -> None:
        """Change the width of the terminal, and wait until the command can see it."""
        self._tmux("resize-window", "-x", str(columns))
        with Path(self._tmux("display", "-p", "#{pane_tty}").strip()).open("rb") as tty:
            self.wait_until(lambda _: os.get_terminal_size(tty.fileno()).columns == columns)

    def wait_until(self, is_expected: Callable[[str], bool]) -> str:
        """Wait for an expected screen; return it."""
        deadline = time.monotonic() + TIMEOUT
        while not is_expected(screen := self.screen):
            assert time.monotonic() < deadline, screen
            time.sleep(_POLL_INTERVAL)
        return screen

    def wait_for(self, text: str) -> str:
        """Wait until the screen has a text; return the screen."""
        return self.wait_until(lambda screen: text in screen)

    def wait_without(self, text: str) -> str:
        """Wait until the screen does not have a text; return the screen."""
        return self.wait_until(lambda screen: text not in screen)

    def end(self) -> int:
        """Wait for the command's exit; return its exit code."""
        self.wait_until(
            lambda _: self._code.exists() and self._code.read_text(encoding="utf-8") != ""
        )
        return int(self._code.read_text(encoding="utf-8"))

    def _tmux(self, *arguments: str) -> str:
        assert TMUX
        # The tests may run in tmux themselves.
        environ = {name: value for name, value in os.environ.items() if name != "TMUX"}
        done = subprocess.run(
            [TMUX, "-u", "-S", self._socket, "-f", self._settings, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
            env=environ | {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"},
        )
        return done.stdout
